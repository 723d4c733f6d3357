// Plays a scenario once for each seed: the job is compiled once, then a forked process plays each
// seed. The result is the run of median length, with the spread of all.
#include "planning/simulate/repeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/csv.h"
#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "job/compile.h"
#include "job/doubts.h"
#include "job/perturb.h"
#include "planning/play/play_job.h"
#include "schedule/program/replicas.h"
#include "sim/by_replica.h"

namespace tandem {
namespace {

// Returns the replica of rank `latest`, which came last to a gradient reduction, and the replica's
// slow nodes.
LastReplica last_replica(const Scenario& scenario, const CompiledJob& job, Rank latest) {
  const Replicas replicas = part(job.program);
  const auto has_latest = [&](const std::vector<std::int32_t>& ranks) {
    return std::ranges::binary_search(ranks, index(latest));
  };
  const auto replica = std::ranges::find_if(replicas.ranks, has_latest);
  const VariabilitySettings& variability = scenario.variability;
  const std::vector<double> factors =
      rank_factors(variability.stragglers, variability.seed, job.site.cluster, job.site.placement);
  std::set<int> slow_nodes;
  for (const std::int32_t rank : *replica) {
    if (factors[rank] != 1)
      slow_nodes.insert(index(job.site.cluster.node_of(job.site.placement[rank])));
  }
  return {static_cast<int>(replica - replicas.ranks.begin()),
          index(latest),
          {slow_nodes.begin(), slow_nodes.end()}};
}

// Plays one seed. `program`: the job's own, or a copy with slowed ranks. `folds`: whether one rank
// of this Program may stand for all with the same body.
Result<RepeatedRun> play_program(const Scenario& scenario, const CompiledJob& job,
                                 const Program& program, bool folds, Engine engine) {
  const auto& [cluster, placement] = job.site;
  const auto options = sim_options(scenario.variability, cluster, scenario.fold && folds, engine);
  if (!options.ok()) return scenario.placed(options.error());
  RepeatedRun run{scenario.variability.seed, 0, std::nullopt};
  if (engine == Engine::Ideal) {
    if (const auto played = play_by_replica(program, *options, /*measured=*/false)) {
      run.iteration_s = to_seconds(played->iteration_ns);
      run.last = last_replica(scenario, job, played->latest);
      return run;
    }
  }
  ASSIGN_OR_RETURN(const Trace trace, play(engine, program, cluster, placement, *options));
  run.iteration_s = measure(program, trace).iteration_s;
  return run;
}

// Plays one seed of the scenario. `job` was compiled with straggling stages, which are the same for
// all seeds. Straggling ranks and nodes depend on the seed, and are applied to a copy of its
// Program.
Result<RepeatedRun> play_seed(const Scenario& scenario, const CompiledJob& job, Engine engine) {
  if (!scenario.variability.stragglers.any())
    return play_program(scenario, job, job.program, /*folds=*/true, engine);
  Program slowed = job.program;
  const bool ranks_differ = slow_stragglers(scenario.variability, job.order, job.site, &slowed);
  return play_program(scenario, job, slowed, !ranks_differ, engine);
}

// Calls `run` for each number below `count` in a process of its own. Returns the texts that it
// gives.
Result<std::vector<std::string>> forked(int count, int jobs, bool progress,
                                        const std::function<Result<std::string>(int)>& run) {
  std::optional<Progress> bar;
  if (progress) bar.emplace("runs", count);
  const auto advance = [&](int) {
    if (bar) bar->advance();
  };
  std::vector<std::string> texts;
  for (Result<std::string>& text : fork_map(count, jobs, run, advance)) {
    if (!text.ok()) return text.error();
    texts.push_back(*std::move(text));
  }
  return texts;
}

// Plays each seed in a process of its own, all from one compiled job.
Result<std::vector<RepeatedRun>> play_seeds(const Scenario& scenario, Engine engine, bool progress,
                                            int jobs) {
  Scenario common = scenario;  // the part that all seeds share
  common.variability.stragglers = scenario.variability.stragglers.stages_alone();
  // If ranks differ, all are played: then limits.ops must count the ops of each.
  common.fold = scenario.fold && !scenario.variability.makes_ranks_differ();
  ASSIGN_OR_RETURN(const CompiledJob job, compile(common));
  open_ahead(engine);
  const auto play = [&](int i) -> Result<std::string> {
    Scenario once = scenario;
    once.variability.seed += static_cast<std::uint64_t>(i);
    ASSIGN_OR_RETURN(const RepeatedRun run, play_seed(once, job, engine));
    return to_json(run).dump();
  };
  ASSIGN_OR_RETURN(const auto texts, forked(scenario.variability.repeats, jobs, progress, play));
  std::vector<RepeatedRun> runs;
  for (const std::string& text : texts)
    runs.push_back(repeated_run_from_json(nlohmann::ordered_json::parse(text)));
  return runs;
}

}  // namespace

Result<std::vector<double>> iterations_s(const std::vector<Scenario>& scenarios, Engine engine,
                                         bool progress, int jobs) {
  if (scenarios.size() > 1) open_ahead(engine);
  const auto play = [&](int i) -> Result<std::string> {
    Scenario once = scenarios[i];
    once.variability.repeats = 1;
    once.report.least_bandwidth = false;
    ASSIGN_OR_RETURN(const RunResult result, simulate(once, engine));
    return fmt::format("{}", result.iteration_s);
  };
  const int count = static_cast<int>(scenarios.size());
  ASSIGN_OR_RETURN(const auto texts, forked(count, jobs, progress, play));
  std::vector<double> seconds;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(seconds.emplace_back(), parse_number(text));
  }
  return seconds;
}

Result<RunResult> simulate_repeated(const Scenario& scenario, Engine engine,
                                    const OutputFiles& files, bool progress, int jobs) {
  ASSIGN_OR_RETURN(std::vector<RepeatedRun> runs, play_seeds(scenario, engine, progress, jobs));
  std::vector<double> seconds;
  for (const RepeatedRun& run : runs) seconds.push_back(run.iteration_s);
  Scenario median = scenario;
  median.variability.seed = runs[median_of(seconds)].seed;
  median.variability.repeats = 1;
  ASSIGN_OR_RETURN(RunResult result, simulate(median, engine, files, /*progress=*/false, jobs));
  result.repeats = Repeats{scenario.variability.repeats, scenario.variability.seed,
                           spread_of(seconds), std::move(runs)};
  if (!varies_by_seed(scenario))
    result.warnings.push_back(fmt::format(
        "{}: {}: found variability.runs = {} of a run that no seed changes, expected "
        "variability.jitter or variability.straggler_share: all of them are alike",
        scenario.name, scenario.place_of({"variability.runs"}), scenario.variability.repeats));
  return result;
}

}  // namespace tandem
