// ChakraRun: loads Chakra traces of other tools as a Program, with the cluster that prices its
// communication, and plays it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/job_result.h"
#include "results/run_result.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "sim/engines.h"
#include "topology/cluster.h"

namespace tandem {

struct ChakraSource {
  std::string path;     // the trace of any rank: PREFIX.0.et
  std::string groups;   // the file of process groups; empty: PREFIX.groups.json, if it exists
  std::string cluster;  // a preset, or a scenario whose first run has one; empty: times as traced
};

struct ChakraRun {
  Program program;  // priced
  std::vector<std::string> left_out;
  std::optional<Cluster> cluster;
  Placement placement;
};

Result<ChakraRun> load_chakra(const ChakraSource& source);

// Plays the program. `fold`: one rank stands for all that do the same. REQUIRES: a cluster, for the
// engine simgrid.
Result<RunResult> simulate_chakra(const ChakraRun& run, Engine engine, const OutputFiles& files,
                                  bool fold);

}  // namespace tandem
