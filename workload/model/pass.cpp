#include "workload/model/pass.h"

#include <array>
#include <span>

namespace tandem {

std::string_view group_kind_name(GroupKind group_kind) {
  static constexpr std::array<std::string_view, kGroupKinds> kNames = {"tensor", "pipeline", "data",
                                                                       "context", "expert"};
  return kNames[static_cast<std::size_t>(group_kind)];
}

void PassBuilder::append(const Pass& pass, int unit) {
  const int offset = static_cast<int>(pass_.steps.size());
  const Waits before = after_last();
  const bool communicated = last_ >= 0 && !pass_.steps[last_].computes;
  bool computed = false;
  pass_.steps.insert(pass_.steps.end(), pass.steps.begin(), pass.steps.end());
  for (Step& step : std::span(pass_.steps).subspan(offset)) {
    for (int& wait : step.waits) wait += offset;
    // Steps that waited for the action's inputs now wait for the chain; compute does so by its
    // lane.
    if (step.waits.empty() && (!step.computes || (communicated && !computed))) step.waits = before;
    computed |= step.computes;
    if (step.computes) step.unit = unit;
  }
  last_ = offset + pass.output;
}

}  // namespace tandem
