// Makes a profile of the simulated side by its kind (played, or read from a trace or profiles),
// cuts it down to the measured ranks or the asked passes, and compares it with the measured
// profile.
#include "validation/compare/compare_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "schedule/program/program_text.h"
#include "traces/profile/passes.h"
#include "traces/profile/profile_notes.h"
#include "traces/profile/read_profile.h"
#include "traces/profile/simulated_profile.h"
#include "traces/trace_files.h"
#include "validation/compare/simulated_side.h"

namespace tandem {
namespace {

// Keeps the simulated ranks that the measured profile has. If the simulation lacks one of them,
// keeps all, with a note.
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

// Leaves waits aside if one side does not tell them: exposed communication is then, on both, what
// has no compute beside it.
void measure_alike(Profile* simulated, Profile* measured) {
  const auto tells_waits = [](const Profile& profile) {
    return std::ranges::all_of(profile.ranks, &ProfileRank::tells_waits);
  };
  if (tells_waits(*simulated) && tells_waits(*measured)) return;
  for (Profile* profile : {simulated, measured}) {
    for (ProfileRank& rank : profile->ranks) rank.tells_waits = false;
  }
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

// Plays or reads the simulated side. Sets `played` where it is a scenario.
Result<SimulatedSide> simulated_side(const ProfiledFiles& files, const Profile& measured,
                                     std::optional<PlayedJob>* played) {
  const std::string& path = files.simulated;
  if (files.scenario != nullptr) {
    ASSIGN_OR_RETURN(*played, play_once(*files.scenario, files.engine));
    return played_side((*played)->job.program, (*played)->trace, measured,
                       engine_name(files.engine));
  }
  const ComparedKind kind = compared_kind(path, files.measured);
  if (kind == ComparedKind::Profiles) {
    SimulatedSide side{.by = "profiles"};
    ASSIGN_OR_RETURN(side.profile, read_profile({path}));
    keep_ranks(measured, &side);
    return side;
  }
  if (kind == ComparedKind::Trace) {
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

ComparedKind compared_kind(const std::string& simulated, const std::string& measured) {
  if (!may_be_profile(measured)) return ComparedKind::TwoTraces;
  if (may_be_profile(simulated)) return ComparedKind::Profiles;
  if (!simulated.ends_with(".csv")) return ComparedKind::Scenario;
  return is_trace(simulated) ? ComparedKind::Trace : ComparedKind::Program;
}

Result<ComparedProfiles> compare_files(const ProfiledFiles& files, Profile measured) {
  ComparedProfiles compared{.measured = std::move(measured)};
  ASSIGN_OR_RETURN(SimulatedSide side, simulated_side(files, compared.measured, &compared.played));
  if (!files.passes.empty()) {
    ASSIGN_OR_RETURN(const std::vector<ProfileAction> passes, passes_named(files.passes));
    ASSIGN_OR_RETURN(side.profile, only_passes(std::move(side.profile), passes));
    side.note = fmt::format(
        "Of the simulation the passes {} alone, of the ranks that run all of them, against the "
        "whole profile.",
        files.passes);
  }
  measure_alike(&side.profile, &compared.measured);
  ASSIGN_OR_RETURN(ComparedSide theirs, side_of(compared.measured, files.measured,
                                                compared.measured.ranks.front().profiler));
  ASSIGN_OR_RETURN(ComparedSide ours, side_of(side.profile, files.simulated, side.by));
  if (side.world > 0) ours.world = side.world;
  ProfileComparison& comparison = compared.comparison;
  comparison = compare_profiles(std::move(ours), std::move(theirs), files.passes.empty());
  const std::string device =
      files.scenario == nullptr ? "" : files.scenario->cluster.spec.device.name;
  const std::vector<std::string> notes = profile_notes(compared.measured, device);
  comparison.notes.insert(comparison.notes.end(), notes.begin(), notes.end());
  if (!side.note.empty()) comparison.notes.insert(comparison.notes.begin(), side.note);
  if (!comparison.another_job.empty())
    comparison.notes.insert(
        comparison.notes.begin(),
        fmt::format(
            "The profile {} is of another job than {} ({}): the numbers tell nothing of the "
            "prediction.",
            files.measured, files.simulated, comparison.another_job));
  compared.simulated = std::move(side.profile);
  return compared;
}

}  // namespace tandem
