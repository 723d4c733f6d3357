// ImportedFiles: the files that a scenario names by model.from, parallel.from and cluster.from.
// Their keys count as if the scenario had set them; keys that it sets itself take precedence.
//
//   key            files                 keys that are taken of them
//   cluster.from   a scenario            those of [cluster], but not the number of GPUs
//   model.from     of other tools        those of [model]
//   parallel.from  of other tools        all but those of [model] and [cluster]; and
//                                        - of [model]: all if the scenario has no layers and no
//                                          model.from; model.seq and mtp_layers beside model.from
//                                        - of [cluster]: all if the scenario has no other key of
//                                          it; else the number of GPUs alone
//
// The files of parallel.from are read together with those of model.from and the scenario's own keys
// of [model], as a launch script needs the model's layers.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "interop/plan/imported_plan.h"
#include "scenarios/scenario.h"

namespace tandem {

class ImportedFiles {
 public:
  // `path` is the scenario's file. The files that it names are relative to its folder.
  explicit ImportedFiles(const std::string& path);

  // Adds the keys that the files give and the run does not set; notes assumptions and omissions. A
  // file is read once for all runs that name it with the same model and number of GPUs.
  Status complete(RunSettings* run);

 private:
  using ModelKeys = std::map<std::string, KeyValue>;
  // A setting that names files: its key, its place and their paths.
  struct NamedFiles {
    std::string key, where;
    std::vector<std::string> paths;
  };
  // The contents of the files: the keys of a scenario as settings, and the whole plan with its
  // notes.
  struct Imported {
    Settings settings;
    ImportedPlan plan;
  };

  Status take_cluster(Settings* settings) const;
  Result<NamedFiles> files_of(const Settings& settings, const char* key) const;
  // `model`: keys of [model] that the readers see, over those of the files.
  Result<const Imported*> read(const NamedFiles& files, std::int64_t gpus,
                               const ModelKeys& model = {});

  std::string folder_;
  std::map<std::tuple<std::string, std::vector<std::string>, std::int64_t, ModelKeys>, Imported>
      read_;
};

}  // namespace tandem
