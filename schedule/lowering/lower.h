// Lowering: from an Order of actions to a Program of ops on lanes.
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

// How the data-parallel ranks share parameters, and when they talk of them. A bucket is what one
// gather or reduction carries: a parameter unit, with a pipeline all units of a stage, or so many
// units that they have `bucket_bytes`.
struct DataOptions {
  // 0: gradients are all-reduced. 1: reduce-scattered, and updated parameters all-gathered. 2:
  // scattered after every backward. 3: and every bucket gathered before each pass that uses it.
  // With a pipeline gradients are scattered, and parameters gathered, once an iteration from 1 on.
  int zero = 0;
  // ZeRO 3: off: what a forward gathered stays until a backward has used it.
  bool reshard_after_forward = true;
  // Ranks, of dp x cp, that cut a parameter among them: neighbours. What they scatter is then
  // all-reduced between those that hold the same cut. 0: all, so that there are no others.
  int shard = 0;
  // ZeRO 3: neighbours of dp x cp that hold a second cut of the dense parameters among them, which
  // backwards gather from (ZeRO++'s hpZ). 0: none.
  int secondary = 0;
  // Each bucket is reduced when the last gradient of its units is there, beside what goes on; off:
  // all in one after the last microbatch (zero >= 2: after the bucket's backward, which waits).
  bool grad_reduce = false;
  // Each bucket is gathered ahead of its first use (zero 3: of each use, one bucket ahead); off:
  // all in one after the optimizer (zero 3: when it is needed).
  bool param_gather = false;
  // Ranks gather ahead from the iteration's start on, all at once; off: each bucket when the one
  // before it is used.
  bool align_param_gather = true;
  Bytes bucket_bytes = 0;  // of gradients; 0: by unit or by stage
  // With a pipeline and no bucket_bytes: of the model's first stage, whose backward is the last to
  // end, so that nothing is left to reduce beside. 0: by stage.
  Bytes first_stage_bucket_bytes = 0;
  int sms = 0;  // that these communications take from compute
};

struct LowerOptions {
  int tp = 1;
  int dp = 1;
  // Pipeline transfers beside compute: each directed edge issues in the sender's order of
  // production. Off: 1F1B and GPipe exchange after each action, interleaved after each action in
  // warm-up and cool-down and after each F, B pair in between; other orders have no such form.
  bool overlap_p2p = false;
  bool batch_p2p = false;  // an exchange is issued as one group; excludes overlap_p2p
  int cp = 1;
  int ep = 1;                               // of tp x cp x dp / expert_tp
  int expert_tp = 1;                        // GPUs that share an expert
  AmaxReduction amax = AmaxReduction::All;  // behind passes with quantized products
  DataOptions data;
  int p2p_sms = 0;  // that pipeline transfers take from compute
  // Of the actions of a cell, one computes while the other's expert communication is in flight;
  // interleaved's cells are the F, B pairs of its steady state (Megatron-LM's combined 1F1B).
  bool expert_overlap = false;
  // A stage's ranks that reduce the largest numbers together.
  int amax_ranks() const {
    if (amax == AmaxReduction::None) return 1;
    return tp * cp * (amax == AmaxReduction::All ? dp : 1);
  }
  SharedDevice device;  // what communication that takes SMs shares with compute
};

// A directed pipeline edge: activations from a stage to the next, gradients from a stage to the one
// before.
using Edge = std::pair<int, int>;

// What vocabulary parallelism sends, each on a lane of its own beside compute, so that nothing
// waits behind another microbatch's: the sum of what E looked up; the last stage's output to all;
// the softmax's largest and sums; the sum of that output's gradient; the embedding's gradient to
// all.
enum class VocabularyComm : std::uint8_t {
  SumInput,
  SendOutput,
  ReduceSoftmax,
  SumGradient,
  SendGradient
};
constexpr int kVocabularyComms = 5;

// Where the communicators of a body stand; -1: none.
struct Slots {
  std::int16_t tensor = -1, context = -1, expert = -1;
  std::int16_t expert_tensor = -1;                   // of GPUs that share an expert; or `tensor`
  std::int16_t data = -1, expert_data = -1;          // gradients and parameters
  std::int16_t replicas = -1, expert_replicas = -1;  // gradients of one cut
  std::int16_t secondary = -1;                       // parameters for a backward
  std::int16_t embedding = -1, norm = -1;
  std::int16_t amax = -1;  // largest numbers of quantized arrays
  // Of all pipeline ranks, by VocabularyComm.
  std::array<std::int16_t, kVocabularyComms> vocabulary = {-1, -1, -1, -1, -1};
  std::map<Edge, std::int16_t> edges;
};

// Whether transfers overlap where nothing is said: all orders but 1F1B, GPipe and none, by name.
bool overlaps_p2p_by_default(const Order& order);

// Whether an order of so many stages, of all chains, can be lowered: asked before it is made.
Status check_stages(std::int64_t stages);

// The order, valid, over tp x cp x dp x pp ranks; rank = tensor + tp (context + cp (data + dp
// pipeline)), as Megatron numbers them. Compute ops are priced by the workload; communication has
// bytes, and no duration yet (price.h).
Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options);

// The same program with one rank a stage: what its peers of tensor, context, expert and data
// parallelism do is alike. A group of them is a communicator of that rank alone, or of the one rank
// on each of its stages.
struct OneReplica {
  Program program;
  std::vector<Slots> slots;  // of its bodies
};
Result<OneReplica> lower_one_replica(const Order& order, const Workload& work,
                                     const LowerOptions& options);

}  // namespace tandem
