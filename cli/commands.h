// The subcommands of `tandem`: each adds itself to the app, parses its options and runs.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace tandem {

// What main does after parsing: runs the chosen subcommand, prints its Error, gives the exit
// status.
using Command = std::function<Status()>;

void add_simulate(CLI::App* app, Command* chosen);
void add_run(CLI::App* app, Command* chosen);
void add_compare(CLI::App* app, Command* chosen);
void add_validate(CLI::App* app, Command* chosen);
void add_bench(CLI::App* app, Command* chosen);
void add_schedule(CLI::App* app, Command* chosen);
void add_topology(CLI::App* app, Command* chosen);
void add_doctor(CLI::App* app, Command* chosen);

}  // namespace tandem
