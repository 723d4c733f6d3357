// The table of the numbers that make a layout. A search chooses them from the first to the last:
// a key's values depend on those before it, as dp is GPUs / (tp x cp x pp).
#include "planning/tune/layout_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "base/split.h"
#include "scenarios/costs.h"
#include "workload/cost/kernel.h"

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

constexpr const char* kRecomputes[] = {"none", "selective", "full"};
constexpr std::string_view kPrecisions[] = {"fp32", "fp16", "bf16", "fp8", "nvfp4"};
constexpr const char* kFp8Recipes[] = {"delayed", "current", "blockwise", "mxfp8", "rowwise"};
constexpr const char* kDispatchers[] = {"alltoall", "allgather", "deepep", "hybridep"};
constexpr int kModules = static_cast<int>(std::size(kRecomputeModules));

std::string method_word(int value) {
  return std::string(tensor_method_name(static_cast<TensorMethod>(value)));
}
std::string precision_word(int value) { return std::string(kPrecisions[value]); }
std::string fp8_recipe_word(int value) { return kFp8Recipes[value]; }
std::string layers_word(int value) { return number_word(value == kAllLayers ? -1 : value); }
std::string dispatcher_word(int value) { return kDispatchers[value]; }

// Returns 0, 1, ..., count - 1.
Ints up_to(int count) {
  Ints all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Ints flags(const Scenario&, const Layout&) { return {0, 1}; }

// Returns the precisions for which the GPU's FLOP/s are known.
Ints precisions(const Scenario& base, const Layout&) {
  Ints all = up_to(std::size(kPrecisions));
  std::erase_if(all, [&](int i) {
    return !base.cluster.spec.device.flops_per_s.contains(precision_word(i));
  });
  return all;
}

// Returns the recipes that the GPU's tensor cores have.
Ints fp8_recipes(const Scenario& base, const Layout&) {
  Ints all = up_to(std::size(kFp8Recipes));
  std::erase_if(all, [&](int i) {
    Plan plan = base.job.plan;
    plan.precision = "fp8";
    plan.fp8_recipe = static_cast<Fp8Recipe>(i);
    return lacks_recipe(base, plan);
  });
  return all;
}

bool is_fp8(const Scenario& base, const Layout& layout) {
  return layout.precision == kAsScenario ? base.job.plan.precision == "fp8"
                                         : layout.precision == precision_of("fp8");
}

// Writes the precision, and resets settings that exist only with another one.
void write_precision(const Layout& layout, Plan* plan) {
  if (layout.precision != kAsScenario) plan->precision = precision_word(layout.precision);
  if (plan->precision != "fp8") {
    plan->fp8_recipe = Fp8Recipe::Delayed;
    plan->amax_reduction = AmaxReduction::All;
  }
  if (!is_quantized(plan->precision)) plan->fp8_param_gather = plan->fp8_attention = false;
}

void write_fp8_recipe(const Layout& layout, Plan* plan) {
  if (layout.fp8_recipe == kAsScenario) return;
  plan->fp8_recipe = static_cast<Fp8Recipe>(layout.fp8_recipe);
  if (plan->fp8_recipe != Fp8Recipe::Delayed) plan->amax_reduction = AmaxReduction::All;
  if (plan->fp8_recipe == Fp8Recipe::Rowwise) plan->fp8_param_gather = false;
}

void write_dispatcher(const Layout& layout, Plan* plan) {
  if (layout.dispatcher != kAsScenario)
    plan->dispatcher = static_cast<Dispatcher>(layout.dispatcher);
}

void write_modules(const Layout& layout, Plan* plan) {
  if (layout.recompute_modules == kAsScenario) return;
  for (int i = 0; i < kModules; ++i)
    plan->recompute_modules.*kRecomputeModules[i].place = (layout.recompute_modules >> i & 1) != 0;
}

// Lambdas for `member`. LAYOUT_MEMBER: get and set it in a layout. PLAN_MEMBER: also read it from a
// plan and write it to one, where it has the same name.
#define LAYOUT_MEMBER(member)                                 \
  [](const Layout& l) { return static_cast<int>(l.member); }, \
      [](Layout* l, int value) { l->member = static_cast<decltype(l->member)>(value); }
#define PLAN_MEMBER(member)                                                      \
  LAYOUT_MEMBER(member), [](Layout* l, const Plan& p) { l->member = p.member; }, \
      [](const Layout& l, Plan* p) { p->member = l.member; }

using S = const Scenario&;
using L = const Layout&;

// In the order of LayoutKey's members: key, word, values, concerns (null: always), then the lambdas
// of PLAN_MEMBER(), or of LAYOUT_MEMBER() with read and write, then only_named and tries_named.
const LayoutKey kLayoutKeys[] = {
    {"parallel.tp", number_word, [](S s, L) { return divisors(s.cluster.gpus); }, nullptr,
     PLAN_MEMBER(tp)},
    {"parallel.cp", number_word, [](S s, L l) { return divisors(s.cluster.gpus / l.tp); }, nullptr,
     PLAN_MEMBER(cp)},
    {"parallel.pp", number_word, [](S s, L l) { return divisors(s.cluster.gpus / (l.tp * l.cp)); },
     nullptr, PLAN_MEMBER(pp)},
    {"parallel.dp", number_word,
     [](S s, L l) {
       const int dp = s.cluster.gpus / (l.tp * l.cp * l.pp);
       return s.job.plan.global_batch % dp == 0 ? Ints{dp} : Ints{};
     },
     nullptr, PLAN_MEMBER(dp)},
    {"parallel.expert_tp", number_word,
     [](S, L l) {
       return l.tp == 1 ? Ints{1} : Ints{1, l.tp};
     },
     [](S s, L) { return s.job.model.is_moe(); }, PLAN_MEMBER(expert_tp), /*only_named=*/false,
     /*tries_named=*/true},
    {"parallel.ep", number_word,
     [](S s, L l) {
       Ints all = divisors(expert_layer(s.job.model).experts);
       std::erase_if(all, [&](int ep) { return l.pipeline_rank_gpus() % (ep * l.expert_tp) != 0; });
       return all;
     },
     [](S s, L) { return s.job.model.is_moe(); }, PLAN_MEMBER(ep)},
    {"parallel.vpp", number_word,
     [](S s, L l) {
       // Up to a layer on each stage. Embedding and head count as layers, as they may have a stage
       // of their own.
       Ints all(std::max(1, (s.job.model.layers + 2) / l.pp));
       std::iota(all.begin(), all.end(), 1);
       return all;
     },
     [](S, L l) { return l.pp > 1; }, PLAN_MEMBER(vpp)},
    {"parallel.micro_batch", number_word,
     [](S s, L l) { return divisors(s.job.plan.global_batch / l.dp); }, nullptr,
     PLAN_MEMBER(micro_batch)},
    {"train.precision", precision_word, precisions, nullptr, LAYOUT_MEMBER(precision), nullptr,
     write_precision, /*only_named=*/true},
    {"train.fp8_recipe", fp8_recipe_word, fp8_recipes, is_fp8, LAYOUT_MEMBER(fp8_recipe), nullptr,
     write_fp8_recipe, /*only_named=*/true},
    {"parallel.dispatcher", dispatcher_word, [](S, L) { return up_to(std::size(kDispatchers)); },
     [](S, L l) { return l.ep > 1; }, LAYOUT_MEMBER(dispatcher), nullptr, write_dispatcher,
     /*only_named=*/true},
    {"train.recompute", recompute_word, [](S, L) { return up_to(std::size(kRecomputes)); }, nullptr,
     PLAN_MEMBER(recompute)},
    {"train.recompute_layers", layers_word,
     [](S s, L l) {
       return l.recompute == Recompute::Full ? Ints{kAllLayers, s.job.plan.recompute_layers}
                                             : Ints{kAllLayers};
     },
     [](S s, L) { return !s.job.plan.recomputes_alike(); }, LAYOUT_MEMBER(recompute_layers),
     [](Layout* l, const Plan& p) { l->recompute_layers = p.recompute_layers; },
     [](L l, Plan* p) {
       p->recompute_layers = l.recompute_layers == kAllLayers ? -1 : l.recompute_layers;
     }},
    {"train.recompute_modules", modules_word,
     [](S, L) {
       Ints some = up_to(1 << kModules);
       some.erase(some.begin());  // 0: no module
       return some;
     },
     [](S, L l) { return l.recompute == Recompute::Selective; }, LAYOUT_MEMBER(recompute_modules),
     nullptr, write_modules, /*only_named=*/true},
    {"train.sequence_parallel", flag_word, flags, [](S, L l) { return l.tp > 1; },
     PLAN_MEMBER(sequence_parallel)},
    {"overlap.tensor", method_word,
     [](S, L l) {
       return l.sequence_parallel ? Ints{0, 1, 2, 3} : Ints{0};
     },
     [](S, L l) { return l.tp > 1; }, LAYOUT_MEMBER(tensor)},
    {"overlap.context", flag_word, flags, [](S, L l) { return l.cp > 1; },
     PLAN_MEMBER(overlap_context)},
    {"parallel.scatter_gather", flag_word, flags,
     [](S, L l) { return l.tp > 1 && l.pp > 1 && !l.sequence_parallel; },
     PLAN_MEMBER(scatter_gather)},
};
#undef PLAN_MEMBER
#undef LAYOUT_MEMBER

std::vector<std::string> words_of(std::span<const char* const> words) {
  return {words.begin(), words.end()};
}

}  // namespace

std::span<const LayoutKey> layout_keys() { return kLayoutKeys; }

void write_named(const Layout& layout, Plan* plan) {
  for (const LayoutKey& key : kLayoutKeys) {
    if (key.only_named) key.write(layout, plan);
  }
}

std::string number_word(int value) { return std::to_string(value); }
std::string flag_word(int value) { return value != 0 ? "true" : "false"; }
std::string recompute_word(int value) { return kRecomputes[value]; }

std::vector<std::string> layout_words(std::string_view key) {
  const auto found = std::ranges::find(kLayoutKeys, key, &LayoutKey::key);
  if (found == std::end(kLayoutKeys)) return {};
  if (found->word == flag_word) return {"true", "false"};
  if (found->word == recompute_word) return words_of(kRecomputes);
  if (found->word == method_word) return {"off", "bulk", "pipelined", "ring"};
  if (found->word == precision_word) return {std::begin(kPrecisions), std::end(kPrecisions)};
  if (found->word == fp8_recipe_word) return words_of(kFp8Recipes);
  if (found->word == dispatcher_word) return words_of(kDispatchers);
  return {};
}

int precision_of(std::string_view word) {
  const auto found = std::ranges::find(kPrecisions, word);
  CHECK(found != std::end(kPrecisions));
  return static_cast<int>(found - std::begin(kPrecisions));
}

std::string modules_word(int modules) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kModules; ++i) {
    if ((modules >> i & 1) != 0) names.push_back(kRecomputeModules[i].name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

int modules_of(std::string_view words) {
  int modules = 0;
  // The "+" behind them gives "" and "core_attn+" an empty last word, which names no module.
  for (const std::string& word : split(std::string(words) + "+", "+")) {
    const auto found = std::ranges::find(kRecomputeModules, word, &RecomputeModule::name);
    if (found == std::end(kRecomputeModules)) return 0;
    modules |= 1 << (found - std::begin(kRecomputeModules));
  }
  return modules;
}

}  // namespace tandem
