// Looks for changes of a plan that make it fit. Memory needs only an order, so all changes are
// tried; an iteration needs a Program, so only what fits is played.
#include "planning/what_if/memory_fixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/csv.h"
#include "base/parallel/parallel.h"
#include "job/compile.h"
#include "planning/play/play_job.h"
#include "results/result_fields.h"
#include "workload/memory/reserve.h"
#include "workload/memory/trainer.h"

namespace tandem {
namespace {

constexpr std::size_t kMostFixes = 3;
// Two changes are one of the changes that spare the most, so many of them, and any other.
constexpr std::size_t kFirsts = 4;
// Pairs that fit and spare the least are played, so many of them: what saves more memory than is
// missing mostly costs more time.
constexpr std::size_t kMostPairs = 12;

// A change with which a plan fits only if memory is not fragmented gives way to one of its kind
// that takes at most so many times as long and fits for sure.
constexpr double kUnsure = 1.1;

// A change that a user may make. Of one kind, the fastest is suggested.
struct PlanChange {
  std::string_view kind;
  std::string text;                   // "micro batch 1"
  std::vector<std::string> settings;  // "parallel.micro_batch=1"
};

// Changes from the mildest to the strongest.
using Ladder = std::vector<PlanChange>;

// Values of a key, from the mildest to the strongest.
struct KeyLadder {
  std::string_view kind, key;
  std::vector<std::pair<std::string_view, std::string_view>> values;  // with their texts
};
const KeyLadder kKeyLadders[] = {
    {"sequence", "train.sequence_parallel", {{"true", "sequence parallel"}}},
    {"zero", "train.zero", {{"1", "zero 1"}, {"2", "zero 2"}, {"3", "zero 3"}}},
    {"loss",
     "train.cross_entropy",
     {{"te", "cross entropy te"}, {"chunked", "cross entropy chunked"}}},
    {"optimizer", "train.optimizer_dtype", {{"bf16", "optimizer in bf16"}}},
    {"gradients", "train.gradient_dtype", {{"bf16", "gradients in bf16"}}},
    {"offload",
     "train.optimizer_offload",
     {{"0.5", "half of the optimizer offloaded"}, {"1", "optimizer offloaded"}}}};

// Sizes of which a multiple cuts the model further. `of_dp`: the data-parallel ranks become fewer.
struct CutKey {
  std::string_view name;
  int Plan::*size;
  bool of_dp;
};
constexpr CutKey kCuts[] = {{"cp", &Plan::cp, true},
                            {"tp", &Plan::tp, true},
                            {"pp", &Plan::pp, true},
                            {"ep", &Plan::ep, false}};
constexpr int kFactors[] = {2, 4, 8};

// Returns a ladder for each module that recompute may repeat more, and for all of a layer.
std::vector<Ladder> recompute_ladders(const Plan& plan) {
  std::vector<Ladder> ladders;
  const bool is_selective = plan.recompute == Recompute::Selective;
  for (const RecomputeModule& more : kRecomputeModules) {
    if (plan.recompute == Recompute::Full) break;
    std::string modules;
    for (const RecomputeModule& module : kRecomputeModules) {
      if (&module == &more || (is_selective && plan.recompute_modules.*module.place))
        modules += (modules.empty() ? "" : ",") + std::string(module.name);
    }
    ladders.push_back({{"recompute",
                        fmt::format("recompute {}", more.name),
                        {"train.recompute=selective", "train.recompute_modules=" + modules}}});
  }
  ladders.push_back({{"recompute", "recompute full", {"train.recompute=full"}}});
  if (plan.recompute_layers >= 0)
    ladders.back().front().settings.push_back("train.recompute_layers=1000000");
  return ladders;
}

// Returns all changes of a scenario, whether its rules allow them or not.
std::vector<Ladder> ladders_of(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  std::vector<Ladder> ladders = recompute_ladders(plan);
  for (const KeyLadder& of : kKeyLadders) {
    Ladder& ladder = ladders.emplace_back();
    for (const auto& [value, text] : of.values)
      ladder.push_back({of.kind, std::string(text), {fmt::format("{}={}", of.key, value)}});
  }
  // The batch stays where it follows from other sizes.
  std::vector<std::string> same_batch;
  if (!scenario.places.contains("parallel.global_batch"))
    same_batch = {fmt::format("parallel.global_batch={}", plan.global_batch)};
  const auto add = [&](Ladder* ladder, std::string_view kind, std::string_view key, int value) {
    ladder->push_back({kind, fmt::format("{} {}", kind, value), same_batch});
    ladder->back().settings.push_back(fmt::format("parallel.{}={}", key, value));
  };
  Ladder& smaller = ladders.emplace_back();
  for (int size = plan.micro_batch - 1; size >= 1; --size) {
    if (plan.micro_batch % size == 0) add(&smaller, "micro batch", "micro_batch", size);
  }
  for (const auto& [name, size, of_dp] : kCuts) {
    Ladder& ladder = ladders.emplace_back();
    for (const int factor : kFactors) {
      if (of_dp && plan.dp % factor != 0) break;
      add(&ladder, name, name, plan.*size * factor);
      if (of_dp && scenario.places.contains("parallel.dp"))
        ladder.back().settings.push_back(fmt::format("parallel.dp={}", plan.dp / factor));
    }
  }
  return ladders;
}

// One or two changes that the scenario's rules allow, and what the run is with them.
struct TriedChange {
  std::vector<PlanChange> changes;
  Scenario scenario;
  Verdict verdict = Verdict::No;
  double spare_bytes = 0;

  MemoryFix fix() const {
    MemoryFix fix{.verdict = verdict, .spare_bytes = spare_bytes};
    for (const PlanChange& change : changes) {
      fix.changes.push_back(change.text);
      fix.settings.insert(fix.settings.end(), change.settings.begin(), change.settings.end());
    }
    return fix;
  }
};

// Returns the memory of the scenario with the last of the changes; it has those before it already.
// Nothing: its rules do not allow the change.
std::optional<TriedChange> tried(const Scenario& scenario, std::vector<PlanChange> changes) {
  const auto sets = parse_sets(changes.back().settings);
  if (!sets.ok()) return std::nullopt;
  auto changed = with_sets(scenario, *sets);
  if (!changed.ok()) return std::nullopt;
  // The framework stays, also where it follows from sizes: one thing changes.
  const Trainer trainer = trainer_of(scenario.job.plan);
  if (trainer_of(changed->job.plan) != trainer) {
    changes.back().settings.push_back(fmt::format("train.framework={}", memory_of(trainer).name));
    return tried(scenario, std::move(changes));
  }
  const auto job = order_job(*changed);
  if (!job.ok()) return std::nullopt;
  const double tensors = fullest_bytes(*changed, job->plan, job->order);
  const DeviceSpec& device = changed->cluster.spec.device;
  const MemoryReserve reserve = memory_reserve(device, changed->job.model, job->plan);
  return TriedChange{std::move(changes), *std::move(changed), verdict_of(device, reserve, tensors),
                     spare_bytes(device, reserve, tensors)};
}

// Tries all changes of the scenario, after those that were made before. Of a ladder, it goes on to
// one that fits for sure, but no further than a step behind the first that fits.
std::vector<TriedChange> tried_changes(const Scenario& scenario,
                                       const std::vector<PlanChange>& before,
                                       const std::set<std::string_view>& left_out) {
  std::vector<TriedChange> all;
  for (const Ladder& ladder : ladders_of(scenario)) {
    int fit = 0;
    for (const PlanChange& change : ladder) {
      if (left_out.contains(change.kind)) break;
      std::vector<PlanChange> changes = before;
      changes.push_back(change);
      auto one = tried(scenario, std::move(changes));
      if (!one) continue;
      all.push_back(*std::move(one));
      if (all.back().verdict != Verdict::No) ++fit;
      if (all.back().verdict == Verdict::Yes || fit == 2) break;
    }
  }
  return all;
}

// Returns those that fit, those that spare the least first.
std::vector<TriedChange> those_that_fit(const std::vector<TriedChange>& tries) {
  std::vector<TriedChange> fit;
  std::ranges::copy_if(tries, std::back_inserter(fit),
                       [](const TriedChange& one) { return one.verdict != Verdict::No; });
  std::ranges::stable_sort(fit, {}, &TriedChange::spare_bytes);
  return fit;
}

// Returns pairs of changes. The first is one of the strongest of `singles`, one of each kind.
std::vector<TriedChange> pairs_of(std::vector<TriedChange> singles) {
  std::ranges::stable_sort(singles, std::ranges::greater{}, &TriedChange::spare_bytes);
  std::vector<TriedChange> all;
  std::set<std::string_view> firsts;
  for (const TriedChange& first : singles) {
    if (firsts.size() == kFirsts) break;
    if (!firsts.insert(first.changes.front().kind).second) continue;
    for (TriedChange& pair : tried_changes(first.scenario, first.changes, firsts))
      all.push_back(std::move(pair));
  }
  return all;
}

// Plays scenarios on the ideal engine, without disturbances. 0: it could not be played.
std::vector<double> seconds_of(const std::vector<Scenario>& scenarios, int jobs) {
  std::vector<double> seconds;
  const auto play = [&](int i) -> Result<std::string> {
    Scenario calm = scenarios[i];
    calm.variability = calm.variability.without_disturbances();
    ASSIGN_OR_RETURN(const MeasuredJob played, play_ideal(calm));
    return fmt::format("{}", played.metrics.iteration_s);
  };
  for (const Result<std::string>& text : fork_map(static_cast<int>(scenarios.size()), jobs, play)) {
    const auto number = text.ok() ? parse_number(*text) : text.error();
    seconds.push_back(number.ok() ? *number : 0);
  }
  return seconds;
}

// Returns the fastest of each kind, the fastest of all first, of those that can be played. `fit`
// fit into memory; what does not for sure counts as slower, by kUnsure.
std::vector<MemoryFix> fastest(const Scenario& given, const std::vector<TriedChange>& fit,
                               int jobs) {
  if (fit.empty()) return {};
  std::vector<Scenario> scenarios = {given};
  for (const TriedChange& one : fit) scenarios.push_back(one.scenario);
  const std::vector<double> seconds = seconds_of(scenarios, jobs);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < fit.size(); ++i) {
    if (seconds[0] > 0 && seconds[i + 1] > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(seconds[i + 1] * (fit[i].verdict == Verdict::Yes ? 1 : kUnsure), i);
  });
  std::vector<MemoryFix> fixes;
  std::set<std::string> kinds;
  for (const std::size_t i : order) {
    std::string kind;
    for (const PlanChange& change : fit[i].changes) kind += change.kind;
    if (!kinds.insert(kind).second) continue;
    fixes.push_back(fit[i].fix());
    fixes.back().ideal_iteration_s = seconds[i + 1];
    fixes.back().of_iteration = seconds[i + 1] / seconds[0] - 1;
  }
  std::ranges::stable_sort(fixes, {}, &MemoryFix::ideal_iteration_s);
  if (fixes.size() > kMostFixes) fixes.resize(kMostFixes);
  return fixes;
}

// Returns RunResult::memory_fixes of a run that does not fit.
std::vector<MemoryFix> memory_fixes(const Scenario& scenario, int jobs) {
  const std::vector<TriedChange> singles = tried_changes(scenario, {}, {});
  if (auto fixes = fastest(scenario, those_that_fit(singles), jobs); !fixes.empty()) return fixes;
  std::vector<TriedChange> pairs = pairs_of(singles);
  std::vector<TriedChange> fit = those_that_fit(pairs);
  if (fit.size() > kMostPairs) fit.erase(fit.begin() + kMostPairs, fit.end());
  if (auto fixes = fastest(scenario, fit, jobs); !fixes.empty()) return fixes;
  // A single change comes first among equals: then the second one changes nothing.
  std::vector<TriedChange> all = singles;
  all.insert(all.end(), pairs.begin(), pairs.end());
  std::erase_if(all, [](const TriedChange& one) { return one.verdict != Verdict::No; });
  const auto nearest = std::ranges::max_element(all, {}, &TriedChange::spare_bytes);
  if (nearest == all.end()) return {};
  return {nearest->fix()};
}

}  // namespace

void add_memory_fixes(const std::vector<Scenario>& scenarios, int jobs,
                      std::vector<Result<RunResult>>* results) {
  CHECK(results->size() == scenarios.size());
  std::vector<std::size_t> unfit;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    const Result<RunResult>& result = (*results)[i];
    if (result.ok() && result->training && !result->training->fits) unfit.push_back(i);
  }
  const int count = static_cast<int>(unfit.size());
  const auto fixes_of = [&](int i) -> Result<std::string> {
    const Scenario& scenario = scenarios[unfit[i]];
    if (scenario.job.is_open()) return Json::array().dump();
    return Json(memory_fixes(scenario, count == 1 ? jobs : 1)).dump();
  };
  const std::vector<Result<std::string>> texts = fork_map(count, jobs, fixes_of);
  for (int i = 0; i < count; ++i) {
    if (texts[i].ok())
      (*results)[unfit[i]]->memory_fixes = Json::parse(*texts[i]).get<std::vector<MemoryFix>>();
  }
}

}  // namespace tandem
