// Sizes a purchase. For each offer, a search tries numbers of nodes: it tunes a plan for every job
// on each, and plays it on the ideal engine. Sizes that answer a question are then played on the
// chosen engine. If they take longer there, the search goes on with all ideal times scaled by that
// factor. For example, a job that may take 90 days takes 120 on 64 nodes, 80 on 96, 87 on 88 and 91
// on 84. So 88 are the fewest. On SimGrid they take 4 % longer, 91 days: the fewest are then 92.
#include "planning/size/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "planning/size/fit_plan.h"
#include "planning/size/machines.h"
#include "planning/size/play_sizes.h"
#include "planning/size/size_steps.h"
#include "planning/size/size_trials.h"
#include "planning/size/sureness.h"
#include "planning/size/tornado.h"

namespace tandem {
namespace {

constexpr int kMostGpus = 131'072;  // the most that a search without size.gpus tries

// An offer, with the cases of its jobs.
struct Offer {
  std::vector<std::size_t> cases;
  int most_nodes = 1;  // the search's upper end
  // The most nodes that may work within the limits of [size]; nothing: there are no limits.
  std::optional<int> nodes_in_limits;
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
    const int no_limit = offer.most_nodes + 1;
    const int most = nodes_within(first.inputs, first.node_gpus(), no_limit);
    if (most < no_limit) offer.nodes_in_limits = working_nodes_within(first, most);
    if (first.inputs.gpus_max > 0 && offer.nodes_in_limits)
      offer.most_nodes = *offer.nodes_in_limits;
    return offer;
  }

  // Returns the most nodes that may work if, with their spares, there are at most `most`, and they
  // and their network are within the purchase budget.
  static int working_nodes_within(const SizeCase& c, int most) {
    const SizeInputs& inputs = c.inputs;
    // A plan may use 64 GPUs of a rack's 72. The idle ones stand in, so fewer racks are spares.
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

  // An offer's sizes tried so far. TriedSize::days is the largest share_of_days() of its jobs, or
  // the sum of their share_of_years() if that is larger.
  struct Bracket {
    std::vector<TriedSize> tried;
    std::optional<SizeTrial> missing;  // a trial that may change `tried`
  };
  Bracket bracket(const Offer& offer) const {
    Bracket found;
    const std::size_t first = offer.cases.front();
    for (const SizeStep& step : trials_.steps_of(first)) {
      double worst = 0, of_years = 0;
      for (const std::size_t case_index : offer.cases) {
        if (!trials_.has(case_index, step)) {
          found.missing = {case_index, step};
          break;
        }
        const SizedJob job = trials_.on(case_index, step);
        worst = std::max(worst, trials_.share_of_days(job));
        of_years += share_of_years(cases_[case_index], job);
        if (worst <= 1) continue;
        // The job is late, but may be in time on fewer of the nodes: then it uses only these. For
        // the offer's first job no trial is added, as next_size() tries fewer nodes with it.
        const SizeInputs& inputs = cases_[case_index].inputs;
        const auto fewer = on_fewer_nodes(case_index, step, inputs.days - inputs.delivery_days);
        if (case_index != first && fewer) found.missing = fewer;
        break;
      }
      found.tried.push_back({step.nodes, std::max(worst, of_years)});
    }
    return found;
  }

  // Returns the case on fewer nodes than the step's, over which models are cut well and on which it
  // may take at most `days`; nothing: all such were tried. The step's other nodes then stand by.
  std::optional<SizeTrial> on_fewer_nodes(std::size_t case_index, const SizeStep& step,
                                          double days) const {
    const auto nodes = even_within(trials_.days_of(case_index), days, step.nodes);
    if (!nodes) return std::nullopt;
    return on_whole_nodes(case_index, *nodes);
  }

  // Guesses the nodes that an offer's first job with size.days needs, from 6 FLOPs a parameter and
  // token at 40 % of the peak.
  int guess(const Offer& offer) const {
    const SizeCase& c = cases_[*std::ranges::find_if(
        offer.cases, [&](std::size_t i) { return cases_[i].inputs.days > 0; })];
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
    const auto nodes = next_size(found.tried, /*days=*/1, guess(offer), offer.most_nodes);
    if (!nodes) return std::nullopt;
    return on_whole_nodes(first, *nodes);
  }

  // Finds the fewest nodes on which all jobs of an offer are in time, unless it has size.gpus. Then
  // tries all jobs on the sizes to compare, and on fewer nodes that may take fewer days.
  Status try_sizes() {
    std::vector<SizeTrial> wanted;
    do {
      RETURN_IF_ERROR(trials_.run(wanted));
      wanted.clear();
      for (const Offer& offer : offers_) {
        if (!given_sizes(offer).empty() || !has_deadline(offer)) continue;
        if (const auto next = next_trial(offer)) wanted.push_back(*next);
      }
    } while (!wanted.empty());
    for (const Offer& offer : offers_) {
      for (const std::size_t case_index : offer.cases) {
        for (const SizeStep& step : steps_to_compare(offer)) wanted.push_back({case_index, step});
      }
    }
    const std::vector<SizeTrial> compared = wanted;
    while (!wanted.empty()) {
      RETURN_IF_ERROR(trials_.run(wanted));
      wanted.clear();
      for (const auto& [case_index, step] : compared) {
        const double days = SizeTrials::days(trials_.on(case_index, step));
        if (const auto fewer = on_fewer_nodes(case_index, step, days)) wanted.push_back(*fewer);
      }
    }
    return Done{};
  }

  // Returns the sizes of size.gpus; or else the fewest nodes that all jobs of the offer need and
  // the most that the limits allow, each with a number near it over which models are cut well.
  std::vector<SizeStep> steps_to_compare(const Offer& offer) const {
    std::vector<SizeStep> steps;
    const std::size_t first = offer.cases.front();
    const int node_gpus = cases_[first].node_gpus();
    for (const int gpus : given_sizes(offer))
      steps.push_back({(gpus + node_gpus - 1) / node_gpus, gpus});
    if (!steps.empty()) return steps;
    std::set<int> sizes;
    std::optional<int> least;
    if (has_deadline(offer)) least = least_in_time(bracket(offer).tried, /*days=*/1);
    if (least && *least <= offer.most_nodes) {
      sizes.insert(*least);
      // The size just above it is what to buy if more is needed than is predicted.
      sizes.insert(std::min(size_up(*least + 1), offer.most_nodes));
      int even_up = *least;
      while (even_down(even_up) < even_up) ++even_up;
      if (even_up <= offer.most_nodes) sizes.insert(even_up);
    }
    if (const auto most = offer.nodes_in_limits) sizes.insert({size_down(*most), even_down(*most)});
    if (sizes.empty()) sizes.insert(offer.most_nodes);
    for (const int nodes : sizes) steps.push_back(on_whole_nodes(first, nodes).step);
    return steps;
  }

  // Returns those of the steps that all jobs of the offer were tried on, in order; of several on
  // which each job has the same nodes and GPUs, as may be on 512 and 576 of NVL72, only the first.
  std::vector<SizeStep> complete_steps(const Offer& offer, std::vector<SizeStep> steps) const {
    std::ranges::sort(steps);
    std::set<std::vector<SizeStep>> known;
    std::erase_if(steps, [&](const SizeStep& step) {
      std::vector<SizeStep> used;  // by job
      for (const std::size_t case_index : offer.cases) {
        if (!trials_.has(case_index, step)) return true;
        const SizedJob job = trials_.on(case_index, step);
        const int standing_by = std::max(job.idle_nodes, job.economics.spares);
        used.push_back({job.nodes + standing_by, job.gpus});
      }
      return !known.insert(used).second;
    });
    return steps;
  }
  // Returns the offer's sizes that its choice is among: those of size.gpus, or else all that were
  // tried.
  std::vector<SizeStep> eligible_steps(const Offer& offer) const {
    return complete_steps(offer, given_sizes(offer).empty() ? trials_.steps_of(offer.cases.front())
                                                            : steps_to_compare(offer));
  }

  // Returns the offer's machines of these steps; their jobs are appended to `sized`.
  std::vector<Machine> machines_of(const Offer& offer, const std::vector<SizeStep>& steps,
                                   std::vector<SizedJob>* sized) {
    std::vector<Machine> machines;
    for (const SizeStep& step : steps) {
      std::vector<std::size_t> jobs;
      for (const std::size_t case_index : offer.cases) {
        jobs.push_back(sized->size());
        SizedJob& job = sized->emplace_back(trials_.on(case_index, step));
        if (job.result) make_endless_if_failing(cases_[case_index].inputs, &job.economics);
      }
      machines.push_back(machine_of({cases_, *sized}, jobs));
    }
    return machines;
  }

  // Returns the steps to show: those of size.gpus, or else those that answer a question if only
  // this offer is asked; if none does, the one with the least excess.
  std::vector<SizeStep> steps_to_show(const Offer& offer) {
    const std::vector<SizeStep> steps = eligible_steps(offer);
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
    result.unused_keys = unused_keys_of(cases_);
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      for (Machine& machine : machines_of(offers_[i], shown_[i], &result.sized))
        result.machines.push_back(std::move(machine));
    }
    compare_machines(cases_, &result);
    return result;
  }

  // Returns the result with every size that an offer's choice is among. The effects of NICs, which
  // were played for the shown sizes alone, are those of the case's first shown size.
  SizeResult with_all_sizes(const SizeResult& result) {
    SizeResult all{.asked = result.asked, .seed = result.seed};
    const Machine* best = result.recommended() ? &result.machines[*result.recommended()] : nullptr;
    const int best_gpus = best != nullptr ? result.sized[best->jobs.front()].gpus : 0;
    for (const Offer& offer : offers_) {
      for (Machine& machine : machines_of(offer, eligible_steps(offer), &all.sized)) {
        machine.recommended = best != nullptr && machine.offer == best->offer &&
                              machine.nodes == best->nodes && machine.spares == best->spares &&
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

  // Sets SizedJob::plain_numerics of the recommended machine's jobs, from the ideal engine.
  Status play_plain_numerics(SizeResult* result) {
    const std::optional<std::size_t> best = result->recommended();
    if (!best) return Done{};
    for (const std::size_t sized : result->machines[*best].jobs) {
      SizedJob& job = result->sized[sized];
      if (!cases_[job.of].inputs.any_numerics) continue;
      ASSIGN_OR_RETURN(std::vector<SizedJob> plain,
                       with_plain_numerics(job, among_, options_.stop));
      SizedJob own = job;
      std::vector<SizedJob*> jobs = {&own};
      for (SizedJob& plan : plain) jobs.push_back(&plan);
      RETURN_IF_ERROR(play_sizes(cases_, Engine::Ideal, options_, jobs));
      if (const auto& best_plain = best_of(cases_, plain).result)
        job.plain_numerics = best_plain->iteration_s / own.result->iteration_s;
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
