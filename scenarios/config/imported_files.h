// Files that a scenario names, model.from and parallel.from of other tools, and cluster.from: their
// keys stand as if the scenario said them, below all that it says itself.
//
// cluster.from is a scenario, of which [cluster] is taken.
//
// model.from gives the keys of [model]. parallel.from gives all others, and the model where no
// other layers are stated. With both the plan's files are read behind the model's, as `tandem
// import` would: a launch script leans on the model's layers, and its sequence length counts. How
// many GPUs there are belongs to the plan; which ones is taken only where the scenario has no
// [cluster].
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "interop/imported_plan.h"
#include "scenarios/config/scenario.h"

namespace tandem {

class ImportedFiles {
 public:
  // `path`: of the scenario's file, which the files are relative to.
  explicit ImportedFiles(const std::string& path);

  // Adds what the files of the run say and none of its settings does, and notes what was assumed,
  // and what was left out. Each file is read once for all runs that name it with as many GPUs.
  Status complete(RunSettings* run);

 private:
  // A setting that names files.
  struct Named {
    std::string key, where;
    std::vector<std::string> paths;
  };
  // What they say: keys of a scenario as settings, and the plan for all else.
  struct Imported {
    Settings settings;
    ImportedPlan plan;
  };

  Status take_cluster(Settings* settings) const;
  Result<Named> named(const Settings& settings, const char* key) const;
  Result<const Imported*> read(const Named& files, std::int64_t gpus);

  std::string folder_;
  std::map<std::tuple<std::string, std::vector<std::string>, std::int64_t>, Imported> read_;
};

}  // namespace tandem
