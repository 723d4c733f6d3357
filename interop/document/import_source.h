// ImportSource: a file of another tool as it was read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// A file's text, and the name that comments and Errors call it by.
struct ImportSource {
  std::string path;
  std::string text;
};

// Reads the files' texts, unpacked if they are gzip.
Result<std::vector<ImportSource>> read_sources(const std::vector<std::string>& paths,
                                               const std::string& expected);

}  // namespace tandem
