// Causes in profiles that differ from a simulated one: several steps, several kernels an op, ranks
// that are missing.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/trace_of.h"
#include "tests/made_program.h"
#include "traces/profile/simulated_profile.h"
#include "validation/explain/explain.h"
#include "validation/explain/op_durations.h"

using namespace tandem;

namespace {

constexpr Nanoseconds kMs = 1'000'000;

// Explains the profile of a run of `ran` as one of the job `text`.
struct Job {
  Program program;
  Trace trace;

  explicit Job(const std::string& text)
      : program(made_program(text)),
        trace(trace_of(program, unfold(program), replay(program, unfold(program)).value(), "ideal",
                       {})) {}
  Profile profile() const { return profile_of(program, trace); }
  // Returns the causes, each with its ms, and what is not explained.
  std::vector<std::string> told(const Profile& measured) const {
    const auto explanation = explain(program, trace, measured);
    if (!explanation.ok()) return {explanation.error().message};
    std::vector<std::string> causes;
    for (const Cause& cause : explanation->causes)
      causes.push_back(fmt::format("{}: {:.2f}", cause.what, 1e3 * cause.alone_s));
    causes.push_back(fmt::format("not explained: {:.2f}", 1e3 * explanation->not_explained_s));
    return causes;
  }
};

using Told = std::vector<std::string>;
using Parts = std::vector<Nanoseconds>;

const std::string kReplicas =
    "ranks 0 1: F0 10ms, B0 20ms after F0, all-reduce data:0>1 5ms 1MB after B0, "
    "optimizer 3ms after all-reduce";

// Returns the profile of a run of some ranks, on which a communication's kernel begins when its own
// rank is ready, as NCCL's do.
Profile profile_of_some(const std::string& run, const std::vector<int>& ranks) {
  Profile profile = Job(run).profile();
  std::erase_if(profile.ranks, [&](const ProfileRank& rank) {
    return std::ranges::find(ranks, rank.rank) == ranks.end();
  });
  for (ProfileRank& rank : profile.ranks) {
    rank.tells_waits = false;
    Nanoseconds ready = 0;
    for (ProfileKernel& kernel : rank.kernels) {
      if (kernel.activity == Activity::Communication)
        kernel.start_ns = kernel.transfer_start_ns = ready;
      ready = kernel.end_ns;
    }
  }
  return profile;
}

// Cuts each kernel of compute into three of unlike lengths.
Profile cut(Profile profile) {
  for (ProfileRank& rank : profile.ranks) {
    const std::vector<ProfileKernel> whole = std::exchange(rank.kernels, {});
    for (ProfileKernel kernel : whole) {
      const Nanoseconds length = kernel.end_ns - kernel.start_ns;
      const bool is_cut = kernel.activity == Activity::Compute;
      for (const Nanoseconds part : is_cut ? std::vector{length / 5, length / 3} : Parts()) {
        ProfileKernel& first = rank.kernels.emplace_back(kernel);
        first.end_ns = first.start_ns + part;
        kernel.start_ns = kernel.transfer_start_ns = first.end_ns;
      }
      rank.kernels.push_back(kernel);
    }
  }
  return profile;
}

// Repeats a profile's iteration of `length_ns`. Each step after the first waits `wait_ns` for its
// data, behind its annotation.
void repeat(int steps, Nanoseconds length_ns, Nanoseconds wait_ns, Profile* profile) {
  for (ProfileRank& rank : profile->ranks) {
    const std::vector<ProfileKernel> once = rank.kernels;
    for (int i = 1; i < steps; ++i) {
      rank.steps.push_back(rank.steps.front());
      rank.steps.back().start_ns += i * (length_ns + wait_ns) - wait_ns;
      for (ProfileKernel kernel : once) {
        for (Nanoseconds* at : {&kernel.start_ns, &kernel.end_ns, &kernel.transfer_start_ns})
          *at += i * (length_ns + wait_ns);
        rank.kernels.push_back(kernel);
      }
    }
  }
}

}  // namespace

TEST_CASE("a wait for data before each step counts in full, however few steps there are") {
  const Job job(kReplicas);
  for (const int steps : {2, 3, 5}) {
    INFO(steps);
    Profile profile = job.profile();
    repeat(steps, 38 * kMs, 8 * kMs, &profile);
    CHECK(job.told(profile) ==
          Told{"the step's first op waits for its data: 8.00", "not explained: 0.00"});
  }
}

// Of simulated forwards of 30 ms and sums of 20 ms, 10 and 1 ms are usual: 60 and 57 ms less in
// all. What a forward and a sum take beyond these, 40 and 4 ms, is theirs; five times the simulated
// time would be 120 and 80 ms. In the same way a rank that takes a fifth more than the usual 10, 20
// and 3 ms makes 6.6 ms.
TEST_CASE("what differs within a kind counts by the kind's measured time, however it is priced") {
  const auto three = [](const std::vector<std::string>& forwards,
                        const std::vector<std::string>& sums) {
    std::string text = "ranks 0 1: F0 " + forwards[0];
    for (std::size_t i = 0; i < sums.size(); ++i)
      text += fmt::format(", all-reduce data:0>1 {} 1MB after F{}, {} after all-reduce", sums[i], i,
                          i < 2 ? fmt::format("F{} {}", i + 1, forwards[i + 1]) : "optimizer 3ms");
    return Job(text);
  };
  const Job job = three({"30ms", "30ms", "30ms"}, {"20ms", "20ms", "20ms"});
  const Job run = three({"10ms", "10ms", "50ms"}, {"1ms", "1ms", "5ms"});
  CHECK(job.told(run.profile()) ==
        Told{"single ops differ from others of their kind, stage and rank: 40.00",
             "single communications differ from others of their kind and link: 4.00",
             "data communication inside nodes: operations take 0.05 of the time: -57.00",
             "forward kernels take 0.333 of the time: -60.00", "not explained: 0.00"});
  const std::string sum = ", all-reduce data:0>1>2 1ms 1MB after B0, optimizer ";
  const Job slow_rank("ranks 0 1: F0 10ms, B0 20ms after F0" + sum +
                      "3ms after all-reduce\nrank 2: F0 12ms stage0, B0 24ms stage0 after F0" +
                      sum + "3600us after all-reduce");
  const Job dear("ranks 0 1 2: F0 30ms, B0 60ms after F0" + sum + "3ms after all-reduce");
  CHECK(dear.told(slow_rank.profile())[0] ==
        "rank 2: its kernels take 1.2 times as long, beside ranks like it: 6.60");
}

TEST_CASE("ops whose kernels have no length are counted, and tell nothing") {
  const Job job(kReplicas);
  for (const bool compute : {true, false}) {
    Profile profile = job.profile();
    for (ProfileKernel& kernel : profile.ranks[1].kernels) {
      if ((kernel.activity == Activity::Compute) == compute)
        kernel.end_ns = kernel.transfer_start_ns = kernel.start_ns;
    }
    const auto explanation = explain(job.program, job.trace, profile);
    REQUIRE(explanation.ok());
    CHECK(explanation->notes ==
          Told{fmt::format("Ops that take no time in the profile, so that they tell nothing: "
                           "{}.",
                           compute ? 3 : 1)});
    for (const Cause& cause : explanation->causes) CHECK(std::abs(cause.alone_s) < 0.05);
  }
}

TEST_CASE("a wait for a rank without a profile is not called slow links alone") {
  const std::string sum = ", all-reduce data:0>1>2 5ms 1MB after B0, optimizer ";
  const std::string usual = ": F0 10ms, B0 20ms after F0" + sum + "3ms after all-reduce";
  const Job job("ranks 0 1 2" + usual);
  const std::string slow_rank = "ranks 0 1" + usual + "\nrank 2: F0 12ms stage0, B0 24ms stage0 " +
                                "after F0" + sum + "3600us after all-reduce";
  const std::string slow = "data communication inside nodes: operations take 2.2 times as long";
  CHECK(job.told(profile_of_some(slow_rank, {0, 1})) ==
        Told{slow + ", or wait for ranks without a profile: 6.00", "not explained: 0.00"});
  // The last to arrive waits for nobody.
  const std::string rank = "rank 2: its kernels take 1.2 times as long, beside ranks like it: 6.60";
  CHECK(job.told(profile_of_some(slow_rank, {1, 2})) == Told{rank, "not explained: 0.00"});
  const std::string slow_links =
      "ranks 0 1 2: F0 10ms, B0 20ms after F0, all-reduce data:0>1>2 11ms 1MB after B0, optimizer "
      "3ms after all-reduce";
  CHECK(job.told(profile_of_some(slow_links, {0, 1, 2})) ==
        Told{slow + ": 6.00", "not explained: 0.00"});
}

// Rank 3 takes 2 ms more, for which rank 2 waits in their sum alone.
TEST_CASE("a wait of one group for a rank without a profile is not called its links alone") {
  const auto run = [](const std::string& forward_of_3) {
    const auto ops = [](const std::string& forward, const std::string& group) {
      return fmt::format(
          ": F0 {} stage0, all-reduce tensor:{} 5ms 1MB after F0, B0 20ms stage0 after all-reduce, "
          "optimizer 3ms after B0\n",
          forward, group);
    };
    return "ranks 0 1" + ops("10ms", "0>1") + "rank 2" + ops("10ms", "2>3") + "rank 3" +
           ops(forward_of_3, "2>3");
  };
  const std::string differ = "single communications differ from others of their kind and link";
  CHECK(Job(run("10ms")).told(profile_of_some(run("12ms"), {0, 1, 2})) ==
        Told{differ + ", or wait for ranks without a profile: 2.00", "not explained: 0.00"});
}

namespace {

// Three buckets of gradients are reduced beside the backward of 24 ms.
const std::string kBuckets =
    "ranks 0 1: F0 10ms, B0 8ms after F0, all-reduce data:0>1 4ms 1MB after B0, B0 8ms, "
    "all-reduce data:0>1 4ms 1MB after B0, B0 8ms, all-reduce data:0>1 4ms 1MB after B0, "
    "optimizer 3ms after all-reduce";

}  // namespace

TEST_CASE("an overlap that fails inside a pass is told, wherever its kernels end") {
  const Job job(kBuckets);
  // On one stream. The backward's parts are not as simulated.
  const Job held(
      "ranks 0 1: F0 10ms, B0 7ms after F0, all-reduce data:0>1 4ms 1MB after B0, B0 8ms after "
      "all-reduce, all-reduce data:0>1 4ms 1MB after B0, B0 9ms after all-reduce, all-reduce "
      "data:0>1 4ms 1MB after B0, optimizer 3ms after all-reduce");
  CHECK(job.told(cut(held.profile())) ==
        Told{"data communication that should overlap compute is waited for: 8.00",
             "not explained: 0.00"});
  CHECK(job.told(cut(job.profile())) == Told{"not explained: 0.00"});
}

TEST_CASE("communication that begins behind the compute that it should overlap is told") {
  const Job job(kBuckets);
  const Job behind(
      "ranks 0 1: F0 10ms, B0 8ms after F0, B0 8ms, B0 8ms, all-reduce data:0>1 4ms 1MB after B0, "
      "all-reduce data:0>1 4ms 1MB after B0, all-reduce data:0>1 4ms 1MB after B0, optimizer 3ms "
      "after all-reduce");
  const Told late = {"data communication that should overlap compute begins late: 8.00",
                     "not explained: 0.00"};
  CHECK(job.told(behind.profile()) == late);
  CHECK(job.told(cut(behind.profile())) == late);
}

TEST_CASE("a wait inside a pass of several kernels that the pass needs is no cause") {
  const std::string end = ", B0 20ms after F0, optimizer 3ms after B0";
  const Job job(
      "ranks 0 1: F0 10ms, all-reduce tensor:0>1 4ms 1MB after F0, F0 10ms after "
      "all-reduce" +
      end);
  const Job uneven(
      "ranks 0 1: F0 9ms, all-reduce tensor:0>1 4ms 1MB after F0, F0 11ms after "
      "all-reduce" +
      end);
  CHECK(job.told(cut(job.profile())) == Told{"not explained: 0.00"});
  CHECK(job.told(cut(uneven.profile())) == Told{"not explained: 0.00"});
}
