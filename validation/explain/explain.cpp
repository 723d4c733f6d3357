// In: the durations of a simulation, and those of a profile (profiled_run.h). Out: causes, each a
// change of durations (changes.h) whose seconds a replay gives.
#include "validation/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "traces/profile/profile_notes.h"
#include "validation/explain/changes.h"

namespace tandem {
namespace {

constexpr std::size_t kMostOps = 50'000'000;  // of all ranks: some 4 GB

// Refuses jobs whose ranks, each of which is played, have more ops than memory holds.
Status check_size(const Program& program) {
  std::size_t ops = 0;
  for (const RankRow& rank : program.ranks) ops += program.bodies[rank.body].ops.size();
  if (ops <= kMostOps) return Done{};
  return Error{fmt::format(
      "found {} ranks of {:.2g} million ops in all, expected at most {:g} "
      "million: fewer replicas (parallel.dp) explain the same",
      program.ranks.size(), 1e-6 * static_cast<double>(ops), 1e-6 * static_cast<double>(kMostOps))};
}

// Returns the notes: ranks that the profile lacks or does not number, its own notes, clocks that
// are not aligned, and waits that it cannot tell.
std::vector<std::string> notes_on(const Explanation& explanation, const Profile& measured,
                                  const ProfiledRun& run) {
  std::vector<std::string> notes;
  const auto measured_ranks = static_cast<int>(explanation.ranks.size());
  if (measured_ranks < explanation.ranks_in_all)
    notes.push_back(
        fmt::format("The profile has {} of {} ranks. The others are inferred: their ops take what "
                    "the kinds and stages of the measured ranks say.",
                    measured_ranks, explanation.ranks_in_all));
  for (const ProfileRank& rank : measured.ranks) {
    if (!rank.rank_is_given && explanation.ranks_in_all > 1)
      notes.push_back(
          fmt::format("{} does not tell its rank: it is taken as rank {}.", rank.path, rank.rank));
  }
  for (const ProfileRank& rank : measured.ranks)
    notes.insert(notes.end(), rank.notes.begin(), rank.notes.end());
  if (const std::string clocks = clocks_note(measured); !clocks.empty())
    notes.push_back(clocks + " What they tell is left out.");
  if (!run.unmatched.empty()) notes.push_back(run.unmatched);
  if (run.ops_of_no_length > 0)
    notes.push_back(
        fmt::format("Ops that take no time in the profile, so that they tell nothing: {}.",
                    run.ops_of_no_length));
  if (std::ranges::count(run.may_wait, true) > 0)
    notes.push_back(
        "Communication with ranks that the profile lacks takes what the shortest of its kind took, "
        "which may hold a wait for them: the rest may be waiting for them, and is not explained.");
  return notes;
}

}  // namespace

double add_causes(std::vector<Cause> causes, Explanation* explanation) {
  double sum = 0;
  for (Cause& cause : causes) {
    sum += cause.alone_s;
    if (std::abs(cause.alone_s) < kLeastCause * explanation->measured_s)
      explanation->smaller_s += cause.alone_s;
    else
      explanation->causes.push_back(std::move(cause));
  }
  std::ranges::stable_sort(explanation->causes, std::greater(), &Cause::alone_s);
  return sum;
}

bool Explanation::is_explained() const {
  return std::abs(not_explained_s) <= kMostUnexplained * measured_s;
}

Result<Explanation> explain(const Program& program, const Trace& simulated,
                            const Profile& measured) {
  RETURN_IF_ERROR(check_size(program));
  const OpDurations base = durations_of(program, simulated);
  ASSIGN_OR_RETURN(const ProfiledRun run, profiled_run(program, base, measured));
  const Nanoseconds base_ns = replayed(program, base);
  Explanation explanation{.simulated_s = to_seconds(base_ns),
                          .measured_s = 1e-9 * run.iteration_ns,
                          .steps = run.steps,
                          .ranks_in_all = static_cast<int>(program.ranks.size())};
  OpDurations all = base;  // with the changes of the levels so far
  std::vector<Cause> causes;
  explanation.ranks = explained_ranks(program, base, run);
  std::vector<Change> changes = changes_of(program, base, run);
  std::ranges::stable_sort(changes, {}, &Change::level);
  Nanoseconds all_ns = base_ns;
  for (auto change = changes.begin(); change != changes.end();) {
    const OpDurations before = all;
    const Nanoseconds before_ns = all_ns;
    const ChangeLevel level = change->level;
    for (; change != changes.end() && change->level == level; ++change) {
      OpDurations alone = before;
      change->apply(&alone);
      change->apply(&all);
      const double alone_s = to_seconds(replayed(program, alone) - before_ns);
      causes.push_back({std::move(change->what), alone_s, std::move(change->evidence),
                        std::move(change->advice)});
    }
    all_ns = replayed(program, all);
  }
  const double sum = add_causes(std::move(causes), &explanation);
  const double all_s = to_seconds(all_ns);
  explanation.interactions_s = all_s - explanation.simulated_s - sum;
  explanation.not_explained_s = explanation.measured_s - all_s;
  explanation.notes = notes_on(explanation, measured, run);
  return explanation;
}

nlohmann::ordered_json to_json(const Explanation& explanation) {
  nlohmann::ordered_json causes = nlohmann::ordered_json::array();
  for (const Cause& cause : explanation.causes)
    causes.push_back({{"what", cause.what},
                      {"alone_s", cause.alone_s},
                      {"evidence", cause.evidence},
                      {"advice", cause.advice}});
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const ExplainedRank& rank : explanation.ranks)
    ranks.push_back(
        {{"rank", rank.rank}, {"compute_ratio", rank.compute_ratio}, {"delays_s", rank.delays_s}});
  return {{"simulated_s", explanation.simulated_s},
          {"measured_s", explanation.measured_s},
          {"causes", std::move(causes)},
          {"smaller_causes_s", explanation.smaller_s},
          {"interactions_s", explanation.interactions_s},
          {"not_explained_s", explanation.not_explained_s},
          {"explained", explanation.is_explained()},
          {"steps", explanation.steps},
          {"ranks_measured", std::move(ranks)},
          {"ranks", explanation.ranks_in_all},
          {"notes", explanation.notes}};
}

}  // namespace tandem
