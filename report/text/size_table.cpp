// Writes what tandem size found, most important first: answers, then a table of machines, one of
// jobs on them, plans, networks, network tiers, and what the answer depends on.
#include "report/text/size_table.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "planning/size/answer_text.h"
#include "report/text/table.h"

namespace tandem {
namespace {

// Writes the least bandwidth that is enough, in Gbit/s a node. Outside the range that is sold it is
// "<= 5" or "> 12800".
std::string least_Gbitps(const RunResult& result) {
  if (!result.looked_for_bandwidth) return "";
  if (!result.least_internode_Gbitps) return "none is";
  const double least = *result.least_internode_Gbitps;
  if (least <= 5) return "<= 5";
  return least > 12'800 ? "> 12800" : fmt::format("{:.0f}", least);
}

// Returns the percentile of days that must be in time: "p95".
std::string late_percentile(const SizeResult& result) {
  return late_word(result.asked.front().certainty);
}

bool is_guessed(const SizedJob& job) { return job.result && is_guess(job.result->calibrated); }

// Returns whether the file says what a node of some offer draws.
bool has_power(const SizeResult& result) {
  return std::ranges::any_of(result.machines,
                             [](const Machine& machine) { return machine.costs.peak_MW > 0; });
}

// Returns the number as `text_of` writes it; "-" for 0 and infinity, which stand for unknown.
template <class Text>
std::string if_known(double value, Text text_of) {
  return value > 0 && std::isfinite(value) ? text_of(value) : "-";
}

// Rows of the tables of machines and of jobs. all.asked[job.of] is what the job's run in the file
// states, the currency among it.
struct MachineRow {
  const SizeResult& all;
  const Machine& machine;

  const std::string& currency() const {
    return all.asked[all.sized[machine.jobs.front()].of].price.currency;
  }
};
struct JobRow {
  const SizeResult& all;
  const SizedJob& job;

  const std::string& currency() const { return all.asked[job.of].price.currency; }
};

// Says that a machine is the best, why it is ruled out, or that it is on the frontier of time and
// cost.
std::string mark_of(const SizeResult& result, const Machine& machine) {
  if (machine.recommended) return "best";
  if (!machine.reason.empty()) return machine.reason;
  const bool on_frontier = std::ranges::all_of(
      machine.jobs, [&](std::size_t job) { return result.sized[job].on_frontier; });
  return on_frontier ? "frontier" : "";
}

std::string machine_rows(const SizeResult& result, int width) {
  using Row = const MachineRow&;
  std::vector<MachineRow> rows;
  for (const Machine& machine : result.machines) rows.push_back({result, machine});
  std::vector<Column<MachineRow>> columns = {
      {"candidate", [](Row r) { return r.machine.offer; }, Place::Name},
      {"", [](Row r) { return mark_of(r.all, r.machine); }, Place::First, Align::Left},
      {"GPUs", [](Row r) { return fmt::format("{}", r.machine.gpus); }, Place::Name, Align::Right},
      {"nodes", [](Row r) { return fmt::format("{}+{}", r.machine.nodes, r.machine.spares); },
       Place::Second}};
  const auto add_money = [&](const char* title, double (*sum_of)(const Machine&)) {
    if (std::ranges::any_of(result.machines, [&](const Machine& m) { return sum_of(m) > 0; }))
      columns.push_back({title,
                         [sum_of](Row r) {
                           return if_known(sum_of(r.machine), [&](double sum) {
                             return money_text(sum, r.currency());
                           });
                         },
                         Place::First});
  };
  add_money("to buy", [](const Machine& m) { return m.costs.purchase; });
  add_money("a month", [](const Machine& m) { return m.costs.monthly; });
  add_money("total", [](const Machine& m) { return m.total; });
  if (has_power(result)) {
    const auto power = [](double MW) { return fmt::format("{:.3g}", MW); };
    columns.push_back(
        {"MW peak", [=](Row r) { return if_known(r.machine.costs.peak_MW, power); }, Place::First});
    columns.push_back(
        {"mean", [=](Row r) { return if_known(r.machine.costs.mean_MW, power); }, Place::Beside});
  }
  const auto days = [](double value) { return fmt::format("{:.1f}", value); };
  columns.push_back({"days " + late_percentile(result),
                     [=](Row r) { return if_known(r.machine.days_late, days); }, Place::First});
  return text_table(columns, rows, width);
}

std::string job_rows(const SizeResult& result, int width) {
  const std::string late = late_percentile(result);
  using Row = const JobRow&;
  std::vector<JobRow> rows;
  for (const Machine& machine : result.machines) {
    for (const std::size_t job : machine.jobs) rows.push_back({result, result.sized[job]});
  }
  std::vector<Column<JobRow>> columns = {
      {"job", [](Row r) { return r.job.job; }, Place::Name},
      {"candidate", [](Row r) { return r.job.offer; }, Place::Name},
      {"GPUs that work", [](Row r) { return fmt::format("{}", r.job.gpus); }, Place::Name,
       Align::Right}};
  const auto has_result = [](Row r) { return r.job.result.has_value(); };
  const auto number = [](double (*value_of)(const Economics&), int digits) {
    return [=](Row r) {
      return if_known(value_of(r.job.economics),
                      [=](double value) { return fmt::format("{:.{}f}", value, digits); });
    };
  };
  const auto money = [](double (*value_of)(const Economics&)) {
    return [=](Row r) { return money_text(value_of(r.job.economics), r.currency()); };
  };
  using Costs = const Economics&;
  add_where(
      has_result, "",
      {{"batch", [](Row r) { return fmt::format("{}", r.job.batch()); }},
       {"iteration s", [](Row r) { return iteration_text(*r.job.result); }},
       {"tokens/s/GPU", [](Row r) { return tokens_rate(*r.job.result->training); }, Place::First},
       {"MFU %", [](Row r) { return fmt::format("{:.0f}", 100 * r.job.result->training->mfu); }},
       {"fits", [](Row r) { return verdict_cell(*r.job.result->training); }},
       {"ideal days", number([](Costs e) { return e.ideal_days; }, 1)},
       {"goodput", [](Row r) { return fmt::format("{:.3f}", r.job.economics.goodput); }},
       {"days p50", number([](Costs e) { return e.days_p50(); }, 1), Place::First},
       {late, number([](Costs e) { return e.days_late(); }, 1), Place::Beside},
       {"cost " + late, money([](Costs e) { return e.cost; }), Place::First},
       {"a M tokens", money([](Costs e) { return e.cost_per_T / 1e6; }), Place::First}},
      &columns);
  if (has_power(result))
    add_where(has_result, "",
              {{"MWh", number([](Costs e) { return e.energy_MWh; }, 0), Place::First}}, &columns);
  if (std::ranges::any_of(result.sized, [](const SizedJob& j) { return j.economics.CO2_t > 0; }))
    add_where(has_result, "", {{"t CO2", number([](Costs e) { return e.CO2_t; }, 0)}}, &columns);
  add_where(has_result, "", {{"least Gbit/s", [](Row r) { return least_Gbitps(*r.job.result); }}},
            &columns);
  columns.push_back(
      {"", [](Row r) { return r.job.result ? "" : r.job.reason; }, Place::Second, Align::Left});
  return text_table(columns, rows, width);
}

std::string network_rows(const SizeResult& result, int width) {
  using Row = const MachineRow&;
  std::vector<MachineRow> rows;
  for (const Machine& machine : result.machines) {
    if (machine.network && machine.network->tiers > 0) rows.push_back({result, machine});
  }
  const auto count = [](std::int64_t (NetworkBill::*part)() const) {
    return [part](Row r) { return fmt::format("{}", ((*r.machine.network).*part)()); };
  };
  const std::vector<Column<MachineRow>> columns = {
      {"candidate", [](Row r) { return r.machine.offer; }, Place::Name},
      {"GPUs", [](Row r) { return fmt::format("{}", r.machine.gpus); }, Place::Name, Align::Right},
      {"switch",
       [](Row r) {
         const SwitchModel& model = r.machine.network->model;
         return fmt::format("{} ({})", model.name, model.network);
       },
       Place::First, Align::Left},
      {"tiers", [](Row r) { return fmt::format("{}", r.machine.network->tiers); }, Place::First},
      {"switches", count(&NetworkBill::switches), Place::First},
      {"cables", count(&NetworkBill::cables), Place::First},
      {"optics", count(&NetworkBill::optics), Place::First},
      {"price",
       [](Row r) {
         return r.machine.network_price > 0 ? money_text(r.machine.network_price, r.currency())
                                            : std::string("in the nodes'");
       },
       Place::First}};
  return rows.empty() ? "" : "\nNetworks between nodes:\n" + text_table(columns, rows, width);
}

std::string plan_rows(const SizeResult& result, int width) {
  using Row = const SizedJob&;
  const std::vector<Column<SizedJob>> columns = {
      {"job", [](Row job) { return job.job; }, Place::Name},
      {"candidate", [](Row job) { return job.offer; }, Place::Name},
      {"plan", [](Row job) { return plan_text(job.plan->candidate); }, Place::Second, Align::Left},
      {"GPUs", [](Row job) { return fmt::format("{}", job.gpus); }, Place::First, Align::Right},
      {"oversubscribed x 2", [](Row job) { return fmt::format("{:.3f}", job.oversubscribed_2); },
       Place::First},
      {"x 4", [](Row job) { return fmt::format("{:.3f}", job.oversubscribed_4); }, Place::Beside}};
  const auto has_result = [](Row job) { return job.result.has_value(); };
  return text_table(columns, rows_where(result.sized, has_result), width);
}

std::string tier_rows(const SizeResult& result, int width) {
  using Row = const NetworkComparison&;
  const std::vector<Column<NetworkComparison>> columns = {
      {"job", [](Row t) { return t.job; }, Place::Name},
      {"candidate", [](Row t) { return t.offer; }, Place::Name},
      {"against", [](Row t) { return t.best; }, Place::Second, Align::Left},
      {"GPUs", [](Row t) { return fmt::format("{}", t.gpus); }, Place::First},
      {"takes", [](Row t) { return fmt::format("{:.3f} times", t.times_as_long); }, Place::First},
      {"worth", [](Row t) { return fmt::format("{:.1f} %", 100 * (t.times_as_long - 1)); },
       Place::First}};
  return text_table(columns, result.tiers, width);
}

// Writes a row for each input, the one that moves the recommended machine most first.
std::string tornado_rows(const SizeResult& result, int width) {
  using Row = const TornadoBar&;
  const auto one = [](double change) {
    return std::isfinite(change) ? fmt::format("{:+.1f}", 100 * change) : std::string("-");
  };
  const auto both = [=](double low, double high) {
    return fmt::format("{} to {} %", one(low), one(high));
  };
  const auto is_interval = [](Row r) { return r.low == 0; };  // of predictions: no factors
  const std::vector<Column<TornadoBar>> columns = {
      {"input", [](Row r) { return r.input; }, Place::Name},
      {"times",
       [=](Row r) { return is_interval(r) ? "" : fmt::format("{:g} to {:g}", r.low, r.high); },
       Place::First},
      {"days " + late_percentile(result), [=](Row r) { return both(r.days_low, r.days_high); },
       Place::First},
      {"total", [=](Row r) { return both(r.total_low, r.total_high); }, Place::First},
      {"another is best",
       [=](Row r) {
         if (!r.flips_at) return std::string();
         const std::string from =
             is_interval(r) ? std::string("inside it") : fmt::format("from {:.2f}", *r.flips_at);
         return from + ": " + (r.flips_to.empty() ? "none in time" : r.flips_to);
       },
       Place::Second, Align::Left}};
  return text_table(columns, result.tornado, width);
}

std::string sure_text(const SizeResult& result) {
  if (!result.sureness) return "";
  const Sureness& sure = *result.sureness;
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  // In a draw any machine may be in time, also one that is not with the certainty asked for.
  std::string text = fmt::format(
      "How sure: in {} of the draws of the predictions' errors the recommended machine is the "
      "cheapest in time",
      percent(sure.machine));
  for (const auto& [offer, share] : sure.offers)
    text += fmt::format("; in {} one of {} is", percent(share), offer);
  if (sure.none >= 0.01) text += fmt::format("; in {} none is in time", percent(sure.none));
  text += ".";
  if (!sure.measure.empty())
    text += fmt::format(" A measured run would settle the most: {}.", sure.measure);
  return text + "\n";
}

std::string assumptions_text(const SizeResult& result) {
  std::vector<std::string> lines;
  for (const Assumption& assumption : result.assumptions)
    lines.push_back(fmt::format("  {} = {}", assumption.key, assumption.value));
  return lines.empty() ? "" : fmt::format("\nAssumed (* a guess):\n{}\n", fmt::join(lines, "\n"));
}

std::vector<const RunResult*> results(const SizeResult& result) {
  std::vector<const RunResult*> all;
  for (const SizedJob& job : result.sized) {
    if (job.result) all.push_back(&*job.result);
  }
  return all;
}

// Returns "pretraining on B200", or the offer alone, of each job whose time is a guess.
std::vector<std::string> guessed_names(const SizeResult& result) {
  std::vector<std::string> names;
  for (const SizedJob& job : result.sized) {
    const std::string name = job.job.empty() ? job.offer : job.job + " on " + job.offer;
    if (is_guessed(job) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

bool has_guess(const SizeResult& result, const Machine& machine) {
  return std::ranges::any_of(machine.jobs,
                             [&](std::size_t job) { return is_guessed(result.sized[job]); });
}

// Returns the cheapest machine that is not ruled out and has no guess; null: there is none.
const Machine* cheapest_calibrated(const SizeResult& result) {
  const Machine* cheapest = nullptr;
  for (const Machine& machine : result.machines) {
    if (has_guess(result, machine) || !machine.reason.empty()) continue;
    if (cheapest == nullptr || machine.total < cheapest->total) cheapest = &machine;
  }
  return cheapest;
}

// Warns of jobs whose times are guesses (not calibrated). If the best machine has such a job, names
// the cheapest machine that has none.
std::string guess_warning(const SizeResult& result) {
  const std::vector<std::string> names = guessed_names(result);
  if (names.empty()) return "";
  const std::string text = fmt::format(
      "Guesses, not calibrated and so with the widest interval: {}.", fmt::join(names, "; "));
  const std::optional<std::size_t> recommended = result.recommended();
  if (!recommended) return text + "\n";
  const Machine& best = result.machines[*recommended];
  if (!has_guess(result, best)) return text + " The best is calibrated.\n";
  const Machine* calibrated = cheapest_calibrated(result);
  return text + fmt::format(" The best, {}, is one.", best.offer) +
         (calibrated == nullptr ? " None that is calibrated is in time and within the limits.\n"
                                : fmt::format(" The cheapest that is calibrated: {}\n",
                                              machine_text(result, *calibrated)));
}

// Names the recommended machine's jobs whose plans fit only if the allocator wastes little.
std::string memory_warning(const SizeResult& result) {
  std::vector<std::string> jobs;
  if (const auto best = result.recommended()) {
    for (const std::size_t place : result.machines[*best].jobs) {
      const SizedJob& job = result.sized[place];
      if (job.result->training->verdict == Verdict::IfUnfragmented)
        jobs.push_back(job.job.empty() ? "the training" : job.job);
    }
  }
  if (jobs.empty()) return "";
  return fmt::format("Recommended plans that fit into memory only if unfragmented: {}.\n",
                     fmt::join(jobs, ", "));
}

}  // namespace

std::string size_answers(const SizeResult& result) {
  std::string text;
  for (auto answer = result.answers.rbegin(); answer != result.answers.rend(); ++answer)
    text += answer_text(result, *answer) + "\n";
  return text + memory_warning(result) + guess_warning(result) + sure_text(result);
}

std::string size_warnings(const SizeResult& result) {
  std::vector<std::string> lines;
  for (const Machine& machine : result.machines) {
    for (const std::string& warning : machine.warnings) {
      std::string line = fmt::format("{}: {}\n", machine.offer, warning);
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
    }
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string size_notes(const SizeResult& result) {
  const bool all_played = std::ranges::all_of(
      result.sized, [](const SizedJob& job) { return job.on_engine || !job.result; });
  std::vector<std::string> chosen = result.unused_keys;
  const bool states_gpus = std::erase(chosen, "cluster.gpus") > 0;
  std::string unused =
      chosen.empty()
          ? ""
          : fmt::format(
                "The search chooses {}, whatever the file states; --among says from what.\n",
                fmt::join(chosen, ", "));
  if (states_gpus) unused += "cluster.gpus of the file does not count: size.gpus says it.\n";
  return explanatory_notes(results(result)) + unused +
         (all_played ? ""
                     : "Only the answers were played on the chosen engine. Other machines have the "
                       "ideal engine's times, as many times longer as it is for an answer of the "
                       "same candidate, if there is one.\n");
}

std::string size_text(const SizeResult& result, int width) {
  const auto wrapped_text = [width](const std::string& prose) { return wrapped(prose, width); };
  std::string text = wrapped_text(size_answers(result)) + "\n" + machine_rows(result, width) +
                     "\n" + job_rows(result, width) + "\n" +
                     wrapped_text(size_warnings(result) + size_notes(result));
  text += wrapped_text(
              "\nPlans, and how many times as long their iterations take where the fabric is "
              "oversubscribed more:\n") +
          plan_rows(result, width);
  text += network_rows(result, width);
  if (!result.tiers.empty())
    text += wrapped_text(
                "\nNetwork tiers: how much longer the same GPUs take than on the best network, "
                "which is what a node-hour of that may cost more:\n") +
            tier_rows(result, width);
  if (!result.tornado.empty()) text += "\nWhat moves the answer:\n" + tornado_rows(result, width);
  return text + assumptions_text(result) + fmt::format("\nSeed {:.0f}.\n", result.seed);
}

}  // namespace tandem
