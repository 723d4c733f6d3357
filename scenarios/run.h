// Run: from a Scenario to its Program, and from there to its Outcome and files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/outcome.h"
#include "scenarios/scenario.h"
#include "schedule/order.h"
#include "schedule/price.h"
#include "schedule/program.h"
#include "topology/cluster.h"
#include "workload/workload.h"

namespace tandem {

enum class Engine { Ideal, SimGrid };

// A scenario made ready to play.
struct Prepared {
  Plan plan;  // the scenario's, with what the order says of it
  Order order;
  Program program;
  Cluster cluster;
  Placement placement;
  std::vector<std::string> warnings;
};

// The order of a scenario: by name, or from its file.
Result<Order> make_order(const Scenario& scenario);

// In whole nodes, where it is more than one.
Result<Cluster> make_cluster(const Scenario& scenario);

Result<Prepared> prepare(const Scenario& scenario);

// What else a run leaves behind; empty: nothing.
struct OutputFiles {
  std::string trace_csv;
  std::string perfetto;
  std::string svg;
};

// `progress`: with a bar, where stderr is a terminal.
Result<Outcome> simulate(const Scenario& scenario, Engine engine, const OutputFiles& files = {},
                         bool progress = false);

// A priced Program by itself, on the ideal engine.
Result<Outcome> simulate(const Program& program, const OutputFiles& files = {});

// Many runs, each in a process of its own, `jobs` at once, and what they save against their
// baselines; files are those of run `files_of`.
std::vector<Result<Outcome>> simulate_all(const std::vector<Scenario>& scenarios, Engine engine,
                                          int jobs, const OutputFiles& files = {},
                                          int files_of = 0);

}  // namespace tandem
