// Finishes a rank that a reader has read: sorts rows, joins kernels with the CPU's calls by
// correlation, and takes training steps from the names of annotations.
#include "traces/profile/finish_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

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

void take_steps(ProfileRank* rank) {
  const bool named_by_program = rank->profiler == "Nsight Systems";
  for (const Annotation& annotation : rank->annotations) {
    if (annotation.on_gpu || !is_step(rank->names.text(annotation.name), named_by_program))
      continue;
    rank->steps.push_back({annotation.name, annotation.start_ns});
  }
  std::ranges::stable_sort(rank->steps, {}, &ProfileStep::start_ns);
}

}  // namespace

Status check_times(const ProfileRank& rank, Nanoseconds ns) {
  constexpr Nanoseconds kDay = 86'400'000'000'000;
  bool in_range = true;
  const auto look = [&](Nanoseconds time) {
    in_range &= std::abs(static_cast<double>(time) + static_cast<double>(ns)) <= kMostTime;
  };
  look(0);
  for (const ProfileKernel& kernel : rank.kernels) {
    look(kernel.start_ns);
    look(kernel.end_ns);
  }
  for (const Launch& launch : rank.launches) look(launch.at_ns);
  for (const ShapedCall& call : rank.calls) {
    look(call.start_ns);
    look(call.end_ns);
  }
  for (const Annotation& annotation : rank.annotations) {
    look(annotation.start_ns);
    look(annotation.end_ns);
  }
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
  for (ProfileKernel& kernel : rank->kernels) {
    kernel.start_ns += ns;
    kernel.end_ns += ns;
    kernel.transfer_start_ns += ns;
  }
  for (Launch& launch : rank->launches) launch.at_ns += ns;
  for (ShapedCall& call : rank->calls) {
    call.start_ns += ns;
    call.end_ns += ns;
  }
  for (Annotation& annotation : rank->annotations) {
    annotation.start_ns += ns;
    annotation.end_ns += ns;
  }
  for (ProfileStep& step : rank->steps) step.start_ns += ns;
}

void finish_rank(ProfileRank* rank) {
  std::ranges::stable_sort(rank->kernels, [](const ProfileKernel& a, const ProfileKernel& b) {
    return std::tie(a.start_ns, a.stream, a.end_ns) < std::tie(b.start_ns, b.stream, b.end_ns);
  });
  for (ProfileKernel& kernel : rank->kernels) kernel.transfer_start_ns = kernel.start_ns;
  std::ranges::stable_sort(rank->calls, [](const ShapedCall& a, const ShapedCall& b) {
    return std::tie(a.thread, a.start_ns) < std::tie(b.thread, b.start_ns);
  });
  join_launches(rank);
  take_steps(rank);
  find_phases(rank);
}

}  // namespace tandem
