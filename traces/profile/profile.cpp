#include "traces/profile/profile.h"

namespace tandem {

std::string_view phase_name(PassPhase phase) {
  constexpr std::string_view kNames[] = {"unknown",        "forward",         "backward",
                                         "backward-input", "backward-weight", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::uint32_t KernelNames::id(std::string_view text) {
  if (const auto at = ids_.find(text); at != ids_.end()) return at->second;
  const auto id = static_cast<std::uint32_t>(texts_.size());
  ids_.emplace(texts_.emplace_back(text), id);
  return id;
}

}  // namespace tandem
