// Sizes a purchase. It tries numbers of nodes of each offer: a plan is tuned for each, and played
// on the ideal engine. Those that may answer a question are played on the chosen engine; if they
// are then late, the search goes on as if all took that much longer.
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

constexpr int kMostGpus = 131'072;  // that a search without size.gpus tries

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
  int most_nodes = 1;       // that are searched
  int nodes_in_limits = 0;  // that the limits of [size] leave for work; 0: none is stated
};

class Sizing {
 public:
  Sizing(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
         const SizeOptions& options)
      : cases_(cases),
        among_(among),
        options_(options),
        tried_(cases.size()),
        engine_factor_(cases.size(), 1) {
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
    // A winner that is late on the chosen engine moves the search on, or another one wins.
    constexpr int kTurns = 8;
    for (int turn = 0; turn < kTurns; ++turn) {
      RETURN_IF_ERROR(try_sizes());
      ASSIGN_OR_RETURN(const bool is_new, play_winners());
      if (!is_new) break;
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
  Offer offer_of(std::size_t first) const {
    const SizeInputs& inputs = cases_[first].inputs;
    const int node_gpus = cases_[first].node_gpus();
    Offer offer{{first}, std::max(1, kMostGpus / node_gpus)};
    const int within = nodes_within(inputs, node_gpus, offer.most_nodes + 1);
    if (within <= offer.most_nodes) {
      // Racks of which GPUs are left idle need the fewest spares.
      const int used = power_of_two_down(node_gpus);
      const auto with_spares = [&](int nodes) {
        return nodes + spare_nodes(inputs, {nodes, used, node_gpus - used});
      };
      const auto is_affordable = [&](int nodes) {
        return inputs.purchase_budget == 0 ||
               nodes * inputs.price.node + network_price_of(cases_[first], nodes) <=
                   inputs.purchase_budget;
      };
      int nodes = within;
      while (nodes > 1 && (with_spares(nodes) > within || !is_affordable(with_spares(nodes))))
        --nodes;
      offer.nodes_in_limits = std::max(1, nodes);
    }
    if (inputs.gpus_max > 0) offer.most_nodes = offer.nodes_in_limits;
    return offer;
  }

  bool is_given(const Offer& offer) const { return !inputs_of(offer).gpus.empty(); }
  const SizeInputs& inputs_of(const Offer& offer) const {
    return cases_[offer.cases.front()].inputs;
  }
  bool has_deadline(const Offer& offer) const {
    return std::ranges::any_of(offer.cases,
                               [&](std::size_t of) { return cases_[of].inputs.days > 0; });
  }
  SizeStep whole(std::size_t of, int nodes) const {
    return {nodes, nodes * cases_[of].node_gpus()};
  }

  // Returns the job as the chosen engine has it, or as much slower than the ideal one as its
  // offer's winner is there; with its time and cost.
  SizedJob priced(const SizedJob& tried) const {
    if (!tried.result) return tried;
    SizedJob job = tried.on_engine ? tried : slowed(tried, engine_factor_[tried.of]);
    job.economics = economics_of(cases_[job.of], job);
    return job;
  }

  // Returns how many times the days of the job that it takes; infinity: no plan, or none that fits.
  double times_days(const SizedJob& tried) const {
    const SizeInputs& inputs = cases_[tried.of].inputs;
    if (!tried.result || !tried.result->training->fits) return kNever;
    if (inputs.days == 0) return 0;
    return (priced(tried).economics.days_late() + inputs.delivery_days) / inputs.days;
  }

  // The numbers of nodes that were tried, with how many times its days the latest job takes; and of
  // a number on which the jobs tried are in time, a job that was not tried on it.
  struct Bracket {
    std::vector<TriedSize> tried;
    std::optional<std::pair<std::size_t, SizeStep>> open;
  };
  Bracket bracket(const Offer& offer) {
    std::set<SizeStep> steps;
    for (const std::size_t of : offer.cases) {
      for (const auto& [step, tried] : tried_[of]) steps.insert(step);
    }
    Bracket found;
    for (const SizeStep& step : steps) {
      double worst = 0;
      std::optional<std::pair<std::size_t, SizeStep>> open;
      for (const std::size_t of : offer.cases) {
        const auto tried = tried_[of].find(step);
        if (tried != tried_[of].end()) {
          worst = std::max(worst, times_days(tried->second));
        } else if (!open) {
          open = {of, step};
        }
      }
      found.tried.push_back({step.nodes, worst});
      if (open && worst <= 1) found.open = open;
    }
    return found;
  }

  // Guesses the nodes that a case needs, from 6 FLOPs a parameter and token at 40 % of the peak.
  int guess(std::size_t of) const {
    const SizeCase& c = cases_[of];
    const auto& rates = c.scenario.cluster.spec.device.flops_per_s;
    const auto peak = rates.find("bf16");
    if (peak == rates.end()) return 1;
    const double work = 6 * active_parameters(c.scenario.job.model) * c.inputs.tokens;
    const double rate = 0.4 * peak->second * c.node_gpus() * c.inputs.days * day_s;
    return static_cast<int>(std::clamp(work / rate, 1.0, 1.0 * kMostGpus));
  }

  // Tunes and plays, on the ideal engine, what was not tried before.
  Status try_steps(const std::vector<std::pair<std::size_t, SizeStep>>& wanted) {
    std::vector<std::pair<std::size_t, SizeStep>> open;
    for (const auto& one : wanted) {
      if (!tried_[one.first].contains(one.second) && std::ranges::find(open, one) == open.end())
        open.push_back(one);
    }
    std::vector<Result<SizedJob>> found(open.size(), Result<SizedJob>(SizedJob{}));
    {
      Waiting waiting("searching plans");
      share_among_threads(options_.jobs, open.size(), [&](int, std::size_t i) {
        found[i] = fit_plan(cases_, open[i].first, open[i].second, among_, options_.stop);
        waiting.now(fmt::format("searching plans: {} sizes", ++searched_));
      });
    }
    std::vector<SizedJob*> jobs;
    for (std::size_t i = 0; i < open.size(); ++i) {
      ASSIGN_OR_RETURN(SizedJob job, std::move(found[i]));
      job.on_engine = options_.engine == Engine::Ideal;
      jobs.push_back(&(tried_[open[i].first][open[i].second] = std::move(job)));
    }
    return play_sizes(cases_, Engine::Ideal, options_, jobs);
  }

  // Finds, of every offer, the least nodes on which all jobs are in time. Then tries what may
  // answer the questions, with all its jobs.
  Status try_sizes() {
    std::vector<std::pair<std::size_t, SizeStep>> wanted;
    for (const Offer& offer : offers_) {
      for (const std::size_t of : offer.cases) {
        const int node_gpus = cases_[of].node_gpus();
        for (const int gpus : inputs_of(offer).gpus)
          wanted.emplace_back(of, SizeStep{(gpus + node_gpus - 1) / node_gpus, gpus});
      }
    }
    do {
      RETURN_IF_ERROR(try_steps(wanted));
      wanted.clear();
      for (const Offer& offer : offers_) {
        if (is_given(offer) || !has_deadline(offer)) continue;
        const Bracket found = bracket(offer);
        const std::size_t hardest = offer.cases.front();
        if (found.open) {
          wanted.push_back(*found.open);
        } else if (const auto next = next_size(found.tried, 1, guess(hardest), offer.most_nodes)) {
          wanted.emplace_back(hardest, whole(hardest, *next));
        }
      }
    } while (!wanted.empty());
    for (const Offer& offer : offers_) {
      for (const int nodes : is_given(offer) ? std::vector<int>() : sizes_to_compare(offer)) {
        for (const std::size_t of : offer.cases) wanted.emplace_back(of, whole(of, nodes));
      }
    }
    return try_steps(wanted);
  }

  // Returns the least nodes that all jobs of the offer need, and as many as the limits allow; and
  // beside both such as models are cut over well.
  std::vector<int> sizes_to_compare(const Offer& offer) {
    std::set<int> sizes;
    const int least = !has_deadline(offer)
                          ? 0
                          : least_in_time(bracket(offer).tried, 1).value_or(offer.most_nodes + 1);
    if (least > 0 && least <= offer.most_nodes) {
      sizes.insert(least);
      // The size just above it is what to buy if more is needed than is predicted.
      sizes.insert(std::min(size_up(least + 1), offer.most_nodes));
      int even = least;
      while (even_down(even) < even) ++even;
      if (even <= offer.most_nodes) sizes.insert(even);
    }
    if (const int most = offer.nodes_in_limits; most > 0)
      sizes.insert({size_down(most), even_down(most)});
    if (sizes.empty()) sizes.insert(offer.most_nodes);
    return {sizes.begin(), sizes.end()};
  }

  // Returns the steps of the offer that all its jobs were tried on. Of steps on which all jobs work
  // on the same GPUs, as 512 and 576 GPUs of NVL72 may be, it returns the first.
  std::vector<SizeStep> complete_steps(const Offer& offer) const {
    std::vector<SizeStep> steps;
    std::set<std::vector<std::pair<int, int>>> seen;
    for (const auto& [step, first] : tried_[offer.cases.front()]) {
      std::vector<std::pair<int, int>> working;
      for (const std::size_t of : offer.cases) {
        const auto tried = tried_[of].find(step);
        if (tried == tried_[of].end()) break;
        working.emplace_back(tried->second.nodes, tried->second.gpus);
      }
      if (working.size() == offer.cases.size() && seen.insert(working).second)
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
      for (const std::size_t of : offer.cases) {
        jobs.push_back(sized->size());
        sized->push_back(priced(tried_[of].at(step)));
      }
      machines.push_back(machine_of(cases_, *sized, jobs));
    }
    return machines;
  }

  // Returns the steps to show: those given, or those that answer one of the questions for the
  // offer.
  std::vector<SizeStep> shown(const Offer& offer) {
    std::vector<SizeStep> steps = complete_steps(offer);
    if (is_given(offer)) return steps;
    std::vector<SizedJob> sized;
    const std::vector<Machine> machines = machines_of(offer, steps, &sized);
    std::set<std::size_t> kept;
    const bool is_timed = has_deadline(offer);
    for (const SizeAnswer::Question question :
         {SizeAnswer::Least, SizeAnswer::Budget, SizeAnswer::Cheapest}) {
      const bool is_asked = question == SizeAnswer::Budget ? offer.nodes_in_limits > 0 : is_timed;
      const auto answer = answering(question, machines, sized, cases_);
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

  // Plays what answers a question, and what size.gpus names, on the chosen engine. Returns whether
  // anything was new.
  Result<bool> play_winners() {
    shown_.clear();
    for (const Offer& offer : offers_) shown_.push_back(shown(offer));
    const SizeResult result = collected();
    std::set<std::size_t> winners;
    for (const SizeAnswer& answer : result.answers) {
      if (answer.machine) winners.insert(*answer.machine);
    }
    if (result.nearest) winners.insert(*result.nearest);
    std::vector<SizedJob*> jobs;
    std::vector<std::pair<std::size_t, double>> before_s;
    for (std::size_t i = 0; i < result.machines.size(); ++i) {
      for (const std::size_t place : result.machines[i].jobs) {
        const SizedJob& job = result.sized[place];
        const bool is_given = !cases_[job.of].inputs.gpus.empty();
        SizedJob& tried = tried_of(job);
        if (!(is_given || winners.contains(i)) || tried.on_engine || !job.result) continue;
        tried.on_engine = true;
        jobs.push_back(&tried);
        before_s.emplace_back(job.of, tried.result->iteration_s);
      }
    }
    RETURN_IF_ERROR(play_sizes(cases_, options_.engine, options_, jobs));
    for (std::size_t i = 0; i < jobs.size(); ++i)
      engine_factor_[before_s[i].first] = jobs[i]->result->iteration_s / before_s[i].second;
    return !jobs.empty();
  }

  // Returns the job's entry among those tried.
  SizedJob& tried_of(const SizedJob& job) {
    auto& tried = tried_[job.of];
    return std::ranges::find_if(tried,
                                [&](const auto& one) {
                                  return one.second.nodes == job.nodes &&
                                         one.second.gpus == job.gpus;
                                })
        ->second;
  }

  // Returns the machines that are shown, compared.
  SizeResult collected() {
    SizeResult result{.seed = cases_.front().inputs.seed};
    for (const SizeCase& c : cases_) result.asked.push_back(c.inputs);
    result.assumptions = cases_.front().assumptions;
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      for (Machine& machine : machines_of(offers_[i], shown_[i], &result.sized))
        result.machines.push_back(std::move(machine));
    }
    compare_machines(cases_, &result);
    return result;
  }

  // Returns the result with every size that all jobs of its offer were tried on. They have the
  // ratios of changes of a size that is shown.
  SizeResult with_all_sizes(const SizeResult& result) {
    SizeResult all{.asked = result.asked, .seed = result.seed};
    const Machine* best = result.recommended() ? &result.machines[*result.recommended()] : nullptr;
    for (const Offer& offer : offers_) {
      for (Machine& machine : machines_of(offer, complete_steps(offer), &all.sized)) {
        const auto gpus = [](const SizeResult& of, const Machine& one) {
          return of.sized[one.jobs.front()].gpus;
        };
        machine.recommended = best != nullptr && machine.offer == best->offer &&
                              machine.nodes == best->nodes &&
                              gpus(all, machine) == gpus(result, *best);
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

  // Sets what the recommended machine's jobs would take with the scenario's own numerics.
  Status play_plain_numerics(SizeResult* result) {
    const std::optional<std::size_t> best = result->recommended();
    if (!best) return Done{};
    for (const std::size_t place : result->machines[*best].jobs) {
      SizedJob& job = result->sized[place];
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
  std::vector<Offer> offers_;
  std::vector<std::map<SizeStep, SizedJob>> tried_;  // by case
  std::vector<std::vector<SizeStep>> shown_;         // by offer
  std::vector<double> engine_factor_;  // by case: the chosen engine over the ideal one
  std::atomic<int> searched_ = 0;
};

}  // namespace

Scenario planned(const SizedJob& job) {
  Scenario scenario = scenario_with(job.scenario, job.plan->candidate);
  // Lists the stages, as the search means them even if they are uneven.
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
