// The ten models of Megatron-LM: a search finds a plan at least as fast as the one that was run.
#include <catch2/catch.hpp>

#include "planning/tune/tune.h"

namespace tandem {
namespace {

TEST_CASE("the best plan of each of the ten models is at least as fast as the published one") {
  const auto all = load_scenarios(std::string(TANDEM_SOURCE_DIR) + "/scenarios/megatron-sc21.toml",
                                  {}, "selene");
  REQUIRE(all.ok());
  CHECK(all->size() == 10);
  const auto space =
      Space::among({"schedule.order=none,1f1b,interleaved", "overlap.tensor=off", "parallel.cp=1",
                    "parallel.micro_batch=1,2,4,8,16", "train.zero=0"});
  REQUIRE(space.ok());
  for (const Scenario& published : *all) {
    INFO(published.name);
    const auto tuned = tune(published, *space, {.keep = 1, .engine = Engine::Ideal});
    REQUIRE(tuned.ok());
    const Finalist& best = tuned->finalists.front();
    const Finalist& own = tuned->finalists.back();
    REQUIRE((own.label == "own" && own.result.ok() && best.result.ok()));
    CHECK(best.result->training->fits);
    CHECK(best.result->iteration_s <= own.result->iteration_s);
  }
}

}  // namespace
}  // namespace tandem
