#include "cli/profile/compare_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/text_width.h"
#include "cli/profile/profile_side.h"
#include "launch/standard_output.h"
#include "planning/choose/resolve.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "report/page/html_page.h"
#include "report/text/profile_comparison_table.h"
#include "schedule/program/program_text.h"
#include "sim/engines.h"
#include "traces/profile/passes.h"
#include "traces/profile/read_profile.h"
#include "traces/profile/simulated_profile.h"
#include "validation/compare/simulated_side.h"

namespace tandem {
namespace {

// Keeps the ranks whose numbers the measured profile has, or all, with a note, where some are
// missing.
void keep_ranks(const Profile& measured, SimulatedSide* side) {
  std::set<int> wanted, found;
  for (const ProfileRank& rank : measured.ranks) wanted.insert(rank.rank);
  for (const ProfileRank& rank : side->profile.ranks) found.insert(rank.rank);
  if (!std::ranges::includes(found, wanted)) {
    side->note =
        "The simulated trace does not have all ranks of the profile: means over all of its "
        "ranks stand against those of the profile.";
    return;
  }
  std::erase_if(side->profile.ranks,
                [&](const ProfileRank& rank) { return !wanted.contains(rank.rank); });
}

// Returns whether the CSV is a trace; else it is a Program.
bool is_trace(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) return line.starts_with("rank,lane,op");
    if (line.starts_with("# tandem program")) return false;
  }
  return false;
}

Result<SimulatedSide> simulated_side(const CompareProfileOptions& options,
                                     const Profile& measured) {
  const std::string& path = options.simulated;
  const SimulatedKind kind = simulated_kind(path);
  if (kind == SimulatedKind::Profiles) {
    SimulatedSide side{.by = "profiles"};
    ASSIGN_OR_RETURN(side.profile, read_profile({path}));
    keep_ranks(measured, &side);
    return side;
  }
  if (kind == SimulatedKind::Scenario) {
    ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
    ASSIGN_OR_RETURN(std::vector<Scenario> scenarios, load_scenarios(path, sets, options.only));
    if (scenarios.size() > 1)
      return Error::at(path, fmt::format("found {} runs such as '{}' and '{}', expected one: "
                                         "choose it with --only",
                                         scenarios.size(), scenarios[0].name, scenarios[1].name));
    const Engine engine = engine_of(options.engine);
    ASSIGN_OR_RETURN(const Scenario scenario, resolved(scenarios.front()));
    ASSIGN_OR_RETURN(const PlayedJob played, play_once(scenario, engine));
    return played_side(played.job.program, played.trace, measured, engine_name(engine));
  }
  if (kind == SimulatedKind::Trace) {
    ASSIGN_OR_RETURN(const TraceTable table, read_trace_csv(path));
    SimulatedSide side{.profile = profile_of(table), .by = "trace"};
    if (side.profile.ranks.empty())
      return Error::at(path, "found a trace without events, expected some");
    keep_ranks(measured, &side);
    return side;
  }
  ASSIGN_OR_RETURN(const Program program, read_program(path));
  ASSIGN_OR_RETURN(const Trace trace, ideal(program, {}));
  return played_side(program, trace, measured, "ideal");
}

}  // namespace

SimulatedKind simulated_kind(const std::string& path) {
  if (may_be_profile(path)) return SimulatedKind::Profiles;
  if (!path.ends_with(".csv")) return SimulatedKind::Scenario;
  return is_trace(path) ? SimulatedKind::Trace : SimulatedKind::Program;
}

Status compare_profile(const CompareProfileOptions& options) {
  std::optional<Waiting> waiting("reading the profile");
  ASSIGN_OR_RETURN(const Profile measured, read_profile({options.measured}));
  ASSIGN_OR_RETURN(ComparedSide measured_splits,
                   side_of(measured, options.measured, measured.ranks.front().profiler));
  waiting.reset();
  ASSIGN_OR_RETURN(SimulatedSide simulated, simulated_side(options, measured));
  if (!options.passes.empty()) {
    ASSIGN_OR_RETURN(const std::vector<ProfileAction> passes, passes_named(options.passes));
    ASSIGN_OR_RETURN(simulated.profile, only_passes(std::move(simulated.profile), passes));
    simulated.note = fmt::format(
        "Of the simulation the passes {} alone, of the ranks that run all of them, against the "
        "whole profile.",
        options.passes);
  }
  ASSIGN_OR_RETURN(ComparedSide simulated_splits,
                   side_of(simulated.profile, options.simulated, simulated.by));
  if (simulated.world > 0) simulated_splits.world = simulated.world;
  ProfileComparison comparison = compare_profiles(
      std::move(simulated_splits), std::move(measured_splits), options.passes.empty());
  if (!simulated.note.empty()) comparison.notes.insert(comparison.notes.begin(), simulated.note);
  if (!comparison.another_job.empty()) {
    const std::string warning =
        fmt::format("{} is of another job than {} ({}): the numbers tell nothing of the prediction",
                    options.measured, options.simulated, comparison.another_job);
    say("warning: " + warning);
    comparison.notes.insert(comparison.notes.begin(), "The profile " + warning + '.');
  }
  if (!options.report.empty()) {
    const auto file = [](const std::string& path) {
      return std::filesystem::path(path).lexically_normal().filename().string();
    };
    RETURN_IF_ERROR(write_html_page(
        {.title = compared_title(file(options.simulated), file(options.measured)),
         .runs = {{"simulated", {}, detail_of_side(comparison.simulated, simulated.profile)},
                  {"measured", {}, detail_of_side(comparison.measured, measured)}},
         .comparison = to_json(comparison)},
        options.report));
  }
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(comparison))
                          : profile_comparison_table(comparison, text_width(options.wide)));
  return Done{};
}

}  // namespace tandem
