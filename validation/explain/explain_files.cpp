#include "validation/explain/explain_files.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "traces/profile/read_profile.h"
#include "validation/compare/simulated_side.h"
#include "validation/explain/explain_log.h"
#include "validation/published/measured_log.h"

namespace tandem {
namespace {

Result<Explanation> log_explained(const std::string& log, const Scenario& scenario, Engine engine) {
  ASSIGN_OR_RETURN(const std::string text, read_file(log));
  // A process of its own: this one may use SimGrid once, for profiles.
  ASSIGN_OR_RETURN(const RunResult result,
                   run_in_own_process([&] { return simulate(scenario, engine); }));
  SimulatedIteration simulated{.seconds = result.iteration_s, .interval_s = result.interval_s};
  if (result.training)
    simulated.tokens_per_gpu = result.training->tokens_per_s_per_gpu * result.iteration_s;
  simulated.samples = static_cast<double>(scenario.job.plan.global_batch);
  return explain_log(log, text, simulated);
}

Result<ExplainedFiles> profiles_explained(const std::vector<std::string>& files,
                                          const Scenario& scenario, Engine engine) {
  ExplainedFiles explained;
  ASSIGN_OR_RETURN(explained.measured, read_profile(files));
  ASSIGN_OR_RETURN(const PlayedJob played, play_once(scenario, engine));
  SimulatedSide side =
      played_side(played.job.program, played.trace, explained.measured, engine_name(engine));
  ASSIGN_OR_RETURN(ComparedSide ours, side_of(side.profile, scenario.path, side.by));
  ours.world = side.world;
  const ProfileRank& first = explained.measured.ranks.front();
  ASSIGN_OR_RETURN(ComparedSide theirs, side_of(explained.measured, first.path, first.profiler));
  explained.comparison = compare_profiles(std::move(ours), std::move(theirs), true);
  if (!explained.comparison.another_job.empty())
    return Error::at(first.path,
                     fmt::format("found another job than {} ({}), expected a profile of it",
                                 scenario.path, explained.comparison.another_job));
  explained.simulated = std::move(side.profile);
  ASSIGN_OR_RETURN(explained.explanation,
                   explain(played.job.program, played.trace, explained.measured));
  return explained;
}

}  // namespace

Result<ExplainedFiles> explain_files(const Scenario& scenario,
                                     const std::vector<std::string>& files, Engine engine) {
  std::vector<std::string> logs, profiles;
  for (const std::string& file : files)
    (!may_be_profile(file) && is_log_file(file) ? logs : profiles).push_back(file);
  if (logs.size() > 1)
    return Error::at(logs[1], fmt::format("found a second log beside {}, expected one", logs[0]));
  if (logs.empty()) return profiles_explained(profiles, scenario, engine);
  ASSIGN_OR_RETURN(Explanation of_log, log_explained(logs[0], scenario, engine));
  if (profiles.empty()) return ExplainedFiles{.explanation = std::move(of_log)};
  ASSIGN_OR_RETURN(ExplainedFiles explained, profiles_explained(profiles, scenario, engine));
  std::vector<std::string>& notes = explained.explanation.notes;
  notes.push_back(fmt::format("{}: an iteration takes {:.4g} s in the mean of {}.", logs[0],
                              of_log.measured_s, of_log.steps));
  for (const Cause& cause : of_log.causes)
    notes.push_back(fmt::format("{}: {}, {:.4g} s of an iteration: {}.", logs[0], cause.what,
                                cause.alone_s, cause.evidence));
  return explained;
}

}  // namespace tandem
