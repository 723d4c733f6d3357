#include "traces/profile/profile.h"

namespace tandem {

std::string_view phase_name(PassPhase phase) {
  switch (phase) {
    case PassPhase::Unknown:
      return "unknown";
    case PassPhase::Forward:
      return "forward";
    case PassPhase::Backward:
      return "backward";
    case PassPhase::BackwardInput:
      return "backward-input";
    case PassPhase::BackwardWeight:
      return "backward-weight";
    case PassPhase::Step:
      return "optimizer";
  }
  return "";
}

std::uint32_t KernelNames::id(std::string_view text) {
  if (const auto at = ids_.find(text); at != ids_.end()) return at->second;
  const auto id = static_cast<std::uint32_t>(texts_.size());
  ids_.emplace(texts_.emplace_back(text), id);
  return id;
}

}  // namespace tandem
