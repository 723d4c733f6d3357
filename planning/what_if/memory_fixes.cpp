// Looks for changes of a plan that make it fit into memory. The memory of every single change is
// computed, which needs only an order. If none fits, pairs of changes are tried. Then iterations
// with the changes that fit are played, which needs a Program.
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
// Pairs begin with a change of one of this many kinds, those that spare the most memory.
constexpr std::size_t kMostFirstChanges = 4;
// The number of fitting pairs that are played. They are those that spare the least memory, as
// saving more than is missing mostly costs more time.
constexpr std::size_t kMostPairs = 12;

// A change that fits only if memory is not fragmented is compared as if it were slower by this
// factor, so that one that fits for sure is preferred.
constexpr double kUnsureFactor = 1.1;

// A change that a user may make. Of the changes of one kind, the fastest is suggested.
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

// A size that is multiplied to cut the model further. `divides_dp`: there are then fewer
// data-parallel ranks.
struct CutKey {
  std::string_view name;
  int Plan::*size;
  bool divides_dp;
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
    ladders.back().front().settings.push_back("train.recompute_layers=-1");
  return ladders;
}

// Returns all changes of a scenario, whether its rules allow them or not.
std::vector<Ladder> ladders_of(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  std::vector<Ladder> ladders = recompute_ladders(plan);
  for (const KeyLadder& row : kKeyLadders) {
    Ladder& ladder = ladders.emplace_back();
    for (const auto& [value, text] : row.values)
      ladder.push_back({row.kind, std::string(text), {fmt::format("{}={}", row.key, value)}});
  }
  // A batch that follows from other sizes is stated, so that it stays.
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
  for (const auto& [name, size, divides_dp] : kCuts) {
    Ladder& ladder = ladders.emplace_back();
    for (const int factor : kFactors) {
      if (divides_dp && plan.dp % factor != 0) break;
      add(&ladder, name, name, plan.*size * factor);
      if (divides_dp && scenario.places.contains("parallel.dp"))
        ladder.back().settings.push_back(fmt::format("parallel.dp={}", plan.dp / factor));
    }
  }
  return ladders;
}

// One or two changes that the scenario's rules allow, with the changed scenario and its memory.
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

// Makes the last of the changes and computes memory; the scenario has the changes before it
// already. Nothing: its rules do not allow the change.
std::optional<TriedChange> with_last_change(const Scenario& scenario,
                                            std::vector<PlanChange> changes) {
  const auto sets = parse_sets(changes.back().settings);
  if (!sets.ok()) return std::nullopt;
  auto changed = with_sets(scenario, *sets);
  if (!changed.ok()) return std::nullopt;
  // A framework that follows from sizes is stated, so that it stays.
  const Trainer trainer = trainer_of(scenario.job.plan);
  if (trainer_of(changed->job.plan) != trainer) {
    changes.back().settings.push_back(fmt::format("train.framework={}", memory_of(trainer).name));
    return with_last_change(scenario, std::move(changes));
  }
  const auto job = order_job(*changed);
  if (!job.ok()) return std::nullopt;
  const double tensors = fullest_bytes(*changed, job->plan, job->order);
  const DeviceSpec& device = changed->cluster.spec.device;
  const MemoryReserve reserve = memory_reserve(device, changed->job.model, job->plan);
  return TriedChange{std::move(changes), *std::move(changed), verdict_of(device, reserve, tensors),
                     spare_bytes(device, reserve, tensors)};
}

// Tries all changes of the scenario, which has the changes `before` already. A stronger change of a
// ladder may be the faster one: ZeRO 3 has more to overlap than ZeRO 2.
std::vector<TriedChange> try_changes(const Scenario& scenario,
                                     const std::vector<PlanChange>& before,
                                     const std::set<std::string_view>& left_out) {
  std::vector<TriedChange> all;
  for (const Ladder& ladder : ladders_of(scenario)) {
    for (const PlanChange& change : ladder) {
      if (left_out.contains(change.kind)) break;
      std::vector<PlanChange> changes = before;
      changes.push_back(change);
      if (auto tried = with_last_change(scenario, std::move(changes)))
        all.push_back(*std::move(tried));
    }
  }
  return all;
}

// Returns the changes that fit, those that spare the least memory first.
std::vector<TriedChange> fitting_changes(const std::vector<TriedChange>& tries) {
  std::vector<TriedChange> fit;
  std::ranges::copy_if(tries, std::back_inserter(fit),
                       [](const TriedChange& tried) { return tried.verdict != Verdict::No; });
  std::ranges::stable_sort(fit, {}, &TriedChange::spare_bytes);
  return fit;
}

// Returns pairs of changes. The first of a pair is the strongest of its kind in `singles`.
std::vector<TriedChange> pairs_of(std::vector<TriedChange> singles) {
  std::ranges::stable_sort(singles, std::ranges::greater{}, &TriedChange::spare_bytes);
  std::vector<TriedChange> all;
  std::set<std::string_view> firsts;
  for (const TriedChange& first : singles) {
    if (firsts.size() == kMostFirstChanges) break;
    if (!firsts.insert(first.changes.front().kind).second) continue;
    for (TriedChange& pair : try_changes(first.scenario, first.changes, firsts))
      all.push_back(std::move(pair));
  }
  return all;
}

// Returns the iterations' seconds on the ideal engine without disturbances; 0: cannot be played.
std::vector<double> seconds_of(const std::vector<Scenario>& scenarios, int jobs) {
  std::vector<double> seconds;
  const auto play = [&](int i) -> Result<std::string> {
    Scenario undisturbed = scenarios[i];
    undisturbed.variability = undisturbed.variability.without_disturbances();
    ASSIGN_OR_RETURN(const MeasuredJob played, play_ideal(undisturbed));
    return fmt::format("{}", played.metrics.iteration_s);
  };
  for (const Result<std::string>& text : fork_map(static_cast<int>(scenarios.size()), jobs, play)) {
    const auto number = text.ok() ? parse_number(*text) : text.error();
    seconds.push_back(number.ok() ? *number : 0);
  }
  return seconds;
}

// Plays the changes `fit`, which fit into memory, and returns the fastest of each kind, the fastest
// of all first. A change that does not fit for sure is compared as kUnsureFactor times as slow.
std::vector<MemoryFix> fastest(const Scenario& given, const std::vector<TriedChange>& fit,
                               int jobs) {
  if (fit.empty()) return {};
  std::vector<Scenario> scenarios = {given};
  for (const TriedChange& tried : fit) scenarios.push_back(tried.scenario);
  const std::vector<double> seconds = seconds_of(scenarios, jobs);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < fit.size(); ++i) {
    if (seconds[0] > 0 && seconds[i + 1] > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(seconds[i + 1] * (fit[i].verdict == Verdict::Yes ? 1 : kUnsureFactor), i);
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
  const std::vector<TriedChange> singles = try_changes(scenario, {}, {});
  if (auto fixes = fastest(scenario, fitting_changes(singles), jobs); !fixes.empty()) return fixes;
  std::vector<TriedChange> pairs = pairs_of(singles);
  std::vector<TriedChange> fit = fitting_changes(pairs);
  if (fit.size() > kMostPairs) fit.erase(fit.begin() + kMostPairs, fit.end());
  if (auto fixes = fastest(scenario, fit, jobs); !fixes.empty()) return fixes;
  // None can be played: suggests the change that spares the most of those that do not fit. Single
  // changes come first, so that no pair is suggested whose second change spares nothing.
  std::vector<TriedChange> all = singles;
  all.insert(all.end(), pairs.begin(), pairs.end());
  std::erase_if(all, [](const TriedChange& tried) { return tried.verdict != Verdict::No; });
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
