// How changes are named where more parts differ than are told one by one.
#include "validation/explain/changes.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/made_program.h"

using namespace tandem;

namespace {

// Op 0 of rank r, whose part is r / ranks_a_part, takes 1 % more than simulated for each part below
// its own. Of 20 parts the tenth is as the lower median, 8 are told alone, and 11 are left.
std::vector<std::string> rest(const std::string& of_op, int ranks_a_part, const char* more = "") {
  std::string text;
  for (int rank = 0; rank < 20 * ranks_a_part; ++rank)
    text += "rank " + std::to_string(rank) + ": F0 1ms " + of_op +
            (of_op == "stage" ? std::to_string(rank / ranks_a_part) : "") + more + "\n";
  Program program = made_program(text);
  program.kernels = {{.name = "experts fc1"}};
  OpDurations base;
  ProfiledRun run;
  for (int rank = 0; rank < 20 * ranks_a_part; ++rank) {
    const std::size_t ops = program.body_of(Rank{rank}).ops.size();
    base.compute.emplace_back(ops, 1'000'000);
    run.ranks.push_back({rank, std::vector<double>(ops, -1), {}});
    const int part = rank / ranks_a_part;
    run.ranks.back().busy_ns[0] = 1e6 + 1e4 * part;
  }
  std::vector<std::string> told;
  for (const Change& change : changes_of(program, base, run)) {
    if (change.what.starts_with("kernels of other"))
      told.push_back(change.what + ", " + change.evidence);
  }
  return told;
}

}  // namespace

// The eight farthest from 1.09 are parts 19 to 15 and 0 to 2; then comes part 3, by 1 - 1.03
// / 1.09, or 14, by 1.14 / 1.09 - 1: 5.5 %.
TEST_CASE("of more than eight stages, ranks or experts that differ, the rest is told as others") {
  using Told = std::vector<std::string>;
  CHECK(rest("stage", 2) ==
        Told{"kernels of other stages differ by less, stages: 11, each by at most 5.5 %"});
  CHECK(rest("stage0", 1) ==
        Told{"kernels of other ranks differ by less, ranks: 11, each by at most 5.5 %"});
  CHECK(rest("stage0 kernel0", 1, ", all-to-all expert 8B after F0") ==
        Told{"kernels of other groups of experts differ by less, groups of experts: 11, each by at "
             "most 5.5 %"});
}

// Forwards take 3 times as long as simulated, and those of experts 1.2 times as long beside these:
// on durations with the forwards as measured, 1.2 of 3 ms.
TEST_CASE("kernels of experts count beside the measured time of their kind") {
  Program program = made_program(
      "ranks 0 1: F0 1ms stage0 kernel0, F1 1ms stage0 kernel1, all-to-all expert 8B after F1");
  program.kernels = {{.name = "attention"}, {.name = "experts fc1"}};
  OpDurations base;
  ProfiledRun run;
  for (int rank = 0; rank < 2; ++rank) {
    base.compute.push_back({1'000'000, 1'000'000, 0});
    run.ranks.push_back({rank, {3e6, 3.6e6, -1}, {}});
  }
  std::vector<std::pair<std::string, ChangeLevel>> told;
  for (const Change& change : changes_of(program, base, run))
    told.emplace_back(change.what, change.level);
  REQUIRE(told.size() == 2);
  CHECK(told[0] ==
        std::pair(std::string("forward kernels take 3 times as long"), ChangeLevel::Kind));
  CHECK(told[1] == std::pair(std::string("experts' forward kernels take 1.2 times as long"),
                             ChangeLevel::ExpertKind));
  CHECK(told[0].second < told[1].second);
}
