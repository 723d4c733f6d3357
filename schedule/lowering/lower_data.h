// Lowering of data parallelism: when a rank gathers parameters and reduces gradients, bucket by
// bucket.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/lowering/body_builder.h"
#include "schedule/lowering/lower_context.h"
#include "schedule/order/order.h"

namespace tandem {

// The data lane of one pipeline rank. lower_rank.cpp calls it in the order of the rank's steps.
class DataLane {
 public:
  DataLane(const Context& context, const std::vector<int>& stages, BodyBuilder* builder,
           Slots* slots);

  // A pass of the stage begins.
  void begin_pass(int stage, ActionKind kind);
  // A step is about to use the unit's parameters, after `*waits`: gathers what must be, and adds
  // to `*waits` what the step has to wait for. `last_computes`: the rank's last compute op, and the
  // one before it.
  void before_use(int stage, int unit, bool forward, std::array<std::uint32_t, 2> last_computes,
                  std::vector<std::uint32_t>* waits);
  // The op gave the last gradient of the unit in this pass; `is_last`: of all microbatches.
  void after_gradient(int stage, int unit, bool is_last, std::uint32_t op);
  // The pass, one that gives gradients, has ended with this op.
  void end_gradients(int stage, bool is_last, std::uint32_t op);
  // Reductions that are not overlapped: what the next compute has to wait for.
  std::vector<std::uint32_t> take_exposed();

  // Before the optimizer: reduces what is left, after `waits`. Adds to them the last reduction.
  void reduce_rest(std::vector<std::uint32_t>* waits);
  // With a distributed optimizer each rank has the norm of its cut: sums it over all, after
  // `waits`, and replaces them.
  void reduce_norm(std::vector<std::uint32_t>* waits);
  // After the optimizer: the largest numbers of the weights that will be gathered quantized, as
  // reduce_norm.
  void reduce_weight_amax(std::vector<std::uint32_t>* waits);
  // After the optimizer: gathers what was updated, where that is not done ahead of the forward.
  void gather_rest(std::span<const std::uint32_t> waits);

 private:
  struct Bucket {
    int stage = 0;
    int first_unit = 0;
    std::int16_t part = 0, parts = 1;
    ParameterUnit bytes;             // of its units together
    std::uint32_t gathered = kNoOp;  // the op that brought its parameters
    bool is_gathered = false;
    bool was_in_backward = false;  // its last pass was one
    bool is_reduced = false;       // in this pass (zero >= 2), or for good
  };

  // The group of those that cut the parameters, and of those that hold the same cut; -1: none.
  struct ShardGroups {
    std::int16_t slot = -1, replicas = -1;
    int shard = 1;  // ranks of the first
  };

  // What ZeRO 2 and 3 do for each microbatch they do once an iteration in a pipeline.
  bool each_microbatch() const { return context_.order.pp() == 1; }
  bool scatters_each_pass() const { return options_.zero >= 2 && each_microbatch(); }
  bool gathers_ahead() const;  // before the first forward, not each pass
  ShardGroups shard_groups(int shard, std::int16_t* slot, std::int16_t* replicas);
  void cut(int stage);
  Bucket& bucket_of(int stage, int unit);
  Bucket* next_bucket(const Bucket& bucket);
  Bucket* bucket_before(const Bucket& bucket);
  void gather(Bucket* bucket, std::span<const std::uint32_t> waits, bool forward = true);
  void reduce(Bucket* bucket, std::uint32_t op);
  // The op that carries the dense bytes, then that of the experts'; the last of them, or kNoOp.
  // Gradients that are scattered are then all-reduced between replicas of the cuts.
  std::uint32_t communicate(OpKind kind, Bytes dense, Bytes expert, const Bucket& bucket,
                            std::span<const std::uint32_t> waits);
  std::uint32_t communicate(OpKind kind, Bytes dense, Bytes expert, const Bucket& bucket,
                            std::span<const std::uint32_t> waits, const ShardGroups& dense_group);
  std::uint32_t add(OpKind kind, std::int16_t slot, Bytes bytes, const Bucket& bucket,
                    std::span<const std::uint32_t> waits);

  const Context& context_;
  const DataOptions& options_;
  BodyBuilder& builder_;
  ShardGroups dense_, expert_;
  std::int16_t secondary_ = -1;  // the group that backwards gather dense parameters from
  std::vector<Bucket> buckets_;  // stage by stage, in the order of the forward
  std::vector<std::vector<std::size_t>> bucket_;  // stage and unit -> its bucket
  std::uint32_t last_reduction_ = kNoOp;
  std::vector<std::uint32_t> exposed_;
};

}  // namespace tandem
