#include "planning/tune/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <numeric>

#include "base/nearest.h"
#include "base/split.h"
#include "planning/tune/frameworks.h"
#include "planning/tune/refinement.h"
#include "scenarios/config/tensor_settings.h"

namespace tandem {
namespace {

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

using Ints = std::vector<int>;

std::string number_word(int value) { return std::to_string(value); }
std::string flag_word(int value) { return value != 0 ? "true" : "false"; }
std::string recompute_word(int value) {
  constexpr const char* kWords[] = {"none", "selective", "full"};
  return kWords[value];
}
std::string method_word(int value) { return std::string(name(static_cast<TensorMethod>(value))); }

Ints flags(bool may_be_on) { return may_be_on ? Ints{0, 1} : Ints{0}; }

// One number of a layout: what it can be once those before it are chosen.
struct Dimension {
  std::string_view key;
  std::string (*word)(int);
  Ints (*values)(const Scenario&, const Layout& so_far);
  int (*get)(const Layout&);
  void (*set)(Layout*, int);
  // From and to a plan. Null: it is no member of a plan.
  void (*read)(Layout*, const Plan&) = nullptr;
  void (*write)(const Layout&, Plan*) = nullptr;
};

// What captureless lambdas are to read and to write `member`; of a layout, and of a plan.
#define OF_LAYOUT(member)                                     \
  [](const Layout& l) { return static_cast<int>(l.member); }, \
      [](Layout* l, int value) { l->member = static_cast<decltype(l->member)>(value); }
#define OF(member)                                                           \
  OF_LAYOUT(member), [](Layout* l, const Plan& p) { l->member = p.member; }, \
      [](const Layout& l, Plan* p) { p->member = l.member; }

using S = const Scenario&;
using L = const Layout&;

const Dimension kDimensions[] = {
    {"parallel.tp", number_word, [](S s, L) { return divisors(s.cluster.gpus); }, OF(tp)},
    {"parallel.cp", number_word, [](S s, L l) { return divisors(s.cluster.gpus / l.tp); }, OF(cp)},
    {"parallel.pp", number_word, [](S s, L l) { return divisors(s.cluster.gpus / (l.tp * l.cp)); },
     OF(pp)},
    {"parallel.dp", number_word,
     [](S s, L l) {
       const int dp = s.cluster.gpus / (l.tp * l.cp * l.pp);
       return s.job.plan.global_batch % dp == 0 ? Ints{dp} : Ints{};
     },
     OF(dp)},
    {"parallel.expert_tp", number_word,
     [](S s, L l) {
       if (!s.job.model.is_moe()) return Ints{0};
       return l.tp == 1 ? Ints{1} : Ints{1, l.tp};
     },
     OF(expert_tp)},
    {"parallel.ep", number_word,
     [](S s, L l) {
       return l.expert_tp == 0 ? Ints{1} : divisors(expert_layer(s.job.model).experts);
     },
     OF(ep)},
    {"parallel.vpp", number_word,
     [](S s, L l) {
       Ints all(l.pp == 1 ? 1 : std::max(1, (s.job.model.layers + 2) / l.pp));
       std::iota(all.begin(), all.end(), 1);
       return all;
     },
     OF(vpp)},
    {"parallel.micro_batch", number_word,
     [](S s, L l) { return divisors(s.job.plan.global_batch / l.dp); }, OF(micro_batch)},
    {"train.recompute", recompute_word,
     [](S, L) {
       return Ints{0, 1, 2};
     },
     OF(recompute)},
    {"train.sequence_parallel", flag_word, [](S, L l) { return flags(l.tp > 1); },
     OF(sequence_parallel)},
    {"overlap.tensor", method_word,
     [](S, L l) {
       return l.sequence_parallel ? Ints{0, 1, 2, 3} : Ints{0};
     },
     OF_LAYOUT(tensor)},
    {"overlap.context", flag_word, [](S, L l) { return flags(l.cp > 1); }, OF(overlap_context)},
    {"parallel.scatter_gather", flag_word,
     [](S, L l) { return flags(l.tp > 1 && l.pp > 1 && !l.sequence_parallel); },
     OF(scatter_gather)},
};
#undef OF
#undef OF_LAYOUT

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
  const auto dimension = std::ranges::find(kDimensions, key, &Dimension::key);
  if (dimension == std::end(kDimensions) || dimension->word == flag_word) return {"true", "false"};
  if (dimension->word == recompute_word) return {"none", "selective", "full"};
  if (dimension->word == method_word) return {"off", "bulk", "pipelined", "ring"};
  return {};
}

Status check_value(const std::string& key, const std::string& value,
                   std::span<const OrderTraits> orders) {
  const std::vector<std::string> words = words_of(key, orders);
  if (words.empty()) {
    if (!value.empty() && value.size() < 8 && value.front() != '0' &&
        std::ranges::all_of(value, [](unsigned char c) { return std::isdigit(c) != 0; }))
      return Done{};
    return Error{
        fmt::format("--among: found {} = '{}', expected a whole number of at least 1", key, value)};
  }
  if (std::ranges::find(words, value) != words.end()) return Done{};
  return Error{fmt::format("--among: found {} = '{}', expected one of {}{}", key, value,
                           fmt::join(words, ", "),
                           value.empty() ? "" : "; nearest is '" + nearest(value, words) + "'")};
}

bool cuts_model(std::string_view key) {
  constexpr std::string_view kCuts[] = {"parallel.tp", "parallel.cp",        "parallel.pp",
                                        "parallel.dp", "parallel.expert_tp", "parallel.ep"};
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
  for (const Dimension& dimension : kDimensions) {
    if (dimension.write != nullptr) dimension.write(layout, &plan);
  }
  plan.recompute_layers = -1;
  plan.layers_per_stage.clear();
  plan.mtp_before_loss = false;
  plan.zero = 0;
  plan.hsdp_shard = plan.zero_hpz = 0;
  const auto overlap = tensor_overlap({.method = layout.tensor}, base.job.model, "");
  if (overlap.ok()) plan.tensor_overlap = *overlap;
  return plan;
}

// Whether so many GPUs can cut what the candidate cuts, where the scenario says how many.
bool cuts_state(const Scenario& base, const Candidate& candidate) {
  return (base.job.plan.hsdp_shard == 0 && base.job.plan.zero_hpz == 0) ||
         (candidate.sharing.zero > 0 && check(base.job.model, plan_of(base, candidate)).ok());
}

}  // namespace

std::vector<std::string> Space::keys() {
  std::vector<std::string> keys;
  const Refinement all{.layout = true, .vocabulary = true, .order = true};
  for (const auto& [key, value] : settings_of({.layout = {.expert_tp = 1}}, all))
    keys.push_back(key);
  return keys;
}

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
    const std::vector<std::string> values = split(text.substr(equals + 1) + ",", ",");
    for (const std::string& value : values) RETURN_IF_ERROR(check_value(key, value, orders));
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
  const auto choose = [&](const auto& self, const Dimension* dimension) -> void {
    if (dimension == std::end(kDimensions)) {
      visit(layout);
    } else if (!chooses(dimension->key)) {
      self(self, dimension + 1);
    } else {
      const bool any = std::ranges::none_of(
          only_, [&](const auto& only) { return only.first == dimension->key; });
      for (const int value : dimension->values(base, layout)) {
        if (!any && !allows(dimension->key, dimension->word(value))) continue;
        dimension->set(&layout, value);
        self(self, dimension + 1);
      }
    }
  };
  choose(choose, std::begin(kDimensions));
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
        check(base.job.model, plan_with(base, layout)).ok())
      found.push_back(layout);
  });
  return found;
}

std::vector<Layout> Space::kernels(const Scenario& base, const Layout& cut) const {
  const auto chooses = [](std::string_view key) {
    return key == "parallel.micro_batch" || key == "train.sequence_parallel";
  };
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
  // In a pipeline ZeRO 2 and 3 communicate as 1 does, and hold no less.
  for (int zero = 0; zero <= (!shares ? 0 : layout.pp > 1 ? 1 : 3); ++zero) {
    if (!allows("train.zero", number_word(zero)) || !cuts_state(base, {layout, playing, {zero}}))
      continue;
    for (const bool reduce : {false, true}) {
      if (!allows("overlap.grad_reduce", flag_word(reduce ? 1 : 0)) || (reduce && !shares))
        continue;
      for (const bool gather : {false, true}) {
        if (!allows("overlap.param_gather", flag_word(gather ? 1 : 0)) || (gather && zero == 0))
          continue;
        const Sharing sharing{zero, reduce, gather};
        if (runs(base, {layout, playing, sharing}, FrameworkRule::OfSharing))
          found.push_back(sharing);
      }
    }
  }
  return found;
}

Plan plan_of(const Scenario& base, const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  Plan plan = plan_with(base, layout);
  plan.zero = sharing.zero;
  plan.hsdp_shard = sharing.zero > 0 ? base.job.plan.hsdp_shard : 0;
  plan.zero_hpz = sharing.zero == 3 && layout.pp == 1 ? base.job.plan.zero_hpz : 0;
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
  for (const Dimension& dimension : kDimensions) {
    if (dimension.read != nullptr) dimension.read(&layout, plan);
  }
  layout.expert_tp = scenario.job.model.is_moe() ? plan.expert_tensor() : 0;
  return {layout,
          {order.name.empty() ? default_order(1) : order.name,
           plan.pp > 1 && scenario.job.overlap_p2p.value_or(!exchanges)},
          {plan.zero, scenario.job.data.grad_reduce, scenario.job.data.param_gather}};
}

std::vector<std::pair<std::string, std::string>> settings_of(const Candidate& candidate) {
  const auto& [layout, playing, sharing] = candidate;
  std::vector<std::pair<std::string, std::string>> settings;
  for (const Dimension& dimension : kDimensions) {
    const int value = dimension.get(layout);
    if (dimension.key == "parallel.expert_tp" && value == 0) continue;  // a dense model
    settings.emplace_back(dimension.key, dimension.word(value));
  }
  settings.emplace_back("schedule.order", playing.order);
  settings.emplace_back("overlap.p2p", flag_word(playing.overlap_p2p ? 1 : 0));
  settings.emplace_back("train.zero", number_word(sharing.zero));
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
  if (layout.sequence_parallel) text += " sp";
  if (sharing.zero > 0) text += fmt::format(" zero {}", sharing.zero);
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
