#include "report/tune_table.h"

#include <fmt/format.h>

#include <numeric>

#include "report/table.h"

namespace tandem {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// "5,438,394"
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

std::vector<std::string> row_of(const Finalist& finalist) {
  const std::string stage_level =
      finalist.stage_level_ns ? fmt::format("{:.3f}", to_seconds(*finalist.stage_level_ns)) : "";
  const std::string plan = text_of(finalist.candidate);
  if (!finalist.outcome.ok())
    return {finalist.label, plan, "error", "", "", "", "", "", "", stage_level};
  const Outcome& o = *finalist.outcome;
  const Training& t = *o.training;
  const double exposed = std::accumulate(o.exposed_s.begin(), o.exposed_s.end(), 0.0);
  return {finalist.label,
          plan,
          fmt::format("{:.3f}{}", o.iteration_s, o.calibrated == false ? "*" : ""),
          fmt::format("{:.1f}", t.model_tflops_per_gpu),
          fmt::format("{:.1f}", 100 * t.mfu),
          fmt::format("{:.1f}", 100 * o.bubble_fraction),
          fmt::format("{:.1f}", 100 * exposed / o.iteration_s),
          fmt::format("{:.1f}", t.total / GiB),
          t.fits ? "yes" : "NO",
          stage_level};
}

std::string plans_table(const Tuned& tuned) {
  Rows rows = {{"", "plan", "iteration s", "model TF/s", "MFU %", "bubble %", "exposed %", "GiB",
                "fits", "stage level s"}};
  for (const Finalist& finalist : tuned.finalists) rows.push_back(row_of(finalist));
  std::vector<const Outcome*> played;
  for (const Finalist& finalist : tuned.finalists) {
    if (finalist.outcome.ok()) played.push_back(&*finalist.outcome);
  }
  return aligned(rows, 2) + uncalibrated_text(played);
}

std::string counts_text(const Tuned& tuned) {
  const SearchCounts& c = tuned.counts;
  std::string text = fmt::format(
      "{} plans in {:.1f} s, {} a second on one core. Not scheduled: {} beyond the GPU's memory; "
      "{} by the work of their layout, {} with its bubble and transfers, {} with least "
      "data-parallel "
      "communication. Scheduled: {}, and {} orders for a bound.",
      grouped(c.enumerated), tuned.search_s,
      grouped(static_cast<std::int64_t>(static_cast<double>(c.enumerated) / tuned.search_s)),
      grouped(c.memory), grouped(c.work), grouped(c.pipeline), grouped(c.data),
      grouped(c.scheduled), grouped(c.orders));
  if (c.unplayable > 0) text += fmt::format(" Refused by lowering: {}.", grouped(c.unplayable));
  if (!tuned.complete)
    text += fmt::format(" Stopped early: {} of these plans and all later ones were not looked at.",
                        grouped(c.left));
  return text + "\n";
}

std::string verdict_of(const Verdict& verdict) {
  const char* among = verdict.complete ? "" : " among the likeliest";
  if (!verdict.breaks) return fmt::format("no plan that was looked at and fits breaks it{}", among);
  if (!verdict.keeps) return fmt::format("no plan that was looked at and fits keeps it{}", among);
  const double keeps = to_seconds(verdict.keeps->iteration_ns);
  const double breaks = to_seconds(verdict.breaks->iteration_ns);
  return keeps <= breaks ? fmt::format("confirmed: {:.1f} % faster", 100 * (breaks / keeps - 1))
                         : fmt::format("beaten by {:.1f} %", 100 * (keeps / breaks - 1));
}

std::string verdicts_table(const Tuned& tuned) {
  const auto seconds = [](const std::optional<Found>& found) {
    return found ? fmt::format("{:.3f}", to_seconds(found->iteration_ns)) : "";
  };
  Rows rows = {{"rule", "of", "verdict", "best that keeps it s", "best that breaks it s"}};
  for (const Verdict& verdict : tuned.verdicts)
    rows.push_back({verdict.rule, verdict.source, verdict_of(verdict), seconds(verdict.keeps),
                    seconds(verdict.breaks)});
  return aligned(rows, 3);
}

}  // namespace

std::string tune_text(const Tuned& tuned, const std::string& command) {
  std::string text = plans_table(tuned) + "\n" + counts_text(tuned);
  if (!tuned.verdicts.empty())
    text += "\nRules of the guides, at stage level:\n" + verdicts_table(tuned);
  text += "\nThe first plan: " + command;
  for (const auto& [key, value] : settings_of(tuned.finalists.front().candidate))
    text += fmt::format(" --set {}={}", key, value);
  text += "\n";
  if (!tuned.cleared.empty())
    text += fmt::format("In a scenario without {}, which the search's plans do not have.\n",
                        fmt::join(tuned.cleared, ", "));
  for (const Finalist& finalist : tuned.finalists) {
    if (!finalist.outcome.ok())
      text += fmt::format("{}: {}\n", finalist.label, finalist.outcome.error().message);
  }
  return text;
}

std::string better_line(const Found& found, bool of_rules) {
  return fmt::format("{:10.3f} s  {}{}", to_seconds(found.iteration_ns), text_of(found.candidate),
                     of_rules ? "  (keeps the guides' rules)" : "");
}

}  // namespace tandem
