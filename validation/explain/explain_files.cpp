// Tells logs from profiles, and lets explain(), explain_passes() or explain_log() explain each
// beside a simulation of the scenario.
#include "validation/explain/explain_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/gzip.h"
#include "planning/simulate/simulate.h"
#include "traces/profile/profile_notes.h"
#include "traces/profile/read_profile.h"
#include "validation/explain/explain_log.h"
#include "validation/explain/explain_passes.h"
#include "validation/published/measured_log.h"

namespace tandem {

Result<MeasuredFiles> measured_files(const std::vector<std::string>& files) {
  MeasuredFiles found;
  for (const std::string& file : files) {
    const bool is_profile = may_be_profile(file);
    if (!is_profile && is_log_file(file)) {
      if (!found.log.empty())
        return Error::at(file,
                         fmt::format("found a second log beside {}, expected one", found.log));
      found.log = file;
    } else if (!is_profile && std::filesystem::is_regular_file(file)) {
      return Error::at(file,
                       "found neither a profile (*.json, *.json.gz, SQLite) nor a log with "
                       "seconds of iterations, expected one of them");
    } else {
      found.profiles.push_back(file);  // the reader of profiles says if it is not there
    }
  }
  return found;
}

Result<SimulatedIteration> simulated_iteration(const Scenario& scenario, Engine engine) {
  ASSIGN_OR_RETURN(const RunResult result,
                   run_in_own_process([&] { return simulate(scenario, engine); }));
  SimulatedIteration simulated{.seconds = result.iteration_s, .interval_s = result.interval_s};
  if (result.training)
    simulated.tokens_per_gpu = result.training->tokens_per_s_per_gpu * result.iteration_s;
  simulated.samples = static_cast<double>(scenario.job.plan.global_batch);
  const Plan& plan = scenario.job.plan;
  simulated.gpus = plan.gpus();
  simulated.arguments = {{"tensor_model_parallel_size", plan.tp},
                         {"pipeline_model_parallel_size", plan.pp},
                         {"context_parallel_size", plan.cp},
                         {"expert_model_parallel_size", plan.ep},
                         {"micro_batch_size", plan.micro_batch}};
  if (result.training) {  // else the scenario states seconds, and has no model
    const Model& model = scenario.job.model;
    simulated.seq = model.seq;
    simulated.job = job_values(scenario);
    simulated.arguments.emplace_back("hidden_size", model.hidden);
    simulated.arguments.emplace_back("seq_length", model.seq);
    // In a hybrid a log may count a mixer alone, or an MLP alone, as a layer: nothing to compare.
    if (std::ranges::none_of(model.kinds, [](const Model& kind) { return kind.halves() < 2; }))
      simulated.arguments.emplace_back("num_layers", model.layers);
  }
  return simulated;
}

Result<ComparedProfiles> matched_profiles(const std::vector<std::string>& files,
                                          const Scenario& scenario, Engine engine,
                                          const std::string& passes) {
  ASSIGN_OR_RETURN(Profile measured, read_profile(files));
  const std::string first = measured.ranks.front().path;
  ASSIGN_OR_RETURN(ComparedProfiles matched, compare_files({.simulated = scenario.path,
                                                            .measured = first,
                                                            .scenario = &scenario,
                                                            .engine = engine,
                                                            .passes = passes},
                                                           std::move(measured)));
  if (matched.comparison.another_job.empty()) return matched;
  return Error::at(first, fmt::format("found another job than {} ({}), expected a profile of it",
                                      scenario.path, matched.comparison.another_job));
}

namespace {

Result<LogExplanation> log_explained(const std::string& log, const Scenario& scenario,
                                     Engine engine) {
  ASSIGN_OR_RETURN(const std::string text, read_maybe_gzip(log));
  ASSIGN_OR_RETURN(const SimulatedIteration simulated, simulated_iteration(scenario, engine));
  return explain_log(log, text, simulated);
}

Result<ExplainedFiles> profiles_explained(const std::vector<std::string>& files,
                                          const Scenario& scenario, Engine engine,
                                          const std::string& passes) {
  ASSIGN_OR_RETURN(ComparedProfiles matched, matched_profiles(files, scenario, engine, passes));
  ExplainedFiles explained{.simulated = std::move(matched.simulated),
                           .measured = std::move(matched.measured),
                           .comparison = std::move(matched.comparison)};
  if (passes.empty()) {
    ASSIGN_OR_RETURN(explained.explanation, explain(matched.played->job.program,
                                                    matched.played->trace, explained.measured));
    for (std::string& note : notes_on_means(explained.measured, scenario.cluster.spec.device.name))
      explained.explanation.notes.push_back(std::move(note));
    return explained;
  }
  ASSIGN_OR_RETURN(explained.explanation, explain_passes(explained.comparison));
  // The first note is that of compare_files() on which passes are compared.
  std::vector<std::string>& notes = explained.explanation.notes;
  notes.insert(notes.begin() + 1, "Compared part by part: nothing was played again.");
  return explained;
}

}  // namespace

Result<ExplainedFiles> explain_files(const Scenario& scenario,
                                     const std::vector<std::string>& files, Engine engine,
                                     const std::string& passes) {
  ASSIGN_OR_RETURN(const MeasuredFiles given, measured_files(files));
  const auto& [log, profiles] = given;
  if (log.empty()) return profiles_explained(profiles, scenario, engine, passes);
  if (!passes.empty())
    return Error::at(log, "found a log beside --only-passes, expected a profile of the passes");
  ASSIGN_OR_RETURN(LogExplanation explained_log, log_explained(log, scenario, engine));
  auto& [of_log, left_out] = explained_log;
  if (profiles.empty()) {
    of_log.notes.insert(of_log.notes.begin(), left_out.begin(), left_out.end());
    return ExplainedFiles{.explanation = std::move(of_log)};
  }
  ASSIGN_OR_RETURN(ExplainedFiles explained, profiles_explained(profiles, scenario, engine, ""));
  std::vector<std::string>& notes = explained.explanation.notes;
  notes.push_back(fmt::format("{}: an iteration takes {:.4g} s in the mean of {}.", log,
                              of_log.measured_s, of_log.steps));
  for (const Cause& cause : of_log.causes)
    notes.push_back(fmt::format("{}: {}, {:.4g} s of an iteration: {}.", log, cause.what,
                                cause.alone_s, cause.evidence));
  notes.insert(notes.end(), left_out.begin(), left_out.end());
  return explained;
}

}  // namespace tandem
