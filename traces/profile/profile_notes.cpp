#include "traces/profile/profile_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "topology/gpu_names.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {
namespace {

// Says how many kernels do not count (window_of()) for want of a launch; empty: all have theirs.
std::string launches_note(const Profile& profile) {
  if (window_of(profile).by != StepsBy::ProfilerStep) return "";
  std::int64_t all = 0, without = 0;
  double all_ns = 0, without_ns = 0;
  for (const ProfileRank& rank : profile.ranks) {
    if (rank.launches.empty() || rank.steps.empty()) continue;
    for (const ProfileKernel& kernel : rank.kernels) {
      if (kernel.start_ns >= rank.steps.back().start_ns) continue;
      const auto ns = static_cast<double>(kernel.end_ns - kernel.start_ns);
      ++all;
      all_ns += ns;
      if (kernel.launch >= 0) continue;
      ++without;
      without_ns += ns;
    }
  }
  if (without == 0) return "";
  return fmt::format(
      "{} of {} kernels before the last step, {:.3g} % of their time, do not count, as their "
      "launches are not in the profile.",
      without, all, all_ns > 0 ? 100 * without_ns / all_ns : 0);
}

}  // namespace

bool is_on_one_clock(const Profile& profile) {
  return std::ranges::all_of(profile.ranks,
                             [](const ProfileRank& rank) { return rank.clock_set == 0; });
}

std::string clocks_note(const Profile& profile) {
  std::vector<int> apart;
  for (const ProfileRank& rank : profile.ranks) {
    if (rank.clock_set > 0) apart.push_back(rank.rank);
  }
  if (apart.empty()) return "";
  return fmt::format("Nothing that they ran together aligns the clock{} {} with rank {}'s.",
                     apart.size() == 1 ? " of rank" : "s of ranks", fmt::join(apart, ", "),
                     profile.ranks.front().rank);
}

std::vector<std::string> notes_on_means(const Profile& profile, const std::string& device) {
  std::set<std::string> gpus;
  for (const ProfileRank& rank : profile.ranks) {
    if (!rank.device.empty()) gpus.insert(rank.device);
  }
  std::vector<std::string> notes = gpu_notes(gpus, device);
  if (const ProfileWindow window = window_of(profile); window.steps_differ())
    notes.push_back(
        fmt::format("Steps take {:.4g} to {:.4g} ms: what is said of a step is their mean.",
                    1e3 * to_seconds(window.shortest_ns), 1e3 * to_seconds(window.longest_ns)));
  return notes;
}

std::vector<std::string> profile_notes(const Profile& profile, const std::string& device) {
  std::vector<std::string> notes;
  bool is_counted = false;
  for (const ProfileRank& rank : profile.ranks) {
    notes.insert(notes.end(), rank.notes.begin(), rank.notes.end());
    is_counted |= !rank.rank_is_given;
  }
  if (is_counted && profile.ranks.size() > 1)
    notes.emplace_back(
        "Ranks are numbered by the order of files' names, in a file by GPU, where no file tells "
        "them.");
  if (const std::string clocks = clocks_note(profile); !clocks.empty())
    notes.push_back(
        clocks + " Steps and bubbles are by each clock alone; waiting between them is not known.");
  if (std::string launches = launches_note(profile); !launches.empty())
    notes.push_back(std::move(launches));
  for (std::string& note : notes_on_means(profile, device)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace tandem
