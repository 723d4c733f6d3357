// Imports a cluster: makes [cluster] and the CSV of its links from other tools' files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/import.h"

namespace tandem {

struct ClusterImportOptions {
  std::string preset;  // says what no file says; empty: the preset that the files' GPUs point to
  std::string hosts;   // a hostlist: take these alone; empty: hosts that are wired as most are
  // GPUs of the job, where the files describe a fabric; else of the whole cluster. 0: one node.
  std::int64_t gpus = 0;
  std::string output;  // the scenario's path; the CSV is written beside it
};

// Gives the path of the CSV beside a scenario: "fabric.links.csv" for "fabric.toml".
std::string links_path(const std::string& output);

struct ImportedCluster {
  ImportedPlan plan;  // keys of [cluster]; what was assumed and left out
  std::string links;  // the CSV
};

// Errors: what the readers refuse; GPUs that no file names and no preset; links that join no
// cluster; more GPUs than it has.
Result<ImportedCluster> import_cluster(const std::vector<ImportSource>& sources,
                                       const ClusterImportOptions& options);

}  // namespace tandem
