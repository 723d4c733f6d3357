#include "report/size_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "report/table.h"

namespace tandem {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// 1234567 -> "1.23 M".
std::string money(double value) {
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  return value >= 1e3 ? fmt::format("{:.1f} k", value / 1e3) : fmt::format("{:.2f}", value);
}

// The least Gbit/s a node, in the range that is sold.
std::string least_Gbitps(const Outcome& outcome) {
  constexpr double kLeast = 5, kMost = 12'800;
  if (!outcome.looked_for_bandwidth) return "";
  if (!outcome.least_internode_Gbitps) return "none is";
  const double least = *outcome.least_internode_Gbitps;
  if (least <= kLeast) return "<= 5";
  return least > kMost ? "> 12800" : fmt::format("{:.0f}", least);
}

std::string times(double ratio) { return ratio == 1 ? "" : fmt::format("{:.3f}", ratio); }

bool is_guess(const Sized& one) { return one.outcome && one.outcome->calibrated == false; }

std::string mark_of(const Sized& one) {
  if (one.recommended) return "best";
  if (!one.reason.empty()) return one.reason;
  return one.on_frontier ? "frontier" : "";
}

std::vector<std::string> row_of(const Sized& one) {
  std::vector<std::string> row = {one.job, one.candidate, mark_of(one),
                                  fmt::format("{}", one.gpus)};
  if (!one.outcome) {
    row.resize(15);
    return row;
  }
  const Economics& e = one.economics;
  const Outcome& o = *one.outcome;
  for (const std::string& cell :
       {fmt::format("{}+{}", e.nodes, e.spares),
        fmt::format("{:.3f}{}", o.iteration_s, is_guess(one) ? "*" : ""),
        fmt::format("{:.0f}", 100 * o.training->mfu), fmt::format("{:.1f}", e.ideal_days),
        fmt::format("{:.3f}", e.goodput), fmt::format("{:.1f}", e.days_p50()),
        fmt::format("{:.1f}", e.days_p95()), money(e.cost), money(e.cost_per_T),
        fmt::format("{:.0f}", e.energy_MWh), least_Gbitps(o)})
    row.push_back(cell);
  return row;
}

std::string candidates(const SizeResult& result) {
  Rows rows = {{"job", "candidate", "", "GPUs", "nodes", "iteration s", "MFU %", "ideal days",
                "goodput", "days p50", "p95", "cost p95", "a T tokens", "MWh", "least Gbit/s"}};
  std::vector<const Outcome*> played;
  for (const Sized& one : result.sized) {
    rows.push_back(row_of(one));
    if (one.outcome) played.push_back(&*one.outcome);
  }
  return aligned(rows, 3) + uncalibrated_text(played);
}

std::string plans(const SizeResult& result) {
  Rows rows = {{"job", "candidate", "plan", "GPUs", "oversubscribed x 2", "x 4"}};
  for (const Sized& one : result.sized) {
    if (one.outcome && (one.recommended || one.on_frontier))
      rows.push_back({one.job, one.candidate, text_of(one.plan->candidate),
                      fmt::format("{}", one.gpus), times(one.oversubscribed_2),
                      times(one.oversubscribed_4)});
  }
  return aligned(rows, 3);
}

std::string tiers(const SizeResult& result) {
  Rows rows = {{"job", "candidate", "against", "GPUs", "takes", "worth"}};
  for (const TierWorth& tier : result.tiers)
    rows.push_back({tier.job, tier.candidate, tier.best, fmt::format("{}", tier.gpus),
                    fmt::format("{:.3f} times", tier.times_as_long),
                    fmt::format("{:.1f} %", 100 * (tier.times_as_long - 1))});
  return aligned(rows, 3);
}

std::string input_changes(const SizeResult& result) {
  Rows rows = {{"job", "input", "the best is then", "days p95", "cost p95"}};
  for (const InputChange& s : result.input_changes)
    rows.push_back({s.job, s.input, s.recommended.empty() ? "the same" : s.recommended,
                    fmt::format("{:+.1f} %", 100 * s.days_change),
                    fmt::format("{:+.1f} %", 100 * s.cost_change)});
  return aligned(rows, 3);
}

// Whether it was a guess that won, and who is guessed beside it: nobody should prefer by p95 what
// is known least about without knowing that.
std::string guesses(const SizeResult& result, const Sized& best) {
  const auto is_rival = [&](const Sized& one) { return one.job == best.job && one.outcome; };
  std::vector<std::string> names;
  const Sized* known = nullptr;  // the cheapest in time that is calibrated
  for (const Sized& one : result.sized) {
    if (!is_rival(one)) continue;
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
                      best.outcome->cost_model);
  if (known == nullptr) return text + " None that is calibrated is in time.\n";
  return text + fmt::format(
                    " The cheapest that is calibrated: {}, {} GPUs, {:.1f} days (p95 "
                    "{:.1f}), {}.\n",
                    known->candidate, known->gpus, known->economics.days_p50(),
                    known->economics.days_p95(), money(known->economics.cost));
}

std::string conclusions(const SizeResult& result) {
  std::vector<std::string> jobs;
  for (const Sized& one : result.sized) {
    if (std::ranges::find(jobs, one.job) == jobs.end()) jobs.push_back(one.job);
  }
  std::string text;
  for (const std::string& job : jobs) {
    const auto best = std::ranges::find_if(
        result.sized, [&](const Sized& one) { return one.job == job && one.recommended; });
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
    text += guesses(result, *best);
  }
  return text;
}

}  // namespace

std::string size_text(const SizeResult& result) {
  std::string text = candidates(result) + "\n" + conclusions(result);
  text +=
      "\nPlans of the best and of the frontier (days p95 against cost), and how many times as "
      "long their iterations take where the fabric is oversubscribed more:\n" +
      plans(result);
  if (!result.tiers.empty())
    text +=
        "\nNetwork tiers: how much longer the same GPUs take than on the best network, which "
        "is what a node-hour of that may cost more:\n" +
        tiers(result);
  if (!result.input_changes.empty()) text += "\nWhat moves the answer:\n" + input_changes(result);
  return text + fmt::format("\nSeed {:.0f}.\n", result.seed);
}

}  // namespace tandem
