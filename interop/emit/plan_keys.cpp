// Converts a plan's values from text, and derives sizes that they imply: GPUs, dp, stages' layers.
#include "interop/emit/plan_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/split.h"
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
  taken_.emplace(key.name());  // so that left() does not list it again
  const auto found = settings_->find(std::string(key.name()));
  if (found != settings_->end())
    left_.push_back(fmt::format("{} = {}: {}", key.name(), found->second, why));
}

long long PlanKeys::replica_gpus() {
  return whole("parallel.tp", 1) * whole("parallel.pp", 1) * whole("parallel.cp", 1);
}

long long PlanKeys::gpus() {
  return whole("cluster.gpus", replica_gpus() * whole("parallel.dp", 0));
}

long long PlanKeys::dp() { return whole("parallel.dp", whole("cluster.gpus", 0) / replica_gpus()); }

std::vector<std::string> PlanKeys::hybrid_layers() const {
  const auto found = settings_->find(std::string(kHybridLayers));
  return found == settings_->end() ? std::vector<std::string>() : split(found->second, " ");
}

bool PlanKeys::is_hybrid() const {
  return !hybrid_layers().empty() || std::ranges::any_of(*settings_, [](const auto& setting) {
    return setting.second == "mamba" &&
           matches_any(setting.first, {"model.mixer", "model.kinds.*.mixer"});
  });
}

std::vector<int> PlanKeys::stage_layers() {
  std::vector<int> layers;
  for (const std::string& word : split(text("parallel.layers_per_stage"), ","))
    layers.push_back(std::atoi(word.c_str() + word.find_first_of("0123456789")));
  const int all = static_cast<int>(whole("model.layers", 0));
  const auto stages = static_cast<int>(whole("parallel.pp", 1) * whole("parallel.vpp", 1));
  if (!layers.empty() || all <= 0 || stages <= 1) return layers;
  // The first and the last stage have one fewer where embedding and head count as layers.
  const bool counts_ends = all % stages != 0 && (all + 2) % stages == 0;
  const int each = (all + (counts_ends ? 2 : stages - 1)) / stages;
  int rest = all;
  for (int stage = 0; stage < stages; ++stage) {
    const bool is_less = counts_ends && (stage == 0 || stage == stages - 1);
    layers.push_back(std::min(rest, is_less ? each - 1 : each));
    rest -= layers.back();
  }
  return layers;
}

void note_above_one(PlanKeys* keys, IntegerKey key, std::string_view why) {
  if (keys->whole(key, 1) > 1) keys->leave(key, why);
}

// Lists the keys that were not read, except those with a default value. Most defaults are "off" in
// some form; fusions and resharding are on by default. recompute_layers and group have no default,
// so these two are always listed.
std::vector<std::string> PlanKeys::left() const {
  const auto found = settings_->find("parallel.tp");
  const std::string tp = found == settings_->end() ? "1" : found->second;
  std::vector<std::string> lines = left_;
  for (const auto& [key, value] : *settings_) {
    const bool of_plan = matches_any(key, {"parallel.*", "schedule.*", "train.*", "overlap.*"});
    const bool has_no_off = matches_any(
        key, {"train.fused_*", "train.reshard_*", "train.recompute_layers", "schedule.group"});
    const bool is_default = key == "parallel.expert_tp"    ? value == tp
                            : key == "train.cross_entropy" ? value == "native"
                            : has_no_off                   ? value == "true"
                                         : matches_any(value, {"0", "1", "false", "off", "none"});
    if (of_plan && !taken_.contains(key) && !is_default)
      lines.push_back(fmt::format("{} = {}", key, value));
  }
  return lines;
}

}  // namespace tandem
