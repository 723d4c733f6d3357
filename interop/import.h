// Imports: read files of other tools, recognised by their content, into one ImportedPlan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/document/import_source.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

struct ImportOptions {
  std::int64_t gpus = 0;  // 0: what the files say
  // Keys that somebody sets over the files. Readers see them, and values in files may differ.
  std::map<std::string, KeyValue> sets = {};
  bool keeps_conflicts = false;  // in the plan, for who knows more; else they are Errors
};

// Names the kinds of files, for an Error that says what it expected.
std::string importable_kinds();

// Reads the sources in order, but models' config.json first. A later file may build on earlier
// ones: a launch script uses a model's layers. What a file states goes over what another one leaves
// to a default. Errors: a file of no known kind, text that its kind does not allow, values of a
// wrong type, two files that state different values, layers that the stages do not divide, a model
// that only a file that is not given states.
Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options = {});
Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options = {});

}  // namespace tandem
