// Converts a plan's values from text, and derives sizes that they imply: GPUs, dp, stages' layers.
#include "interop/emit/plan_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/split.h"
#include "interop/document/fields.h"

namespace tandem {
namespace {

// Returns whether a value is its key's default. `tp` is the plan's tensor parallel size.
bool is_default(std::string_view key, std::string_view value, std::string_view tp) {
  if (key == "parallel.expert_tp") return value == tp;
  if (key == "overlap.p2p") return value == "false";  // the default of 1f1b, and without a pipeline
  const KeyRow* const row = keys::find(key);
  return row != nullptr && value == row->default_word();
}

}  // namespace

const std::string* PlanKeys::setting(std::string_view name) const {
  const auto found = settings_->find(std::string(name));
  return found == settings_->end() ? nullptr : &found->second;
}

std::string PlanKeys::text(AnyKey key, std::string_view otherwise) {
  taken_.emplace(key.name());
  const std::string* const found = setting(key.name());
  return found == nullptr ? std::string(otherwise) : *found;
}

long long PlanKeys::whole(IntegerKey key, long long otherwise) {
  const std::string value = text(key);
  return value.empty() ? otherwise : std::strtoll(value.c_str(), nullptr, 10);
}

bool PlanKeys::flag(FlagKey key, bool otherwise) {
  const std::string value = text(key);
  return value.empty() ? otherwise : value == "true";
}

bool PlanKeys::has(AnyKey key) const { return setting(key.name()) != nullptr; }

std::string PlanKeys::loss(std::string_view usual) {
  const std::string fused = text("train.fused_cross_entropy");
  const std::string_view short_form = fused == "true" ? "native" : "unfused";
  return text("train.cross_entropy", fused.empty() ? usual : short_form);
}

void PlanKeys::leave(AnyKey key, std::string_view why) {
  taken_.emplace(key.name());  // so that left() does not list it again
  if (const std::string* const found = setting(key.name()))
    left_.push_back(fmt::format("{} = {}: {}", key.name(), *found, why));
}

long long PlanKeys::replica_gpus() {
  return whole("parallel.tp", 1) * whole("parallel.pp", 1) * whole("parallel.cp", 1);
}

long long PlanKeys::gpus() {
  return whole("cluster.gpus", replica_gpus() * whole("parallel.dp", 0));
}

long long PlanKeys::dp() { return whole("parallel.dp", whole("cluster.gpus", 0) / replica_gpus()); }

std::vector<std::string> PlanKeys::hybrid_layers() const {
  const std::string* const found = setting(kHybridLayers);
  return found == nullptr ? std::vector<std::string>() : split(*found, " ");
}

bool PlanKeys::is_hybrid() const { return !hybrid_layers().empty() || has_mixer("mamba"); }

bool PlanKeys::has_mixer(std::string_view mixer) const {
  return std::ranges::any_of(*settings_, [mixer](const auto& setting) {
    return setting.second == mixer &&
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
  // Layers are cut evenly if embedding and head count as a layer each: the first and the last stage
  // have one fewer. Otherwise each stage has the rounded-up share, as long as layers are left.
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

void note_kernels(PlanKeys* keys, std::string_view own, std::string_view usual) {
  if (!keys->flag("train.flash_attention", false))
    keys->note("train.flash_attention = false: PyTorch's own attention is fused");
  if (const std::string loss = keys->loss(usual); loss != own)
    keys->note(fmt::format("train.cross_entropy = {}: the trainer's own loss is {}", loss, own));
}

void note_context(PlanKeys* keys) {
  const std::string comm = keys->text("parallel.cp_comm", "ring");
  if (keys->whole("parallel.cp", 1) > 1 && comm != "all_gather")
    keys->note(fmt::format("parallel.cp_comm = {}: keys and values are gathered", comm));
}

void note_above_one(PlanKeys* keys, IntegerKey key, std::string_view why) {
  if (keys->whole(key, 1) > 1) keys->leave(key, why);
}

std::vector<std::string> PlanKeys::left() const {
  const std::string *const tp = setting("parallel.tp"), *precision = setting("train.precision");
  // Other precisions have no largest numbers to reduce, and other recompute names no modules.
  const bool in_fp8 = precision != nullptr && *precision == "fp8";
  const std::string* const recompute = setting("train.recompute");
  const bool has_modules = recompute != nullptr && *recompute == "selective";
  std::vector<std::string> lines = left_;
  for (const auto& [key, value] : *settings_) {
    const bool of_plan = matches_any(key, {"parallel.*", "schedule.*", "train.*", "overlap.*"}) &&
                         (in_fp8 || key != "train.amax_reduction") &&
                         (has_modules || key != "train.recompute_modules");
    if (of_plan && !taken_.contains(key) && !is_default(key, value, tp == nullptr ? "1" : *tp))
      lines.push_back(fmt::format("{} = {}", key, value));
  }
  return lines;
}

}  // namespace tandem
