// Comm run: a CommBench, priced on a cluster and played by a backend.
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
  std::string real;      // what was: "emulated-compute: ..."
  bool checked = false;  // what arrived was compared with what was sent
  std::vector<CommTable> tables;
};

// Without a backend SimGrid plays. Nothing on ranks that have no results to tell (mpi, cuda).
// Error::Failed where a payload was wrong, or nothing ended any more.
Result<std::optional<CommResult>> run_comm_bench(const CommBench& bench, const Backend* backend,
                                                 const Cluster& cluster, const Placement& placement,
                                                 ExecOptions exec = {});

}  // namespace tandem
