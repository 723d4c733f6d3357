#include "report/text/size_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "report/text/table.h"

namespace tandem {
namespace {

// Writes 1234567 as "1.23 M".
std::string money(double value) {
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.1f} k", value / 1e3) : fmt::format("{:.2f}", value);
}

// Writes the least bandwidth that is enough, in Gbit/s a node. Outside the range that is sold it is
// "<= 5" or "> 12800".
std::string least_Gbitps(const RunResult& result) {
  constexpr double kLeast = 5, kMost = 12'800;
  if (!result.looked_for_bandwidth) return "";
  if (!result.least_internode_Gbitps) return "none is";
  const double least = *result.least_internode_Gbitps;
  if (least <= kLeast) return "<= 5";
  return least > kMost ? "> 12800" : fmt::format("{:.0f}", least);
}

std::string times(double ratio) { return ratio == 1 ? "" : fmt::format("{:.3f}", ratio); }

bool is_guess(const SizedCandidate& one) { return one.result && one.result->calibrated == false; }

std::string mark_of(const SizedCandidate& one) {
  if (one.recommended) return "best";
  if (!one.reason.empty()) return one.reason;
  return one.on_frontier ? "frontier" : "";
}

template <class Value>  // a function of a RunResult and its Economics
Column<SizedCandidate> played(const char* title, Value value, Place place) {
  return {title,
          [value](const SizedCandidate& one) {
            return one.result ? std::string(value(*one.result, one.economics)) : "";
          },
          place};
}

Column<SizedCandidate> job() {
  return {"job", [](const SizedCandidate& one) { return one.job; }, Place::Name};
}

Column<SizedCandidate> candidate() {
  return {"candidate", [](const SizedCandidate& one) { return one.candidate; }, Place::Name};
}

Column<SizedCandidate> gpus(Place place) {
  return {"GPUs", [](const SizedCandidate& one) { return fmt::format("{}", one.gpus); }, place,
          Align::Right};
}

std::string candidates(const SizeResult& result, int width) {
  using O = const RunResult&;
  using E = const Economics&;
  const auto tenths = [](double value) { return fmt::format("{:.1f}", value); };
  const std::vector<Column<SizedCandidate>> columns = {
      job(),
      candidate(),
      {"", mark_of, Place::First, Align::Left},
      gpus(Place::Name),
      played(
          "nodes", [](O, E e) { return fmt::format("{}+{}", e.nodes, e.spares); }, Place::Second),
      played(
          "iteration s", [](O o, E) { return iteration_text(o); }, Place::Second),
      played(
          "tokens/s/GPU", [](O o, E) { return tokens_rate(*o.training); }, Place::First),
      played(
          "MFU %", [](O o, E) { return fmt::format("{:.0f}", 100 * o.training->mfu); },
          Place::Second),
      played(
          "days a T tokens", [=](O, E e) { return tenths(e.days_per_T); }, Place::Second),
      played(
          "ideal days", [=](O, E e) { return tenths(e.ideal_days); }, Place::Second),
      played(
          "goodput", [](O, E e) { return fmt::format("{:.3f}", e.goodput); }, Place::Second),
      played(
          "days p50", [=](O, E e) { return tenths(e.days_p50()); }, Place::First),
      played(
          "p95", [=](O, E e) { return tenths(e.days_p95()); }, Place::Beside),
      played(
          "cost p95", [](O, E e) { return money(e.cost); }, Place::First),
      played(
          "a T tokens", [](O, E e) { return money(e.cost_per_T); }, Place::First),
      played(
          "MWh", [](O, E e) { return fmt::format("{:.0f}", e.energy_MWh); }, Place::First),
      played(
          "least Gbit/s", [](O o, E) { return least_Gbitps(o); }, Place::Second)};
  return text_table(columns, result.sized, width);
}

std::string plans(const SizeResult& result, int width) {
  const std::vector<Column<SizedCandidate>> columns = {
      job(),
      candidate(),
      {"plan", [](const SizedCandidate& one) { return plan_text(one.plan->candidate); },
       Place::Second, Align::Left},
      gpus(Place::First),
      {"oversubscribed x 2", [](const SizedCandidate& one) { return times(one.oversubscribed_2); },
       Place::First},
      {"x 4", [](const SizedCandidate& one) { return times(one.oversubscribed_4); },
       Place::Beside}};
  const auto shown = [](const SizedCandidate& one) {
    return one.result && (one.recommended || one.on_frontier);
  };
  return text_table(columns, rows_where(result.sized, shown), width);
}

std::string tiers(const SizeResult& result, int width) {
  using Row = const NetworkComparison&;
  const std::vector<Column<NetworkComparison>> columns = {
      {"job", [](Row t) { return t.job; }, Place::Name},
      {"candidate", [](Row t) { return t.candidate; }, Place::Name},
      {"against", [](Row t) { return t.best; }, Place::Second, Align::Left},
      {"GPUs", [](Row t) { return fmt::format("{}", t.gpus); }, Place::First},
      {"takes", [](Row t) { return fmt::format("{:.3f} times", t.times_as_long); }, Place::First},
      {"worth", [](Row t) { return fmt::format("{:.1f} %", 100 * (t.times_as_long - 1)); },
       Place::First}};
  return text_table(columns, result.tiers, width);
}

std::string input_changes(const SizeResult& result, int width) {
  using Row = const InputChange&;
  const auto change = [](double share) { return fmt::format("{:+.1f} %", 100 * share); };
  const std::vector<Column<InputChange>> columns = {
      {"job", [](Row s) { return s.job; }, Place::Name},
      {"input", [](Row s) { return s.input; }, Place::Name},
      {"the best is then", [](Row s) { return s.recommended.empty() ? "the same" : s.recommended; },
       Place::Second, Align::Left},
      {"days p95", [=](Row s) { return change(s.days_change); }, Place::First},
      {"cost p95", [=](Row s) { return change(s.cost_change); }, Place::First}};
  return text_table(columns, result.input_changes, width);
}

std::vector<const RunResult*> results(const SizeResult& result) {
  std::vector<const RunResult*> all;
  for (const SizedCandidate& one : result.sized) {
    if (one.result) all.push_back(&*one.result);
  }
  return all;
}

// Warns if a job's candidates include guesses (not calibrated), and says whether the best is one. A
// guess has the widest interval, so its p95 says little.
std::string guess_warning(const SizeResult& result, const SizedCandidate& best) {
  const auto is_of_job = [&](const SizedCandidate& one) {
    return one.job == best.job && one.result;
  };
  std::vector<std::string> names;
  const SizedCandidate* known = nullptr;  // the cheapest of those in time that are calibrated
  for (const SizedCandidate& one : result.sized) {
    if (!is_of_job(one)) continue;
    if (is_guess(one)) {
      if (std::ranges::find(names, one.candidate) == names.end()) names.push_back(one.candidate);
    } else if (one.reason.empty() &&
               (known == nullptr || one.economics.cost < known->economics.cost)) {
      known = &one;
    }
  }
  if (names.empty()) return "";
  std::string text =
      fmt::format("This weighs guesses, whose p95 is of the widest interval: {} {} not calibrated.",
                  fmt::join(names, "; "), names.size() == 1 ? "is" : "are");
  if (!is_guess(best)) return text + " The best is calibrated.\n";
  text += fmt::format(" The best, {}, is one: no measured run stands behind {}.", best.candidate,
                      best.result->cost_model);
  if (known == nullptr) return text + " None that is calibrated is in time.\n";
  return text + fmt::format(
                    " The cheapest that is calibrated: {}, {} GPUs, {:.1f} days (p95 "
                    "{:.1f}), {}.\n",
                    known->candidate, known->gpus, known->economics.days_p50(),
                    known->economics.days_p95(), money(known->economics.cost));
}

std::string sizing_conclusions(const SizeResult& result) {
  std::vector<std::string> jobs;
  for (const SizedCandidate& one : result.sized) {
    if (std::ranges::find(jobs, one.job) == jobs.end()) jobs.push_back(one.job);
  }
  std::string text;
  for (const std::string& job : jobs) {
    const auto best = std::ranges::find_if(
        result.sized, [&](const SizedCandidate& one) { return one.job == job && one.recommended; });
    const std::string of = job.empty() ? "" : job + ": ";
    if (best == result.sized.end()) {
      text += of + "no candidate is in time, budget and memory.\n";
      continue;
    }
    const Economics& e = best->economics;
    text += fmt::format(
        "{}{}, {} GPUs: the cheapest in time: {:.1f} days (p95 {:.1f}), {} in all, {} a trillion "
        "tokens, {:.0f} MWh; a checkpoint every {:.0f} min, {} spare node{}.\n",
        of, best->candidate, best->gpus, e.days_p50(), e.days_p95(), money(e.cost),
        money(e.cost_per_T), e.energy_MWh, e.checkpoint_interval_s / 60, e.spares,
        e.spares == 1 ? "" : "s");
    text += guess_warning(result, *best);
  }
  return text;
}

}  // namespace

std::string size_text(const SizeResult& result, int width) {
  const auto wrapped_text = [width](const std::string& prose) { return wrapped(prose, width); };
  std::string text = candidates(result, width) + "\n" + wrapped_text(notes(results(result))) +
                     "\n" + wrapped_text(sizing_conclusions(result));
  text += wrapped_text(
              "\nPlans of the best and of the frontier (days p95 against cost), and how many times "
              "as long their iterations take where the fabric is oversubscribed more:\n") +
          plans(result, width);
  if (!result.tiers.empty())
    text += wrapped_text(
                "\nNetwork tiers: how much longer the same GPUs take than on the best network, "
                "which is what a node-hour of that may cost more:\n") +
            tiers(result, width);
  if (!result.input_changes.empty())
    text += "\nWhat moves the answer:\n" + input_changes(result, width);
  return text + fmt::format("\nSeed {:.0f}.\n", result.seed);
}

}  // namespace tandem
