// Imports: files of other tools, recognised by what is in them, as one ImportedPlan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/imported_plan.h"

namespace tandem {

// A file's text and what it is called: in comments and Errors.
struct ImportSource {
  std::string path;
  std::string text;
};

struct ImportOptions {
  std::int64_t gpus = 0;  // 0: what the files say
};

// The kinds of files, in words: what an Error expects.
std::string importable_kinds();

// Later files go over earlier ones, and may lean on them: a launch script on a model's layers.
// Errors: a file of no known kind, text that is none of its kind, "auto", values of a wrong type.
Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options = {});
// Their texts, unpacked where they are gzip.
Result<std::vector<ImportSource>> read_sources(const std::vector<std::string>& paths,
                                               const std::string& expected);
Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options = {});

}  // namespace tandem
