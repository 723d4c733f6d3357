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

// The three causes of a job's error, by name. Equal names are one cause.
std::array<std::string, 3> causes_of(const SizedJob& job) {
  const Scenario scenario = planned(job);
  const std::string& gpu = scenario.cluster.spec.device.name;
  const std::string& precision = scenario.job.plan.precision;
  return {job.result->cost_model, gpu + " in " + precision,
          fmt::format("{} on {}, {} GPUs", job.job.empty() ? "the training" : job.job, job.offer,
                      job.gpus)};
}

// Returns the factor of an iteration at so many deviations, log-normal on either side of 1.
double factor_at(const RunResult& result, double deviations) {
  if (!result.interval_s) return 1;
  const double end = deviations < 0 ? result.interval_s->first : result.interval_s->second;
  return std::pow(end / result.iteration_s, std::abs(deviations) / kNormal95);
}

// The draws in which a cause takes less time than predicted, or more, and in how many of them the
// recommended machine is the best.
struct Sides {
  double draws[2] = {0, 0}, hits[2] = {0, 0};

  void add(double error, bool hit) {
    draws[error > 0] += 1;
    hits[error > 0] += hit ? 1 : 0;
  }
  double difference() const {
    if (draws[0] == 0 || draws[1] == 0) return 0;
    return std::abs(hits[0] / draws[0] - hits[1] / draws[1]);
  }
};

// Returns the machine's total in a draw; infinity: it is late.
double total_in(const std::vector<SizeCase>& cases, const SizeResult& result,
                const Machine& machine, const std::function<double(std::size_t)>& deviations) {
  double total = machine.total;
  for (const std::size_t place : machine.jobs) {
    const SizedJob& job = result.sized[place];
    const SizeInputs& inputs = cases[job.of].inputs;
    const Economics& e = job.economics;
    const double days = e.days_p50() * factor_at(*job.result, deviations(place));
    if (inputs.days > 0 && days + inputs.delivery_days > inputs.days) return kNever;
    if (inputs.years == 0 && !inputs.price.bought())
      total += inputs.weight * e.cost * (days / e.days_late() - 1);
  }
  return total;
}

bool can_run(const SizeResult& result, const Machine& machine) {
  return std::ranges::all_of(machine.jobs, [&](std::size_t place) {
    const SizedJob& job = result.sized[place];
    return job.result && job.result->training->fits;
  });
}

}  // namespace

std::optional<Sureness> sureness(const std::vector<SizeCase>& cases, const SizeResult& result) {
  const std::optional<std::size_t> chosen = result.recommended();
  if (!chosen) return std::nullopt;
  std::map<std::string, std::uint64_t> names;  // of causes, each with its number
  std::vector<std::array<std::uint64_t, 3>> causes(result.sized.size());
  for (std::size_t i = 0; i < result.sized.size(); ++i) {
    if (!result.sized[i].result) continue;
    const auto own = causes_of(result.sized[i]);
    for (std::size_t k = 0; k < own.size(); ++k)
      causes[i][k] = names.try_emplace(own[k], names.size()).first->second;
  }
  std::vector<std::size_t> running;
  for (std::size_t m = 0; m < result.machines.size(); ++m) {
    const Machine& machine = result.machines[m];
    if (can_run(result, machine) && within_limits(cases, result.sized, machine))
      running.push_back(m);
  }
  Sureness sure;
  std::map<std::string, double> offers;
  std::vector<Sides> sides(names.size());
  const std::uint64_t seed = scatter(static_cast<std::uint64_t>(result.seed) + 7);
  for (int draw = 0; draw < kSureDraws; ++draw) {
    const std::uint64_t key = scatter(seed + static_cast<std::uint64_t>(draw));
    std::vector<double> errors(names.size());
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = normal(scatter(key + 2 * i));
    const auto deviations = [&](std::size_t place) {
      double sum = 0;
      for (const std::uint64_t cause : causes[place]) sum += errors[cause];
      return sum / std::sqrt(static_cast<double>(causes[place].size()));
    };
    std::vector<std::size_t> best;
    double least = kNever;
    for (const std::size_t m : running) {
      const double total = total_in(cases, result, result.machines[m], deviations);
      constexpr double kEqual = 1e-9;
      if (total < least * (1 - kEqual)) {
        best = {m};
        least = total;
      } else if (total < kNever && total <= least * (1 + kEqual)) {
        best.push_back(m);
      }
    }
    if (best.empty()) sure.none += 1.0 / kSureDraws;
    for (const std::size_t m : best) {
      const double share = 1.0 / kSureDraws / static_cast<double>(best.size());
      offers[result.machines[m].offer] += share;
      if (m == *chosen) sure.machine += share;
    }
    const bool hit = std::ranges::find(best, *chosen) != best.end();
    for (std::size_t i = 0; i < errors.size(); ++i) sides[i].add(errors[i], hit);
  }
  sure.offers.assign(offers.begin(), offers.end());
  std::ranges::stable_sort(sure.offers, std::ranges::greater(),
                           [](const auto& offer) { return offer.second; });
  double most = 0;
  for (const auto& [name, number] : names) {
    constexpr double kSeen = 0.02;  // more than the draws' own noise
    if (sides[number].difference() < std::max(most, kSeen)) continue;
    most = sides[number].difference();
    sure.measure = name;
  }
  return sure;
}

}  // namespace tandem
