// Lowers data parallelism: when a rank gathers parameters and reduces gradients, bucket by bucket.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/lowering/body_builder.h"
#include "schedule/lowering/lower_context.h"
#include "schedule/order/order.h"

namespace tandem {

// Adds the gathers and reductions of one pipeline rank to its body. lower_pass.cpp calls it in the
// order of the rank's steps, lower_rank.cpp at the end of the iteration.
class DataLane {
 public:
  DataLane(const Context& context, const std::vector<int>& stages, BodyBuilder* builder,
           Slots* slots);

  // Call when a pass of the stage begins.
  void begin_pass(int stage, ActionKind kind);
  // Call before a step that uses the unit's parameters and waits for `*waits`. Adds gathers, and
  // adds the ones that the step must wait for to `*waits`. `last_computes`: the rank's last compute
  // op, and the one before it.
  void gather_before_use(int stage, int unit, bool forward,
                         std::array<std::uint32_t, 2> last_computes,
                         std::vector<std::uint32_t>* waits);
  // Call after the op that completes the unit's gradient in this pass. `is_last`: in the pass of
  // the last microbatch.
  void reduce_after_gradient(int stage, int unit, bool is_last, std::uint32_t op);
  // Call after a pass that gives weight gradients. `op`: its last compute op.
  void reduce_rest_of_pass(int stage, bool is_last, std::uint32_t op);
  // Returns and forgets the reductions that are not overlapped: the next compute op waits for them.
  std::vector<std::uint32_t> take_exposed_reductions();

  // Before the optimizer: reduces the remaining gradients after `waits`, and adds the last
  // reduction to them.
  void reduce_rest(std::vector<std::uint32_t>* waits);
  // Sums the gradient norm over all ranks after `waits`, and replaces them by that op. With a
  // distributed optimizer each rank has only the norm of its shard.
  void reduce_norm(std::vector<std::uint32_t>* waits);
  // After the optimizer: reduces the amax of the weights that will be gathered quantized, after
  // `waits`, and replaces them by that op.
  void reduce_weight_amax(std::vector<std::uint32_t>* waits);
  // After the optimizer: gathers the updated parameters, unless that is done ahead of the forward.
  void gather_rest(std::span<const std::uint32_t> waits);

 private:
  struct Bucket {
    int stage = 0;
    int first_unit = 0;
    std::int16_t part = 0, parts = 1;
    ParameterUnit bytes;             // sums over its units
    std::uint32_t gathered = kNoOp;  // the op that gathered its parameters
    bool is_gathered = false;
    bool was_in_backward = false;  // its last pass was a backward
    bool is_reduced = false;       // in this pass (zero >= 2), or in the iteration
  };

  struct ShardGroups {
    std::int16_t slot = -1;      // of the ranks that shard the parameters; -1: none
    std::int16_t replicas = -1;  // slot of the ranks that hold the same shard; -1: none
    int shard = 1;               // number of ranks that shard the parameters
  };

  // Returns whether ZeRO 2 and 3 communicate for each microbatch, not once an iteration.
  bool each_microbatch() const { return context_.order.pp() == 1; }
  bool scatters_each_pass() const { return options_.zero >= 2 && each_microbatch(); }
  bool gathers_ahead() const;  // before the first forward, not before each pass
  bool reduces_in_pass(bool is_last) const {
    return scatters_each_pass() || (options_.grad_reduce && is_last);
  }
  ShardGroups shard_groups(int shard, std::int16_t* slot, std::int16_t* replicas);
  void make_buckets(int stage);
  Bucket& bucket_of(int stage, int unit);
  Bucket* next_bucket(const Bucket& bucket);
  Bucket* bucket_before(const Bucket& bucket);
  // Gather the bucket before its first use in the iteration, or before each pass that uses it.
  void gather_ahead(Bucket* bucket, std::uint32_t last_compute, std::vector<std::uint32_t>* waits);
  void gather_for_pass(Bucket* bucket, bool forward, std::array<std::uint32_t, 2> last_computes,
                       std::vector<std::uint32_t>* waits);
  void gather(Bucket* bucket, std::span<const std::uint32_t> waits, bool forward = true);
  void reduce(Bucket* bucket, std::uint32_t op);
  // Adds an op for the dense bytes, then one for the experts' bytes. After each, scattered
  // gradients are all-reduced between the ranks that hold the same shard. Returns the last op, or
  // kNoOp.
  std::uint32_t communicate(OpKind kind, const ShardGroups& dense_group,
                            const ShardGroups& expert_group, Bytes dense, Bytes expert,
                            const Bucket& bucket, std::span<const std::uint32_t> waits);
  std::uint32_t add(OpKind kind, std::int16_t slot, Bytes bytes, const Bucket& bucket,
                    std::span<const std::uint32_t> waits);

  const Context& context_;
  const DataOptions& options_;
  BodyBuilder& builder_;
  ShardGroups dense_, expert_;
  // The groups from which backwards gather; -1: dense_ and expert_.
  std::int16_t secondary_ = -1, expert_secondary_ = -1;
  std::vector<Bucket> buckets_;  // stage by stage, in the order of the forward
  std::vector<std::vector<std::size_t>> bucket_number_;  // by stage and unit: its bucket
  std::uint32_t last_reduction_ = kNoOp;
  std::vector<std::uint32_t> exposed_;
};

}  // namespace tandem
