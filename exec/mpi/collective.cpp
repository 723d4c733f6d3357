// Ring all-reduce, reduce-scatter and all-gather, and all-to-all by pairwise exchange. Rank r sends
// to r+1 and receives from r-1. Example of 3 ranks that reduce: rank 0 first sends its chunk 2 and
// receives chunk 1 of rank 2, to which it adds its own; then it sends that sum of chunk 1 and
// receives chunk 0, which is complete once it adds its own.
#include "exec/mpi/collective.h"

#include <algorithm>

namespace tandem {

Collective::Collective(const Message& message, int members, int own, int slice, int slices)
    : message_(message),
      members_(members),
      own_(own),
      words_(static_cast<std::int64_t>(std::max(message.give.size(), message.take.size()))),
      chunk_words_((words_ + members - 1) / members),
      slice_begin_(chunk_words_ * slice / slices),
      slice_end_(chunk_words_ * (slice + 1) / slices) {
  if (reduces()) {
    for (std::vector<float>& sum : sums_) sum.resize(slice_end_ - slice_begin_);
  }
  copy_own_chunk();
}

// Copies the chunk that does not travel, as this rank both gives and takes it.
void Collective::copy_own_chunk() {
  const Range own = chunk(own_);
  if (message_.kind == OpKind::AllGather) {
    std::ranges::copy(message_.give.subspan(slice_begin_, own.words),
                      message_.take.begin() + own.first);
  } else if (message_.kind == OpKind::AllToAll || members_ == 1) {
    std::ranges::copy(message_.give.subspan(own.first, own.words),
                      message_.take.begin() + own.first);
  }
}

int Collective::steps() const {
  return message_.kind == OpKind::AllReduce ? 2 * (members_ - 1) : members_ - 1;
}

Collective::Range Collective::chunk(int number) const {
  const std::int64_t begin = wrapped(number) * chunk_words_;
  const std::int64_t first = std::min(words_, begin + slice_begin_);
  return {first, std::min(words_, begin + slice_end_) - first};
}

std::optional<Collective::Step> Collective::step() const {
  if (step_ == steps()) return std::nullopt;
  if (message_.kind == OpKind::AllToAll) return exchange_step();
  if (message_.kind == OpKind::AllGather) return gather_step(step_);
  return step_ < members_ - 1 ? reduce_step() : gather_step(step_ - (members_ - 1));
}

// This rank is the first to send chunk own - 1 round the ring. After n - 1 steps it has the sum of
// chunk `own`.
Collective::Step Collective::reduce_step() const {
  const Range out = chunk(own_ - 1 - step_), in = chunk(own_ - 2 - step_);
  const std::span<const float> sum = sums_[step_ % 2];
  return {wrapped(own_ + 1), wrapped(own_ - 1),
          step_ == 0 ? message_.give.subspan(out.first, out.words) : sum.first(out.words),
          std::span(sums_[(step_ + 1) % 2]).first(in.words)};
}

Collective::Step Collective::gather_step(int step) const {
  const Range out = chunk(own_ - step), in = chunk(own_ - 1 - step);
  return {wrapped(own_ + 1), wrapped(own_ - 1), message_.take.subspan(out.first, out.words),
          message_.take.subspan(in.first, in.words)};
}

Collective::Step Collective::exchange_step() const {
  const int to = wrapped(own_ + 1 + step_), from = wrapped(own_ - 1 - step_);
  const Range out = chunk(to), in = chunk(from);
  return {to, from, message_.give.subspan(out.first, out.words),
          message_.take.subspan(in.first, in.words)};
}

void Collective::end_step() {
  if (reduces() && step_ < members_ - 1) {
    const Range in = chunk(own_ - 2 - step_);
    const std::span<float> sum = std::span(sums_[(step_ + 1) % 2]).first(in.words);
    const std::span<const float> own = message_.give.subspan(in.first, in.words);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    const bool is_complete = step_ == members_ - 2;
    if (is_complete) {
      const bool scatters = message_.kind == OpKind::ReduceScatter;
      std::ranges::copy(sum, message_.take.begin() + (scatters ? slice_begin_ : in.first));
    }
  }
  ++step_;
}

}  // namespace tandem
