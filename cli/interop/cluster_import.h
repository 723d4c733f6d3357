// ClusterImport: a [cluster] and the CSV of its links, from files of other tools that describe it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/import.h"

namespace tandem {

struct ClusterImportOptions {
  std::string preset;     // for what no file says; empty: what the files' GPUs point to
  std::string hosts;      // a hostlist: take these alone; empty: those wired as most are
  std::int64_t gpus = 0;  // of a fabric the job's; without one of the whole cluster, 0: one node
  std::string output;     // the scenario's path, which the CSV lies beside
};

// The CSV beside a scenario: "fabric.toml" has "fabric.links.csv".
std::string links_path(const std::string& output);

struct ImportedCluster {
  ImportedPlan plan;  // keys of [cluster], and what was assumed and left out
  std::string links;  // the CSV
};

// Errors: what the readers refuse; GPUs that no file names and no preset; links that join no
// cluster; more GPUs than it has.
Result<ImportedCluster> import_cluster(const std::vector<ImportSource>& sources,
                                       const ClusterImportOptions& options);

}  // namespace tandem
