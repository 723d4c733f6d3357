// Measures each step on each rank (measured_ops.h), finds its delays, and takes means over steps.
#include "validation/explain/profiled_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/quantile.h"
#include "traces/profile/profile_metrics.h"
#include "validation/explain/late_operations.h"

namespace tandem {
namespace {

constexpr double kLeastPause = 0.005;  // share of the iteration

struct RankSteps {
  const ProfileRank* profile = nullptr;
  std::vector<MeasuredStep> steps;
};

// When the steps that count begin and end, on all ranks together.
//   several steps  each lasts from its first kernel to the next step's first kernel. The last step
//                  does not count: the profile's end may cut it off
//   a single step  lasts from its annotation, or its first kernel, to its last kernel
struct StepTimes {
  bool is_single = false;
  std::vector<double> begin_ns;  // of each step that counts, then the end of the last such step
  std::vector<double> last_ns;   // the end of the last kernel of each step that counts

  std::size_t steps() const { return last_ns.size(); }
  double mean_length_ns() const {
    return (begin_ns.back() - begin_ns.front()) / static_cast<double>(steps());
  }
};

StepTimes times_of(const std::vector<RankSteps>& ranks) {
  std::size_t steps = std::numeric_limits<std::size_t>::max();
  for (const RankSteps& rank : ranks) steps = std::min(steps, rank.steps.size());
  StepTimes times{.is_single = steps == 1, .begin_ns = {}, .last_ns = {}};
  for (std::size_t s = 0; s < steps; ++s) {
    Nanoseconds begin = std::numeric_limits<Nanoseconds>::max(), last = 0;
    for (const RankSteps& rank : ranks) {
      const MeasuredStep& step = rank.steps[s];
      begin = std::min(begin, step.first_ns);
      if (times.is_single) begin = std::min(begin, step.begin_ns.value_or(begin));
      last = std::max(last, step.last_ns);
    }
    times.begin_ns.push_back(static_cast<double>(begin));
    times.last_ns.push_back(static_cast<double>(last));
  }
  if (times.is_single) {
    times.begin_ns.push_back(times.last_ns.back());
  } else {
    times.last_ns.pop_back();
  }
  return times;
}

// Returns when the rank could have begun with step `s`. With several steps, this is when its last
// kernel of the step before has ended and the step's annotation has begun. The first of several
// begins with its first kernel.
Nanoseconds begin_of(const RankSteps& rank, const StepTimes& times, std::size_t s) {
  if (times.is_single) return static_cast<Nanoseconds>(times.begin_ns[0]);
  const MeasuredStep& step = rank.steps[s];
  if (s == 0) return step.first_ns;
  const Nanoseconds last = rank.steps[s - 1].last_ns;
  return std::min(step.first_ns, std::max(last, step.begin_ns.value_or(last)));
}

// Refuses a rank without annotations of passes if a step does not turn from forward to backward as
// often as the Program has forwards: two forwards in a row look like one. The last of several steps
// may be cut off, and is not checked.
Status check_forwards(const Program& program, const RankSteps& rank) {
  std::set<std::pair<int, int>> expected;
  for (const Op& op : program.body_of(Rank{rank.profile->rank}).ops) {
    if (op.kind == OpKind::Forward) expected.emplace(op.stage, op.microbatch);
  }
  const auto forwards = static_cast<int>(expected.size());
  for (std::size_t s = 0; s < std::max<std::size_t>(1, rank.steps.size() - 1); ++s) {
    const int found = rank.steps[s].forward_runs;
    if (found > 0 && found != forwards)
      return Error::at(
          rank.profile->path,
          fmt::format("found {} turns from forward to backward in a step, expected the job's {} "
                      "forwards, or annotations of passes (PP:1F3, forward_step, Forward 3)",
                      found, forwards));
  }
  return Done{};
}

// Adds a step's delays to the rank's means over `steps`. Those of one op and cause add up.
void add_delays(const std::vector<Delay>& of_step, double steps, RankOfRun* run) {
  for (const Delay& delay : of_step) {
    const auto same = [&](const Delay& other) {
      return other.op == delay.op && other.kind == delay.kind &&
             other.waited_for == delay.waited_for;
    };
    const auto ns = static_cast<Nanoseconds>(static_cast<double>(delay.ns) / steps);
    const auto at = std::ranges::find_if(run->delays, same);
    if (at != run->delays.end()) {
      at->ns += ns;
    } else {
      run->delays.push_back(delay);
      run->delays.back().ns = ns;
    }
  }
}

// Adds to the last step that counts the wait before the step behind it: steps last from first
// kernel to first kernel, so each holds the wait before the next one.
void add_last_wait(const RankSteps& rank, const StepTimes& times, Nanoseconds pause_ns,
                   StepDelays* last) {
  if (times.is_single) return;
  const MeasuredStep& step = rank.steps[times.steps()];
  const Nanoseconds ready = begin_of(rank, times, times.steps());
  const std::vector<Delay> delays = delays_of(*last->body, step, ready, pause_ns);
  if (delays.empty() || !delays.front().is_before) return;
  Delay wait = delays.front();
  // The op that waits may begin after the step's first kernel (a copy, say). Only the part of the
  // wait before that kernel is in the step before.
  const Nanoseconds wait_begins = step.ops[wait.op].start_ns - wait.ns;
  wait.ns = std::min(wait.ns, step.first_ns - wait_begins);
  // find_barriers() has seen the same op in the step that counts.
  const bool is_barrier = std::ranges::any_of(last->delays, [&](const Delay& other) {
    return other.op == wait.op && other.is_before && other.kind == DelayKind::Barrier;
  });
  if (is_barrier && wait.kind == DelayKind::Pause) wait.kind = DelayKind::Barrier;
  if (wait.ns > 0) last->delays.push_back(wait);
}

// Returns the delays of each step on each rank.
std::vector<std::vector<StepDelays>> delays_in(const Program& program,
                                               const std::vector<RankSteps>& ranks,
                                               const StepTimes& times) {
  const auto pause_ns = static_cast<Nanoseconds>(kLeastPause * times.mean_length_ns());
  std::vector<std::vector<StepDelays>> steps(times.steps());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const RankSteps& rank : ranks) {
      const Body& body = program.body_of(Rank{rank.profile->rank});
      steps[s].push_back({rank.profile->rank, &body, &rank.steps[s],
                          delays_of(body, rank.steps[s], begin_of(rank, times, s), pause_ns)});
    }
    find_barriers(&steps[s]);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    add_last_wait(ranks[r], times, pause_ns, &steps.back()[r]);
  return steps;
}

// Returns each op's mean over the steps that tell it.
RankOfRun mean_of(const Body& body, const RankSteps& rank, const StepTimes& times) {
  RankOfRun run{rank.profile->rank, std::vector<double>(body.ops.size(), -1), {}};
  std::vector<int> steps_with(body.ops.size());
  for (std::size_t s = 0; s < times.steps(); ++s) {
    const MeasuredStep& step = rank.steps[s];
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      if (!step.ops[i].known()) continue;
      if (steps_with[i]++ == 0) run.busy_ns[i] = 0;
      run.busy_ns[i] += static_cast<double>(step.ops[i].busy_ns);
    }
  }
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    if (steps_with[i] > 0) run.busy_ns[i] /= steps_with[i];
  }
  return run;
}

// Counts the rank's measured ops of no length, of those that take time as simulated.
std::int64_t ops_of_no_length(const Program& program, const OpDurations& base,
                              const RankOfRun& run) {
  const RankRow& row = program.ranks[run.rank];
  const Body& body = program.bodies[row.body];
  const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    const Nanoseconds simulated =
        op.slot < 0 ? base.compute[run.rank][i] : base.comm[row.communicators[op.slot]][numbers[i]];
    count += simulated > 0 && run.busy_ns[i] == 0 ? 1 : 0;
  }
  return count;
}

// Leaves out waits in communication with ranks that the profile lacks: each operation is taken to
// last as long as the shortest of the rank's equal ones. `knows_waits`: by slot.
void leave_out_waits(const Body& body, const std::vector<bool>& knows_waits, RankOfRun* run) {
  std::map<std::tuple<int, OpKind, Bytes>, std::vector<double*>> equal;
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    if (op.slot < 0 || knows_waits[op.slot]) continue;
    if (run->knows(i)) equal[{op.slot, op.kind, op.bytes}].push_back(&run->busy_ns[i]);
  }
  for (auto& [key, times] : equal) {
    const double shortest = **std::ranges::min_element(times, {}, [](double* ns) { return *ns; });
    for (double* ns : times) *ns = shortest;
  }
}

// Returns ProfiledRun::comm_ns; -1: no rank tells the operation. Ranks that may wait take longer
// than the operation does: then the least of their times is the nearest.
std::vector<std::vector<double>> comm_of(const Program& program, const OpDurations& base,
                                         const ProfiledRun& run) {
  std::vector<std::vector<std::vector<double>>> told(base.comm.size());
  for (std::size_t c = 0; c < told.size(); ++c) told[c].resize(base.comm[c].size());
  for (const RankOfRun& rank : run.ranks) {
    const RankRow& row = program.ranks[rank.rank];
    const Body& body = program.bodies[row.body];
    const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      if (body.ops[i].slot >= 0 && rank.knows(i))
        told[row.communicators[body.ops[i].slot]][numbers[i]].push_back(rank.busy_ns[i]);
    }
  }
  std::vector<std::vector<double>> comm(told.size());
  for (std::size_t c = 0; c < told.size(); ++c) {
    for (std::vector<double>& values : told[c]) {
      if (values.empty()) values = {-1};
      comm[c].push_back(run.may_wait[c] ? std::ranges::min(values) : median(std::move(values)));
    }
  }
  return comm;
}

// Returns ProfiledRun::late_ns. All are 0 for a simulated profile (one that tells waits) that lacks
// ranks: its kernels of communication begin with the last participant, which may be a missing rank.
std::vector<std::vector<double>> late_of(const Program& program, const OpDurations& base,
                                         const std::vector<RankSteps>& ranks,
                                         const std::vector<std::vector<StepDelays>>& steps) {
  std::vector<std::vector<double>> late;
  for (const std::vector<Nanoseconds>& operations : base.comm) late.emplace_back(operations.size());
  const bool is_simulated =
      std::ranges::any_of(ranks, [](const RankSteps& rank) { return rank.profile->tells_waits; });
  if (is_simulated && ranks.size() < program.ranks.size()) return late;
  for (const std::vector<StepDelays>& step : steps) add_late_operations(program, step, &late);
  for (std::vector<double>& operations : late) {
    for (double& ns : operations) ns /= static_cast<double>(steps.size());
  }
  return late;
}

// Returns the mean gap from the last kernel of a step on any rank to the begin of the next step:
// its first annotation or kernel.
double between_steps(const std::vector<RankSteps>& ranks, const StepTimes& times) {
  double sum = 0;
  for (std::size_t s = 1; s <= times.steps(); ++s) {
    double begin = times.begin_ns[s];
    for (const RankSteps& rank : ranks) {
      if (s >= rank.steps.size()) continue;  // another rank has more
      if (const auto annotated = rank.steps[s].begin_ns)
        begin = std::min(begin, static_cast<double>(*annotated));
    }
    sum += std::max(0.0, begin - times.last_ns[s - 1]);
  }
  return sum / static_cast<double>(times.steps());
}

// Refuses a rank that the job does not have, and several iterations that no steps tell apart.
Status check_ranks_and_steps(const Profile& profile, int world) {
  for (const ProfileRank& rank : profile.ranks) {
    if (rank.rank >= world)
      return Error::at(rank.path, fmt::format("found rank {}, expected one of the job's {} ranks",
                                              rank.rank, world));
  }
  if (const ProfileWindow window = window_of(profile); window.by == StepsBy::Repetition)
    return Error::at(profile.ranks.front().path,
                     fmt::format("found {} iterations without steps told apart, expected "
                                 "ProfilerStep annotations (profiler.step()), or one iteration",
                                 window.steps));
  for (const ProfileRank& rank : profile.ranks) {
    if (const int rounds = optimizer_rounds(rank); rank.steps.empty() && rounds > 1)
      return Error::at(
          rank.path,
          fmt::format(
              "found {} runs of the optimizer, each behind a backward, without steps told "
              "apart, expected ProfilerStep annotations (profiler.step()), or one iteration",
              rounds));
  }
  return Done{};
}

bool tells_compute(const Program& program, const ProfiledRun& run) {
  for (const RankOfRun& rank : run.ranks) {
    const Body& body = program.body_of(Rank{rank.rank});
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      if (is_compute(body.ops[i].kind) && rank.knows(i)) return true;
    }
  }
  return false;
}

// Returns the steps of the ranks that are on the first one's clock.
Result<std::vector<RankSteps>> steps_of(const Program& program, const OpDurations& base,
                                        const Profile& profile) {
  std::vector<RankSteps> ranks;
  const Replay simulated = replay(program, base);
  for (const ProfileRank& rank : profile.ranks) {
    if (rank.clock_set > 0) continue;  // another clock than the first rank's
    const std::span<const EventTimes> events(simulated.events.data() + simulated.first[rank.rank],
                                             program.body_of(Rank{rank.rank}).ops.size());
    ranks.push_back({&rank, measured_steps(program, rank.rank, events, rank)});
  }
  if (std::ranges::any_of(ranks, [](const RankSteps& rank) { return rank.steps.empty(); }))
    return Error::at(profile.ranks.front().path, "found no kernels in a step, expected some");
  for (const RankSteps& rank : ranks) RETURN_IF_ERROR(check_forwards(program, rank));
  return ranks;
}

// Returns, by slot of the rank, whether its waits in communication are known: the rank tells them,
// or all members are among `ranks`.
std::vector<bool> knows_waits_of(const Program& program, const RankSteps& rank,
                                 const std::set<int>& ranks) {
  std::vector<bool> knows_waits;
  for (const std::int32_t c : program.ranks[rank.profile->rank].communicators) {
    const bool has_all = std::ranges::all_of(program.communicators[c].members, [&](Rank member) {
      return ranks.contains(index(member));
    });
    knows_waits.push_back(rank.profile->tells_waits || has_all);
  }
  return knows_waits;
}

}  // namespace

Result<ProfiledRun> profiled_run(const Program& program, const OpDurations& base,
                                 const Profile& profile) {
  RETURN_IF_ERROR(check_ranks_and_steps(profile, static_cast<int>(program.ranks.size())));
  ASSIGN_OR_RETURN(const std::vector<RankSteps> ranks, steps_of(program, base, profile));
  std::set<int> on_first_clock;
  for (const RankSteps& rank : ranks) on_first_clock.insert(rank.profile->rank);
  const StepTimes times = times_of(ranks);
  ProfiledRun run{.iteration_ns = times.mean_length_ns(),
                  .between_ns = between_steps(ranks, times),
                  .steps = static_cast<int>(times.steps()),
                  .steps_differ = window_of(profile).steps_differ(),
                  .may_wait = std::vector<bool>(program.communicators.size())};
  CommCounts comms;
  const std::vector<std::vector<StepDelays>> delays = delays_in(program, ranks, times);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankSteps& rank = ranks[r];
    const Body& body = program.body_of(Rank{rank.profile->rank});
    run.ranks.push_back(mean_of(body, rank, times));
    run.ops_of_no_length += ops_of_no_length(program, base, run.ranks.back());
    for (std::size_t s = 0; s < times.steps(); ++s) comms.add(rank.steps[s].comms);
    for (const std::vector<StepDelays>& step : delays)
      add_delays(step[r].delays, static_cast<double>(times.steps()), &run.ranks.back());
    const std::vector<bool> knows_waits = knows_waits_of(program, rank, on_first_clock);
    for (std::size_t slot = 0; slot < knows_waits.size(); ++slot) {
      if (!knows_waits[slot])
        run.may_wait[program.ranks[rank.profile->rank].communicators[slot]] = true;
    }
    leave_out_waits(body, knows_waits, &run.ranks.back());
  }
  run.unmatched = comms.note();
  if (!tells_compute(program, run))
    return Error::at(profile.ranks.front().path,
                     "found no passes of the scenario's microbatches, expected annotations of "
                     "them: PP:1F3 (PyTorch's pipelining), forward_step and backward_step, or "
                     "Forward 3");
  run.comm_ns = comm_of(program, base, run);
  run.late_ns = late_of(program, base, ranks, delays);
  return run;
}

}  // namespace tandem
