// A small sweep, for the tests that disturb it.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "tests/folder.h"

namespace tandem {

constexpr std::size_t kSweepBatches = 5, kSweepRuns = 3 * 3 * kSweepBatches;

inline const std::string kSweep = R"([costs]
source = "uniform"
forward_s = 0.001
backward_s = 0.002
[matrix]
schedule.order = ["1f1b", "gpipe", "zb1p"]
parallel.pp = [1, 2, 3]
parallel.global_batch = [4, 6, 8, 10, 12]
)";

inline std::string sweep_command(const std::string& output) {
  return fmt::format("'{}' sweep runs.toml -o {} --engine ideal", TANDEM_PROGRAM, output);
}

// The path of the CSV.
inline std::string sweep_undisturbed(const Folder& folder) {
  folder.with("runs.toml", kSweep);
  const std::string command =
      fmt::format("cd '{}' && {} > /dev/null", folder.path().string(), sweep_command("all.csv"));
  REQUIRE(std::system(command.c_str()) == 0);
  return folder / "all.csv";
}

}  // namespace tandem
