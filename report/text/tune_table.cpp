// Writes what tandem tune found: a table of the best plans, notes, the plans that each bound cut
// off, then the guides' rules and refinements. "Stage level" times are those of the search, which
// plays each pass of a stage as one operation; the others are simulated.
#include "report/text/tune_table.h"
#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "report/text/number_cells.h"
#include "report/text/table.h"

namespace tandem {
namespace {

// Writes 5438394 as "5,438,394".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

std::string plans_table(const Tuned& tuned, int width) {
  using Row = const Finalist&;
  const auto tenths = [](double value) { return fmt::format("{:.1f}", value); };
  const auto exposed_percent = [](const RunResult& run) {
    return 100 * std::accumulate(run.exposed_s.begin(), run.exposed_s.end(), 0.0) / run.iteration_s;
  };
  std::vector<Column<Finalist>> columns = {
      {"", [](Row f) { return f.label; }, Place::Name},
      {"plan", [](Row f) { return plan_text(f.candidate, f.refinement); }, Place::Second,
       Align::Left},
      {"iteration s", [](Row f) { return f.result.ok() ? iteration_text(*f.result) : "error"; },
       Place::First}};
  add_where(
      [](Row f) { return f.result.ok(); }, "",
      {{"tokens/s/GPU", [](Row f) { return tokens_rate(*f.result->training); }, Place::First},
       {"model TF/s", [=](Row f) { return tenths(f.result->training->model_tflops_per_gpu); }},
       {"MFU %", [=](Row f) { return tenths(100 * f.result->training->mfu); }, Place::First},
       {"bubble %", [=](Row f) { return tenths(100 * f.result->bubble_fraction); }},
       {"exposed %", [=](Row f) { return tenths(exposed_percent(*f.result)); }, Place::Beside},
       {"GiB", [=](Row f) { return tenths(f.result->training->memory.total / GiB); }, Place::First},
       {"fits", [](Row f) { return verdict_cell(*f.result->training); }, Place::First}},
      &columns);
  add_where([](Row f) { return f.stage_level_ns.has_value(); }, "",
            {{"stage level s", [](Row f) { return seconds_text(to_seconds(*f.stage_level_ns)); },
              Place::First}},
            &columns);
  return text_table(columns, tuned.finalists, width);
}

std::vector<const RunResult*> results(const Tuned& tuned) {
  std::vector<const RunResult*> all;
  for (const Finalist& finalist : tuned.finalists) {
    if (finalist.result.ok()) all.push_back(&*finalist.result);
  }
  return all;
}

// Says how far at most each plan is above its lower bound, which is over all orders. Plans without
// a pipeline are left out: they have only one order.
std::string bounds_text(const Tuned& tuned) {
  std::string text;
  for (const Finalist& f : tuned.finalists) {
    const bool has_orders = f.candidate.layout.pp > 1;
    if (has_orders && f.result.ok() && above_bound(*f.result))
      text +=
          fmt::format("{}{}: {} %", text.empty() ? "" : ", ", f.label, percent_above(*f.result));
  }
  if (text.empty()) return "";
  return fmt::format(
      "Above the best possible with its own layout and memory, a plan is at most by: {}.\n", text);
}

// Says how many plans the search cut off by which bound, and how many it scheduled.
std::string counts_text(const Tuned& tuned) {
  const SearchCounts& c = tuned.counts;
  const std::int64_t cuts_seen = c.cuts - c.cuts_memory - c.cuts_work - c.cuts_left;
  const double plans_per_s = static_cast<double>(c.enumerated) / tuned.search_s;
  std::string text = fmt::format(
      "{} plans in {:.1f} s, {} a second on one core, of {} cuts of the model over the GPUs; {} "
      "more do not fit with their parameters alone, {} take longer by what nothing can hide. Not "
      "scheduled: {} "
      "beyond the GPU's memory; {} by the work of their layout, {} with its bubble and transfers, "
      "{} with least data-parallel communication. Scheduled: {}, and {} orders for a bound.",
      grouped(c.enumerated), tuned.search_s, grouped(static_cast<std::int64_t>(plans_per_s)),
      grouped(cuts_seen), grouped(c.cuts_memory), grouped(c.cuts_work), grouped(c.memory),
      grouped(c.work), grouped(c.pipeline), grouped(c.data), grouped(c.scheduled),
      grouped(c.orders));
  if (c.unplayable > 0) text += fmt::format(" Refused by lowering: {}.", grouped(c.unplayable));
  if (!tuned.complete)
    text += fmt::format(
        " Stopped early, which no two runs do alike: {} of these plans, and {} cuts, were not "
        "looked at.",
        grouped(c.left), grouped(c.cuts_left));
  if (const std::optional<double> gap = tuned.gap(); gap && !tuned.complete)
    text += fmt::format(
        " No plan takes less than {:.4g} s at stage level: there the best is at most {} % "
        "above the best possible. Simulated, a plan may take a few per cent less: both are "
        "estimates.",
        to_seconds(tuned.bound_ns), percent(rounded_up(*gap)));
  return text + "\n";
}

// Compares the best plan that keeps a rule with the best that breaks it.
std::string verdict_of(const RuleCheck& verdict) {
  const char* of = verdict.complete ? "no plan" : "none of the likeliest plans";
  if (!verdict.breaks) return fmt::format("{} that fits breaks it", of);
  if (!verdict.keeps) return fmt::format("{} that fits keeps it", of);
  const double keeps = to_seconds(verdict.keeps->iteration_ns);
  const double breaks = to_seconds(verdict.breaks->iteration_ns);
  return keeps <= breaks ? fmt::format("confirmed: {:.1f} % faster", 100 * (breaks / keeps - 1))
                         : fmt::format("beaten by {:.1f} %", 100 * (keeps / breaks - 1));
}

std::string verdicts_table(const Tuned& tuned, int width) {
  const auto seconds = [](const std::optional<Found>& found) {
    return found ? seconds_text(to_seconds(found->iteration_ns)) : "";
  };
  const std::vector<Column<RuleCheck>> columns = {
      {"rule", [](const RuleCheck& v) { return v.rule; }, Place::Name},
      {"of", [](const RuleCheck& v) { return v.source; }, Place::Second, Align::Left},
      {"verdict", verdict_of, Place::First, Align::Left},
      {"with it s", [=](const RuleCheck& v) { return seconds(v.keeps); }},
      {"without it s", [=](const RuleCheck& v) { return seconds(v.breaks); }, Place::Beside}};
  return text_table(columns, tuned.verdicts, width);
}

// A row of the table of refined plans: a plan without refinement, or with one.
struct RefinedLine {
  std::string name;
  const Refined* plan;
  const RunResult* result;  // null: it cannot be played
};

// Writes each refined plan without refinement, with each refinement below it, then why some cannot
// be played.
std::string refined_table(const Tuned& tuned, int width) {
  std::vector<RefinedLine> lines;
  for (const Refined& plan : tuned.refined) {
    lines.push_back({plan_text(plan.candidate), &plan, &plan.plain});
    for (const auto& [refinement, result] : plan.with)
      lines.push_back(
          {"+ " + refinement_text(refinement), &plan, result.ok() ? &*result : nullptr});
  }
  using Row = const RefinedLine&;
  const auto is_played = [](Row line) { return line.result != nullptr; };
  const auto is_refined = [=](Row line) {
    return is_played(line) && line.result != &line.plan->plain;
  };
  const auto saved = [](Row line, double unit_s) {
    return fmt::format("{:.3f}", line.plan->saved_s(*line.result) / unit_s);
  };
  std::vector<Column<RefinedLine>> columns = {
      {"plan", [](Row line) { return line.name; }, Place::Name}};
  add_where(is_played, "cannot",
            {{"iteration s", [](Row line) { return iteration_text(*line.result); }}}, &columns);
  add_where(
      is_refined, "",
      {{"saves s", [=](Row line) { return saved(line, 1); }},
       {"saves %", [=](Row line) { return saved(line, line.plan->plain.iteration_s / 100); }}},
      &columns);
  add_where(
      is_played, "",
      {{"GiB", [](Row l) { return fmt::format("{:.1f}", l.result->training->memory.total / GiB); }},
       {"fits", [](Row line) { return verdict_cell(*line.result->training); }}},
      &columns);
  std::string text = text_table(columns, lines, width);
  for (const Refined& plan : tuned.refined) {
    for (const auto& [refinement, result] : plan.with) {
      if (!result.ok())
        text += wrapped(
            fmt::format("{}: {}\n", plan_text(plan.candidate, refinement), result.error().text()),
            width);
    }
  }
  return text;
}

}  // namespace

std::string tune_text(const Tuned& tuned, const std::string& command, int width) {
  std::string text =
      plans_table(tuned, width) + "\n" +
      wrapped(explanatory_notes(results(tuned)) + bounds_text(tuned) + counts_text(tuned), width);
  if (!tuned.verdicts.empty())
    text += "\n" + wrapped("Rules of the guides, at stage level:\n", width) +
            verdicts_table(tuned, width);
  if (!tuned.refined.empty())
    text += "\n" + wrapped("Made for the stages of the best plans:\n", width) +
            refined_table(tuned, width);
  std::string first_plan = "The first plan: " + command;
  const Finalist& best = tuned.finalists.front();
  for (const auto& [key, value] : plan_settings(best.candidate, best.refinement))
    first_plan += fmt::format(" --set {}={}", key, value);
  text += "\n" + wrapped_command(first_plan, width) + "\n";
  if (!tuned.framework.empty()) {
    const bool breaks = !tuned.own_breaks.empty();
    text += wrapped(fmt::format("All{} are plans that {} runs{}.\n",
                                breaks || !tuned.own_is_known ? " but own" : "", tuned.framework,
                                breaks ? "; own breaks its rule '" + tuned.own_breaks + "'"
                                : tuned.own_is_known ? ""
                                                     : ", and own may be one"),
                    width);
  }
  if (!tuned.assumes.empty()) text += wrapped(tuned.assumes + "\n", width);
  if (!tuned.cleared.empty())
    text += wrapped(fmt::format("In a scenario without {}, which the search's plans do not have.\n",
                                fmt::join(tuned.cleared, ", ")),
                    width);
  for (const Finalist& finalist : tuned.finalists) {
    if (!finalist.result.ok())
      text +=
          wrapped(fmt::format("{}: {}\n", finalist.label, finalist.result.error().text()), width);
  }
  return text;
}

std::string better_line(const Found& found, bool keeps_rules) {
  return fmt::format("{:10.3f} s  {}{}", to_seconds(found.iteration_ns), plan_text(found.candidate),
                     keeps_rules ? "  (keeps the guides' rules)" : "");
}

}  // namespace tandem
