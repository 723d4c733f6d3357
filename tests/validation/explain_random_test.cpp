// Random jobs with causes put in: explain names the right one first, with its size, and none where
// none was put in. TANDEM_RANDOM_JOBS is how many.
#include <fmt/format.h>

#include <algorithm>
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
  Nanoseconds iteration_ns = 0;
};

std::optional<RandomRun> random_run(std::uint64_t seed) {
  const auto scenario = scenario_of(random_job(seed));
  if (!scenario) return std::nullopt;
  const auto closed = resolved(*scenario);
  if (!closed.ok()) return std::nullopt;
  const auto job = compile(*closed);
  if (!job.ok() || job->program.ranks.size() < 2) return std::nullopt;
  RandomRun run{.program = job->program, .trace = {}, .base = {}};
  std::size_t ops = 0;
  for (const RankRow& rank : run.program.ranks) ops += run.program.bodies[rank.body].ops.size();
  if (ops > 30'000) return std::nullopt;
  auto trace = ideal(run.program, {.fold = false});
  if (!trace.ok()) return std::nullopt;
  run.trace = std::move(*trace);
  run.base = durations_of(run.program, run.trace);
  run.iteration_ns = replayed(run.program, run.base);
  return run;
}

// Causes in a run: changed durations, and gaps before ops of compute, which delay but do not
// compute. `cause`: what explain should begin with.
struct Injected {
  std::string cause;
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

void slow_rank(const RandomRun& run, Draw* draw, Injected* injected) {
  const int slow = draw->below(static_cast<int>(run.program.ranks.size()));
  slow_compute(
      run, factor_of(draw), [&](int rank, const Op&) { return rank == slow; },
      &injected->durations);
  injected->cause = fmt::format("rank {}: its kernels take", slow);
}

void slow_stage(const RandomRun& run, Draw* draw, Injected* injected) {
  std::map<int, std::set<int>> ranks;
  for (int rank = 0; rank < static_cast<int>(run.program.ranks.size()); ++rank) {
    for (const Op& op : body_of(run, rank).ops) {
      if (is_compute(op.kind) && op.stage >= 0) ranks[op.stage].insert(rank);
    }
  }
  if (ranks.size() < 2) return slow_rank(run, draw, injected);
  const int slow = draw->below(static_cast<int>(ranks.size()));
  if (ranks[slow].size() < 2) return slow_rank(run, draw, injected);
  slow_compute(
      run, factor_of(draw), [&](int, const Op& op) { return op.stage == slow; },
      &injected->durations);
  injected->cause = fmt::format("stage {}: its kernels take", slow);
}

void slow_kind(const RandomRun& run, Draw* draw, Injected* injected) {
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
}

void slow_links(const RandomRun& run, Draw* draw, Injected* injected) {
  const auto kind_of = [&](std::size_t c) {
    const Communicator& comm = run.program.communicators[c];
    return std::pair(comm.group_kind, comm.between_nodes);
  };
  std::set<std::pair<GroupKind, bool>> kinds;
  for (std::size_t c = 0; c < run.base.comm.size(); ++c) kinds.insert(kind_of(c));
  if (kinds.empty()) return slow_rank(run, draw, injected);
  const auto slow = draw->among(std::vector(kinds.begin(), kinds.end()));
  const double factor = 1.5 + draw->below(4);
  for (std::size_t c = 0; c < run.base.comm.size(); ++c) {
    if (kind_of(c) != slow) continue;
    for (Nanoseconds& ns : injected->durations.comm[c])
      ns = std::llround(static_cast<double>(ns) * factor);
  }
  injected->cause = fmt::format("{} communication {} nodes: operations take",
                                group_kind_name(slow.first), slow.second ? "between" : "inside");
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

void pause_rank(const RandomRun& run, Draw* draw, Injected* injected) {
  const int rank = draw->below(static_cast<int>(run.program.ranks.size()));
  const auto ops = compute_of(body_of(run, rank), [](const Op& op, bool is_first) {
    return !is_first && op.kind != OpKind::Optimizer;
  });
  if (ops.empty()) return slow_rank(run, draw, injected);
  injected->gaps.push_back({rank, {draw->among(ops), gap_of(run, draw)}});
  injected->cause = "pauses in which a rank computes nothing";
}

void delay_all(const RandomRun& run, Draw* draw, bool optimizer, Injected* injected) {
  const Nanoseconds gap = gap_of(run, draw);
  for (int rank = 0; rank < static_cast<int>(run.program.ranks.size()); ++rank) {
    const auto ops = compute_of(body_of(run, rank), [&](const Op& op, bool is_first) {
      return optimizer ? op.kind == OpKind::Optimizer : is_first && op.waits == 0;
    });
    if (!ops.empty()) injected->gaps.push_back({rank, {ops.front(), gap}});
  }
  if (injected->gaps.empty()) return slow_rank(run, draw, injected);
  injected->cause = optimizer ? "the optimizer waits" : "the step's first op waits for its data";
}

// Puts in what the seed draws, beside what is in already.
void inject(const RandomRun& run, std::uint64_t seed, Injected* injected) {
  Draw draw(seed);
  switch (draw.below(7)) {
    case 0:
      return slow_rank(run, &draw, injected);
    case 1:
      return slow_stage(run, &draw, injected);
    case 2:
      return slow_kind(run, &draw, injected);
    case 3:
      return slow_links(run, &draw, injected);
    case 4:
      return pause_rank(run, &draw, injected);
    case 5:
      return delay_all(run, &draw, false, injected);
    default:
      return delay_all(run, &draw, true, injected);
  }
}

Injected nothing(const RandomRun& run) { return {.cause = {}, .durations = run.base, .gaps = {}}; }

OpDurations with_gaps(const Injected& injected) {
  OpDurations durations = injected.durations;
  for (const auto& [rank, gap] : injected.gaps) durations.compute[rank][gap.first] += gap.second;
  return durations;
}

// The profile of the run with what was put in.
Profile profile_with(const RandomRun& run, const Injected& injected) {
  Trace trace = trace_of(run.program, unfold(run.program), replay(run.program, with_gaps(injected)),
                         "ideal", {});
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
  std::vector<std::pair<double, std::string>> alone;
  for (std::uint64_t part = 0; part <= number % 2; ++part) {
    const std::uint64_t seed = 2 * number + part;
    Injected one = nothing(run);
    inject(run, seed, &one);
    alone.emplace_back(to_seconds(replayed(run.program, with_gaps(one)) - run.iteration_ns),
                       one.cause);
    inject(run, seed, &made.all);
  }
  made.first_s = std::ranges::max(alone).first;
  for (const auto& [s, cause] : alone) {
    if (s >= 0.8 * made.first_s) made.causes.push_back(cause);
  }
  return made;
}

}  // namespace

TEST_CASE(
    "causes put into random jobs are named first with their size, and none where there is none") {
  const int cases = random_jobs(60);
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
    for (ProfileKernel& kernel : rank.kernels) {
      for (Nanoseconds* at : {&kernel.start_ns, &kernel.end_ns, &kernel.transfer_start_ns})
        *at += 1'000'000'000LL * rank.rank;
    }
    for (ProfileStep& step : rank.steps) step.start_ns += 1'000'000'000LL * rank.rank;
  }
  align(&profile);
  const auto explanation = explain(run.program, run.trace, profile);
  REQUIRE(explanation.ok());
  CHECK(explanation->causes.empty());
  CHECK(explanation->is_explained());
}
