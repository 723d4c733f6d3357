// Chooses the steps of a profile that count: by ProfilerSteps, else by a period in the names of
// kernels (Knuth, Morris and Pratt's border table). Declared in traces/profile/profile_metrics.h.
#include <algorithm>
#include <map>
#include <set>

#include "traces/profile/op_keys.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {
namespace {

// Returns how many different steps the ranks have, by name ("ProfilerStep#3").
std::size_t step_names(const Profile& profile) {
  std::set<std::string> names;
  for (const ProfileRank& rank : profile.ranks) {
    for (const ProfileStep& step : rank.steps) names.insert(rank.names.text(step.name));
  }
  return names.size();
}

// Says for each kernel whether it was launched before the rank's last step began; yes for all of a
// rank without steps.
std::vector<bool> before_last_step(const ProfileRank& rank) {
  std::vector<bool> counted(rank.kernels.size(), true);
  if (rank.steps.empty()) return counted;
  const Nanoseconds last = rank.steps.back().start_ns;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const ProfileKernel& kernel = rank.kernels[i];
    // Without recorded launches, the kernel's own start decides.
    if (rank.launches.empty()) {
      counted[i] = kernel.start_ns < last;
    } else {
      counted[i] = kernel.launch >= 0 && rank.launches[kernel.launch].at_ns < last;
    }
  }
  return counted;
}

// Returns the compute kernels of the stream that computes longest, as places in rank.kernels.
std::vector<std::size_t> main_stream(const ProfileRank& rank) {
  std::map<std::int32_t, Nanoseconds> compute_ns;
  for (const ProfileKernel& kernel : rank.kernels) {
    if (kernel.activity == Activity::Compute)
      compute_ns[kernel.stream] += kernel.end_ns - kernel.start_ns;
  }
  std::vector<std::size_t> places;
  if (compute_ns.empty()) return places;
  const auto longest = std::ranges::max_element(
      compute_ns, {}, [](const auto& stream_and_time) { return stream_and_time.second; });
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    if (rank.kernels[i].activity == Activity::Compute && rank.kernels[i].stream == longest->first)
      places.push_back(i);
  }
  return places;
}

// Returns the shortest period after which the kernels' names repeat: the number of kernels less the
// longest border. A border is a beginning that is also the end: of A B A B A it is A B A, so the
// period is 2. border[i] is that of the first i kernels (Knuth, Morris and Pratt).
std::size_t period_of(const ProfileRank& rank, const std::vector<std::size_t>& places) {
  const auto name = [&](std::size_t i) { return rank.kernels[places[i]].name; };
  std::vector<std::size_t> border(places.size() + 1);
  for (std::size_t i = 1, length = 0; i < places.size(); ++i) {
    while (length > 0 && name(i) != name(length)) length = border[length];
    if (name(i) == name(length)) ++length;
    border[i + 1] = length;
  }
  return places.size() - border[places.size()];
}

// Sets the shortest and the longest step, from begin to begin.
void set_lengths(const std::vector<Nanoseconds>& begins, ProfileWindow* window) {
  for (std::size_t i = 1; i < begins.size(); ++i) {
    const Nanoseconds length = begins[i] - begins[i - 1];
    window->shortest_ns = i == 1 ? length : std::min(window->shortest_ns, length);
    window->longest_ns = std::max(window->longest_ns, length);
  }
}

// Returns when each ProfilerStep begins: with its first kernel on any rank of the first clock.
std::vector<Nanoseconds> step_begins(const Profile& profile) {
  std::map<int, Nanoseconds> first;
  for (const ProfileRank& rank : profile.ranks) {
    if (rank.clock_set > 0) continue;
    for (const ProfileKernel& kernel : rank.kernels) {
      if (kernel.launch < 0 && !rank.launches.empty()) continue;
      Nanoseconds& begin = first.try_emplace(step_of(rank, kernel), kernel.start_ns).first->second;
      begin = std::min(begin, kernel.start_ns);
    }
  }
  first.erase(0);  // before the first step
  std::vector<Nanoseconds> begins;
  for (const auto& [step, begin] : first) begins.push_back(begin);
  return begins;
}

// Returns the whole repetitions; nothing if a rank does not repeat, or not as often as the others.
// Example: of kernels A B A B A the last one is not counted, as it begins a third repetition.
std::optional<ProfileWindow> by_repetition(const Profile& profile) {
  ProfileWindow window{.by = StepsBy::Repetition, .steps = 0, .is_counted = {}};
  for (const ProfileRank& rank : profile.ranks) {
    const bool is_first = &rank == &profile.ranks.front();
    const std::vector<std::size_t> places = main_stream(rank);
    if (places.size() < 2) return std::nullopt;
    const std::size_t period = period_of(rank, places);
    const int steps = static_cast<int>(places.size() / period);
    if (is_first) window.steps = steps;
    if (steps < 2 || steps != window.steps) return std::nullopt;
    const std::size_t whole = period * static_cast<std::size_t>(steps);
    std::vector<bool> counted(rank.kernels.size(), true);
    if (whole < places.size())
      std::fill(counted.begin() + static_cast<std::ptrdiff_t>(places[whole]), counted.end(), false);
    window.is_counted.push_back(std::move(counted));
    if (!is_first) continue;
    std::vector<Nanoseconds> begins;
    for (std::size_t i = 0; i < places.size(); i += period)
      begins.push_back(rank.kernels[places[i]].start_ns);
    set_lengths(begins, &window);
  }
  return window;
}

}  // namespace

ProfileWindow window_of(const Profile& profile) {
  const std::size_t names = step_names(profile);
  if (names == 0) return by_repetition(profile).value_or(ProfileWindow{});
  if (names == 1) return {};
  ProfileWindow window{.by = StepsBy::ProfilerStep, .steps = 0, .is_counted = {}};
  for (const ProfileRank& rank : profile.ranks) {
    window.is_counted.push_back(before_last_step(rank));
    const int steps = static_cast<int>(rank.steps.size()) - 1;
    if (steps > 0 && (window.steps == 0 || steps < window.steps)) window.steps = steps;
  }
  window.steps = std::max(window.steps, 1);
  set_lengths(step_begins(profile), &window);
  return window;
}

StepsBeside steps_beside(const ProfileRank& rank) {
  struct Span {
    Nanoseconds first_ns = 0, last_ns = 0;
  };
  std::map<int, Span> steps;
  for (const ProfileKernel& kernel : rank.kernels) {  // by start
    if (kernel.launch < 0 && !rank.launches.empty()) continue;
    const auto [at, is_new] = steps.try_emplace(step_of(rank, kernel), Span{kernel.start_ns, 0});
    at->second.last_ns = std::max(at->second.last_ns, kernel.end_ns);
  }
  steps.erase(0);  // before the first step
  StepsBeside beside;
  if (steps.size() < 2) return beside;
  for (auto step = steps.begin(), next = std::next(step); next != steps.end(); ++step, ++next)
    beside.overlap_ns = std::max(beside.overlap_ns, step->second.last_ns - next->second.first_ns);
  beside.every_ns = (steps.rbegin()->second.first_ns - steps.begin()->second.first_ns) /
                    static_cast<Nanoseconds>(steps.size() - 1);
  return beside;
}

int optimizer_rounds(const ProfileRank& rank) {
  int rounds = 0;
  bool behind_backward = true;  // the profile may begin with the optimizer
  for (const ProfileKernel& kernel : rank.kernels) {
    const PassPhase phase = kernel.phase;
    if (phase == PassPhase::Backward || phase == PassPhase::BackwardInput ||
        phase == PassPhase::BackwardWeight)
      behind_backward = true;
    // Only the annotation of a whole optimizer pass ("Optimizer.step#...") is a round. A part such
    // as "Optimizer.zero_grad" has the phase Step too, but updates nothing.
    const bool updates =
        phase == PassPhase::Step && kernel.action >= 0 && rank.actions[kernel.action].is_whole;
    if (!updates || !behind_backward) continue;
    ++rounds;
    behind_backward = false;
  }
  return rounds;
}

}  // namespace tandem
