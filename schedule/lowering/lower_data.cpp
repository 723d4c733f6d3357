// Lowers the gathers and reductions of ZeRO 0 to 3. A unit is the parameters of one layer (or of
// the embedding, or the head), and a bucket is the units that one communication carries. Passes
// report when they use a unit and when a unit's gradient is complete; the functions here then add
// the bucket's ops.
#include "schedule/lowering/lower_data.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

ParameterUnit operator+(const ParameterUnit& a, const ParameterUnit& b) {
  return {a.gradient_bytes + b.gradient_bytes, a.parameter_bytes + b.parameter_bytes,
          a.expert_gradient_bytes + b.expert_gradient_bytes,
          a.expert_parameter_bytes + b.expert_parameter_bytes};
}

}  // namespace

DataLane::DataLane(const Context& context, const std::vector<int>& stages, BodyBuilder* builder,
                   Slots* slots)
    : context_(context),
      options_(context.options.data),
      builder_(*builder),
      bucket_number_(context.order.stages) {
  ParameterUnit all;
  for (const int stage : stages) {
    make_buckets(stage);
    for (const ParameterUnit& unit : context.work.stages[stage].units) all = all + unit;
  }
  if (all.gradient_bytes > 0)
    dense_ = shard_groups(context.shard_ranks(), &slots->data, &slots->replicas);
  if (dense_.slot >= 0 && options_.secondary > 0)
    slots->secondary = secondary_ = builder_.slot(GroupKind::Data, "data");
  if (all.expert_gradient_bytes > 0)
    expert_ =
        shard_groups(context.expert_shard_ranks(), &slots->expert_data, &slots->expert_replicas);
  if (expert_.slot >= 0 && options_.secondary > 0 && context.options.ep == 1)
    slots->expert_secondary = expert_secondary_ = builder_.slot(GroupKind::Data, "data");
  if (!gathers_ahead() || !options_.align_param_gather) return;
  for (Bucket& bucket : buckets_) gather(&bucket, {});
}

DataLane::ShardGroups DataLane::shard_groups(int shard, std::int16_t* slot,
                                             std::int16_t* replicas) {
  if (shard > 1) *slot = builder_.slot(GroupKind::Data, "data");
  // Replicas reduce on a lane of their own, as FSDP2 does on a stream, so that the next bucket can
  // be scattered meanwhile.
  if (context_.replicas() > 1) *replicas = builder_.slot(GroupKind::Data, "replicas");
  return {*slot, *replicas, shard};
}

// Puts a stage's units into buckets, from the last unit to the first, as gradients are completed. A
// bucket is full once it has bucket_bytes. Without bucket_bytes it is one unit or, in a pipeline,
// the whole stage.
void DataLane::make_buckets(int stage) {
  const std::vector<ParameterUnit>& units = context_.work.stages[stage].units;
  const bool by_unit = context_.order.pp() == 1;
  Bytes full = options_.bucket_bytes;
  if (full <= 0 && !by_unit && stage == 0) full = options_.first_stage_bucket_bytes;
  std::vector<Bucket> reversed;
  for (int unit = static_cast<int>(units.size()) - 1; unit >= 0; --unit) {
    const auto is_full = [&](const ParameterUnit& bytes) {
      return full > 0 ? bytes.gradient_bytes + bytes.expert_gradient_bytes >= full : by_unit;
    };
    if (reversed.empty() || is_full(reversed.back().bytes)) reversed.push_back({.stage = stage});
    reversed.back().first_unit = unit;
    reversed.back().bytes = reversed.back().bytes + units[unit];
  }
  bucket_number_[stage].resize(units.size());
  const std::size_t begin = buckets_.size();
  buckets_.insert(buckets_.end(), reversed.rbegin(), reversed.rend());
  for (std::size_t i = begin; i < buckets_.size(); ++i) {
    const auto first = static_cast<std::size_t>(buckets_[i].first_unit);
    std::fill(bucket_number_[stage].begin() + static_cast<std::ptrdiff_t>(first),
              bucket_number_[stage].end(), i);
    buckets_[i].part = static_cast<std::int16_t>(i - begin);
    buckets_[i].parts = static_cast<std::int16_t>(reversed.size());
  }
}

bool DataLane::gathers_ahead() const {
  const bool gathers_each_pass = options_.zero == 3 && each_microbatch();
  return options_.param_gather && options_.zero >= 1 && !gathers_each_pass;
}

DataLane::Bucket& DataLane::bucket_of(int stage, int unit) {
  return buckets_[bucket_number_[stage][static_cast<std::size_t>(unit)]];
}

// Returns the next bucket that the forward will use, of the same stage or of the rank's next one.
DataLane::Bucket* DataLane::next_bucket(const Bucket& bucket) {
  const auto at = static_cast<std::size_t>(&bucket - buckets_.data()) + 1;
  return at < buckets_.size() ? &buckets_[at] : nullptr;
}

// Returns the next bucket that the backward will use, of the same stage.
DataLane::Bucket* DataLane::bucket_before(const Bucket& bucket) {
  return bucket.part > 0 ? &buckets_[static_cast<std::size_t>(&bucket - buckets_.data()) - 1]
                         : nullptr;
}

void DataLane::begin_pass(int stage, ActionKind kind) {
  if (!scatters_each_pass()) return;
  for (Bucket& bucket : buckets_) {
    if (bucket.stage != stage) continue;
    bucket.is_reduced = false;
    if (options_.zero < 3) continue;
    // ZeRO 3 drops the parameters that the last pass gathered: after every backward, and after a
    // forward if reshard_after_forward.
    if (options_.reshard_after_forward || bucket.was_in_backward) bucket.is_gathered = false;
    if (kind != ActionKind::BackwardWeight) bucket.was_in_backward = kind != ActionKind::Forward;
  }
}

void DataLane::gather_before_use(int stage, int unit, bool forward,
                                 std::array<std::uint32_t, 2> last_computes,
                                 std::vector<std::uint32_t>* waits) {
  if (gathers_ahead())
    gather_ahead(&bucket_of(stage, unit), last_computes[0], waits);
  else if (options_.zero == 3)
    gather_for_pass(&bucket_of(stage, unit), forward, last_computes, waits);
}

void DataLane::gather_ahead(Bucket* bucket, std::uint32_t last_compute,
                            std::vector<std::uint32_t>* waits) {
  std::vector<std::uint32_t> before = *waits;
  before.push_back(last_compute);
  if (!bucket->is_gathered) gather(bucket, before);
  Bucket* next = next_bucket(*bucket);
  if (next != nullptr && !next->is_gathered) gather(next, before);
  waits->push_back(std::exchange(bucket->gathered, kNoOp));  // only the first use must wait
}

void DataLane::gather_for_pass(Bucket* bucket, bool forward,
                               std::array<std::uint32_t, 2> last_computes,
                               std::vector<std::uint32_t>* waits) {
  // With param_gather it does not wait for the last compute op, which it then overlaps.
  const std::uint32_t after = last_computes[options_.param_gather ? 1 : 0];
  if (!bucket->is_gathered) gather(bucket, {&after, 1}, forward);
  waits->push_back(std::exchange(bucket->gathered, kNoOp));
  if (!options_.param_gather) return;
  // Issues the next gather now, since on the lane it would otherwise queue behind this bucket's
  // reduction.
  Bucket* next = forward ? next_bucket(*bucket) : bucket_before(*bucket);
  if (next != nullptr && next->stage == bucket->stage && !next->is_gathered)
    gather(next, {last_computes.data(), 1}, forward);
}

void DataLane::reduce_after_gradient(int stage, int unit, bool is_last, std::uint32_t op) {
  Bucket& bucket = bucket_of(stage, unit);
  if (unit != bucket.first_unit) return;  // gradients come from the last unit to the first
  if (reduces_in_pass(is_last)) reduce(&bucket, op);
}

// Reduces the remaining buckets, since a unit may have had no step of its own in the pass.
void DataLane::reduce_rest_of_pass(int stage, bool is_last, std::uint32_t op) {
  if (!reduces_in_pass(is_last)) return;
  for (std::size_t i = buckets_.size(); i-- > 0;) {
    if (buckets_[i].stage == stage && !buckets_[i].is_reduced) reduce(&buckets_[i], op);
  }
}

std::vector<std::uint32_t> DataLane::take_exposed_reductions() {
  return std::exchange(exposed_, {});
}

void DataLane::reduce_rest(std::vector<std::uint32_t>* waits) {
  const OpKind kind = options_.zero == 0 ? OpKind::AllReduce : OpKind::ReduceScatter;
  Bucket rest{.stage = -1};
  for (const Bucket& bucket : buckets_) {
    if (!bucket.is_reduced) rest.bytes = rest.bytes + bucket.bytes;
  }
  const std::uint32_t op = communicate(kind, dense_, expert_, rest.bytes.gradient_bytes,
                                       rest.bytes.expert_gradient_bytes, rest, *waits);
  if (op != kNoOp) {
    waits->assign(1, op);
  } else if (last_reduction_ != kNoOp) {
    waits->push_back(last_reduction_);
  }
}

void DataLane::reduce_norm(std::vector<std::uint32_t>* waits) {
  if (options_.zero == 0 || dense_.slot < 0 || context_.work.gradient_norm_bytes == 0) return;
  const std::uint32_t op = add(OpKind::AllReduce, dense_.slot, context_.work.gradient_norm_bytes,
                               Bucket{.stage = -1}, *waits);
  waits->assign(1, op);
}

void DataLane::reduce_weight_amax(std::vector<std::uint32_t>* waits) {
  Bytes bytes = 0;
  std::vector<bool> counted(context_.work.stages.size());
  for (const Bucket& bucket : buckets_) {
    if (!counted[bucket.stage]) bytes += context_.work.stages[bucket.stage].weight_amax_bytes;
    counted[bucket.stage] = true;
  }
  if (bytes == 0 || dense_.slot < 0) return;
  waits->assign(1, add(OpKind::AllReduce, dense_.slot, bytes, Bucket{.stage = -1}, *waits));
}

void DataLane::gather_rest(std::span<const std::uint32_t> waits) {
  if (options_.zero == 0 || options_.zero == 3 || options_.param_gather) return;
  Bucket all{.stage = -1};
  for (const Bucket& bucket : buckets_) all.bytes = all.bytes + bucket.bytes;
  communicate(OpKind::AllGather, dense_, expert_, all.bytes.parameter_bytes,
              all.bytes.expert_parameter_bytes, all, waits);
}

void DataLane::gather(Bucket* bucket, std::span<const std::uint32_t> waits, bool forward) {
  ShardGroups dense = dense_, expert = expert_;
  if (!forward && secondary_ >= 0) dense.slot = secondary_;
  if (!forward && expert_secondary_ >= 0) expert.slot = expert_secondary_;
  bucket->gathered = communicate(OpKind::AllGather, dense, expert, bucket->bytes.parameter_bytes,
                                 bucket->bytes.expert_parameter_bytes, *bucket, waits);
  bucket->is_gathered = true;
}

void DataLane::reduce(Bucket* bucket, std::uint32_t op) {
  const OpKind kind = options_.zero == 0 ? OpKind::AllReduce : OpKind::ReduceScatter;
  const std::uint32_t reduced = communicate(kind, dense_, expert_, bucket->bytes.gradient_bytes,
                                            bucket->bytes.expert_gradient_bytes, *bucket, {&op, 1});
  bucket->is_reduced = true;
  if (reduced == kNoOp) return;
  last_reduction_ = reduced;
  if (!options_.grad_reduce) exposed_.push_back(reduced);
}

std::uint32_t DataLane::communicate(OpKind kind, const ShardGroups& dense_group,
                                    const ShardGroups& expert_group, Bytes dense, Bytes expert,
                                    const Bucket& bucket, std::span<const std::uint32_t> waits) {
  std::uint32_t last = kNoOp;
  for (const auto& [group, bytes] :
       {std::pair{dense_group, dense}, std::pair{expert_group, expert}}) {
    if (bytes == 0) continue;
    std::vector<std::uint32_t> before(waits.begin(), waits.end());
    if (group.slot >= 0) {
      last = add(kind, group.slot, bytes, bucket, before);
      before.assign(1, last);
    }
    // Ranks that hold the same shard (replicas) sum their gradients too. There are none if all
    // ranks shard the parameters, as always without ZeRO.
    if (group.replicas < 0 || kind == OpKind::AllGather) continue;
    const Bytes shard_bytes = (bytes + group.shard - 1) / group.shard;
    last = add(OpKind::AllReduce, group.replicas, shard_bytes, bucket, before);
  }
  return last;
}

std::uint32_t DataLane::add(OpKind kind, std::int16_t slot, Bytes bytes, const Bucket& bucket,
                            std::span<const std::uint32_t> waits) {
  Op op;
  op.kind = kind;
  op.slot = slot;
  op.bytes = bytes;
  op.part = bucket.part;
  op.parts = bucket.parts;
  op.sms = static_cast<std::int16_t>(options_.sms);
  op.stage = static_cast<std::int16_t>(bucket.stage);
  return builder_.add(op, waits);
}

}  // namespace tandem
