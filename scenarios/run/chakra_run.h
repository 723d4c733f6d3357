// Chakra traces of others as a run: a Program, and the cluster that prices its communication.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/run/job_result.h"
#include "scenarios/run/run_result.h"
#include "schedule/lowering/price.h"
#include "schedule/program/program.h"
#include "sim/engines.h"
#include "topology/cluster.h"

namespace tandem {

struct ChakraSource {
  std::string path;     // of any rank: PREFIX.0.et
  std::string groups;   // process groups; empty: PREFIX.groups.json, where it is there
  std::string cluster;  // a preset, or a scenario whose first run has one; empty: as the traces say
};

struct ChakraRun {
  Program program;  // priced
  std::vector<std::string> left_out;
  std::optional<Cluster> cluster;
  Placement placement;
};

Result<ChakraRun> load_chakra(const ChakraSource& source);

// `fold`: one rank stands for its equals. REQUIRES: a cluster, for the engine simgrid.
Result<RunResult> simulate(const ChakraRun& run, Engine engine, const OutputFiles& files,
                           bool fold);

}  // namespace tandem
