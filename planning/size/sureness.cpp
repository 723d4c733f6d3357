#include "planning/size/sureness.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "base/random.h"
#include "planning/size/machines.h"

namespace tandem {
namespace {

constexpr int kSureDraws = 4000;

// Returns the names of the three causes of a job's error. Equal names are one cause.
std::array<std::string, 3> causes_of(const SizedJob& job) {
  const Scenario scenario = planned(job);
  const std::string& gpu = scenario.cluster.spec.device.name;
  const std::string& precision = scenario.job.plan.precision;
  return {job.result->cost_model, gpu + " in " + precision,
          fmt::format("{} on {}, {} GPUs that work", job.job.empty() ? "the training" : job.job,
                      job.offer, job.gpus)};
}

// Returns the iteration's real time over the predicted one, at so many standard deviations of a
// log-normal error with one width below 1 and another above.
double factor_at(const RunResult& result, double deviations) {
  if (!result.interval_s) return 1;
  const double end = deviations < 0 ? result.interval_s->first : result.interval_s->second;
  return std::pow(end / result.iteration_s, std::abs(deviations) / kNormal95);
}

// The draws with a negative error of a cause, and those with a positive one; and in how many of
// each the recommended machine is the best. If these shares differ much, measuring the cause would
// settle the choice.
struct DrawsBySign {
  double draws[2] = {0, 0}, hits[2] = {0, 0};  // index 1: positive errors

  void add(double error, bool hit) {
    draws[error > 0] += 1;
    hits[error > 0] += hit ? 1 : 0;
  }
  double difference() const {
    if (draws[0] == 0 || draws[1] == 0) return 0;
    return std::abs(hits[0] / draws[0] - hits[1] / draws[1]);
  }
};

// Returns the name of the cause whose sign matters most for the recommendation; empty: none does.
std::string cause_to_measure(const std::map<std::string, std::uint64_t>& causes,
                             const std::vector<DrawsBySign>& draws) {
  constexpr double kLeast = 0.02;  // more than the draws' own noise
  double most = 0;
  std::string cause;
  for (const auto& [name, number] : causes) {
    if (draws[number].difference() < std::max(most, kLeast)) continue;
    most = draws[number].difference();
    cause = name;
  }
  return cause;
}

// The causes of all jobs' errors, numbered.
struct NumberedCauses {
  std::map<std::string, std::uint64_t> numbers;            // by name
  std::vector<std::array<std::uint64_t, 3>> of_jobs = {};  // by index into SizeResult::sized
};

NumberedCauses numbered_causes(const SizeResult& result) {
  NumberedCauses all;
  for (const SizedJob& job : result.sized) {
    auto& numbers = all.of_jobs.emplace_back();
    if (!job.result) continue;
    const auto names = causes_of(job);
    for (std::size_t k = 0; k < names.size(); ++k)
      numbers[k] = all.numbers.try_emplace(names[k], all.numbers.size()).first->second;
  }
  return all;
}

// Returns the machine's total in a draw; infinity: it is late, or beyond the years counted.
// `deviations`: of each job's error.
double total_in(const JobsOfCases& all, const Machine& machine,
                const std::function<double(std::size_t)>& deviations) {
  double total = machine.total, of_years = 0;
  for (const std::size_t sized : machine.jobs) {
    const SizedJob& job = all[sized];
    const SizeInputs& inputs = all.inputs_of(sized);
    const Economics& e = job.economics;
    const double days = e.days_p50() * factor_at(*job.result, deviations(sized));
    if (!std::isfinite(days)) return kNever;
    if (inputs.days > 0 && days + inputs.delivery_days > inputs.days) return kNever;
    of_years += share_of_years(all.case_of(sized), job) * days / e.days_late();
    // The total of what is rented is the jobs' own cost, which counts days_late() of each.
    if (!inputs.years_of_total()) total += inputs.weight * e.cost * (days / e.days_late() - 1);
  }
  return of_years > 1 ? kNever : total;
}

// Returns the cheapest machines in time in a draw: several if their totals are equal.
std::vector<const Machine*> cheapest_in(const JobsOfCases& all,
                                        const std::vector<const Machine*>& candidates,
                                        const std::function<double(std::size_t)>& deviations) {
  constexpr double kEqual = 1e-9;
  std::vector<const Machine*> best;
  double least = kNever;
  for (const Machine* machine : candidates) {
    const double total = total_in(all, *machine, deviations);
    if (total < least * (1 - kEqual)) {
      best = {machine};
      least = total;
    } else if (total < kNever && total <= least * (1 + kEqual)) {
      best.push_back(machine);
    }
  }
  return best;
}

}  // namespace

std::optional<Sureness> sureness(const std::vector<SizeCase>& cases, const SizeResult& result) {
  if (!result.recommended()) return std::nullopt;
  const Machine* const chosen = &result.machines[*result.recommended()];
  const JobsOfCases all{cases, result.sized};
  const NumberedCauses causes = numbered_causes(result);
  std::vector<const Machine*> candidates;
  for (const Machine& machine : result.machines) {
    if (can_run_within_limits(all, machine)) candidates.push_back(&machine);
  }
  Sureness sure;
  std::map<std::string, double> offers;
  std::vector<DrawsBySign> by_sign(causes.numbers.size());
  const std::uint64_t seed = scatter(static_cast<std::uint64_t>(result.seed) + 7);
  for (int draw = 0; draw < kSureDraws; ++draw) {
    const std::uint64_t key = scatter(seed + static_cast<std::uint64_t>(draw));
    std::vector<double> errors(causes.numbers.size());
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = normal(scatter(key + 2 * i));
    const auto deviations = [&](std::size_t sized) {
      double sum = 0;
      for (const std::uint64_t cause : causes.of_jobs[sized]) sum += errors[cause];
      return sum / std::sqrt(static_cast<double>(causes.of_jobs[sized].size()));
    };
    const std::vector<const Machine*> best = cheapest_in(all, candidates, deviations);
    if (best.empty()) sure.none += 1.0 / kSureDraws;
    for (const Machine* machine : best) {
      const double share = 1.0 / kSureDraws / static_cast<double>(best.size());
      offers[machine->offer] += share;
      if (machine == chosen) sure.machine += share;
    }
    const bool hit = std::ranges::find(best, chosen) != best.end();
    for (std::size_t i = 0; i < errors.size(); ++i) by_sign[i].add(errors[i], hit);
  }
  sure.offers.assign(offers.begin(), offers.end());
  std::ranges::stable_sort(sure.offers, std::ranges::greater(),
                           [](const auto& offer) { return offer.second; });
  sure.measure = cause_to_measure(causes.numbers, by_sign);
  return sure;
}

}  // namespace tandem
