// Lowering: makes a Program of ops on lanes from an Order of actions. For example, action 1B0 of an
// order becomes a Recv on lane "2>1", Backward ops on lane "compute", collectives on lane "tensor"
// between them, and a Send on lane "1>0".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "schedule/order/order.h"
#include "schedule/program/program.h"
#include "workload/model/workload.h"

namespace tandem {

// Options of data parallelism: how ranks shard parameters, and when they communicate them. A bucket
// holds the parameters that one gather or reduction carries: one parameter unit (a layer, the
// embedding or the head); with a pipeline, all units of a stage; with bucket_bytes, as many units
// as make up that size.
struct DataOptions {
  // ZeRO's stage. 0: gradients are all-reduced. 1: gradients are reduce-scattered, and updated
  // parameters all-gathered, once an iteration. 2: gradients are scattered after every backward. 3:
  // in addition, every bucket is gathered before each pass that uses it. With a pipeline, 2 and 3
  // communicate once an iteration, as 1 does.
  int zero = 0;
  // ZeRO 3. Off: the parameters that a forward gathered stay until a backward has used them.
  bool reshard_after_forward = true;
  // The number of neighbouring ranks of dp x cp that shard a parameter among them (hybrid
  // sharding). Scattered gradients are then all-reduced between the ranks that hold the same shard.
  // 0: all ranks, so that each shard exists once.
  int shard = 0;
  // ZeRO 3: the number of neighbouring ranks of dp x cp that shard a second copy of the parameters,
  // from which backwards gather (ZeRO++'s hpZ). Experts have one with ep = 1 alone. 0: no such
  // copy.
  int secondary = 0;
  // Each bucket is reduced when the last gradient of its units is there, while compute goes on.
  // Off: all buckets are reduced in one after the last microbatch (zero >= 2: each after its
  // backward, and compute waits for it).
  bool grad_reduce = false;
  // Each bucket is gathered before its first use (zero 3: before each use, one bucket ahead). Off:
  // all buckets are gathered in one after the optimizer (zero 3: each when it is needed).
  bool param_gather = false;
  // With param_gather: all buckets are gathered from the iteration's start on. Off: each bucket is
  // gathered when the one before it is used.
  bool align_param_gather = true;
  Bytes bucket_bytes = 0;  // of gradients; 0: by unit or by stage
  // The bucket size of the model's first stage, with a pipeline and no bucket_bytes. This stage's
  // backward ends last, so only smaller buckets can overlap their reductions. 0: by stage.
  Bytes first_stage_bucket_bytes = 0;
  int sms = 0;  // SMs that these communications take from compute
};

struct LowerOptions {
  int tp = 1;
  int dp = 1;
  // Pipeline transfers overlap compute, and each directed edge issues its transfers in the sender's
  // order of production. Off: ranks exchange when Order::exchanges says: in 1F1B and GPipe after
  // each action, in interleaved after each F, B pair of the steady state and each other action.
  // Orders with BatchedP2p::Never cannot run so.
  bool overlap_p2p = false;
  bool batch_p2p = false;  // an exchange is issued as one group; excludes overlap_p2p
  int cp = 1;
  int ep = 1;                               // ranks of tp x cp x dp / expert_tp
  int expert_tp = 1;                        // GPUs that share an expert
  AmaxReduction amax = AmaxReduction::All;  // after passes with quantized products
  DataOptions data;
  int p2p_sms = 0;  // SMs that pipeline transfers take from compute
  // Lets one action of a cell compute while another's expert communication is in flight.
  // Interleaved's cells are the F, B pairs of its steady state (Megatron-LM's combined 1F1B).
  bool expert_overlap = false;
  // Returns how many of a stage's ranks reduce amax together: the largest absolute values of
  // arrays, from which quantization gets its scales.
  int amax_ranks() const {
    if (amax == AmaxReduction::None) return 1;
    return tp * cp * (amax == AmaxReduction::All ? dp : 1);
  }
  SharedDevice device;  // shared by compute and communication that takes SMs
};

// A directed pipeline edge: activations go to the next stage, gradients to the one before.
using Edge = std::pair<int, int>;

// The communication of vocabulary parallelism (schedule/order/vocabulary.h). Each kind has a lane
// of its own, so that it does not wait for other microbatches' communication of another kind.
enum class VocabularyComm : std::uint8_t {
  SumInput,       // sums E's embeddings for the first stage
  SendOutput,     // sends the last stage's output to all ranks
  ReduceSoftmax,  // reduces the softmax's maximum and sum over all ranks
  SumGradient,    // sums the gradient of that output for the last stage
  SendGradient    // sends the embedding's gradient from the first stage to all ranks
};
constexpr int kVocabularyComms = 5;

// The slots of a body's communicators; -1: none.
struct Slots {
  std::int16_t tensor = -1, context = -1, expert = -1;
  std::int16_t expert_tensor = -1;           // of GPUs that share an expert; may equal `tensor`
  std::int16_t data = -1, expert_data = -1;  // for gradients and parameters
  std::int16_t replicas = -1, expert_replicas = -1;    // for gradients of one shard
  std::int16_t secondary = -1, expert_secondary = -1;  // for parameters that a backward gathers
  std::int16_t embedding = -1, norm = -1;
  std::int16_t amax = -1;  // for the largest absolute values of quantized arrays
  // By VocabularyComm, over all pipeline ranks.
  std::array<std::int16_t, kVocabularyComms> vocabulary = {-1, -1, -1, -1, -1};
  std::map<Edge, std::int16_t> edges;
};

// Returns whether transfers overlap by default: in all orders but 1F1B, GPipe and none.
bool overlaps_p2p_by_default(const Order& order);

// Checks that an order of so many stages, of all chains together, can be lowered. Callers ask
// before they make the order.
Status check_stages(std::int64_t stages);

// Lowers a valid order over tp x cp x dp x pp ranks. rank = tensor + tp (context + cp (data + dp
// pipeline)), as Megatron-LM numbers them. Compute ops have the workload's prices. Communication
// has bytes, and no duration yet (price.h).
Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options);

// A program with one rank for each pipeline rank, since the peers of tensor, context, expert and
// data parallelism do the same. A group of such peers becomes a communicator of that rank alone. A
// group over several stages becomes a communicator of their pipeline ranks.
struct OneReplica {
  Program program;
  std::vector<Slots> slots;  // by body of the program
};
Result<OneReplica> lower_one_replica(const Order& order, const Workload& work,
                                     const LowerOptions& options);

}  // namespace tandem
