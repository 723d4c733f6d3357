#include "planning/tune/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"
#include "base/split.h"
#include "planning/tune/frameworks.h"
#include "planning/tune/layout_keys.h"
#include "planning/tune/refinement.h"
#include "scenarios/config/costs.h"
#include "scenarios/config/tensor_settings.h"

namespace tandem {
namespace {

constexpr std::string_view kModulesKey = "train.recompute_modules";

// The words that a key may have; none: it has numbers.
std::vector<std::string> words_of(const std::string& key, std::span<const OrderTraits> orders) {
  std::vector<std::string> words;
  if (key == "schedule.order") words = order_names(orders);
  for (const RefinementKey& refinement : refinement_keys()) {
    if (refinement.key != key) continue;
    if (!refinement.off.empty()) words.emplace_back(refinement.off);
    words.emplace_back(refinement.on);
  }
  if (!words.empty()) return words;
  if (key == "train.zero") return {"0", "1", "2", "3"};
  if (key.starts_with("overlap.") && key != "overlap.tensor") return {"true", "false"};
  return layout_words(key);
}

// "all" or "none" beside numbers: what the plan has without the key.
std::string_view word_of_none(std::string_view key) {
  return key == "parallel.hsdp_shard" ? "all" : key == "parallel.zero_hpz" ? "none" : "";
}

bool is_whole(const std::string& value) {
  return !value.empty() && value.size() < 8 && value.front() != '0' &&
         std::ranges::all_of(value, [](unsigned char c) { return std::isdigit(c) != 0; });
}

Status check_value(const std::string& key, const std::string& value,
                   std::span<const OrderTraits> orders) {
  const auto refused = [&](const std::string& expected) {
    return Error{fmt::format("--among: found {} = '{}', expected {}", key, value, expected)};
  };
  if (key == kModulesKey) {
    if (modules_of(value) > 0) return Done{};
    std::vector<std::string_view> names;
    for (const RecomputeModule& module : kRecomputeModules) names.push_back(module.name);
    return refused(fmt::format("of {} some, joined by '+'", fmt::join(names, ", ")));
  }
  const std::vector<std::string> words = words_of(key, orders);
  if (words.empty()) {
    const std::string_view none = word_of_none(key);
    if (is_whole(value) || (!none.empty() && value == none)) return Done{};
    return refused(fmt::format("{}a whole number of at least 1",
                               none.empty() ? "" : fmt::format("{} or ", none)));
  }
  if (std::ranges::find(words, value) != words.end()) return Done{};
  return refused(fmt::format("one of {}{}", fmt::join(words, ", "),
                             value.empty() ? "" : "; nearest is '" + nearest(value, words) + "'"));
}

// Keys of a cut (Space::cuts).
bool cuts_model(std::string_view key) {
  constexpr std::string_view kCuts[] = {"parallel.tp",         "parallel.cp",
                                        "parallel.pp",         "parallel.dp",
                                        "parallel.ep",         "parallel.expert_tp",
                                        "parallel.dispatcher", "train.precision",
                                        "train.fp8_recipe",    "train.sequence_parallel"};
  return std::ranges::find(kCuts, key) != std::end(kCuts);
}

// Whether a search looks at the order for the layout at all.
bool fits(const OrderTraits& order, const Layout& layout) {
  return order.pipelines == (layout.pp > 1) && layout.vpp >= order.least_vpp;
}

// Whether the order keeps its own rules there.
bool can_order(const Scenario& base, const OrderTraits& order, const Layout& layout,
               int microbatches) {
  return check_order({.name = std::string(order.name),
                      .pp = layout.pp,
                      .vpp = layout.vpp,
                      .microbatches = microbatches,
                      .expert_overlap = base.job.expert_overlap && order.expert_warm_up,
                      .orders = base.job.order.orders})
      .ok();
}

Plan plan_with(const Scenario& base, const Layout& layout) {
  Plan plan = base.job.plan;
  for (const LayoutKey& key : layout_keys()) {
    if (key.write != nullptr) key.write(layout, &plan);
  }
  plan.recompute_layers = -1;
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

int chosen(int choice, int of_scenario) { return choice == kAsScenario ? of_scenario : choice; }

// Whether so many GPUs can cut what the candidate cuts, where somebody says how many.
bool cuts_state(const Scenario& base, const Candidate& candidate) {
  const Sharing& sharing = candidate.sharing;
  if (chosen(sharing.hsdp_shard, base.job.plan.hsdp_shard) == 0 &&
      chosen(sharing.zero_hpz, base.job.plan.zero_hpz) == 0)
    return true;
  const Plan plan = plan_of(base, candidate);
  return sharing.zero > 0 && plan.zero_hpz == chosen(sharing.zero_hpz, plan.zero_hpz) &&
         check(base.job.model, plan).ok();
}

// What a plan sets, refined in every way.
std::vector<std::string> keys_of(const Candidate& candidate) {
  const Refinement all{.layout = true, .vocabulary = true, .order = true};
  std::vector<std::string> keys;
  for (const auto& [key, value] : settings_of(candidate, all)) keys.push_back(key);
  return keys;
}

}  // namespace

std::vector<std::string> Space::keys() {
  const Layout layout{.expert_tp = 1,
                      .precision = precision_of("fp8"),
                      .fp8_recipe = 0,
                      .dispatcher = 0,
                      .recompute_modules = 1};
  return keys_of({layout, {}, {.hsdp_shard = 1, .zero_hpz = 1}});
}

std::vector<std::string> Space::own_keys() { return keys_of({.layout = {.expert_tp = 1}}); }

Result<Space> Space::among(const std::vector<std::string>& texts,
                           std::span<const OrderTraits> orders) {
  Space space;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::vector<std::string> known = keys();
    if (equals == std::string::npos || key.empty())
      return Error{fmt::format("--among: found '{}', expected KEY=VALUE,VALUE,...", text)};
    if (std::ranges::find(known, key) == known.end())
      return Error{
          fmt::format("--among: found key '{}', expected one that a search chooses; "
                      "nearest is '{}'",
                      key, nearest(key, known))};
    std::vector<std::string> values = split(text.substr(equals + 1) + ",", ",");
    for (std::string& value : values) {
      RETURN_IF_ERROR(check_value(key, value, orders));
      if (key == kModulesKey) value = modules_word(modules_of(value));
    }
    space.only_.emplace_back(key, values);
  }
  return space;
}

Space Space::only(const std::string& key, const std::vector<std::string>& values) const {
  Space narrow = *this;
  narrow.only_.emplace_back(key, values);
  return narrow;
}

Space Space::run_by(const Framework& framework) const {
  Space narrow = *this;
  for (const AllowedValues& allowed : framework.values)
    narrow.only_.emplace_back(allowed.key, split(allowed.values, ","));
  narrow.framework_ = &framework;
  return narrow;
}

bool Space::runs(const Scenario& base, const Candidate& candidate, int part) const {
  return framework_ == nullptr ||
         std::ranges::all_of(framework_->rules, [&](const FrameworkRule& rule) {
           return rule.part != part || rule.holds(base, candidate);
         });
}

bool Space::names(std::string_view key) const {
  return std::ranges::any_of(only_, [&](const auto& only) { return only.first == key; });
}

std::vector<std::string> Space::named(std::string_view key) const {
  for (const auto& [only, values] : only_) {
    if (only != key) continue;
    std::vector<std::string> all = values;
    std::erase_if(all, [&](const std::string& value) { return !allows(key, value); });
    return all;
  }
  return {};
}

std::vector<int> Space::numbers(std::string_view key) const {
  if (!names(key)) return {kAsScenario};
  std::vector<int> found;
  for (const std::string& value : named(key)) {
    const int number = value == word_of_none(key) ? 0 : std::stoi(value);
    if (std::ranges::find(found, number) == found.end()) found.push_back(number);
  }
  return found;
}

bool Space::allows(std::string_view key, const std::string& value) const {
  return std::ranges::all_of(only_, [&](const auto& only) {
    if (only.first != key) return true;
    const bool is_open = key == "schedule.order" && only.second == std::vector<std::string>{"auto"};
    return is_open || std::ranges::find(only.second, value) != only.second.end();
  });
}

bool Space::refines(std::string_view name, bool on) const {
  const RefinementKey& key = *std::ranges::find(refinement_keys(), name, &RefinementKey::key);
  bool asked = false, allowed = true;
  for (const auto& [only, values] : only_) {
    if (only != key.key) continue;
    asked = true;
    allowed = allowed && std::ranges::any_of(values, [&](const std::string& value) {
                return on ? value == key.on : value != key.on;
              });
  }
  return asked ? allowed : !on;
}

void Space::for_each(const Scenario& base, Layout layout,
                     const std::function<bool(std::string_view key)>& chooses,
                     const std::function<void(const Layout&)>& visit) const {
  const std::span<const LayoutKey> keys = layout_keys();
  std::vector<std::map<int, bool>> known(keys.size());  // by value, whether it is allowed
  const auto allowed = [&](std::size_t i, int value) {
    if (value == kAsScenario || !names(keys[i].key)) return true;
    const auto [found, is_new] = known[i].try_emplace(value);
    if (is_new) found->second = allows(keys[i].key, keys[i].word(value));
    return found->second;
  };
  const auto choose = [&](const auto& self, std::size_t i) -> void {
    if (i == keys.size()) {
      visit(layout);
    } else if (!chooses(keys[i].key) || (keys[i].only_named && !names(keys[i].key))) {
      self(self, i + 1);
    } else {
      for (const int value : keys[i].values(base, layout)) {
        if (!allowed(i, value)) continue;
        keys[i].set(&layout, value);
        self(self, i + 1);
      }
    }
  };
  choose(choose, 0);
}

std::vector<Layout> Space::cuts(const Scenario& base) const {
  std::vector<Layout> found;
  for_each(base, {}, cuts_model, [&](const Layout& cut) { found.push_back(cut); });
  return found;
}

std::vector<Layout> Space::layouts(const Scenario& base, const Layout& cut) const {
  std::vector<Layout> found;
  for_each(base, cut, std::not_fn(cuts_model), [&](const Layout& layout) {
    if (runs(base, {.layout = layout}, FrameworkRule::OfLayout) &&
        check_plan(base.job.model, plan_with(base, layout)).ok())
      found.push_back(layout);
  });
  return found;
}

std::vector<Layout> Space::micro_batches(const Scenario& base, const Layout& cut) const {
  const auto chooses = [](std::string_view key) { return key == "parallel.micro_batch"; };
  std::vector<Layout> found;
  for_each(base, cut, chooses, [&](const Layout& layout) { found.push_back(layout); });
  return found;
}

std::vector<const OrderTraits*> Space::orders(const Scenario& base, const Layout& layout) const {
  const int microbatches = base.job.plan.global_batch / (layout.micro_batch * layout.dp);
  std::vector<const OrderTraits*> found;
  for (const OrderTraits& order : base.job.order.orders) {
    if (fits(order, layout) && allows("schedule.order", std::string(order.name)) &&
        can_order(base, order, layout, microbatches))
      found.push_back(&order);
  }
  return found;
}

std::vector<Playing> Space::playings(const Scenario& base, const Layout& layout) const {
  return playings(base, layout, orders(base, layout));
}

std::vector<Playing> Space::playings(const Scenario& base, const Layout& layout,
                                     std::span<const OrderTraits* const> orders) const {
  std::vector<Playing> found;
  for (const OrderTraits* order : orders) {
    const bool exchanges = order->exchanges != BatchedP2p::Never;
    const auto add = [&](bool overlap_p2p) {
      const Playing playing{order->name, overlap_p2p};
      if (runs(base, {layout, playing, {}}, FrameworkRule::OfPlaying)) found.push_back(playing);
    };
    if (layout.pp == 1) {
      add(false);
      continue;
    }
    if (exchanges && allows("overlap.p2p", "false")) add(false);
    if (allows("overlap.p2p", "true")) add(true);
  }
  return found;
}

std::vector<Sharing> Space::sharings(const Scenario& base, const Layout& layout,
                                     const Playing& playing) const {
  const int chains = traits_of(playing.order, base.job.order.orders).chains;
  const bool shares = layout.dp * layout.cp * chains > 1;
  std::vector<Sharing> found;
  found.reserve(12);
  const auto flags = [&](std::string_view key) {
    return std::array{allows(key, flag_word(0)), allows(key, flag_word(1))};
  };
  const auto reduces = flags("overlap.grad_reduce"), gathers = flags("overlap.param_gather");
  // In a pipeline ZeRO 2 and 3 communicate as 1 does, and hold no less.
  const auto add = [&](const Sharing& cut) {
    for (const bool reduce : {false, true}) {
      if (!reduces[reduce ? 1 : 0] || (reduce && !shares)) continue;
      for (const bool gather : {false, true}) {
        if (!gathers[gather ? 1 : 0] || (gather && cut.zero == 0)) continue;
        const Sharing sharing{cut.zero, reduce, gather, cut.hsdp_shard, cut.zero_hpz};
        if (runs(base, {layout, playing, sharing}, FrameworkRule::OfSharing))
          found.push_back(sharing);
      }
    }
  };
  const std::vector<int> shards = numbers("parallel.hsdp_shard"),
                         seconds = numbers("parallel.zero_hpz");
  for (int zero = 0; zero <= (!shares ? 0 : layout.pp > 1 ? 1 : 3); ++zero) {
    if (!allows("train.zero", number_word(zero))) continue;
    for (const int shard : shards) {
      for (const int second : seconds) {
        const Sharing cut{.zero = zero, .hsdp_shard = shard, .zero_hpz = second};
        if (cuts_state(base, {layout, playing, cut})) add(cut);
      }
    }
  }
  return found;
}

Plan plan_of(const Scenario& base, const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  Plan plan = plan_with(base, layout);
  plan.zero = sharing.zero;
  if (sharing.zero > 0) plan.hsdp_shard = chosen(sharing.hsdp_shard, base.job.plan.hsdp_shard);
  if (sharing.zero == 3 && layout.pp == 1)
    plan.zero_hpz = chosen(sharing.zero_hpz, base.job.plan.zero_hpz);
  return plan;
}

Scenario with(const Scenario& base, const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  Scenario scenario = base;
  scenario.name = text_of(candidate);
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
  const bool pairs = order.pairs || order.exchanges == BatchedP2p::Pairs;
  scenario.job.expert_overlap = base.job.expert_overlap && pairs;
  scenario.job.data.zero = sharing.zero;
  scenario.job.data.grad_reduce = sharing.grad_reduce;
  scenario.job.data.param_gather = sharing.param_gather;
  if (layout.precision != kAsScenario && scenario.costs.calibrated)
    CHECK(complete_calibration(&scenario).ok());
  return scenario;
}

Candidate candidate_of(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  const std::span<const OrderTraits> orders = scenario.job.order.orders;
  const auto alone = std::ranges::find(orders, false, &OrderTraits::pipelines);
  const OrderTraits& order =
      plan.pp == 1 && alone != orders.end() ? *alone : traits_of(scenario.job.order);
  const bool exchanges = order.exchanges == BatchedP2p::EachAction;
  Layout layout{.tensor = scenario.job.tensor.method};
  for (const LayoutKey& key : layout_keys()) {
    if (key.read != nullptr) key.read(&layout, plan);
  }
  layout.expert_tp = scenario.job.model.is_moe() ? plan.expert_tensor() : 0;
  return {layout,
          {order.name.empty() ? default_order(1) : order.name,
           plan.pp > 1 && scenario.job.overlap_p2p.value_or(!exchanges)},
          {plan.zero, scenario.job.data.grad_reduce, scenario.job.data.param_gather}};
}

namespace {

// What the scenario may say and a chosen precision does not go with: as write_named() has it.
std::vector<std::pair<std::string, std::string>> undone_by(const Layout& layout) {
  const bool not_fp8 = layout.precision != kAsScenario && layout.precision != precision_of("fp8");
  std::vector<std::pair<std::string, std::string>> settings;
  if (not_fp8) settings.emplace_back("train.fp8_recipe", "delayed");
  if (not_fp8 || layout.fp8_recipe > 0) settings.emplace_back("train.amax_reduction", "all");
  if (not_fp8 && layout.precision != precision_of("nvfp4"))
    settings.emplace_back("train.fp8_param_gather", "false");
  return settings;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_of(const Candidate& candidate) {
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
  for (const auto& undone : undone_by(layout)) settings.push_back(undone);
  settings.emplace_back("schedule.order", playing.order);
  settings.emplace_back("overlap.p2p", flag_word(playing.overlap_p2p ? 1 : 0));
  settings.emplace_back("train.zero", number_word(sharing.zero));
  if (sharing.hsdp_shard > 0)
    settings.emplace_back("parallel.hsdp_shard", number_word(sharing.hsdp_shard));
  if (sharing.zero_hpz > 0)
    settings.emplace_back("parallel.zero_hpz", number_word(sharing.zero_hpz));
  settings.emplace_back("overlap.grad_reduce", flag_word(sharing.grad_reduce ? 1 : 0));
  settings.emplace_back("overlap.param_gather", flag_word(sharing.param_gather ? 1 : 0));
  return settings;
}

std::string text_of(const Candidate& candidate) {
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
    overlaps.push_back(fmt::format("tensor {}", name(layout.tensor)));
  if (layout.overlap_context) overlaps.emplace_back("context");
  if (playing.overlap_p2p) overlaps.emplace_back("p2p");
  if (sharing.grad_reduce) overlaps.emplace_back("grads");
  if (sharing.param_gather) overlaps.emplace_back("params");
  if (!overlaps.empty()) text += fmt::format(" overlap {}", fmt::join(overlaps, "+"));
  if (layout.scatter_gather) text += " scatter-gather";
  return text;
}

}  // namespace tandem
