// Joins passes, and adds idle time to them (offloaded activations that are still being copied).
#include "workload/model/pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace tandem {
namespace {

constexpr std::array<std::string_view, kGroupKinds> kGroupNames = {"tensor", "pipeline", "data",
                                                                   "context", "expert"};

}  // namespace

std::string_view group_kind_name(GroupKind group_kind) {
  return kGroupNames[static_cast<std::size_t>(group_kind)];
}

std::optional<GroupKind> group_kind_named(std::string_view word) {
  const auto at = std::ranges::find(kGroupNames, word);
  if (at == kGroupNames.end()) return std::nullopt;
  return static_cast<GroupKind>(at - kGroupNames.begin());
}

void PassBuilder::append(const Pass& pass, int unit) {
  const int offset = static_cast<int>(pass_.steps.size());
  const Waits before = after_last();
  const bool communicated = last_ >= 0 && !pass_.steps[last_].computes;
  bool computed = false;
  pass_.steps.insert(pass_.steps.end(), pass.steps.begin(), pass.steps.end());
  for (Step& step : std::span(pass_.steps).subspan(offset)) {
    for (int& wait : step.waits) wait += offset;
    // Steps that waited for the action's inputs now wait for the chain. Compute waits by its lane
    // for the compute before it, so only the first needs a wait, for communication.
    const bool needs_chain_before = !step.computes || (communicated && !computed);
    if (step.waits.empty() && needs_chain_before) step.waits = before;
    computed |= step.computes;
    if (step.computes) step.unit = unit;
  }
  last_ = offset + pass.output;
}

Pass with_waits(const Pass& pass, Nanoseconds ns) {
  Bytes all_bytes = 0;
  for (const Step& step : pass.steps) all_bytes += step.computes ? 0 : step.bytes;
  Pass longer;
  std::vector<int> places;  // of the pass's steps in the longer one
  Bytes bytes_so_far = 0;
  Nanoseconds waited = 0;
  const auto add_wait_so_far = [&] {
    const double share =
        all_bytes == 0 ? 1 : static_cast<double>(bytes_so_far) / static_cast<double>(all_bytes);
    const auto until = static_cast<Nanoseconds>(std::llround(share * static_cast<double>(ns)));
    if (until > waited) longer.steps.push_back({.duration_ns = until - waited});
    waited = until;
  };
  for (const Step& step : pass.steps) {
    if (step.computes) add_wait_so_far();
    places.push_back(static_cast<int>(longer.steps.size()));
    longer.steps.push_back(step);
    for (int& other : longer.steps.back().waits) other = places[other];
    bytes_so_far += step.computes ? 0 : step.bytes;
  }
  add_wait_so_far();
  longer.output = places[pass.output];
  return longer;
}

Nanoseconds compute_ns(const Pass& pass) {
  Nanoseconds sum = 0;
  for (const Step& step : pass.steps) sum += step.computes ? step.duration_ns : 0;
  return sum;
}

}  // namespace tandem
