// The files that a command line names: told apart before the work begins.
#pragma once

#include <string>
#include <vector>

#include "base/outputs.h"
#include "base/result.h"

namespace tandem {

// As check_outputs: of a command that reads `input`, a scenario with `sets` or a CSV; what the
// scenario names, and the files that tandem brings, are inputs too.
Status check_files(const std::string& input, const std::vector<std::string>& sets,
                   const std::vector<NamedFile>& outputs, std::vector<NamedFile> inputs = {});

}  // namespace tandem
