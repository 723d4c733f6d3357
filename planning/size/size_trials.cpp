#include "planning/size/size_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "planning/size/machines.h"
#include "planning/size/play_sizes.h"

namespace tandem {
namespace {

// Returns the job as if its iterations took `factor` times as long.
SizedJob slowed(SizedJob job, double factor) {
  RunResult& result = *job.result;
  result.iteration_s *= factor;
  job.ramp_s *= factor;
  if (auto& interval = result.interval_s)
    *interval = {interval->first * factor, interval->second * factor};
  Training& training = *result.training;
  for (double* rate :
       {&training.tokens_per_s, &training.tokens_per_s_per_gpu, &training.model_tflops_per_gpu,
        &training.hardware_tflops_per_gpu, &training.mfu, &training.hfu})
    *rate /= factor;
  return job;
}

}  // namespace

SizeTrials::SizeTrials(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                       const SizeOptions& options)
    : cases_(cases),
      among_(among),
      options_(options),
      tried_(cases.size()),
      engine_factor_(cases.size(), 1) {}

Status SizeTrials::run(const std::vector<SizeTrial>& wanted) {
  std::vector<SizeTrial> trials;
  for (const SizeTrial& trial : wanted) {
    if (!has(trial.case_index, trial.step) && std::ranges::find(trials, trial) == trials.end())
      trials.push_back(trial);
  }
  ASSIGN_OR_RETURN(auto plans, plans_of(trials));
  std::vector<SizedJob*> jobs;
  for (std::vector<SizedJob>& of_trial : plans) {
    for (SizedJob& job : of_trial) jobs.push_back(&job);
  }
  RETURN_IF_ERROR(play_sizes(cases_, Engine::Ideal, options_, jobs));
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Trial& trial = tried_[trials[i].case_index][trials[i].step];
    trial.played = best_of(cases_, plans[i]);
    trial.played.on_engine = options_.engine == Engine::Ideal;
    scale(&trial);
  }
  return Done{};
}

Result<std::vector<std::vector<SizedJob>>> SizeTrials::plans_of(
    const std::vector<SizeTrial>& trials) {
  std::vector<Result<std::vector<SizedJob>>> found(trials.size(), std::vector<SizedJob>{});
  Waiting waiting("searching plans");
  std::atomic<int> searched = searched_;
  share_among_threads(options_.jobs, trials.size(), [&](int, std::size_t i) {
    found[i] = fit_plans(cases_, trials[i].case_index, trials[i].step, among_, options_.stop);
    waiting.now(fmt::format("searching plans: {} sizes", ++searched));
  });
  searched_ = searched;
  std::vector<std::vector<SizedJob>> plans;
  for (auto& of_trial : found) {
    ASSIGN_OR_RETURN(std::vector<SizedJob> jobs, std::move(of_trial));
    plans.push_back(std::move(jobs));
  }
  return plans;
}

Result<bool> SizeTrials::play_on_engine(const std::vector<const SizedJob*>& wanted) {
  std::vector<SizedJob*> jobs;
  std::vector<double> ideal_s;  // iterations on the ideal engine, by job
  for (const SizedJob* job : wanted) {
    SizedJob& played = trial_of(*job).played;
    if (played.on_engine || !played.result) continue;
    played.on_engine = true;
    jobs.push_back(&played);
    ideal_s.push_back(played.result->iteration_s);
  }
  RETURN_IF_ERROR(play_sizes(cases_, options_.engine, options_, jobs));
  for (std::size_t i = 0; i < jobs.size(); ++i)
    engine_factor_[jobs[i]->of] = jobs[i]->result->iteration_s / ideal_s[i];
  for (auto& steps : tried_) {
    for (auto& [step, trial] : steps) scale(&trial);
  }
  return !jobs.empty();
}

bool SizeTrials::has(std::size_t case_index, const SizeStep& step) const {
  return tried_[case_index].contains(step);
}

std::vector<SizeStep> SizeTrials::steps_of(std::size_t case_index) const {
  std::vector<SizeStep> steps;
  for (const auto& [step, trial] : tried_[case_index]) steps.push_back(step);
  return steps;
}

std::vector<TriedSize> SizeTrials::days_of(std::size_t case_index) const {
  std::vector<TriedSize> sizes;
  for (const auto& [step, trial] : tried_[case_index])
    sizes.push_back({step.nodes, days(trial.scaled)});
  return sizes;
}

SizedJob SizeTrials::on(std::size_t case_index, const SizeStep& step) const {
  const auto own = tried_[case_index].find(step);
  auto best = own;
  for (auto smaller = tried_[case_index].begin(); smaller != own; ++smaller) {
    const bool has_gpus = smaller->first.gpus <= step.gpus;
    if (has_gpus && days(smaller->second.scaled) < days(best->second.scaled)) best = smaller;
  }
  SizedJob job = best->second.scaled;
  job.idle_nodes = step.nodes - best->first.nodes;
  if (job.idle_nodes > 0) job.economics = economics_of(cases_[case_index], job);
  return job;
}

double SizeTrials::days(const SizedJob& job) {
  return job.result && job.result->training->fits ? job.economics.days_late() : kNever;
}

double SizeTrials::share_of_days(const SizedJob& job) const {
  const SizeInputs& inputs = cases_[job.of].inputs;
  if (days(job) == kNever) return kNever;
  return inputs.days == 0 ? 0 : (days(job) + inputs.delivery_days) / inputs.days;
}

SizeTrials::Trial& SizeTrials::trial_of(const SizedJob& job) {
  const auto is_of_job = [&](const auto& tried) {
    const SizedJob& played = tried.second.played;
    return played.nodes == job.nodes && played.gpus == job.gpus &&
           played.on_engine == job.on_engine;
  };
  return std::ranges::find_if(tried_[job.of], is_of_job)->second;
}

void SizeTrials::scale(Trial* trial) const {
  const SizedJob& played = trial->played;
  trial->scaled = played;
  if (!played.result) return;
  if (!played.on_engine) trial->scaled = slowed(played, engine_factor_[played.of]);
  trial->scaled.economics = economics_of(cases_[played.of], trial->scaled);
}

}  // namespace tandem
