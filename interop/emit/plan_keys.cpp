#include "interop/emit/plan_keys.h"

#include <fmt/format.h>

#include <cstdlib>

#include "interop/document/fields.h"

namespace tandem {

std::string PlanKeys::text(AnyKey key, std::string_view otherwise) {
  taken_.emplace(key.name());
  const auto found = settings_->find(std::string(key.name()));
  return found == settings_->end() ? std::string(otherwise) : found->second;
}

long long PlanKeys::whole(IntegerKey key, long long otherwise) {
  const std::string value = text(key);
  return value.empty() ? otherwise : std::strtoll(value.c_str(), nullptr, 10);
}

bool PlanKeys::flag(FlagKey key, bool otherwise) {
  const std::string value = text(key);
  return value.empty() ? otherwise : value == "true";
}

bool PlanKeys::has(AnyKey key) const { return settings_->contains(std::string(key.name())); }

void PlanKeys::leave(AnyKey key, std::string_view why) {
  const auto found = settings_->find(std::string(key.name()));
  if (found != settings_->end())
    left_.push_back(fmt::format("{} = {}: {}", key.name(), found->second, why));
}

long long PlanKeys::gpus() {
  const long long block =
      whole("parallel.tp", 1) * whole("parallel.pp", 1) * whole("parallel.cp", 1);
  return whole("cluster.gpus", block * whole("parallel.dp", 0));
}

long long PlanKeys::dp() {
  const long long block =
      whole("parallel.tp", 1) * whole("parallel.pp", 1) * whole("parallel.cp", 1);
  return whole("parallel.dp", whole("cluster.gpus", 0) / block);
}

// Lists the keys that nobody has taken, except those whose value is a default and changes nothing.
// Most defaults are "off" in some form. Fusions and resharding are on by default. In
// recompute_layers and group a 1 or 0 means something, so these two are always listed.
std::vector<std::string> PlanKeys::left() const {
  const auto found = settings_->find("parallel.tp");
  const std::string tp = found == settings_->end() ? "1" : found->second;
  std::vector<std::string> lines = left_;
  for (const auto& [key, value] : *settings_) {
    const bool of_plan = matches_any(key, {"parallel.*", "schedule.*", "train.*", "overlap.*"});
    const bool usually_on = matches_any(
        key, {"train.fused_*", "train.reshard_*", "train.recompute_layers", "schedule.group"});
    const bool is_default = key == "parallel.expert_tp" ? value == tp
                            : usually_on                ? value == "true"
                                         : matches_any(value, {"0", "1", "false", "off", "none"});
    if (of_plan && !taken_.contains(key) && !is_default)
      lines.push_back(fmt::format("{} = {}", key, value));
  }
  return lines;
}

}  // namespace tandem
