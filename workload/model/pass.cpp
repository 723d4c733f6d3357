#include "workload/model/pass.h"

#include <array>

namespace tandem {

std::string_view name(GroupKind group_kind) {
  static constexpr std::array<std::string_view, kGroupKinds> kNames = {"tensor", "pipeline", "data",
                                                                       "context", "expert"};
  return kNames[static_cast<std::size_t>(group_kind)];
}

void PassBuilder::append(const Pass& pass, int unit) {
  const int offset = static_cast<int>(pass_.steps.size());
  const std::vector<int> before = after_last();
  const bool communicated = last_ >= 0 && !pass_.steps[last_].computes;
  bool computed = false;
  for (Step step : pass.steps) {
    for (int& wait : step.waits) wait += offset;
    // What waited for the action's inputs waits for the chain: compute does by its lane.
    if (step.waits.empty() && (!step.computes || (communicated && !computed)))
      step.waits.insert(step.waits.end(), before.begin(), before.end());
    computed |= step.computes;
    if (step.computes) step.unit = unit;
    add(std::move(step));
  }
  last_ = offset + pass.output;
}

}  // namespace tandem
