// Sizes a purchase. For each offer, a search tries numbers of nodes: it tunes a plan for every job
// on each, and plays it on the ideal engine. Sizes that answer a question are then played on the
// chosen engine. If they take longer there, the search goes on with all ideal times scaled by that
// factor. For example, a job that may take 90 days takes 120 on 64 nodes, 80 on 96, 87 on 88 and 91
// on 84. So 88 are the fewest. On SimGrid they take 4 % longer, 91 days: the fewest are then 92.
#include "planning/size/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "planning/size/fit_plan.h"
#include "planning/size/machines.h"
#include "planning/size/play_sizes.h"
#include "planning/size/size_steps.h"
#include "planning/size/sureness.h"
#include "planning/size/tornado.h"

namespace tandem {
namespace {

constexpr int kMostGpus = 131'072;  // the most that a search without size.gpus tries

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

// An offer, with the cases of its jobs.
struct Offer {
  std::vector<std::size_t> cases;
  int most_nodes = 1;  // the search's upper end
  // The most nodes that may work within the limits of [size]; nothing: there are no limits.
  std::optional<int> nodes_in_limits;
};

// A case on a number of nodes, to be tried.
struct SizeTrial {
  std::size_t case_index = 0;
  SizeStep step;

  bool operator==(const SizeTrial&) const = default;
};

// The jobs that were tried, by case and step: each is tuned and played once.
class SizeTrials {
 public:
  SizeTrials(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
             const SizeOptions& options)
      : cases_(cases),
        among_(among),
        options_(options),
        tried_(cases.size()),
        engine_factor_(cases.size(), 1) {}

  const std::map<SizeStep, SizedJob>& of_case(std::size_t case_index) const {
    return tried_[case_index];
  }

  // Tunes the trials that are new, and plays them on the ideal engine.
  Status run(const std::vector<SizeTrial>& wanted) {
    std::vector<SizeTrial> trials;
    for (const SizeTrial& trial : wanted) {
      if (!tried_[trial.case_index].contains(trial.step) &&
          std::ranges::find(trials, trial) == trials.end())
        trials.push_back(trial);
    }
    std::vector<Result<SizedJob>> found(trials.size(), Result<SizedJob>(SizedJob{}));
    {
      Waiting waiting("searching plans");
      share_among_threads(options_.jobs, trials.size(), [&](int, std::size_t i) {
        found[i] = fit_plan(cases_, trials[i].case_index, trials[i].step, among_, options_.stop);
        waiting.now(fmt::format("searching plans: {} sizes", ++searched_));
      });
    }
    std::vector<SizedJob*> jobs;
    for (std::size_t i = 0; i < trials.size(); ++i) {
      ASSIGN_OR_RETURN(SizedJob job, std::move(found[i]));
      job.on_engine = options_.engine == Engine::Ideal;
      SizedJob& tried = tried_[trials[i].case_index][trials[i].step];
      tried = std::move(job);
      jobs.push_back(&tried);
    }
    return play_sizes(cases_, Engine::Ideal, options_, jobs);
  }

  // Plays jobs that were tried on the chosen engine. Returns whether any was not yet played there.
  Result<bool> play_on_engine(const std::vector<const SizedJob*>& wanted) {
    std::vector<SizedJob*> jobs;
    std::vector<double> ideal_s;  // by job: its iteration on the ideal engine
    for (const SizedJob* job : wanted) {
      SizedJob& tried = entry_of(*job);
      if (tried.on_engine || !tried.result) continue;
      tried.on_engine = true;
      jobs.push_back(&tried);
      ideal_s.push_back(tried.result->iteration_s);
    }
    RETURN_IF_ERROR(play_sizes(cases_, options_.engine, options_, jobs));
    for (std::size_t i = 0; i < jobs.size(); ++i)
      engine_factor_[jobs[i]->of] = jobs[i]->result->iteration_s / ideal_s[i];
    return !jobs.empty();
  }

  // Returns the job with its time and cost on the chosen engine. If it was played on the ideal one
  // alone, its times are scaled as those of the last winner of its case.
  SizedJob priced(const SizedJob& tried) const {
    if (!tried.result) return tried;
    SizedJob job = tried.on_engine ? tried : slowed(tried, engine_factor_[tried.of]);
    job.economics = economics_of(cases_[job.of], job);
    return job;
  }

  // Returns the days that the job takes over the days that it may take; infinity: no plan, or none
  // that fits; 0: no deadline.
  double share_of_days(const SizedJob& tried) const {
    const SizeInputs& inputs = cases_[tried.of].inputs;
    if (!tried.result || !tried.result->training->fits) return kNever;
    if (inputs.days == 0) return 0;
    return (priced(tried).economics.days_late() + inputs.delivery_days) / inputs.days;
  }

 private:
  SizedJob& entry_of(const SizedJob& job) {
    const auto is_it = [&](const auto& one) {
      return one.second.nodes == job.nodes && one.second.gpus == job.gpus;
    };
    return std::ranges::find_if(tried_[job.of], is_it)->second;
  }

  const std::vector<SizeCase>& cases_;
  const std::vector<std::string>& among_;
  const SizeOptions& options_;
  std::vector<std::map<SizeStep, SizedJob>> tried_;  // by case
  std::vector<double> engine_factor_;  // by case: time on the chosen engine over the ideal one's
  std::atomic<int> searched_ = 0;
};

// The search of sizes for each offer, and the comparison of the machines that it finds.
class Sizing {
 public:
  Sizing(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
         const SizeOptions& options)
      : cases_(cases), among_(among), options_(options), trials_(cases, among, options) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto same = std::ranges::find_if(offers_, [&](const Offer& offer) {
        return cases[offer.cases.front()].offer == cases[i].offer;
      });
      if (same != offers_.end()) {
        same->cases.push_back(i);
      } else {
        offers_.push_back(offer_of(i));
      }
    }
  }

  Result<SizeResult> size() {
    // Playing the winners on the chosen engine may show that they are late. Then larger sizes are
    // tried, or another machine wins.
    constexpr int kMostTurns = 8;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      RETURN_IF_ERROR(try_sizes());
      ASSIGN_OR_RETURN(const bool has_new_times, play_winners());
      if (!has_new_times) break;
    }
    SizeResult result = collected();
    std::vector<SizedJob*> jobs;
    for (SizedJob& job : result.sized) jobs.push_back(&job);
    RETURN_IF_ERROR(play_changes(options_, jobs));
    RETURN_IF_ERROR(play_plain_numerics(&result));
    const SizeResult all = with_all_sizes(result);
    result.tornado = tornado(cases_, all);
    result.sureness = sureness(cases_, all);
    result.tiers = network_comparisons(cases_, result);
    return result;
  }

 private:
  Offer offer_of(std::size_t first_case) const {
    const SizeCase& first = cases_[first_case];
    Offer offer{{first_case}, std::max(1, kMostGpus / first.node_gpus())};
    // A number above the search's upper end stands for no limit.
    const int most = nodes_within(first.inputs, first.node_gpus(), offer.most_nodes + 1);
    if (most <= offer.most_nodes) offer.nodes_in_limits = working_nodes_within(first, most);
    if (first.inputs.gpus_max > 0 && offer.nodes_in_limits)
      offer.most_nodes = *offer.nodes_in_limits;
    return offer;
  }

  // Returns the most nodes that may work if, with their spares, there are at most `most`, and they
  // and their network are within the purchase budget.
  static int working_nodes_within(const SizeCase& c, int most) {
    const SizeInputs& inputs = c.inputs;
    // Racks of which GPUs are left idle need the fewest spares.
    const int used = power_of_two_down(c.node_gpus());
    const auto with_spares = [&](int nodes) {
      return nodes + spare_nodes(inputs, {nodes, used, c.node_gpus() - used});
    };
    const auto is_affordable = [&](int nodes) {
      return inputs.purchase_budget == 0 ||
             nodes * inputs.price.node + network_price_of(c, nodes) <= inputs.purchase_budget;
    };
    int nodes = most;
    while (nodes > 1 && (with_spares(nodes) > most || !is_affordable(with_spares(nodes)))) --nodes;
    return std::max(1, nodes);
  }

  // Returns the sizes that size.gpus lists for the offer; if there are any, none are searched.
  const std::vector<int>& given_sizes(const Offer& offer) const {
    return cases_[offer.cases.front()].inputs.gpus;
  }
  bool has_deadline(const Offer& offer) const {
    return std::ranges::any_of(offer.cases,
                               [&](std::size_t i) { return cases_[i].inputs.days > 0; });
  }
  SizeTrial on_whole_nodes(std::size_t case_index, int nodes) const {
    return {case_index, {nodes, nodes * cases_[case_index].node_gpus()}};
  }

  // An offer's sizes tried so far. TriedSize::days is the largest share_of_days() of its jobs.
  struct Bracket {
    std::vector<TriedSize> tried;
    // A job not yet tried on a size on which the jobs that were tried are in time.
    std::optional<SizeTrial> missing;
  };
  Bracket bracket(const Offer& offer) {
    std::set<SizeStep> steps;
    for (const std::size_t case_index : offer.cases) {
      for (const auto& [step, tried] : trials_.of_case(case_index)) steps.insert(step);
    }
    Bracket found;
    for (const SizeStep& step : steps) {
      double worst = 0;
      std::optional<SizeTrial> missing;
      for (const std::size_t case_index : offer.cases) {
        const auto& all = trials_.of_case(case_index);
        if (const auto tried = all.find(step); tried != all.end()) {
          worst = std::max(worst, trials_.share_of_days(tried->second));
        } else if (!missing) {
          missing = {case_index, step};
        }
      }
      found.tried.push_back({step.nodes, worst});
      if (missing && worst <= 1) found.missing = missing;
    }
    return found;
  }

  // Guesses the nodes that a case needs, from 6 FLOPs a parameter and token at 40 % of the peak.
  int guess(std::size_t case_index) const {
    const SizeCase& c = cases_[case_index];
    const auto& rates = c.scenario.cluster.spec.device.flops_per_s;
    const auto peak = rates.find("bf16");
    if (peak == rates.end()) return 1;
    const double work = 6 * active_parameters(c.scenario.job.model) * c.inputs.tokens;
    const double rate = 0.4 * peak->second * c.node_gpus() * c.inputs.days * day_s;
    return static_cast<int>(std::clamp(work / rate, 1.0, 1.0 * kMostGpus));
  }

  // Returns what to try next in the search of the fewest nodes on which all jobs are in time;
  // nothing: they are found, or the offer's most nodes are too few.
  std::optional<SizeTrial> next_trial(const Offer& offer) {
    const Bracket found = bracket(offer);
    if (found.missing) return found.missing;
    const std::size_t first = offer.cases.front();  // sizes are tried with this job first
    const auto nodes = next_size(found.tried, /*days=*/1, guess(first), offer.most_nodes);
    if (!nodes) return std::nullopt;
    return on_whole_nodes(first, *nodes);
  }

  // Tries the sizes of size.gpus. For offers without, finds the fewest nodes on which all jobs are
  // in time, then tries all jobs on the sizes that may answer a question.
  Status try_sizes() {
    std::vector<SizeTrial> wanted;
    for (const Offer& offer : offers_) {
      for (const std::size_t case_index : offer.cases) {
        const int node_gpus = cases_[case_index].node_gpus();
        for (const int gpus : given_sizes(offer))
          wanted.push_back({case_index, {(gpus + node_gpus - 1) / node_gpus, gpus}});
      }
    }
    do {
      RETURN_IF_ERROR(trials_.run(wanted));
      wanted.clear();
      for (const Offer& offer : offers_) {
        if (!given_sizes(offer).empty() || !has_deadline(offer)) continue;
        if (const auto next = next_trial(offer)) wanted.push_back(*next);
      }
    } while (!wanted.empty());
    for (const Offer& offer : offers_) {
      if (!given_sizes(offer).empty()) continue;
      for (const int nodes : sizes_to_compare(offer)) {
        for (const std::size_t i : offer.cases) wanted.push_back(on_whole_nodes(i, nodes));
      }
    }
    return trials_.run(wanted);
  }

  // Returns the fewest nodes that all jobs of the offer need, and the most that the limits allow;
  // and near both, numbers over which models are cut well.
  std::vector<int> sizes_to_compare(const Offer& offer) {
    std::set<int> sizes;
    std::optional<int> least;
    if (has_deadline(offer)) least = least_in_time(bracket(offer).tried, /*days=*/1);
    if (least && *least <= offer.most_nodes) {
      sizes.insert(*least);
      // The size just above it is what to buy if more is needed than is predicted.
      sizes.insert(std::min(size_up(*least + 1), offer.most_nodes));
      int even = *least;
      while (even_down(even) < even) ++even;
      if (even <= offer.most_nodes) sizes.insert(even);
    }
    if (const auto most = offer.nodes_in_limits) sizes.insert({size_down(*most), even_down(*most)});
    if (sizes.empty()) sizes.insert(offer.most_nodes);
    return {sizes.begin(), sizes.end()};
  }

  // Returns the steps of the offer that all its jobs were tried on. If on several steps all jobs
  // work on the same GPUs, as may be on 512 and 576 GPUs of NVL72, returns the first of them.
  std::vector<SizeStep> complete_steps(const Offer& offer) const {
    std::vector<SizeStep> steps;
    std::set<std::vector<SizeStep>> known;
    for (const auto& [step, first] : trials_.of_case(offer.cases.front())) {
      std::vector<SizeStep> working;  // the nodes and GPUs that each job's plan uses
      for (const std::size_t case_index : offer.cases) {
        const auto& all = trials_.of_case(case_index);
        const auto tried = all.find(step);
        if (tried == all.end()) break;
        working.push_back({tried->second.nodes, tried->second.gpus});
      }
      if (working.size() == offer.cases.size() && known.insert(working).second)
        steps.push_back(step);
    }
    return steps;
  }

  // Returns the offer's machines of these steps; their jobs are appended to `sized`.
  std::vector<Machine> machines_of(const Offer& offer, const std::vector<SizeStep>& steps,
                                   std::vector<SizedJob>* sized) {
    std::vector<Machine> machines;
    for (const SizeStep& step : steps) {
      std::vector<std::size_t> jobs;
      for (const std::size_t case_index : offer.cases) {
        jobs.push_back(sized->size());
        sized->push_back(trials_.priced(trials_.of_case(case_index).at(step)));
      }
      machines.push_back(machine_of({cases_, *sized}, jobs));
    }
    return machines;
  }

  // Returns the steps to show: those of size.gpus, or those that answer one of the questions if
  // only this offer is asked; if none does, the one with the least excess.
  std::vector<SizeStep> steps_to_show(const Offer& offer) {
    std::vector<SizeStep> steps = complete_steps(offer);
    if (!given_sizes(offer).empty()) return steps;
    std::vector<SizedJob> sized;
    const std::vector<Machine> machines = machines_of(offer, steps, &sized);
    std::set<std::size_t> kept;
    const bool is_timed = has_deadline(offer);
    for (const SizeAnswer::Question question :
         {SizeAnswer::Least, SizeAnswer::Budget, SizeAnswer::Cheapest}) {
      const bool is_asked =
          question == SizeAnswer::Budget ? offer.nodes_in_limits.has_value() : is_timed;
      const auto answer = answering(question, machines, {cases_, sized});
      if (is_asked && answer) kept.insert(*answer);
    }
    if (kept.empty() && !machines.empty()) {
      const auto nearest = std::ranges::min_element(machines, {}, &Machine::excess);
      kept.insert(static_cast<std::size_t>(nearest - machines.begin()));
    }
    std::vector<SizeStep> kept_steps;
    for (const std::size_t i : kept) kept_steps.push_back(steps[i]);
    return kept_steps;
  }

  // Plays the machines that answer a question, and those of size.gpus, on the chosen engine.
  // Returns whether any had not been played there before.
  Result<bool> play_winners() {
    shown_.clear();
    for (const Offer& offer : offers_) shown_.push_back(steps_to_show(offer));
    const SizeResult result = collected();
    std::set<std::size_t> winners;
    for (const SizeAnswer& answer : result.answers) {
      if (answer.machine) winners.insert(*answer.machine);
    }
    if (result.nearest) winners.insert(*result.nearest);
    std::vector<const SizedJob*> jobs;
    for (std::size_t i = 0; i < result.machines.size(); ++i) {
      for (const std::size_t sized : result.machines[i].jobs) {
        const SizedJob& job = result.sized[sized];
        const bool is_given = !cases_[job.of].inputs.gpus.empty();
        if (is_given || winners.contains(i)) jobs.push_back(&job);
      }
    }
    return trials_.play_on_engine(jobs);
  }

  // Returns the machines that are shown, compared.
  SizeResult collected() {
    SizeResult result{.seed = cases_.front().inputs.seed};
    for (const SizeCase& c : cases_) result.asked.push_back(c.inputs);
    result.assumptions = assumptions_of(cases_);
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      for (Machine& machine : machines_of(offers_[i], shown_[i], &result.sized))
        result.machines.push_back(std::move(machine));
    }
    compare_machines(cases_, &result);
    return result;
  }

  // Returns the result with every size that all jobs of its offer were tried on. The effects of
  // NICs were played for the sizes that are shown alone; the others take them from one of these.
  SizeResult with_all_sizes(const SizeResult& result) {
    SizeResult all{.asked = result.asked, .seed = result.seed};
    const Machine* best = result.recommended() ? &result.machines[*result.recommended()] : nullptr;
    const int best_gpus = best != nullptr ? result.sized[best->jobs.front()].gpus : 0;
    for (const Offer& offer : offers_) {
      for (Machine& machine : machines_of(offer, complete_steps(offer), &all.sized)) {
        machine.recommended = best != nullptr && machine.offer == best->offer &&
                              machine.nodes == best->nodes &&
                              all.sized[machine.jobs.front()].gpus == best_gpus;
        all.machines.push_back(std::move(machine));
      }
    }
    for (SizedJob& job : all.sized) {
      const auto shown = std::ranges::find(result.sized, job.of, &SizedJob::of);
      if (shown == result.sized.end() || !job.result) continue;
      job.slower_nics = shown->slower_nics;
      job.faster_nics = shown->faster_nics;
    }
    return all;
  }

  // Sets SizedJob::plain_numerics of the recommended machine's jobs.
  Status play_plain_numerics(SizeResult* result) {
    const std::optional<std::size_t> best = result->recommended();
    if (!best) return Done{};
    for (const std::size_t sized : result->machines[*best].jobs) {
      SizedJob& job = result->sized[sized];
      if (!cases_[job.of].inputs.any_numerics) continue;
      ASSIGN_OR_RETURN(SizedJob plain, with_plain_numerics(job, among_, options_.stop));
      SizedJob chosen = job;
      RETURN_IF_ERROR(play_sizes(cases_, Engine::Ideal, options_, {&plain, &chosen}));
      if (plain.result) job.plain_numerics = plain.result->iteration_s / chosen.result->iteration_s;
    }
    return Done{};
  }

  const std::vector<SizeCase>& cases_;
  const std::vector<std::string>& among_;
  const SizeOptions& options_;
  SizeTrials trials_;
  std::vector<Offer> offers_;
  std::vector<std::vector<SizeStep>> shown_;  // by offer
};

}  // namespace

Scenario planned(const SizedJob& job) {
  Scenario scenario = scenario_with(job.scenario, job.plan->candidate);
  // States the layers of each stage, as the search has cut them; they may be uneven.
  Plan& plan = scenario.job.plan;
  if (plan.pp > 1) plan.layers_per_stage = split_layers(scenario.job.model, plan);
  scenario.report.published = {};
  scenario.report.baseline.clear();
  scenario.report.least_bandwidth = false;
  return scenario;
}

Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options) {
  return Sizing(cases, among, options).size();
}

}  // namespace tandem
