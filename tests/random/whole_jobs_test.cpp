// Random jobs that keep the rules: each plays with a layout of its own, and its Program is read as
// it is written.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "job/compile.h"
#include "planning/simulate/simulate.h"
#include "schedule/program/program_text.h"
#include "tests/draw.h"
#include "tests/folder.h"
#include "tests/random/random_jobs.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

using Texts = std::vector<std::string>;

// use(scenario) of so many jobs that keep the rules with what `change` makes of them.
template <class Change, class Use>
void each_job(int jobs, const Change& change, const Use& use) {
  const unsigned seed = test_seed();
  for (int i = 0; i < random_jobs(jobs); ++i) {
    Draw draw(std::uint64_t{seed} * 4'000'000 + i);
    JobKeys keys = random_job(draw.bits());
    change(&keys, &draw);
    const auto scenario = scenario_of(keys);
    if (!scenario) continue;
    INFO(fmt::format("TANDEM_SEED={}: job {}\n{}", seed, i, text_of(keys)));
    use(*scenario);
  }
}

}  // namespace

// The layers that a layout is found for are priced alone, a few of them: what the settings say of
// all is no rule there.
TEST_CASE("random jobs: whatever recomputes so many layers has a layout, and plays with it") {
  int laid = 0;
  each_job(
      80,
      [](JobKeys* keys, Draw* draw) {
        (*keys)["parallel.layout"] = "\"auto\"";
        (*keys)["train.recompute"] = "\"full\"";
        (*keys)["train.recompute_layers"] = draw->below(2) == 0 ? "1" : keys->at("model.layers");
      },
      [&](const Scenario& scenario) {
        const auto result = simulate(scenario, Engine::Ideal);
        INFO((result.ok() ? "" : result.error().text()));
        REQUIRE(result.ok());
        CHECK(result->iteration_s > 0);
        laid += scenario.job.plan.stages() > 1 ? 1 : 0;
      });
  CHECK(laid > random_jobs(80) / 4);
}

TEST_CASE("random jobs: the Program that is written is read, groups of one rank too") {
  const Folder folder;
  int alone = 0, read = 0;
  each_job(
      300,
      [](JobKeys* keys, Draw* draw) {
        if (keys->at("parallel.pp") != "1") return;
        (*keys)["train.zero"] = "3";
        (*keys)[draw->among(Texts{"parallel.zero_hpz", "parallel.hsdp_shard"})] =
            draw->among(Texts{"1", "2"});
      },
      [&](const Scenario& scenario) {
        const auto job = compile(scenario);
        if (!job.ok()) return;
        for (const Communicator& group : job->program.communicators)
          alone += group.members.size() == 1 ? 1 : 0;
        const std::string text = to_text(job->program);
        const auto again = read_program(folder.with("program.csv", text));
        INFO((again.ok() ? "" : again.error().text()));
        REQUIRE(again.ok());
        CHECK(to_text(*again) == text);
        ++read;
      });
  CHECK(read > random_jobs(300) / 4);
  CHECK(alone > 0);
}
