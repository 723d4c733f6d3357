// Attention's core under context parallelism, as steps: its GPUs share a sequence and show each
// other their keys and values, or exchange heads for positions.
#pragma once

#include "workload/cost/kernel_table.h"
#include "workload/model/model.h"

namespace tandem {

struct ContextGroup {
  int size = 1;
  ContextComm comm = ContextComm::Ring;
  bool overlap = false;
  std::int16_t sms = 0;
  Bytes key_value_bytes = 0;  // of one rank's keys and values
  Bytes query_bytes = 0;      // of one rank's queries, or of the core's output
};
ContextGroup context_group(const Model& model, const Plan& plan);

// The core, forward. `before`: what is done once, before it.
//
// Ring (Liu et al. 2023, arXiv 2310.01889): `size` parts, and before each but the first a shift of
// keys and values. With a causal mask each rank has two half-chunks, one from either end of the
// sequence, and so in every part the same work: in its own part two half-masked blocks and a whole
// one, in the others two whole ones. With overlap shift i runs beside part i.
// AllGather: keys and values are gathered first. AllToAll (arXiv 2309.14509): q, k and v are
// exchanged before, the output after.
// REQUIRES: `core` is the ring's part, or the whole.
void attend(PricedPass* pass, const Kernel& before, const Kernel& core, const ContextGroup& group);

// Backward, `after` the core's. The ring carries keys, values and their gradients: twice the bytes.
// AllGather gathers again, and sums the gradients of keys and values. AllToAll exchanges the
// output's gradient before and those of q, k and v after.
void attend_backward(PricedPass* pass, const Kernel& after, const Kernel& core,
                     const ContextGroup& group);

}  // namespace tandem
