// Candidate: turns a candidate of the search into a plan, a scenario, settings and text. A
// candidate is a layout (tp, pp, micro batch, ...), a playing (order, overlap of transfers) and a
// sharing (ZeRO, overlap of gradients and parameters). A LayoutKey is a row of a table, such as
// parallel.tp: it gets and sets one number of a Layout, reads it from a Plan and writes it to one.
// kAsScenario: the search leaves the key as the scenario has it. Declared in planning/tune/space.h.
#include "planning/tune/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planning/tune/layout_keys.h"
#include "scenarios/costs.h"
#include "scenarios/tensor_settings.h"

namespace tandem {
namespace {

// Returns the scenario's plan with this layout, and without settings that a search does not choose:
// uneven layers, ZeRO.
Plan plan_with(const Scenario& base, const Layout& layout) {
  Plan plan = base.job.plan;
  for (const LayoutKey& key : layout_keys()) {
    if (key.write != nullptr) key.write(layout, &plan);
  }
  plan.layers_per_stage.clear();
  plan.mtp_before_loss = false;
  plan.zero = 0;
  plan.hsdp_shard = plan.zero_hpz = 0;
  if (layout.precision != kAsScenario && !base.places.contains("train.gradient_dtype"))
    plan.gradient_dtype = plan.precision == "fp16" ? "fp16" : "fp32";
  const auto overlap = tensor_overlap({.method = layout.tensor}, base.job.model, "");
  if (overlap.ok()) plan.tensor_overlap = *overlap;
  return plan;
}

// Whether several ranks have the same parameters. Experts are cut over other ranks than the rest,
// and may have replicas even if the rest has none.
bool has_replicas(const Scenario& base, const Layout& layout, const Playing& playing) {
  const int replicas = layout.dp * layout.cp * traits_of(base, playing).chains;
  return replicas > 1 ||
         (layout.expert_tp > 0 && layout.tp * replicas > layout.expert_tp * layout.ep);
}

}  // namespace

Plan plan_of(const Scenario& base, const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  Plan plan = plan_with(base, layout);
  plan.zero = sharing.zero;
  plan.param_remainders = plan.param_remainders && sharing.zero == 1 && plan.precision == "bf16";
  if (sharing.zero > 0) plan.hsdp_shard = chosen(sharing.hsdp_shard, base.job.plan.hsdp_shard);
  if (sharing.zero == 3 && layout.pp == 1)
    plan.zero_hpz = chosen(sharing.zero_hpz, base.job.plan.zero_hpz);
  return plan;
}

bool concerns(const Scenario& base, const Candidate& candidate, std::string_view key) {
  const auto& [layout, playing, sharing] = candidate;
  if (key == "schedule.order" || key == "overlap.p2p") return layout.pp > 1;
  if (key == "train.zero" || key == "overlap.grad_reduce")
    return has_replicas(base, layout, playing);
  if (key == "overlap.param_gather" || key == "parallel.hsdp_shard") return sharing.zero > 0;
  if (key == "parallel.zero_hpz") return sharing.zero == 3 && layout.pp == 1;
  const auto found = std::ranges::find(layout_keys(), key, &LayoutKey::key);
  return found == layout_keys().end() || found->concerns == nullptr ||
         found->concerns(base, layout);
}

Scenario scenario_with(const Scenario& base, const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  Scenario scenario = base;
  scenario.name = plan_text(candidate);
  scenario.job.plan = plan_of(base, candidate);
  scenario.job.layout.clear();
  scenario.job.tensor = {.method = layout.tensor};
  scenario.job.order_file.clear();
  scenario.job.order = {.name = std::string(playing.order),
                        .pp = layout.pp,
                        .vpp = layout.vpp,
                        .microbatches = scenario.job.plan.microbatches(),
                        .orders = base.job.order.orders};
  scenario.job.overlap_p2p = playing.overlap_p2p;
  scenario.job.batch_p2p = false;
  const OrderTraits& order = traits_of(scenario.job.order);
  scenario.job.expert_overlap =
      base.job.expert_overlap && (order.pairs || pairs_for_experts(scenario.job.order));
  scenario.job.data.zero = sharing.zero;
  scenario.job.data.grad_reduce = sharing.grad_reduce;
  scenario.job.data.param_gather = sharing.param_gather;
  if (!sharing.align_param_gather) scenario.job.data.align_param_gather = false;
  if (scenario.costs.calibrated) CHECK(complete_calibration(&scenario).ok());
  return scenario;
}

Candidate candidate_of(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  const std::span<const OrderTraits> orders = scenario.job.order.orders;
  // Without a pipeline, the order is the one that does not pipeline ("none").
  const auto alone = std::ranges::find(orders, false, &OrderTraits::pipelines);
  const OrderTraits& order =
      plan.pp == 1 && alone != orders.end() ? *alone : traits_of(scenario.job.order);
  const bool exchanges = order.exchanges == BatchedP2p::EachAction;
  Layout layout{.tensor = scenario.job.tensor.method};
  for (const LayoutKey& key : layout_keys()) {
    if (key.read != nullptr) key.read(&layout, plan);
  }
  layout.expert_tp = scenario.job.model.is_moe() ? plan.expert_tensor() : 0;
  const DataOptions& data = scenario.job.data;
  Sharing sharing{plan.zero, data.grad_reduce, data.param_gather};
  sharing.align_param_gather = data.align_param_gather || !data.param_gather;
  return {layout,
          {order.name.empty() ? default_order(1) : order.name,
           plan.pp > 1 && scenario.job.overlap_p2p.value_or(!exchanges)},
          sharing};
}

namespace {

// Returns settings that reset keys which the chosen precision excludes. For example the scenario
// may set an fp8 recipe, which a plan with bf16 must not keep. To a Plan, write_named() in
// layout_keys.h does the same.
std::vector<std::pair<std::string, std::string>> settings_undone_by(const Layout& layout) {
  const bool not_fp8 = layout.precision != kAsScenario && layout.precision != precision_of("fp8");
  std::vector<std::pair<std::string, std::string>> settings;
  if (not_fp8) settings.emplace_back("train.fp8_recipe", "delayed");
  if (not_fp8 || layout.fp8_recipe > 0) settings.emplace_back("train.amax_reduction", "all");
  if (not_fp8 && layout.precision != precision_of("nvfp4")) {
    settings.emplace_back("train.fp8_param_gather", "false");
    settings.emplace_back("train.fp8_attention", "false");
  }
  return settings;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> plan_settings(const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  std::vector<std::pair<std::string, std::string>> settings;
  for (const LayoutKey& key : layout_keys()) {
    const int value = key.get(layout);
    if (value == kAsScenario) continue;
    if (key.key == "parallel.expert_tp" && value == 0) continue;  // a dense model
    std::string word = key.word(value);
    std::ranges::replace(word, '+', ',');  // as a scenario lists words
    settings.emplace_back(key.key, std::move(word));
  }
  for (const auto& undone : settings_undone_by(layout)) settings.push_back(undone);
  settings.emplace_back("schedule.order", playing.order);
  settings.emplace_back("overlap.p2p", flag_word(playing.overlap_p2p ? 1 : 0));
  settings.emplace_back("train.zero", number_word(sharing.zero));
  if (sharing.hsdp_shard > 0)
    settings.emplace_back("parallel.hsdp_shard", number_word(sharing.hsdp_shard));
  if (sharing.zero_hpz > 0)
    settings.emplace_back("parallel.zero_hpz", number_word(sharing.zero_hpz));
  settings.emplace_back("overlap.grad_reduce", flag_word(sharing.grad_reduce ? 1 : 0));
  settings.emplace_back("overlap.param_gather", flag_word(sharing.param_gather ? 1 : 0));
  if (!sharing.align_param_gather) settings.emplace_back("overlap.align_param_gather", "false");
  return settings;
}

std::string plan_text(const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  std::string text = fmt::format("tp {}", layout.tp);
  if (layout.cp > 1) text += fmt::format(" cp {}", layout.cp);
  if (layout.ep > 1) text += fmt::format(" ep {}", layout.ep);
  if (layout.expert_tp > 0) text += fmt::format(" etp {}", layout.expert_tp);
  text += fmt::format(" pp {}", layout.pp);
  if (layout.vpp > 1) text += fmt::format(" vpp {}", layout.vpp);
  text += fmt::format(" dp {} mb {} order {}", layout.dp, layout.micro_batch, playing.order);
  if (layout.recompute != Recompute::None)
    text += fmt::format(" recompute {}", recompute_word(static_cast<int>(layout.recompute)));
  if (layout.recompute_layers >= 0) text += fmt::format(" of {}", layout.recompute_layers);
  for (const LayoutKey& key : layout_keys()) {
    const int value = key.get(layout);
    if (key.only_named && value != kAsScenario) text += " " + key.word(value);
  }
  if (layout.sequence_parallel) text += " sp";
  if (sharing.zero > 0) text += fmt::format(" zero {}", sharing.zero);
  if (sharing.hsdp_shard > 0) text += fmt::format(" hsdp {}", sharing.hsdp_shard);
  if (sharing.zero_hpz > 0) text += fmt::format(" hpz {}", sharing.zero_hpz);
  std::vector<std::string> overlaps;
  if (layout.tensor != TensorMethod::Off)
    overlaps.push_back(fmt::format("tensor {}", tensor_method_name(layout.tensor)));
  if (layout.overlap_context) overlaps.emplace_back("context");
  if (playing.overlap_p2p) overlaps.emplace_back("p2p");
  if (sharing.grad_reduce) overlaps.emplace_back("grads");
  if (sharing.param_gather) overlaps.emplace_back("params");
  if (!overlaps.empty()) text += fmt::format(" overlap {}", fmt::join(overlaps, "+"));
  if (layout.scatter_gather) text += " scatter-gather";
  return text;
}

}  // namespace tandem
