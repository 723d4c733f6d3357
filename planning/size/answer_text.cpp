#include "planning/size/answer_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "planning/size/machines.h"

namespace tandem {
namespace {

// Returns " in fp8 (mxfp8) by deepep, 1.61 times as fast as in bf16", where bf16 is the scenario's
// own precision; empty: the search did not choose numerics.
std::string numerics_text(const SizedJob& job) {
  std::string text;
  bool has_recipe = false;
  for (const auto& [key, value] : plan_settings(job.plan->candidate)) {
    if (key == "train.precision") text += " in " + value;
    if (key == "train.precision") has_recipe = value == "fp8";
    if (key == "train.fp8_recipe" && has_recipe) text += " (" + value + ")";
    if (key == "parallel.dispatcher") text += " by " + value;
  }
  constexpr double kLeastGain = 1.005;  // a smaller one is not worth a word
  if (!job.plain_numerics || *job.plain_numerics <= kLeastGain) return text;
  const std::string own = job.scenario.job.plan.precision;
  const bool is_own = planned(job).job.plan.precision == own;
  return text + fmt::format(", {:.2f} times as fast as {}", *job.plain_numerics,
                            is_own ? "with the scenario's recipe and dispatcher" : "in " + own);
}

// Returns "Llama 3 70B takes 71.2 days, at most 88.0 of 90 with 95 % certainty"; `whole`: with plan
// and price.
std::string job_text(const SizeInputs& asked, const SizedJob& job, bool whole) {
  const std::string name = job.job.empty() ? "The training" : job.job;
  if (!job.result) return fmt::format("{}: {}", name, job.reason);
  const Economics& e = job.economics;
  if (!std::isfinite(e.days_p50())) return name + " never ends";
  std::string text =
      fmt::format("{} takes {:.1f} days, at most {:.1f}", name, e.days_p50(), e.days_late());
  if (asked.days > 0) text += fmt::format(" of {:g}", asked.days);
  text += fmt::format(" with {:g} % certainty", 100 * asked.certainty);
  if (!whole) return text;
  return text + fmt::format(", on {} GPUs with a batch of {}{}, for {} a million tokens", job.gpus,
                            job.batch(), numerics_text(job),
                            money_text(e.cost_per_T / 1e6, asked.price.currency));
}

std::string jobs_text(const SizeResult& result, const Machine& machine, bool whole) {
  std::vector<std::string> jobs;
  for (const std::size_t job : machine.jobs)
    jobs.push_back(job_text(result.asked[result.sized[job].of], result.sized[job], whole));
  return fmt::format("{}.", fmt::join(jobs, "; "));
}

const SizeInputs& asked_of(const SizeResult& result, const Machine& machine) {
  return result.asked[result.sized[machine.jobs.front()].of];
}

// Returns "22.66 M $ over 4 years", or "3.10 M $ in all" of what is rented for the trainings.
std::string total_text(const SizeResult& result, const Machine& machine) {
  const SizeInputs& asked = asked_of(result, machine);
  const std::optional<double> years = asked.years_of_total();
  return money_text(machine.total, asked.price.currency) +
         (years ? fmt::format(" over {:g} years", *years) : " in all");
}

bool is_unbuildable(const Machine& machine) { return machine.network_price == kNever; }

std::string excess_text(const Machine& machine) {
  if (!std::isfinite(machine.excess)) return machine.reason;
  return fmt::format("{} by {:.1f} %", machine.reason, 100 * (machine.excess - 1));
}

}  // namespace

std::string money_text(double value, const std::string& currency) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.2f} G {}", value / 1e9, currency);
  if (size >= 1e6) return fmt::format("{:.2f} M {}", value / 1e6, currency);
  if (size >= 1e3) return fmt::format("{:.1f} k {}", value / 1e3, currency);
  if (size >= 0.1 || size == 0) return fmt::format("{:.2f} {}", value, currency);
  return fmt::format("{:.2g} {}", value, currency);
}

std::string late_word(double certainty) { return fmt::format("p{:g}", 100 * certainty); }

std::string question_word(SizeAnswer::Question question) {
  constexpr const char* kWords[] = {"least", "budget", "cheapest"};
  return kWords[question];
}

std::string machine_text(const SizeResult& result, const Machine& machine) {
  const SizeInputs& asked = asked_of(result, machine);
  const auto money = [&](double value) { return money_text(value, asked.price.currency); };
  const int nodes = machine.nodes + machine.spares;
  constexpr int kRack = 16;  // GPUs; more in one node are called a rack
  const char* word = machine.gpus > kRack * nodes ? "rack" : "node";
  std::string text = fmt::format("{} {}{} of {} ({} GPUs", nodes, word, nodes == 1 ? "" : "s",
                                 machine.offer, machine.gpus);
  if (machine.spares > 0)
    text += fmt::format("; {} of the {}s stand{} by", machine.spares, word,
                        machine.spares == 1 ? "s" : "");
  text += asked.price.bought() ? fmt::format(") for {}", money(machine.costs.purchase))
                               : fmt::format(") for {} a month", money(machine.costs.monthly));
  return machine.network ? text : text + ", if its network can be built";
}

std::string answer_text(const SizeResult& result, const SizeAnswer& answer) {
  constexpr const char* kAnswers[] = {"The smallest tried that is in time",
                                      "The earliest within the limits",
                                      "the cheapest that is in time and within the limits"};
  constexpr const char* kNone[] = {"Nothing is in time", "Nothing is within the limits",
                                   "Nothing is in time and within the limits"};
  if (!answer.machine) {
    const bool unbuildable = answer.question == SizeAnswer::Least &&
                             std::ranges::any_of(result.machines, is_unbuildable);
    const std::string none = fmt::format(
        "{}.", unbuildable ? "Nothing that can be built is in time" : kNone[answer.question]);
    if (answer.question != SizeAnswer::Cheapest || !result.nearest) return none;
    const Machine& nearest = result.machines[*result.nearest];
    return fmt::format("{} The nearest: {}, {}. {}", none, machine_text(result, nearest),
                       excess_text(nearest), jobs_text(result, nearest, /*whole=*/true));
  }
  const Machine& machine = result.machines[*answer.machine];
  if (answer.question != SizeAnswer::Cheapest) {
    if (machine.recommended) return fmt::format("{}: the same.", kAnswers[answer.question]);
    const bool by_total =
        answer.question == SizeAnswer::Least && are_bought_and_rented(result.machines);
    std::string text =
        fmt::format("{}{}: {}", kAnswers[answer.question],
                    by_total ? " (by total, " + total_text(result, machine) + ")" : "",
                    machine_text(result, machine));
    if (!machine.reason.empty()) text += fmt::format(", {}", excess_text(machine));
    return text + ". " + jobs_text(result, machine, /*whole=*/false);
  }
  std::string text = fmt::format(
      "{} {}: {}, {}", asked_of(result, machine).price.bought() ? "Buy" : "Rent",
      machine_text(result, machine), kAnswers[answer.question], total_text(result, machine));
  if (machine.costs.peak_MW > 0) text += fmt::format(", up to {:.3g} MW", machine.costs.peak_MW);
  return text + ". " + jobs_text(result, machine, /*whole=*/true);
}

}  // namespace tandem
