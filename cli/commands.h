// The subcommands of `tandem`: each adds itself to the app, parses its options and runs.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "scenarios/run.h"

namespace tandem {

// What main does after parsing: runs the chosen subcommand, prints its Error, gives the exit
// status.
using Command = std::function<Status()>;

void add_simulate(CLI::App* app, Command* chosen);
void add_sweep(CLI::App* app, Command* chosen);
void add_run(CLI::App* app, Command* chosen);
void add_compare(CLI::App* app, Command* chosen);
void add_validate(CLI::App* app, Command* chosen);
void add_bench(CLI::App* app, Command* chosen);
void add_calibrate(CLI::App* app, Command* chosen);
void add_calibrate_published(CLI::App* calibrate, Command* chosen);
void add_schedule(CLI::App* app, Command* chosen);
void add_topology(CLI::App* app, Command* chosen);
void add_doctor(CLI::App* app, Command* chosen);
void add_size(CLI::App* app, Command* chosen);
void add_tune(CLI::App* app, Command* chosen);
void add_pack(CLI::App* app, Command* chosen);

// A check for a count: CLI11's own names the largest double where it finds 0.
inline CLI::Validator at_least_one() {
  return {[](const std::string& text) {
            const bool digits =
                !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            return digits && text.find_first_not_of('0') != std::string::npos
                       ? std::string()
                       : fmt::format("found {}, expected a whole number of at least 1", text);
          },
          "POSITIVE"};
}

// The value of --jobs; 0: as many as there are cores.
inline int jobs_or_cores(int jobs) {
  return jobs > 0 ? jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The value of --engine.
inline Engine engine_of(const std::string& name) {
  return name == "ideal" ? Engine::Ideal : Engine::SimGrid;
}

// CLI11's ranges let what is no number pass.
inline Status check_timeout(double timeout_s) {
  if (std::isfinite(timeout_s)) return Done{};
  return Error{fmt::format("--timeout: found {}, expected seconds", timeout_s)};
}

// An Error where a Program is given with what chooses among a scenario's settings and runs.
inline Status expect_no_choice(const std::string& program, const std::vector<std::string>& sets,
                               const std::string& only) {
  if (sets.empty() && only.empty()) return Done{};
  return Error{
      fmt::format("{}: found a Program with --set or --only, expected neither: they choose what a "
                  "scenario says",
                  program)};
}

}  // namespace tandem
