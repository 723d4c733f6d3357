// Imports: read files of other tools, recognised by their content, into one ImportedPlan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/document/import_source.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

struct ImportOptions {
  std::int64_t gpus = 0;  // 0: what the files say
};

// Names the kinds of files, for an Error that says what it expected.
std::string importable_kinds();

// Reads the sources in order. Later files override earlier ones, and may build on them: a launch
// script uses a model's layers. Errors: a file of no known kind, text that its kind does not allow,
// "auto", values of a wrong type.
Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options = {});
Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options = {});

}  // namespace tandem
