// Finishes a rank that a reader has read: sorts rows, joins kernels with the CPU's calls by
// correlation, and takes training steps from the names of annotations. Then cuts ranks down to the
// steps that all have.
#include "traces/profile/finish_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "traces/profile/op_keys.h"

namespace tandem {
namespace {

void join_launches(ProfileRank* rank) {
  std::ranges::stable_sort(rank->launches, {}, &Launch::correlation);
  for (ProfileKernel& kernel : rank->kernels) {
    if (kernel.correlation < 0) continue;
    const auto at =
        std::ranges::lower_bound(rank->launches, kernel.correlation, {}, &Launch::correlation);
    if (at != rank->launches.end() && at->correlation == kernel.correlation)
      kernel.launch = static_cast<std::int32_t>(at - rank->launches.begin());
  }
}

// Says whether a name is a step's: "ProfilerStep#3", or in Nsight Systems, where programs name
// their steps, also "iteration 3".
bool is_step(std::string_view name, bool named_by_program) {
  if (name.starts_with("ProfilerStep")) return true;
  if (!named_by_program) return false;
  for (const std::string_view word : {"iteration", "iter", "step", "train_step"}) {
    if (!name.starts_with(word)) continue;
    const std::string_view rest = name.substr(word.size());
    const std::size_t number = rest.find_first_not_of(" _#:");
    return number != std::string_view::npos &&
           rest.find_first_not_of("0123456789", number) == std::string_view::npos;
  }
  return false;
}

// Takes the steps. One within another is a part of it: "step 0" of "iteration 3".
void take_steps(ProfileRank* rank) {
  const bool named_by_program = rank->profiler == "Nsight Systems";
  std::vector<const Annotation*> steps;
  for (const Annotation& annotation : rank->annotations) {
    if (!annotation.on_gpu && is_step(rank->names.text(annotation.name), named_by_program))
      steps.push_back(&annotation);
  }
  std::ranges::stable_sort(
      steps, {}, [](const Annotation* step) { return std::pair(step->start_ns, -step->end_ns); });
  Nanoseconds until = std::numeric_limits<Nanoseconds>::min();
  for (const Annotation* step : steps) {
    if (step->end_ns <= until) continue;
    rank->steps.push_back({step->name, step->start_ns});
    until = step->end_ns;
  }
}

// A step's name, and how often the rank had it before.
using StepName = std::pair<std::string, int>;

std::vector<StepName> step_names(const ProfileRank& rank) {
  std::map<std::string, int> seen;
  std::vector<StepName> names;
  for (const ProfileStep& step : rank.steps) {
    const std::string& name = rank.names.text(step.name);
    names.emplace_back(name, seen[name]++);
  }
  return names;
}

Status keep_steps(const std::vector<bool>& is_kept, ProfileRank* rank) {
  std::erase_if(rank->kernels, [&](const ProfileKernel& kernel) {
    // Kernels launched before the first step stay with it.
    return !is_kept[static_cast<std::size_t>(std::max(step_of(*rank, kernel), 1) - 1)];
  });
  if (rank->kernels.empty())
    return Error::at(rank->path,
                     fmt::format("found no kernel of rank {} in the steps that all ranks have, "
                                 "expected profiles of the same steps on all ranks",
                                 rank->rank));
  std::vector<ProfileStep> steps;
  for (std::size_t i = 0; i < is_kept.size(); ++i) {
    if (is_kept[i]) steps.push_back(rank->steps[i]);
  }
  rank->steps = std::move(steps);
  return Done{};
}

// Calls use(time) for each time of the rank.
template <class OwnRank, class Use>  // ProfileRank, const or not
void for_each_time(OwnRank& rank, const Use& use) {
  for (auto& kernel : rank.kernels) {
    use(kernel.start_ns);
    use(kernel.end_ns);
    use(kernel.transfer_start_ns);
  }
  for (auto& launch : rank.launches) use(launch.at_ns);
  for (auto& call : rank.calls) {
    use(call.start_ns);
    use(call.end_ns);
  }
  for (auto& annotation : rank.annotations) {
    use(annotation.start_ns);
    use(annotation.end_ns);
  }
  for (auto& step : rank.steps) use(step.start_ns);
}

}  // namespace

Status check_times(const ProfileRank& rank, Nanoseconds ns) {
  constexpr Nanoseconds kDay = 86'400'000'000'000;
  bool in_range = true;
  const auto look = [&](Nanoseconds time) {
    in_range &= std::abs(static_cast<double>(time) + static_cast<double>(ns)) <= kMostTime;
  };
  look(0);
  for_each_time(rank, look);
  if (!in_range)
    return Error::at(rank.path,
                     "found a time more than 126 years from the clock's beginning, "
                     "expected the times of one run");
  for (const ProfileKernel& kernel : rank.kernels) {
    const Nanoseconds took = kernel.end_ns - kernel.start_ns;
    if (took < 0)
      return Error::at(rank.path, fmt::format("found a kernel that ends {} ns before it starts, "
                                              "expected the end behind the start",
                                              -took));
    if (took > kDay)
      return Error::at(rank.path,
                       fmt::format("found a kernel of {} ns, expected a day at most", took));
  }
  return Done{};
}

void shift(Nanoseconds ns, ProfileRank* rank) {
  for_each_time(*rank, [ns](Nanoseconds& time) { time += ns; });
}

void finish_rank(ProfileRank* rank) {
  std::ranges::stable_sort(rank->kernels, [](const ProfileKernel& a, const ProfileKernel& b) {
    return std::tie(a.start_ns, a.stream, a.end_ns) < std::tie(b.start_ns, b.stream, b.end_ns);
  });
  for (ProfileKernel& kernel : rank->kernels) kernel.transfer_start_ns = kernel.start_ns;
  std::ranges::stable_sort(rank->calls, [](const ShapedCall& a, const ShapedCall& b) {
    return std::tie(a.thread, a.start_ns, b.end_ns) < std::tie(b.thread, b.start_ns, a.end_ns);
  });
  join_launches(rank);
  take_steps(rank);
  find_phases(rank);
}

Status keep_common_steps(std::vector<ProfileRank>* ranks) {
  std::map<StepName, std::size_t> ranks_with;
  for (const ProfileRank& rank : *ranks) {
    for (const StepName& name : step_names(rank)) ++ranks_with[name];
  }
  if (ranks_with.size() < 2) return Done{};
  for (const ProfileRank& rank : *ranks) {
    if (rank.steps.empty())
      return Error::at(rank.path, fmt::format("found no step (ProfilerStep) of rank {} beside "
                                              "those of other ranks, expected profiles of the "
                                              "same steps on all ranks",
                                              rank.rank));
  }
  std::ptrdiff_t steps = 0, left_out = 0;
  for (ProfileRank& rank : *ranks) {
    std::vector<bool> is_kept;
    for (const StepName& name : step_names(rank))
      is_kept.push_back(ranks_with.at(name) == ranks->size());
    if (std::ranges::find(is_kept, true) == is_kept.end())
      return Error::at(rank.path, fmt::format("found no step of rank {} that all ranks have, "
                                              "expected profiles of the same steps on all ranks",
                                              rank.rank));
    const std::ptrdiff_t dropped = std::ranges::count(is_kept, false);
    steps += std::ssize(is_kept);
    left_out += dropped;
    if (dropped > 0) RETURN_IF_ERROR(keep_steps(is_kept, &rank));
  }
  if (left_out > 0)
    ranks->front().notes.push_back(fmt::format(
        "Of the ranks' {} steps {} are left out, as not all ranks have them.", steps, left_out));
  return Done{};
}

}  // namespace tandem
