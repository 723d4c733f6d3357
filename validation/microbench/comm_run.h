// CommRun: prices a CommBench on a cluster and plays it on a backend.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/backend.h"
#include "schedule/lowering/price.h"
#include "topology/cluster.h"
#include "validation/microbench/comm_bench.h"

namespace tandem {

struct CommResult {
  std::string backend;
  std::string cluster;
  std::string real;      // what was real, such as "emulated-compute: ..."
  bool checked = false;  // the received data was compared with the sent data
  std::vector<CommTable> tables;
};

// Runs the bench; on SimGrid if there is no backend. Returns nothing on ranks that have no results
// to report (mpi, cuda). Error::Failed: a payload was wrong, or the run got stuck.
Result<std::optional<CommResult>> run_comm_bench(const CommBench& bench, const Backend* backend,
                                                 const Cluster& cluster, const Placement& placement,
                                                 ExecOptions exec = {});

}  // namespace tandem
