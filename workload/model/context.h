// Attention's core under context parallelism, as steps: GPUs that share a sequence send each other
// their keys and values, or exchange heads for positions.
#pragma once

#include "workload/model/kernel_table.h"
#include "workload/model/model.h"

namespace tandem {

struct ContextGroup {
  int size = 1;
  ContextComm comm = ContextComm::Ring;
  bool overlap = false;
  std::int16_t sms = 0;
  Bytes key_value_bytes = 0;  // one rank's keys and values
  // One rank's arrays that AllToAll exchanges: queries, keys and values, or all that a scan reads;
  // and the core's output.
  Bytes input_bytes = 0, output_bytes = 0;
  // Passes over memory that add a part of a ring to the parts before: to the output, and to the
  // gradients of queries, keys and values.
  double merge_bytes = 0, merge_gradient_bytes = 0;
};
ContextGroup context_group(const Model& model, const Plan& plan);

// Adds the core's forward. `before` runs once, before it. `core` is a part of the ring, or else the
// whole core.
//
// Ring (Liu et al. 2023, arXiv 2310.01889): `size` parts, and before each but the first a shift of
// keys and values; with overlap, shift i runs beside part i. Each rank has two half-chunks, one
// from either end of the sequence. So under a causal mask all parts of all ranks have equal work:
// the own part two half-masked blocks and a whole one, every other part two whole ones.
//
//   size 3, overlap   compute: part 0 | part 1 | part 2
//                     shifts:  ---0---> ---1--->
//
// A part that follows another adds its output to the sum so far, which is in fp32: for each number
// it reads and writes 4 bytes and reads its own.
//
// AllGather: keys and values are gathered first. AllToAll (arXiv 2309.14509): q, k and v are
// exchanged before the core, its output after it; before a scan also its gate and the numbers of
// each head (megatron/core/ssm/mamba_context_parallel.py and gated_delta_net.py).
void attend(PricedPass* pass, const Kernel& before, const Kernel& core, const ContextGroup& group);

// Adds the core's backward; `after` runs once, after it. The ring carries keys, values and their
// gradients: twice the bytes. AllGather gathers again, and sums the gradients of keys and values.
// AllToAll exchanges the output's gradient before, and those of q, k and v after.
void attend_backward(PricedPass* pass, const Kernel& after, const Kernel& core,
                     const ContextGroup& group);

}  // namespace tandem
