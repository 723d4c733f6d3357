#include "planning/size/size_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

// Returns the step between numbers of 5 significant bits at `nodes`.
int step_at(int nodes) {
  constexpr int kBits = 5;
  return 1 << std::max(0, static_cast<int>(std::bit_width(static_cast<unsigned>(nodes))) - kBits);
}

// Returns the nodes that take `days` by the power law through both sizes. If one of them has no
// plan, or both take equally long, returns their geometric mean.
double where_in_time(const TriedSize& late, const TriedSize& early, double days) {
  const double mean = std::sqrt(static_cast<double>(late.nodes) * early.nodes);
  if (!std::isfinite(late.days) || late.days <= early.days) return mean;
  const double share = std::log(late.days / days) / std::log(late.days / early.days);
  return late.nodes * std::pow(static_cast<double>(early.nodes) / late.nodes, share);
}

// Returns an untried number over which models are cut well, just below one without a plan and above
// all numbers that have a plan; nothing: there is none.
std::optional<int> even_size(const std::vector<TriedSize>& tried) {
  int late = 0;
  for (const TriedSize& size : tried) {
    if (std::isfinite(size.days)) late = std::max(late, size.nodes);
  }
  for (const TriedSize& size : tried) {
    if (std::isfinite(size.days)) continue;
    for (const int nodes : {power_of_two_down(size.nodes), even_down(size.nodes)}) {
      if (nodes > late && std::ranges::find(tried, nodes, &TriedSize::nodes) == tried.end())
        return nodes;
    }
  }
  return std::nullopt;
}

}  // namespace

int size_down(int nodes) { return nodes / step_at(nodes) * step_at(nodes); }

int size_up(int nodes) {
  const int step = step_at(nodes);
  return (nodes + step - 1) / step * step;
}

int power_of_two_down(int nodes) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(nodes)));
}

int even_down(int nodes) {
  int best = 1;
  for (const int odd : {1, 3, 5, 9, 15}) {
    if (odd <= nodes) best = std::max(best, odd * power_of_two_down(nodes / odd));
  }
  return best;
}

std::optional<int> even_within(const std::vector<TriedSize>& tried, double days, int nodes) {
  constexpr double kMore = 1.1;
  for (int most = nodes; most > 0;) {
    const int even = even_down(most);
    double node_days = std::numeric_limits<double>::infinity();  // the fewest from `even` on
    for (const TriedSize& size : tried) {
      if (size.nodes >= even) node_days = std::min(node_days, size.nodes * size.days);
    }
    if (most < nodes && node_days > kMore * days * even) break;
    const auto known = std::ranges::find(tried, even, &TriedSize::nodes);
    if (known == tried.end()) return even;
    if (!std::isfinite(known->days)) break;
    most = even - 1;
  }
  return std::nullopt;
}

std::optional<int> next_size(const std::vector<TriedSize>& tried, double days, int guess,
                             int most) {
  if (tried.empty()) return std::min(most, size_up(guess));
  const std::optional<int> least = least_in_time(tried, days);
  TriedSize late, early;
  for (const TriedSize& size : tried) {
    if (least && size.nodes == *least) early = size;
    const bool is_below = !least || size.nodes < *least;  // so it is late
    if (is_below && size.nodes > late.nodes) late = size;
  }
  if (!least) {  // none is in time so far: goes up
    if (const auto even = even_size(tried)) return even;
    if (late.nodes >= most) return std::nullopt;
    const double times = std::isfinite(late.days) ? std::clamp(late.days / days, 1.1, 8.0) : 2;
    return std::min<double>(most, size_up(static_cast<int>(std::ceil(late.nodes * times))));
  }
  if (late.nodes == 0) {  // all are in time so far: goes down
    if (early.nodes == 1) return std::nullopt;
    const double times = std::clamp(early.days / days, 1.0 / 8, 0.97);
    return std::max(1, std::min(early.nodes - 1, size_down(early.nodes * times)));
  }
  const int first = size_up(late.nodes + 1), last = size_down(early.nodes - 1);
  if (first > last) return even_within(tried, days, early.nodes);
  // If interpolation has not closed the bracket after so many sizes, halves it.
  constexpr std::size_t kInterpolated = 6;
  const double middle = std::sqrt(static_cast<double>(late.nodes) * early.nodes);
  const double next = tried.size() < kInterpolated ? where_in_time(late, early, days) : middle;
  return std::clamp(size_up(static_cast<int>(std::ceil(next))), first, last);
}

std::optional<int> least_in_time(const std::vector<TriedSize>& tried, double days) {
  std::optional<int> least;
  for (const TriedSize& size : tried) {
    if (size.days <= days && (!least || size.nodes < *least)) least = size.nodes;
  }
  return least;
}

int even_batch(int batch, int gpus, double tolerance) {
  int odd = gpus;
  while (odd % 2 == 0) odd /= 2;
  const double slack = batch * tolerance;
  for (int part = odd; part > 0; --part) {
    if (odd % part != 0) continue;
    const auto nearest = [&](int step) {
      return std::max(1, static_cast<int>(std::lround(static_cast<double>(batch) / step))) * step;
    };
    const auto is_near = [&](int step) { return std::abs(nearest(step) - batch) <= slack; };
    if (!is_near(part)) continue;
    int step = part;
    while (gpus % (2 * step) == 0 && is_near(2 * step)) step *= 2;
    return nearest(step);
  }
  return batch;
}

}  // namespace tandem
