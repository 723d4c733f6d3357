// Comm run: a CommBench, priced on a cluster and played by a backend.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/price.h"
#include "topology/cluster.h"
#include "validation/comm_bench.h"

namespace tandem {

enum class CommBackend { SimGrid, Host, Mpi };

struct CommResult {
  std::string backend;
  std::string cluster;
  std::string real;      // what was: "emulated-compute: ..."
  bool checked = false;  // what arrived was compared with what was sent
  std::vector<CommTable> tables;
};

// Nothing on ranks that have no results to tell (mpi). Error::Failed where a payload was wrong, or
// nothing ended any more.
Result<std::optional<CommResult>> run_comm_bench(const CommBench& bench, CommBackend backend,
                                                 const Cluster& cluster,
                                                 const Placement& placement);

}  // namespace tandem
