// Imports a cluster: makes the keys of [cluster], and a CSV of its links, from the topology files
// of other tools (NCCL, ibnetdiscover, Slurm).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/import.h"

namespace tandem {

struct ClusterImportOptions {
  std::string preset;  // has what no file states; empty: the preset of the GPUs in the files
  std::string hosts;   // a hostlist of those to take; empty: hosts with as many ports as most have
  // GPUs of the job, if the files describe a fabric; else of the whole cluster. 0: one node.
  std::int64_t gpus = 0;
  std::string output;  // the scenario's path; the CSV is written beside it
  // Keys that the user sets. Rates and latencies are the links' where no file states them.
  std::map<std::string, KeyValue> sets = {};
};

// Returns whether import_cluster() takes this key of `sets` for the links, and no scenario has it.
bool is_for_links(const std::string& key);

// Returns the path of the CSV beside a scenario: "fabric.links.csv" for "fabric.toml".
std::string links_path(const std::string& output);

struct ImportedCluster {
  ImportedPlan plan;  // keys of [cluster]; what was assumed and left out
  std::string links;  // the CSV
};

// Errors: as import_topology(); a set key that files or links leave no room for; neither the files
// nor `preset` name a GPU; the links make no connected cluster; `gpus` is more than the cluster
// has.
Result<ImportedCluster> import_cluster(const std::vector<ImportSource>& sources,
                                       const ClusterImportOptions& options);

}  // namespace tandem
