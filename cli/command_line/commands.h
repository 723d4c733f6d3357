// The subcommands of `tandem`: each adds itself to the app, parses its options and runs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line/command_line.h"
#include "planning/simulate/simulate.h"

namespace tandem {

void add_simulate(const Command& app);
void add_sweep(const Command& app);
void add_run(const Command& app);
void add_compare(const Command& app);
void add_explain(const Command& app);
void add_validate(const Command& app);
void add_bench(const Command& app);
void add_calibrate(const Command& app);
void add_calibrate_comm(const Command& calibrate);
void add_calibrate_run(const Command& calibrate);
void add_schedule(const Command& app);
void add_explore(const Command& app);
void add_topology(const Command& app);
void add_doctor(const Command& app);
void add_size(const Command& app);
void add_tune(const Command& app);
void add_pack(const Command& app);
void add_import(const Command& app);
void add_export(const Command& app);
void add_trace(const Command& app);

// Adds --set: `over` says over which settings the values go.
inline void add_sets(const Command& command, std::vector<std::string>* sets,
                     const std::string& over) {
  command.option("--set", sets, "KEY=VALUE over " + over + "; repeatable").one_value_each();
}

// Adds --budget: seconds of the search of schedule.order = auto.
inline void add_budget(const Command& command, double* seconds) {
  command
      .option("--budget", seconds,
              "of schedule.order = auto: seconds that its search goes on, instead of "
              "schedule.budget; what it finds then depends on the machine")
      .range(1e-3, 1e6);
}

inline void add_engine(const Command& command, std::string* engine, const std::string& help) {
  command.option("--engine", engine, help).one_of({"ideal", "simgrid"});
}

// Returns the engine that a value of --engine names.
inline Engine engine_of(const std::string& name) {
  return name == "ideal" ? Engine::Ideal : Engine::SimGrid;
}

// Returns the input of a command that reads scenarios and Programs.
inline CommandInput scenario_or_program(const std::string& path) {
  return {path, path.ends_with(".csv") ? "p" : "s"};
}

// Refuses --budget unless an order is searched for.
inline Status check_budget(const std::vector<Scenario>& scenarios, double budget_s) {
  const auto is_open = [](const Scenario& scenario) { return scenario.job.order_is_open(); };
  if (budget_s == 0 || std::ranges::any_of(scenarios, is_open)) return Done{};
  return Error::at(scenarios.front().path,
                   "found --budget with an order that is given, expected schedule.order = auto");
}

}  // namespace tandem
