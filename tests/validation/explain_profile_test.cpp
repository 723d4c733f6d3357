// Causes in profiles that differ from a simulated one: several steps, several kernels an op, ranks
// that are missing.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
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

const std::string kReplicas =
    "ranks 0 1: F0 10ms, B0 20ms after F0, all-reduce data:0>1 5ms 1MB after B0, "
    "optimizer 3ms after all-reduce";

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
