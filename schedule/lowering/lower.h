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

// Options of data parallelism: how ranks share parameters, and when they communicate them. A bucket
// is what one gather or reduction carries. It is a parameter unit; with a pipeline all units of a
// stage; or as many units as make up `bucket_bytes`.
struct DataOptions {
  // ZeRO's stage. 0: gradients are all-reduced. 1: they are reduce-scattered, and updated
  // parameters all-gathered. 2: they are scattered after every backward. 3: and every bucket is
  // gathered before each pass that uses it. With a pipeline, gradients are scattered and parameters
  // gathered once an iteration from 1 on.
  int zero = 0;
  // ZeRO 3. Off: what a forward gathered stays until a backward has used it.
  bool reshard_after_forward = true;
  // Neighbouring ranks of dp x cp that cut a parameter among them. The gradients that they scatter
  // are then all-reduced between the ranks that hold the same cut. 0: all ranks, so that each cut
  // exists once.
  int shard = 0;
  // ZeRO 3: neighbouring ranks of dp x cp that hold a second cut of the dense parameters, from
  // which backwards gather (ZeRO++'s hpZ). 0: none.
  int secondary = 0;
  // Each bucket is reduced when the last gradient of its units is there, while compute goes on.
  // Off: all in one after the last microbatch (zero >= 2: after the bucket's backward, which
  // waits).
  bool grad_reduce = false;
  // Each bucket is gathered before its first use (zero 3: before each use, one bucket ahead). Off:
  // all in one after the optimizer (zero 3: when it is needed).
  bool param_gather = false;
  // All buckets are gathered from the iteration's start on. Off: each when the one before it is
  // used.
  bool align_param_gather = true;
  Bytes bucket_bytes = 0;  // of gradients; 0: by unit or by stage
  // The bucket size of the model's first stage, with a pipeline and no bucket_bytes. That stage's
  // backward ends last, so that nothing is left to overlap its reduction. 0: by stage.
  Bytes first_stage_bucket_bytes = 0;
  int sms = 0;  // that these communications take from compute
};

struct LowerOptions {
  int tp = 1;
  int dp = 1;
  // Pipeline transfers run beside compute, and each directed edge issues in the sender's order of
  // production. Off: 1F1B and GPipe exchange after each action; interleaved does so in warm-up and
  // cool-down, and after each F, B pair in between. Other orders have no such form.
  bool overlap_p2p = false;
  bool batch_p2p = false;  // an exchange is issued as one group; excludes overlap_p2p
  int cp = 1;
  int ep = 1;                               // ranks of tp x cp x dp / expert_tp
  int expert_tp = 1;                        // GPUs that share an expert
  AmaxReduction amax = AmaxReduction::All;  // after passes with quantized products
  DataOptions data;
  int p2p_sms = 0;  // that pipeline transfers take from compute
  // Lets one action of a cell compute while another's expert communication is in flight.
  // Interleaved's cells are the F, B pairs of its steady state (Megatron-LM's combined 1F1B).
  bool expert_overlap = false;
  // Returns how many of a stage's ranks reduce the largest numbers (amax) together.
  int amax_ranks() const {
    if (amax == AmaxReduction::None) return 1;
    return tp * cp * (amax == AmaxReduction::All ? dp : 1);
  }
  SharedDevice device;  // shared by compute and communication that takes SMs
};

// A directed pipeline edge: activations go to the next stage, gradients to the one before.
using Edge = std::pair<int, int>;

// The communication of vocabulary parallelism. Each kind has a lane of its own beside compute, so
// that nothing waits for another microbatch's. They are: the sum of what E looked up; the last
// stage's output to all; the softmax's largest and sums; the sum of that output's gradient; the
// embedding's gradient to all.
enum class VocabularyComm : std::uint8_t {
  SumInput,
  SendOutput,
  ReduceSoftmax,
  SumGradient,
  SendGradient
};
constexpr int kVocabularyComms = 5;

// The slots of a body's communicators; -1: none.
struct Slots {
  std::int16_t tensor = -1, context = -1, expert = -1;
  std::int16_t expert_tensor = -1;           // of GPUs that share an expert; may equal `tensor`
  std::int16_t data = -1, expert_data = -1;  // for gradients and parameters
  std::int16_t replicas = -1, expert_replicas = -1;  // for gradients of one cut
  std::int16_t secondary = -1;                       // for parameters of a backward
  std::int16_t embedding = -1, norm = -1;
  std::int16_t amax = -1;  // for the largest numbers of quantized arrays
  // By VocabularyComm, over all pipeline ranks.
  std::array<std::int16_t, kVocabularyComms> vocabulary = {-1, -1, -1, -1, -1};
  std::map<Edge, std::int16_t> edges;
};

// Returns whether transfers overlap by default: in all orders but 1F1B, GPipe and none.
bool overlaps_p2p_by_default(const Order& order);

// Checks that an order of so many stages, of all chains together, can be lowered. It is asked
// before the order is made.
Status check_stages(std::int64_t stages);

// Lowers a valid order over tp x cp x dp x pp ranks. rank = tensor + tp (context + cp (data + dp
// pipeline)), as Megatron-LM numbers them. Compute ops have the workload's prices. Communication
// has bytes, and no duration yet (price.h).
Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options);

// The same program with one rank a stage, since its peers of tensor, context, expert and data
// parallelism do the same. A group of them becomes a communicator of that rank alone, or of the one
// rank on each of its stages.
struct OneReplica {
  Program program;
  std::vector<Slots> slots;  // of the program's bodies
};
Result<OneReplica> lower_one_replica(const Order& order, const Workload& work,
                                     const LowerOptions& options);

}  // namespace tandem
