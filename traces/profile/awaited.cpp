// Walk of the wait-for graph. A kernel waits for the one before it on its stream and for those that
// its row names. For each gap between kernels of compute, the walk begins at the kernel after the
// gap and follows waits as long as they lead to communication that ends after the gap began.
#include "traces/profile/awaited.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace tandem {
namespace {

// Shares gaps of compute among the communications that the kernel after each gap waits for.
class Awaited {
 public:
  Awaited(const ProfileRank& rank, const ProfileSplit& split)
      : rank_(rank),
        waits_(rank.kernels.size()),
        found_in_gap_(rank.kernels.size()),
        labels_(rank.kernels.size(), -1),
        exposed_(split.comms.size()) {
    find_waits();
    find_labels(split);
  }

  // Splits the gap that begins then and ends with the start of kernel `next`.
  void add_gap_before(int next, Nanoseconds begin) {
    const Nanoseconds end = rank_.kernels[next].start_ns;
    if (begin >= end) return;
    ++gap_number_;
    found_.clear();
    add_waited_for(next, begin);
    for (std::size_t i = 0; i < found_.size(); ++i)  // it grows as it is walked
      add_waited_for(found_[i], begin);
    share_gap(begin, end);
  }

  // Splits the gap after the last kernel of compute. It waits for all communication in flight.
  void add_last_gap(Nanoseconds begin, Nanoseconds end) {
    if (begin >= end) return;
    ++gap_number_;
    found_.clear();
    for (std::size_t i = 0; i < rank_.kernels.size(); ++i)
      add_if_in_flight(static_cast<int>(i), begin);
    share_gap(begin, end);
  }

  std::vector<Nanoseconds> exposed() && { return std::move(exposed_); }

 private:
  // Collects each kernel's waits: those that the profile names, and the kernel before it on its
  // stream.
  void find_waits() {
    std::unordered_map<std::int64_t, int> by_correlation;
    std::map<std::int32_t, int> last_on;
    for (std::size_t i = 0; i < rank_.kernels.size(); ++i) {
      const ProfileKernel& kernel = rank_.kernels[i];
      by_correlation.emplace(kernel.correlation, static_cast<int>(i));
      const auto [last, is_first] = last_on.try_emplace(kernel.stream, static_cast<int>(i));
      if (!is_first) waits_[i].push_back(std::exchange(last->second, static_cast<int>(i)));
    }
    for (const auto& [kernel, waited] : rank_.waits) {
      const auto from = by_correlation.find(kernel), to = by_correlation.find(waited);
      if (from != by_correlation.end() && to != by_correlation.end())
        waits_[from->second].push_back(to->second);
    }
  }

  void find_labels(const ProfileSplit& split) {
    for (std::size_t i = 0; i < rank_.kernels.size(); ++i) {
      if (rank_.kernels[i].activity != Activity::Communication) continue;
      const CommLabel label = label_of(rank_, rank_.kernels[i]);
      const auto at = std::ranges::find(split.comms, label, &CommTotal::label);
      if (at != split.comms.end()) labels_[i] = static_cast<int>(at - split.comms.begin());
    }
  }

  void add_if_in_flight(int kernel, Nanoseconds begin) {
    const bool is_communication = labels_[kernel] >= 0;
    if (!is_communication || rank_.kernels[kernel].end_ns <= begin) return;
    if (std::exchange(found_in_gap_[kernel], gap_number_) == gap_number_) return;
    found_.push_back(kernel);
  }
  void add_waited_for(int kernel, Nanoseconds begin) {
    for (const int waited : waits_[kernel]) add_if_in_flight(waited, begin);
  }

  // Gives the gap's instants to the communications found. Goes through them by falling end; each
  // gets its instants before the earliest start so far.
  void share_gap(Nanoseconds begin, Nanoseconds end) {
    std::ranges::sort(found_, [&](int a, int b) {
      const Nanoseconds end_a = rank_.kernels[a].end_ns, end_b = rank_.kernels[b].end_ns;
      return end_a != end_b ? end_a > end_b : a < b;
    });
    for (const int i : found_) {
      const ProfileKernel& kernel = rank_.kernels[i];
      const Nanoseconds from = std::max(kernel.transfer_start_ns, begin);
      const Nanoseconds until = std::min(kernel.end_ns, end);
      if (from >= until) continue;
      exposed_[labels_[i]] += until - from;
      end = from;
    }
  }

  const ProfileRank& rank_;
  std::vector<std::vector<int>> waits_;
  std::vector<int> found_in_gap_;  // by kernel: the last gap in which it was found
  std::vector<int> labels_;        // by kernel: place in the split's comms; -1: not communication
  std::vector<Nanoseconds> exposed_;
  std::vector<int> found_;
  int gap_number_ = 0;
};

}  // namespace

std::vector<Nanoseconds> awaited_of(const ProfileRank& rank, const ProfileSplit& split,
                                    Nanoseconds step_begin_ns, Nanoseconds step_end_ns) {
  Awaited awaited(rank, split);
  Nanoseconds busy_until = step_begin_ns;
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    const ProfileKernel& kernel = rank.kernels[i];
    if (kernel.activity != Activity::Compute) continue;
    awaited.add_gap_before(static_cast<int>(i), busy_until);
    busy_until = std::max(busy_until, kernel.end_ns);
  }
  awaited.add_last_gap(busy_until, step_end_ns);
  return std::move(awaited).exposed();
}

}  // namespace tandem
