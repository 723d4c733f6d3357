// Random jobs with causes put in: explain names the right one first, with its size, and none where
// none was put in. TANDEM_RANDOM_JOBS is how many.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "job/compile.h"
#include "planning/choose/resolve.h"
#include "sim/trace_of.h"
#include "tests/draw.h"
#include "tests/random/random_jobs.h"
#include "tests/seed.h"
#include "traces/profile/align.h"
#include "traces/profile/simulated_profile.h"
#include "validation/explain/explain.h"
#include "validation/explain/op_durations.h"

using namespace tandem;

namespace {

constexpr double kLeastGap = 0.01;  // of the simulated iteration, for a case to count

// A simulated job of at least two ranks, and its durations.
struct RandomRun {
  Program program;
  Trace trace;
  OpDurations base;
  Replay played;  // of the base
  Nanoseconds iteration_ns = 0;
};

// Every fourth job has experts for each of its replicas, as few others exchange tokens.
JobKeys keys_of(std::uint64_t seed) {
  JobKeys keys = random_job(seed);
  if (seed % 4 != 0) return keys;
  keys["model.experts"] = "12";
  keys["model.top_k"] = "2";
  keys["parallel.ep"] = keys["parallel.dp"];
  keys["train.sequence_parallel"] = keys["parallel.tp"] == "1" ? "false" : "true";
  return keys;
}

std::optional<RandomRun> random_run(std::uint64_t seed) {
  const auto scenario = scenario_of(keys_of(seed));
  if (!scenario) return std::nullopt;
  const auto closed = resolved(*scenario);
  if (!closed.ok()) return std::nullopt;
  const auto job = compile(*closed);
  if (!job.ok() || job->program.ranks.size() < 2) return std::nullopt;
  RandomRun run{.program = job->program, .trace = {}, .base = {}, .played = {}};
  std::size_t ops = 0;
  for (const RankRow& rank : run.program.ranks) ops += run.program.bodies[rank.body].ops.size();
  if (ops > 30'000) return std::nullopt;
  auto trace = ideal(run.program, {.fold = false});
  if (!trace.ok()) return std::nullopt;
  run.trace = std::move(*trace);
  run.base = durations_of(run.program, run.trace);
  run.played = replay(run.program, run.base);
  run.iteration_ns = replayed(run.program, run.base);
  return run;
}

// Causes in a run: ops that wait for more, changed durations, and gaps before ops of compute, which
// delay but do not compute. `cause`: what explain should begin with.
struct Injected {
  std::string cause;
  Program program;  // each rank has a body of its own, which may end with barriers
  OpDurations durations;
  std::vector<std::pair<int, std::pair<std::uint32_t, Nanoseconds>>> gaps;  // rank, op, ns
};

const Body& body_of(const RandomRun& run, int rank) { return run.program.body_of(Rank{rank}); }

template <class Of>
void slow_compute(const RandomRun& run, double factor, const Of& of, OpDurations* durations) {
  for (int rank = 0; rank < static_cast<int>(run.program.ranks.size()); ++rank) {
    const Body& body = body_of(run, rank);
    for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
      Nanoseconds& ns = durations->compute[rank][i];
      if (is_compute(body.ops[i].kind) && of(rank, body.ops[i]))
        ns = std::llround(static_cast<double>(ns) * factor);
    }
  }
}

double factor_of(Draw* draw) { return 1.15 + 0.05 * draw->below(8); }

bool slow_rank(const RandomRun& run, Draw* draw, Injected* injected) {
  const int slow = draw->below(static_cast<int>(run.program.ranks.size()));
  slow_compute(
      run, factor_of(draw), [&](int rank, const Op&) { return rank == slow; },
      &injected->durations);
  injected->cause = fmt::format("rank {}: its kernels take", slow);
  return true;
}

bool slow_stage(const RandomRun& run, Draw* draw, Injected* injected) {
  std::map<int, std::set<int>> ranks;
  for (int rank = 0; rank < static_cast<int>(run.program.ranks.size()); ++rank) {
    for (const Op& op : body_of(run, rank).ops) {
      if (is_compute(op.kind) && op.stage >= 0) ranks[op.stage].insert(rank);
    }
  }
  if (ranks.size() < 2) return false;
  const int slow = draw->below(static_cast<int>(ranks.size()));
  if (ranks[slow].size() < 2) return false;
  slow_compute(
      run, factor_of(draw), [&](int, const Op& op) { return op.stage == slow; },
      &injected->durations);
  injected->cause = fmt::format("stage {}: its kernels take", slow);
  return true;
}

bool slow_kind(const RandomRun& run, Draw* draw, Injected* injected) {
  std::set<OpKind> kinds;
  for (const Body& body : run.program.bodies) {
    for (const Op& op : body.ops) {
      if (is_compute(op.kind) && op.kind != OpKind::Optimizer) kinds.insert(op.kind);
    }
  }
  const OpKind slow = draw->among(std::vector(kinds.begin(), kinds.end()));
  slow_compute(
      run, factor_of(draw), [&](int, const Op& op) { return op.kind == slow; },
      &injected->durations);
  injected->cause = fmt::format("{} kernels take", op_kind_name(slow));
  return true;
}

bool slow_links(const RandomRun& run, Draw* draw, Injected* injected) {
  const auto kind_of = [&](std::size_t c) {
    const Communicator& comm = run.program.communicators[c];
    return std::pair(comm.group_kind, comm.between_nodes);
  };
  std::set<std::pair<GroupKind, bool>> kinds;
  for (std::size_t c = 0; c < run.base.comm.size(); ++c) kinds.insert(kind_of(c));
  if (kinds.empty()) return false;
  const auto slow = draw->among(std::vector(kinds.begin(), kinds.end()));
  const double factor = 1.5 + draw->below(4);
  for (std::size_t c = 0; c < run.base.comm.size(); ++c) {
    if (kind_of(c) != slow) continue;
    for (Nanoseconds& ns : injected->durations.comm[c])
      ns = std::llround(static_cast<double>(ns) * factor);
  }
  injected->cause = fmt::format("{} communication {} nodes: operations take",
                                group_kind_name(slow.first), slow.second ? "between" : "inside");
  return true;
}

// Ops of compute of a rank that fit, by number.
template <class Fits>
std::vector<std::uint32_t> compute_of(const Body& body, const Fits& fits) {
  std::vector<std::uint32_t> ops;
  bool is_first = true;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (!is_compute(body.ops[i].kind)) continue;
    if (fits(body.ops[i], is_first)) ops.push_back(i);
    is_first = false;
  }
  return ops;
}

Nanoseconds gap_of(const RandomRun& run, Draw* draw) {
  return run.iteration_ns * (3 + draw->below(15)) / 100;
}

bool pause_rank(const RandomRun& run, Draw* draw, Injected* injected) {
  const int rank = draw->below(static_cast<int>(run.program.ranks.size()));
  const auto ops = compute_of(body_of(run, rank), [](const Op& op, bool is_first) {
    return !is_first && op.kind != OpKind::Optimizer;
  });
  if (ops.empty()) return false;
  injected->gaps.push_back({rank, {draw->among(ops), gap_of(run, draw)}});
  injected->cause = "pauses in which a rank computes nothing";
  return true;
}

bool delay_all(const RandomRun& run, Draw* draw, bool optimizer, Injected* injected) {
  const Nanoseconds gap = gap_of(run, draw);
  for (int rank = 0; rank < static_cast<int>(run.program.ranks.size()); ++rank) {
    const auto ops = compute_of(body_of(run, rank), [&](const Op& op, bool is_first) {
      return optimizer ? op.kind == OpKind::Optimizer : is_first && op.waits == 0;
    });
    if (!ops.empty()) injected->gaps.push_back({rank, {ops.front(), gap}});
  }
  if (injected->gaps.empty()) return false;
  injected->cause = optimizer ? "the optimizer waits" : "the step's first op waits for its data";
  return true;
}

EventTimes played(const RandomRun& run, int rank, std::uint32_t op) {
  return run.played.events[run.played.first[rank] + op];
}

void add_wait(std::uint32_t op, std::uint32_t waited, Body* body) {
  const std::vector<std::uint32_t> waits(body->waits_of(body->ops[op]).begin(),
                                         body->waits_of(body->ops[op]).end());
  body->ops[op].first_wait = static_cast<std::uint32_t>(body->waits.size());
  body->ops[op].waits = body->ops[op].waits + 1;
  body->waits.insert(body->waits.end(), waits.begin(), waits.end());
  body->waits.push_back(waited);
}

// An overlap that fails: compute that is issued behind a kind of communication, and ran beside it,
// waits for its end.
bool fail_overlap(const RandomRun& run, Draw* draw, Injected* injected) {
  struct Wait {
    int rank;
    std::uint32_t op, waited;
  };
  std::map<GroupKind, std::vector<Wait>> beside;
  for (int rank = 0; rank < static_cast<int>(run.program.ranks.size()); ++rank) {
    const Body& body = body_of(run, rank);
    for (std::uint32_t c = 0; c < body.ops.size(); ++c) {
      if (is_compute(body.ops[c].kind)) continue;
      const EventTimes comm = played(run, rank, c);
      for (std::uint32_t i = c + 1; i < body.ops.size(); ++i) {
        const Nanoseconds start = played(run, rank, i).start_ns;
        if (!is_compute(body.ops[i].kind) || start <= comm.start_ns) continue;
        if (start < comm.end_ns)
          beside[body.slots[body.ops[c].slot].group_kind].push_back({rank, i, c});
        break;
      }
    }
  }
  if (beside.empty()) return false;
  std::vector<GroupKind> kinds;
  for (const auto& [kind, waits] : beside) kinds.push_back(kind);
  const GroupKind fails = draw->among(kinds);
  Program program = injected->program;
  for (const Wait& wait : beside[fails]) add_wait(wait.op, wait.waited, &program.bodies[wait.rank]);
  if (!replay(program, unfold(program)).ok()) return false;
  injected->program = std::move(program);
  injected->cause = fmt::format("{} communication that should overlap compute is waited for",
                                group_kind_name(fails));
  return true;
}

// An extra synchronisation: no rank computes on behind the forward of some microbatch, or at some
// instant, before all have come there. Of two ranks it looks like a pause.
bool synchronise(const RandomRun& run, Draw* draw, Injected* injected) {
  if (run.program.ranks.size() < 3) return false;
  Program program = injected->program;
  OpDurations durations = injected->durations;
  const bool behind_forward = draw->below(2) == 0;
  const int microbatch = draw->below(8);
  const Nanoseconds at = run.iteration_ns * (10 + draw->below(80)) / 100;
  Communicator all{.group_kind = GroupKind::Data, .members = {}};
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    Body& body = program.bodies[rank];
    int last = -1, next = -1;
    for (std::uint32_t i = 0; i < body_of(run, rank).ops.size(); ++i) {
      const Op& op = body.ops[i];
      if (!is_compute(op.kind)) continue;
      const bool is_before = behind_forward
                                 ? op.kind == OpKind::Forward && op.microbatch == microbatch
                                 : played(run, rank, i).start_ns < at;
      if (is_before)
        last = static_cast<int>(i);
      else if (next < last)
        next = static_cast<int>(i);
    }
    const auto lane = static_cast<std::uint8_t>(body.lanes.size());
    body.lanes.push_back({"barrier"});
    body.slots.push_back({.group_kind = GroupKind::Data, .lane = lane});
    const Op barrier{.kind = OpKind::AllReduce,
                     .lane = lane,
                     .slot = static_cast<std::int16_t>(body.slots.size() - 1)};
    const std::uint32_t number = add_op(barrier, {}, &body);
    if (last >= 0) add_wait(number, last, &body);
    if (next > last && body.ops[next].kind != OpKind::Optimizer) add_wait(next, number, &body);
    program.ranks[rank].communicators.push_back(
        static_cast<std::int32_t>(program.communicators.size()));
    all.members.push_back(Rank{rank});
    durations.compute[rank].push_back(0);
  }
  program.communicators.push_back(all);
  durations.comm.push_back({0});
  if (!replay(program, unfold(program)).ok()) return false;  // it would wait for itself
  injected->program = std::move(program);
  injected->durations = std::move(durations);
  injected->cause = "ranks wait for each other where the Program does not";
  return true;
}

// One hot expert: at one place of all groups the experts take longer, and so do the exchanges.
bool heat_expert(const RandomRun& run, Draw* draw, Injected* injected) {
  std::map<int, std::set<int>> ranks;  // by place
  for (const Communicator& comm : run.program.communicators) {
    if (comm.group_kind != GroupKind::Expert) continue;
    for (std::size_t i = 0; i < comm.members.size(); ++i)
      ranks[static_cast<int>(i)].insert(index(comm.members[i]));
  }
  if (ranks.size() < 2) return false;
  const std::set<int>& hot = ranks[draw->below(static_cast<int>(ranks.size()))];
  const double factor = 1.2 + 0.2 * draw->below(8);
  slow_compute(
      run, factor,
      [&](int rank, const Op& op) {
        return hot.contains(rank) && op.kernel >= 0 &&
               run.program.kernels[op.kernel].name.starts_with("experts ");
      },
      &injected->durations);
  for (std::size_t c = 0; c < run.base.comm.size(); ++c) {
    if (run.program.communicators[c].group_kind != GroupKind::Expert) continue;
    for (Nanoseconds& ns : injected->durations.comm[c])
      ns = std::llround(static_cast<double>(ns) * factor);
  }
  std::vector<Rank> members;
  for (const int rank : hot) members.push_back(Rank{rank});
  injected->cause = fmt::format("experts on ranks {}: their kernels take", ranks_text(members));
  return true;
}

bool delay_data(const RandomRun& run, Draw* draw, Injected* injected) {
  return delay_all(run, draw, false, injected);
}
bool delay_optimizer(const RandomRun& run, Draw* draw, Injected* injected) {
  return delay_all(run, draw, true, injected);
}

// Puts in what the seed draws, or else the next that the run can have, beside what is in already.
void inject(const RandomRun& run, std::uint64_t seed, Injected* injected) {
  constexpr std::array kCauses = {slow_rank,    slow_stage, slow_kind,       slow_links,
                                  pause_rank,   delay_data, delay_optimizer, heat_expert,
                                  fail_overlap, synchronise};
  Draw draw(seed);
  std::size_t next = draw.bits() % kCauses.size();
  while (!kCauses[next](run, &draw, injected)) next = (next + 1) % kCauses.size();
}

Injected nothing(const RandomRun& run) {
  Injected injected{.cause = {}, .program = run.program, .durations = run.base, .gaps = {}};
  Program& program = injected.program;
  program.bodies.clear();
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    program.bodies.push_back(run.program.bodies[program.ranks[rank].body]);
    program.ranks[rank].body = static_cast<std::int32_t>(rank);
  }
  return injected;
}

OpDurations with_gaps(const Injected& injected) {
  OpDurations durations = injected.durations;
  for (const auto& [rank, gap] : injected.gaps) durations.compute[rank][gap.first] += gap.second;
  return durations;
}

// Plays the run with what was put in; its own ops alone are in the Replay.
Replay replay_with(const RandomRun& run, const Injected& injected) {
  const Replay all = replay(injected.program, with_gaps(injected));
  Replay own = run.played;
  for (std::size_t rank = 0; rank < own.first.size(); ++rank) {
    const std::size_t ops = body_of(run, static_cast<int>(rank)).ops.size();
    std::copy_n(all.events.begin() + static_cast<std::ptrdiff_t>(all.first[rank]), ops,
                own.events.begin() + static_cast<std::ptrdiff_t>(own.first[rank]));
  }
  return own;
}

// The profile of the run with what was put in.
Profile profile_with(const RandomRun& run, const Injected& injected) {
  Trace trace = trace_of(run.program, unfold(run.program), replay_with(run, injected), "ideal", {});
  for (const auto& [rank, gap] : injected.gaps) {
    for (const RankTrace& played : trace.ranks) {
      if (index(played.rank) == rank) trace.events[played.first + gap.first].start_ns += gap.second;
    }
  }
  return profile_of(run.program, trace);
}

// What was put in, alone and, of every second case, two together.
struct RandomCase {
  Injected all;
  std::vector<std::string> causes;  // that may come first: the larger one, or both if alike
  double first_s = 0;               // of the larger one alone
};

RandomCase random_case(const RandomRun& run, std::uint64_t number) {
  RandomCase made{.all = nothing(run), .causes = {}};
  std::map<std::string, Injected> alone;  // the same cause twice is one
  for (std::uint64_t part = 0; part <= number % 2; ++part) {
    const std::uint64_t seed = 2 * number + part;
    inject(run, seed, &made.all);
    const std::string cause = made.all.cause;
    Injected& one = alone.try_emplace(cause, nothing(run)).first->second;
    inject(run, seed, &one);
    if (one.cause != cause) return made;  // what is in already does not let it in
  }
  std::map<std::string, double> seconds;
  for (const auto& [cause, one] : alone)
    seconds[cause] = to_seconds(replayed(one.program, with_gaps(one)) - run.iteration_ns);
  for (const auto& [cause, s] : seconds) made.first_s = std::max(made.first_s, s);
  for (const auto& [cause, s] : seconds) {
    if (s >= 0.8 * made.first_s) made.causes.push_back(cause);
  }
  return made;
}

}  // namespace

TEST_CASE(
    "causes put into random jobs are named first with their size, and none where there is none") {
  const int cases = random_jobs(1000);
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  int counted = 0, first = 0, sized = 0, controls = 0, named = 0;
  std::string wrong;
  for (std::uint64_t number = 0; counted < cases; ++number) {
    const auto run = random_run(seed * 1'000'003ULL + number);
    if (!run) continue;
    if (controls < std::max(100, cases / 10)) {
      ++controls;
      const auto same = explain(run->program, run->trace, profile_with(*run, nothing(*run)));
      REQUIRE(same.ok());
      named += same->causes.empty() ? 0 : 1;
      CHECK(std::abs(same->not_explained_s) <= 1e-6 * same->measured_s);
    }
    const RandomCase made = random_case(*run, number);
    if (made.first_s < kLeastGap * to_seconds(run->iteration_ns)) continue;
    const auto explanation = explain(run->program, run->trace, profile_with(*run, made.all));
    REQUIRE(explanation.ok());
    ++counted;
    CHECK(explanation->is_explained());
    const Cause told = explanation->causes.empty() ? Cause{} : explanation->causes[0];
    const bool is_first = std::ranges::any_of(
        made.causes, [&](const std::string& cause) { return told.what.starts_with(cause); });
    const double gap = explanation->measured_s - explanation->simulated_s;
    const bool is_sized = is_first && std::abs(told.alone_s - made.first_s) <= 0.1 * gap;
    first += is_first ? 1 : 0;
    sized += is_sized ? 1 : 0;
    if (!is_sized)
      wrong += fmt::format("job {}: {} of {:.4g} s; told {} {:.4g} s\n", number, made.causes[0],
                           made.first_s, told.what, told.alone_s);
  }
  const std::string figures = fmt::format("{} first, {} with their size, of {}; {} controls\n",
                                          first, sized, counted, controls);
  INFO(figures << wrong);
  CHECK(first >= 0.95 * counted);
  CHECK(sized >= 0.95 * counted);
  CHECK(named == 0);
  std::cout << figures;
}

namespace {

// Repeats a profile of one iteration, each `period_ns` after the one before.
void repeat(int times, Nanoseconds period_ns, Profile* profile) {
  for (ProfileRank& rank : profile->ranks) {
    const std::vector<ProfileKernel> once = rank.kernels;
    for (int i = 1; i < times; ++i) {
      for (ProfileKernel kernel : once) {
        for (Nanoseconds* at : {&kernel.start_ns, &kernel.end_ns, &kernel.transfer_start_ns})
          *at += i * period_ns;
        rank.kernels.push_back(kernel);
      }
      if (!rank.steps.empty()) {
        rank.steps.push_back(rank.steps.front());
        rank.steps.back().start_ns += i * period_ns;
      }
    }
  }
}

RandomRun some_run() {
  std::uint64_t number = 0;
  std::optional<RandomRun> run;
  while (!(run = random_run(number))) ++number;
  return std::move(*run);
}

}  // namespace

TEST_CASE("of several steps the means count, and what stands between them is a cause") {
  const RandomRun run = some_run();
  Profile profile = profile_with(run, nothing(run));
  const Nanoseconds gap = run.iteration_ns / 10;
  repeat(4, run.iteration_ns + gap, &profile);
  const auto explanation = explain(run.program, run.trace, profile);
  REQUIRE(explanation.ok());
  CHECK(explanation->steps == 3);
  REQUIRE(explanation->causes.size() == 1);
  CHECK(explanation->causes[0].what == "nothing runs between steps");
  CHECK(explanation->causes[0].alone_s == Approx(to_seconds(gap)).epsilon(0.01));
  CHECK(explanation->is_explained());
}

TEST_CASE("kernels of no length tell nothing of the ops in their pass") {
  const RandomRun run = some_run();
  Profile profile = profile_with(run, nothing(run));
  for (ProfileRank& rank : profile.ranks) {
    ProfileKernel& kernel = rank.kernels.front();
    kernel.end_ns = kernel.start_ns;
    rank.kernels = {kernel};
  }
  CHECK(!explain(run.program, run.trace, profile).ok());
}

TEST_CASE("iterations that are not told apart are refused") {
  const RandomRun run = some_run();
  Profile profile = profile_with(run, nothing(run));
  for (ProfileRank& rank : profile.ranks) rank.steps.clear();
  repeat(2, 2 * run.iteration_ns, &profile);
  const auto explanation = explain(run.program, run.trace, profile);
  REQUIRE(!explanation.ok());
  CHECK(explanation.error().message.find("found 2 iterations without steps told apart") == 0);
}

TEST_CASE("clocks of ranks that differ, and jump, change no cause") {
  RandomRun run = some_run();
  Profile profile = profile_with(run, nothing(run));
  for (ProfileRank& rank : profile.ranks) {
    rank.path = fmt::format("rank-{}.json", rank.rank);
    rank.profiler = "torch.profiler";  // Tandem's own share a clock
    for (ProfileKernel& kernel : rank.kernels) {
      for (Nanoseconds* at : {&kernel.start_ns, &kernel.end_ns, &kernel.transfer_start_ns})
        *at += 1'000'000'000LL * rank.rank;
    }
    for (ProfileStep& step : rank.steps) step.start_ns += 1'000'000'000LL * rank.rank;
  }
  REQUIRE(align(&profile).ok());
  const auto explanation = explain(run.program, run.trace, profile);
  REQUIRE(explanation.ok());
  CHECK(explanation->causes.empty());
  CHECK(explanation->is_explained());
}
