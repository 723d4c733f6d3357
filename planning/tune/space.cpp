// A Space is a list of restrictions: a key has one of some values. They come from the user
// (--among) or a framework. for_each() visits all layouts, key by key in the order of
// layout_keys(); playings() and sharings() list the rest of a candidate. A plan must also keep the
// model's rules (check_model) and the framework's.
#include "planning/tune/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"
#include "base/split.h"
#include "planning/tune/frameworks.h"
#include "planning/tune/layout_keys.h"
#include "planning/tune/refinement.h"
#include "scenarios/costs.h"
#include "scenarios/tensor_settings.h"
#include "workload/model/muon.h"

namespace tandem {
namespace {

constexpr std::string_view kModulesKey = "train.recompute_modules";

// Returns the words that the key may have; empty if it has numbers.
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

// Returns the word by which a key with numbers calls 0; empty: it has none.
std::string_view word_of_zero(std::string_view key) {
  if (key == "parallel.hsdp_shard") return "all";
  return key == "parallel.zero_hpz" ? "none" : "";
}

// Whether the value is a number from 1 to 9,999,999.
bool is_count(const std::string& value) {
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
    const std::string_view zero = word_of_zero(key);
    if (is_count(value) || (!zero.empty() && value == zero)) return Done{};
    return refused(fmt::format("{}a whole number of at least 1",
                               zero.empty() ? "" : fmt::format("{} or ", zero)));
  }
  if (std::ranges::find(words, value) != words.end()) return Done{};
  return refused(fmt::format("one of {}{}", fmt::join(words, ", "),
                             value.empty() ? "" : "; nearest is '" + nearest(value, words) + "'"));
}

// Whether Space::cuts() chooses the key: it says how the model is cut over GPUs, or its precision.
bool belongs_to_cut(std::string_view key) {
  constexpr std::string_view kCuts[] = {"parallel.tp",         "parallel.cp",
                                        "parallel.pp",         "parallel.dp",
                                        "parallel.ep",         "parallel.expert_tp",
                                        "parallel.dispatcher", "train.precision",
                                        "train.fp8_recipe",    "train.sequence_parallel"};
  return std::ranges::find(kCuts, key) != std::end(kCuts);
}

// Whether the order's own rules allow this layout.
bool can_order(const Scenario& base, const OrderTraits& order, const Layout& layout) {
  return check_order({.name = std::string(order.name),
                      .pp = layout.pp,
                      .vpp = layout.vpp,
                      .microbatches = layout.microbatches(base),
                      .orders = base.job.order.orders})
      .ok();
}

// Whether the optimizer and the rules allow the candidate's hsdp_shard and zero_hpz, with its stage
// of ZeRO. plan_of() drops a zero_hpz that does not go with the rest: then the answer is no.
bool can_cut_state(const Scenario& base, const Candidate& candidate) {
  const Sharing& sharing = candidate.sharing;
  const Plan plan = plan_of(base, candidate);
  if (!check_muon(plan).ok()) return false;
  if (chosen(sharing.hsdp_shard, base.job.plan.hsdp_shard) == 0 &&
      chosen(sharing.zero_hpz, base.job.plan.zero_hpz) == 0)
    return true;
  return sharing.zero > 0 && plan.zero_hpz == chosen(sharing.zero_hpz, plan.zero_hpz) &&
         check_model(base.job.model, plan).ok();
}

// Returns the keys that the candidate sets with every refinement on.
std::vector<std::string> keys_set_by(const Candidate& candidate) {
  const Refinement all{.layout = true, .vocabulary = true, .order = true};
  std::vector<std::string> keys;
  for (const auto& [key, value] : plan_settings(candidate, all)) keys.push_back(key);
  return keys;
}

}  // namespace

// plan_settings() leaves out keys that stay as in the scenario: here none does.
std::vector<std::string> Space::keys() {
  const Layout layout{.expert_tp = 1,
                      .precision = precision_of("fp8"),
                      .fp8_recipe = 0,
                      .dispatcher = 0,
                      .recompute_modules = 1};
  return keys_set_by({layout, {}, {.hsdp_shard = 1, .zero_hpz = 1}});
}

std::vector<std::string> Space::own_keys() { return keys_set_by({.layout = {.expert_tp = 1}}); }

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
    if (space.names(key))
      return Error{fmt::format("--among: found {} twice, expected all its values in one", key)};
    std::vector<std::string> values = split(text.substr(equals + 1) + ",", ",");
    for (std::string& value : values) {
      RETURN_IF_ERROR(check_value(key, value, orders));
      if (key == kModulesKey) value = modules_word(modules_of(value));
    }
    space.restrictions_.push_back({key, values});
  }
  return space;
}

Space Space::only(const std::string& key, const std::vector<std::string>& values) const {
  Space narrow = *this;
  narrow.restrictions_.push_back({key, values});
  return narrow;
}

Space Space::run_by(const Framework& framework) const {
  Space narrow = *this;
  for (const AllowedValues& allowed : framework.values)
    narrow.restrictions_.push_back(
        {std::string(allowed.key), split(allowed.values, ","), /*by_framework=*/true});
  narrow.framework_ = &framework;
  return narrow;
}

bool Space::runs(const Scenario& base, const Candidate& candidate, int part) const {
  return framework_ == nullptr ||
         std::ranges::all_of(framework_->rules, [&](const FrameworkRule& rule) {
           const int last = rule.part == FrameworkRule::OfCut ? FrameworkRule::OfLayout : rule.part;
           return last != part || rule.holds(base, candidate);
         });
}

bool Space::names(std::string_view key) const {
  return std::ranges::any_of(
      restrictions_, [&](const Restriction& restriction) { return restriction.key == key; });
}

std::vector<std::string> Space::named(std::string_view key) const {
  for (const Restriction& restriction : restrictions_) {
    if (restriction.key != key) continue;
    std::vector<std::string> all = restriction.values;
    std::erase_if(all, [&](const std::string& value) { return !allows(key, value); });
    return all;
  }
  return {};
}

std::vector<int> Space::numbers(std::string_view key) const {
  if (!names(key)) return {kAsScenario};
  std::vector<int> found;
  for (const std::string& value : named(key)) {
    const int number = value == word_of_zero(key) ? 0 : std::stoi(value);
    if (std::ranges::find(found, number) == found.end()) found.push_back(number);
  }
  return found;
}

bool Space::allows(std::string_view key, const std::string& value) const {
  return std::ranges::all_of(restrictions_, [&](const Restriction& restriction) {
    if (restriction.key != key) return true;
    // "auto" alone asks for the refinement, and excludes no order that it may start from.
    const bool only_refines =
        key == "schedule.order" && restriction.values == std::vector<std::string>{"auto"};
    return only_refines || std::ranges::find(restriction.values, value) != restriction.values.end();
  });
}

bool Space::allows_refinement(std::string_view name, bool on) const {
  const RefinementKey& key = *std::ranges::find(refinement_keys(), name, &RefinementKey::key);
  bool asked = false, allowed = true;
  for (const Restriction& restriction : restrictions_) {
    if (restriction.key != key.key) continue;
    asked = true;
    allowed = allowed && std::ranges::any_of(restriction.values, [&](const std::string& value) {
                return on ? value == key.on : value != key.on;
              });
  }
  return asked ? allowed : !on;
}

void Space::for_each(const Scenario& base, Layout layout,
                     const std::function<bool(std::string_view key)>& chooses,
                     const std::function<bool(const Layout&)>& visit) const {
  const std::span<const LayoutKey> keys = layout_keys();
  std::vector<std::map<int, bool>> known(keys.size());  // whether a key's value is allowed
  const auto allowed = [&](std::size_t i, int value) {
    if (!names(keys[i].key)) return true;
    const auto [found, is_new] = known[i].try_emplace(value);
    if (is_new) found->second = allows(keys[i].key, keys[i].word(value));
    return found->second;
  };
  // Tries all values of key i, and for each of them those of the keys after it.
  const auto choose = [&](const auto& self, std::size_t i) -> bool {
    if (i == keys.size()) return visit(layout);
    if (!chooses(keys[i].key) || (keys[i].only_named && !names(keys[i].key)))
      return self(self, i + 1);
    // A key that makes no difference for this layout keeps its default.
    if (keys[i].concerns != nullptr && !keys[i].concerns(base, layout)) {
      keys[i].set(&layout, keys[i].get(Layout{}));
      return self(self, i + 1);
    }
    std::vector<int> values = keys[i].values(base, layout);
    if (keys[i].tries_named && names(keys[i].key)) values = numbers(keys[i].key);
    return std::ranges::all_of(values, [&](int value) {
      if (!allowed(i, value)) return true;
      keys[i].set(&layout, value);
      return self(self, i + 1);
    });
  };
  choose(choose, 0);
}

std::vector<Layout> Space::cuts(const Scenario& base) const {
  std::vector<Layout> found;
  for_each(base, {}, belongs_to_cut, [&](const Layout& cut) {
    found.push_back(cut);
    return true;
  });
  return found;
}

std::vector<Layout> Space::layouts(const Scenario& base, const Layout& cut) const {
  std::vector<Layout> found;
  for_each(base, cut, std::not_fn(belongs_to_cut), [&](const Layout& layout) {
    const Plan plan = plan_of(base, {.layout = layout});
    const bool equals_none = recomputes_nothing(plan) && allows("train.recompute", "none");
    if (!equals_none && runs(base, {.layout = layout}, FrameworkRule::OfLayout) &&
        check_plan(base.job.model, plan).ok())
      found.push_back(layout);
    return true;
  });
  return found;
}

std::vector<Layout> Space::micro_batches(const Scenario& base, const Layout& cut) const {
  const auto chooses = [](std::string_view key) { return key == "parallel.micro_batch"; };
  std::vector<Layout> found;
  for_each(base, cut, chooses, [&](const Layout& layout) {
    found.push_back(layout);
    return true;
  });
  return found;
}

std::vector<const OrderTraits*> Space::orders(const Scenario& base, const Layout& layout) const {
  std::vector<const OrderTraits*> found;
  const auto allowed = [&](std::string_view name) {
    return layout.pp == 1 || allows("schedule.order", std::string(name));
  };
  for (const OrderTraits& order : base.job.order.orders) {
    if (order.pipelines != (layout.pp > 1) || !allowed(order.name)) continue;
    // With too few stages on a rank an order is the same as the default one (interleaved with vpp 1
    // is 1F1B), and only the default one is listed.
    const bool equals_default = layout.vpp < order.least_vpp && allowed(default_order(layout.vpp));
    if (!equals_default && can_order(base, order, layout)) found.push_back(&order);
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

std::vector<int> Space::zero_stages(const Scenario& base, const Layout& layout,
                                    const Playing& playing) const {
  const bool shares = concerns(base, {layout, playing, {}}, "train.zero");
  std::vector<int> stages = {0};
  if (shares) stages = {0, 1, 2, 3};
  // In a pipeline ZeRO 2 and 3 hold no less than ZeRO 1 and communicate as often: unless named,
  // they are not tried.
  if (shares && layout.pp > 1 && !names("train.zero")) stages = {0, 1};
  // Megatron-LM keeps remainders of bf16 parameters in its distributed optimizer, which is ZeRO 1.
  if (base.job.plan.param_remainders) {
    stages = {1};
    if (plan_of(base, {.layout = layout}).precision != "bf16") return {};
  }
  if (shares)
    std::erase_if(stages, [&](int zero) { return !allows("train.zero", number_word(zero)); });
  return stages;
}

std::vector<Sharing> Space::sharings(const Scenario& base, const Layout& layout,
                                     const Playing& playing) const {
  std::vector<Sharing> found;
  found.reserve(12);
  // Returns the numbers to try for a key, with this ZeRO stage. A key that does not concern the
  // plan is off (0), or as in the scenario if it is not named.
  const auto numbers_to_try = [&](std::string_view key, int zero) {
    if (concerns(base, {layout, playing, {.zero = zero}}, key)) return numbers(key);
    return std::vector{names(key) ? 0 : kAsScenario};
  };
  // Returns whether off, and whether on, is allowed. A key that does not concern the plan is off.
  const auto allowed_flags = [&](std::string_view key, int zero) {
    if (!concerns(base, {layout, playing, {.zero = zero}}, key)) return std::array{true, false};
    return std::array{allows(key, flag_word(0)), allows(key, flag_word(1))};
  };
  const auto grad_reduce = allowed_flags("overlap.grad_reduce", 0);
  // Without virtual stages Megatron-LM always gathers parameters only when they are used.
  const bool aligns = base.job.data.align_param_gather &&
                      (base.job.plan.trainer != Trainer::Megatron || layout.vpp > 1);
  const auto add_overlaps = [&](const Sharing& cut) {
    const auto param_gather = allowed_flags("overlap.param_gather", cut.zero);
    for (const bool reduce : {false, true}) {
      for (const bool gather : {false, true}) {
        if (!grad_reduce[reduce ? 1 : 0] || !param_gather[gather ? 1 : 0]) continue;
        Sharing sharing{cut.zero, reduce, gather, cut.hsdp_shard, cut.zero_hpz};
        // Without gathers it has no effect and is true, its default.
        sharing.align_param_gather = aligns || !gather;
        if (runs(base, {layout, playing, sharing}, FrameworkRule::OfSharing))
          found.push_back(sharing);
      }
    }
  };
  for (const int zero : zero_stages(base, layout, playing)) {
    const std::vector<int> hpz_sizes = numbers_to_try("parallel.zero_hpz", zero);
    for (const int shard : numbers_to_try("parallel.hsdp_shard", zero)) {
      for (const int hpz : hpz_sizes) {
        const Sharing cut{.zero = zero, .hsdp_shard = shard, .zero_hpz = hpz};
        if (can_cut_state(base, {layout, playing, cut})) add_overlaps(cut);
      }
    }
  }
  return found;
}

bool Space::has(const Scenario& base, const Candidate& candidate) const {
  const auto is_allowed = [&](const auto& setting) {
    return allows(setting.first, setting.second) || !concerns(base, candidate, setting.first);
  };
  return std::ranges::all_of(plan_settings(candidate), is_allowed) &&
         runs(base, candidate, FrameworkRule::OfLayout) &&
         runs(base, candidate, FrameworkRule::OfPlaying) &&
         runs(base, candidate, FrameworkRule::OfSharing) &&
         check_plan(base.job.model, plan_of(base, candidate)).ok();
}

Space Space::without(const std::function<bool(const Restriction&)>& is_left_out) const {
  Space wider = *this;
  std::erase_if(wider.restrictions_, is_left_out);
  return wider;
}

Space::Counted Space::counted(const Scenario& base) const {
  constexpr std::int64_t kMostPlans = 10'000, kMostLayouts = 100'000;
  Counted found;
  std::int64_t layouts = 0;
  const auto count = [&](const Layout& layout) {
    const Status status = check_plan(base.job.model, plan_of(base, {.layout = layout}));
    if (!status.ok()) {
      const Error& error = status.error();
      Refused& refused =
          found.refused[error.place.keys.empty() ? error.message : error.place.keys.front()];
      if (refused.layouts++ == 0) refused.first_message = error.message;
    } else if (runs(base, {.layout = layout}, FrameworkRule::OfLayout)) {
      for (const Playing& playing : playings(base, layout))
        found.plans += static_cast<std::int64_t>(sharings(base, layout, playing).size());
    }
    return ++layouts < kMostLayouts && found.plans < kMostPlans;
  };
  const auto all = [](std::string_view) { return true; };
  for_each(base, {}, all, count);
  return found;
}

std::vector<std::string_view> Space::rules_that_empty(const Scenario& base) const {
  std::vector<std::string_view> rules;
  for (const FrameworkRule& rule : framework_->rules) {
    std::vector<FrameworkRule> others;
    for (const FrameworkRule& other : framework_->rules) {
      if (&other != &rule) others.push_back(other);
    }
    Framework wider = *framework_;
    wider.rules = others;
    Space space = *this;
    space.framework_ = &wider;
    if (space.counted(base).plans > 0) rules.push_back(rule.what);
  }
  return rules;
}

// Tries the space without each of its restrictions, then without all of them.
std::string Space::why_empty(const Scenario& base) const {
  if (counted(base).plans > 0) return "";
  const auto plans_text = [](std::int64_t number) {
    return fmt::format("{}{} plan{}", number >= 10'000 ? "at least " : "", number,
                       number == 1 ? "" : "s");
  };
  std::vector<std::string> restrictions, culprits;
  const auto try_without = [&](const std::string& restriction, const Space& wider,
                               const std::string& rules = "") {
    restrictions.push_back(restriction);
    const std::int64_t number = wider.counted(base).plans;
    if (number > 0)
      culprits.push_back(fmt::format("{} excludes {}{}", restriction, plans_text(number), rules));
  };
  std::set<std::string> keys;
  for (const Restriction& restriction : restrictions_) {
    if (restriction.by_framework || !keys.insert(restriction.key).second) continue;
    const auto is_this = [&](const Restriction& other) {
      return !other.by_framework && other.key == restriction.key;
    };
    try_without(fmt::format("--among {}={}", restriction.key, fmt::join(restriction.values, ",")),
                without(is_this));
  }
  Space without_framework =
      without([](const Restriction& restriction) { return restriction.by_framework; });
  without_framework.framework_ = nullptr;
  if (framework_ != nullptr) {
    const std::vector<std::string_view> rules = rules_that_empty(base);
    try_without(fmt::format("--framework {}", framework_->name), without_framework,
                rules.empty() ? "" : fmt::format(" by its rule '{}'", fmt::join(rules, "' or '")));
  }
  if (!culprits.empty())
    return fmt::format("{}; all other options allow these", fmt::join(culprits, "; "));
  const Counted all = Space().counted(base);
  if (all.plans > 0)
    return fmt::format("{} exclude {} together", fmt::join(restrictions, " and "),
                       plans_text(all.plans));
  if (all.refused.empty()) return "";
  const auto& [key, refused] = *std::ranges::max_element(
      all.refused, {}, [](const auto& entry) { return entry.second.layouts; });
  return fmt::format("the model's rules refuse {} of its cuts for {}, the first by {}",
                     refused.layouts, key, refused.first_message);
}

}  // namespace tandem
