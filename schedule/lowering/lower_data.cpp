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
      chunk_(context.order.stages) {
  ParameterUnit all;
  for (const int stage : stages) {
    cut(stage);
    for (const ParameterUnit& unit : context.work.stages[stage].units) all = all + unit;
  }
  if (context.data_ranks() > 1 && all.gradient_bytes > 0)
    dense_slot_ = slots->data = builder->slot(Scope::Data, "data");
  if (context.expert_data_ranks() > 1 && all.expert_gradient_bytes > 0)
    expert_slot_ = slots->expert_data = builder->slot(Scope::Data, "data");
  if (!gathers_ahead() || !options_.align_param_gather) return;
  for (Chunk& chunk : chunks_) gather(&chunk, {});
}

// Units from the last to the first, as gradients come; a chunk is full with bucket_bytes.
void DataLane::cut(int stage) {
  const std::vector<ParameterUnit>& units = context_.work.stages[stage].units;
  const bool by_unit = context_.order.pp() == 1;
  std::vector<Chunk> reversed;
  for (int unit = static_cast<int>(units.size()) - 1; unit >= 0; --unit) {
    const bool is_full =
        options_.bucket_bytes > 0
            ? !reversed.empty() && reversed.back().bytes.gradient_bytes +
                                           reversed.back().bytes.expert_gradient_bytes >=
                                       options_.bucket_bytes
            : by_unit;
    if (reversed.empty() || is_full) reversed.push_back({.stage = stage});
    reversed.back().first_unit = unit;
    reversed.back().bytes = reversed.back().bytes + units[unit];
  }
  chunk_[stage].resize(units.size());
  const std::size_t begin = chunks_.size();
  chunks_.insert(chunks_.end(), reversed.rbegin(), reversed.rend());
  for (std::size_t i = begin; i < chunks_.size(); ++i) {
    const auto first = static_cast<std::size_t>(chunks_[i].first_unit);
    std::fill(chunk_[stage].begin() + static_cast<std::ptrdiff_t>(first), chunk_[stage].end(), i);
    chunks_[i].part = static_cast<std::int16_t>(i - begin);
    chunks_[i].parts = static_cast<std::int16_t>(reversed.size());
  }
}

bool DataLane::gathers_ahead() const {
  return options_.param_gather && (options_.zero == 1 || options_.zero == 2);
}

DataLane::Chunk& DataLane::chunk_of(int stage, int unit) {
  return chunks_[chunk_[stage][static_cast<std::size_t>(unit)]];
}

// The next one that the forward will want, of the same stage or of the rank's next.
DataLane::Chunk* DataLane::next_chunk(const Chunk& chunk) {
  const auto at = static_cast<std::size_t>(&chunk - chunks_.data()) + 1;
  return at < chunks_.size() ? &chunks_[at] : nullptr;
}

// The next one that the backward will want, of the same stage.
DataLane::Chunk* DataLane::chunk_before(const Chunk& chunk) {
  return chunk.part > 0 ? &chunks_[static_cast<std::size_t>(&chunk - chunks_.data()) - 1] : nullptr;
}

void DataLane::begin_pass(int stage) {
  for (Chunk& chunk : chunks_) {
    if (chunk.stage != stage) continue;
    if (options_.zero == 3) chunk.is_gathered = false;
    if (options_.zero >= 2) chunk.is_reduced = false;
  }
}

void DataLane::before_use(int stage, int unit, bool forward,
                          std::array<std::uint32_t, 2> last_computes,
                          std::vector<std::uint32_t>* waits) {
  if (options_.zero == 3) {
    Chunk& chunk = chunk_of(stage, unit);
    const std::uint32_t after = last_computes[options_.param_gather ? 1 : 0];
    if (!chunk.is_gathered) gather(&chunk, {&after, 1});
    waits->push_back(std::exchange(chunk.gathered, kNoOp));
    // The next one is issued before this one's reduction, or it would stand behind it on the lane.
    Chunk* next = forward ? next_chunk(chunk) : chunk_before(chunk);
    if (options_.param_gather && next != nullptr && next->stage == stage && !next->is_gathered)
      gather(next, {last_computes.data(), 1});
  } else if (gathers_ahead()) {
    Chunk& chunk = chunk_of(stage, unit);
    std::vector<std::uint32_t> before = *waits;
    before.push_back(last_computes[0]);
    if (!chunk.is_gathered) gather(&chunk, before);
    Chunk* next = next_chunk(chunk);
    if (next != nullptr && !next->is_gathered) gather(next, before);
    waits->push_back(std::exchange(chunk.gathered, kNoOp));  // later uses come later on the lane
  }
}

void DataLane::after_gradient(int stage, int unit, bool is_last, std::uint32_t op) {
  Chunk& chunk = chunk_of(stage, unit);
  if (unit != chunk.first_unit) return;  // gradients come from the last unit to the first
  if (options_.zero >= 2 || (options_.grad_reduce && is_last)) reduce(&chunk, op);
}

// A unit may have had no step of its own in the pass.
void DataLane::end_gradients(int stage, bool is_last, std::uint32_t op) {
  if (options_.zero < 2 && !(options_.grad_reduce && is_last)) return;
  for (std::size_t i = chunks_.size(); i-- > 0;) {
    if (chunks_[i].stage == stage && !chunks_[i].is_reduced) reduce(&chunks_[i], op);
  }
}

std::vector<std::uint32_t> DataLane::take_exposed() { return std::exchange(exposed_, {}); }

void DataLane::reduce_rest(std::vector<std::uint32_t>* waits) {
  const OpKind kind = options_.zero == 0 ? OpKind::AllReduce : OpKind::ReduceScatter;
  Chunk rest{.stage = -1};
  for (const Chunk& chunk : chunks_) {
    if (!chunk.is_reduced) rest.bytes = rest.bytes + chunk.bytes;
  }
  const std::uint32_t op =
      communicate(kind, rest.bytes.gradient_bytes, rest.bytes.expert_gradient_bytes, rest, *waits);
  if (op != kNoOp) {
    waits->assign(1, op);
  } else if (last_reduction_ != kNoOp) {
    waits->push_back(last_reduction_);
  }
}

void DataLane::reduce_norm(std::vector<std::uint32_t>* waits) {
  if (options_.zero == 0 || dense_slot_ < 0 || context_.work.gradient_norm_bytes == 0) return;
  const std::uint32_t op = communicate(OpKind::AllReduce, context_.work.gradient_norm_bytes, 0,
                                       Chunk{.stage = -1}, *waits);
  waits->assign(1, op);
}

void DataLane::gather_rest(std::span<const std::uint32_t> waits) {
  if (options_.zero == 0 || options_.zero == 3 || options_.param_gather) return;
  Chunk all{.stage = -1};
  for (const Chunk& chunk : chunks_) all.bytes = all.bytes + chunk.bytes;
  communicate(OpKind::AllGather, all.bytes.parameter_bytes, all.bytes.expert_parameter_bytes, all,
              waits);
}

void DataLane::gather(Chunk* chunk, std::span<const std::uint32_t> waits) {
  chunk->gathered = communicate(OpKind::AllGather, chunk->bytes.parameter_bytes,
                                chunk->bytes.expert_parameter_bytes, *chunk, waits);
  chunk->is_gathered = true;
}

void DataLane::reduce(Chunk* chunk, std::uint32_t op) {
  const OpKind kind = options_.zero == 0 ? OpKind::AllReduce : OpKind::ReduceScatter;
  const std::uint32_t reduced = communicate(kind, chunk->bytes.gradient_bytes,
                                            chunk->bytes.expert_gradient_bytes, *chunk, {&op, 1});
  chunk->is_reduced = true;
  if (reduced == kNoOp) return;
  last_reduction_ = reduced;
  if (!options_.grad_reduce) exposed_.push_back(reduced);
}

std::uint32_t DataLane::communicate(OpKind kind, Bytes dense, Bytes expert, const Chunk& chunk,
                                    std::span<const std::uint32_t> waits) {
  std::uint32_t last = kNoOp;
  for (const auto& [slot, bytes] :
       {std::pair{dense_slot_, dense}, std::pair{expert_slot_, expert}}) {
    if (slot < 0 || bytes == 0) continue;
    Op op;
    op.kind = kind;
    op.slot = slot;
    op.bytes = bytes;
    op.part = chunk.part;
    op.parts = chunk.parts;
    op.sms = static_cast<std::int16_t>(options_.sms);
    op.stage = static_cast<std::int16_t>(chunk.stage);
    last = builder_.add(op, waits);
  }
  return last;
}

}  // namespace tandem
