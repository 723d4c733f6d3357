// A sweep's runs in shared processes: long ones behind short ones.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "planning/sweep/sweep.h"
#include "scenarios/scenario.h"
#include "tests/folder.h"

using namespace tandem;

TEST_CASE("a run that takes long is over when it ends, not when those that share its process do") {
  // 30 runs of a millisecond, after which a process is given as many as there are; then three, each
  // of several times what a process takes before it leaves the rest.
  const Folder folder;
  std::string batches;
  for (int i = 1; i <= 30; ++i) batches += fmt::format("{}, ", i);
  for (int i = 0; i < 3; ++i) batches += fmt::format("{}, ", 250'000 + i);
  const std::string path = folder.with("runs.toml",
                                       "[parallel]\npp = 4\n[schedule]\norder = 'gpipe'\n"
                                       "[costs]\nsource = 'uniform'\nforward_s = 1\n"
                                       "backward_s = 2\n[limits]\nops = 1e9\n[matrix]\n"
                                       "parallel.global_batch = [" +
                                           batches + "]\n");
  const auto file = read_scenario_file(path);
  REQUIRE(file.ok());
  auto runs = runs_of(*file, {}, "");
  REQUIRE(runs.ok());
  const auto results = Results::of(*file, *std::move(runs), Engine::Ideal);
  REQUIRE(results.ok());
  std::vector<int> done;
  const auto ended =
      sweep(*file, *results, Engine::Ideal, {.output = folder / "all.csv", .jobs = 1},
            {.started = [](const SweepStart&) {},
             .done =
                 [&](int runs_done) {
                   if (done.empty() || done.back() != runs_done) done.push_back(runs_done);
                 }});
  REQUIRE(ended.ok());
  CHECK(ended->rows == 33);
  CHECK(ended->failed == 0);
  REQUIRE(done.size() > 3);
  CHECK(std::vector<int>(done.end() - 3, done.end()) == std::vector<int>{31, 32, 33});
}
