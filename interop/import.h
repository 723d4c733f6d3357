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
  std::int64_t gpus = 0;  // of the job; 0: as the files state
  // Keys whose values replace those of the files. Readers see them, too.
  std::map<std::string, KeyValue> sets = {};
  std::string sets_from = "--set";  // where these keys stand, for Errors
  // Whether two files' different values become ImportedPlan::conflicts; else they are an Error.
  bool keeps_conflicts = false;
};

// Names the kinds of files, for an Error that says what it expected.
std::string importable_kinds();

// Reads the sources in order, but models' config.json first, as other files' readers use a model's
// layers. A value that a file states replaces one that another file assumes. Errors: a file of no
// known kind, a second log with iterations, text that its kind does not allow, values of a wrong
// type, two files that state different values, layers that the stages do not divide, and no model
// if a file that was not given may state it. Without such a file the result may lack a model.
Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options = {});
Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options = {});

}  // namespace tandem
