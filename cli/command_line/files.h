// Checks the files that a command line names, before the long work.
#pragma once

#include <string>
#include <vector>

#include "base/outputs.h"
#include "base/result.h"

namespace tandem {

// Does check_outputs() for a command that reads `input`, a scenario with `sets` or a CSV. The files
// that the scenario names, and those that tandem brings, are inputs too.
Status check_files(const std::string& input, const std::vector<std::string>& sets,
                   const std::vector<NamedFile>& outputs, std::vector<NamedFile> inputs = {});

}  // namespace tandem
