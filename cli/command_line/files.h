// Checks the files that a command line names, before the long work.
#pragma once

#include <string>
#include <vector>

#include "base/outputs.h"
#include "base/result.h"

namespace tandem {

// Checks with check_outputs() that the outputs can be written and are none of the inputs: `input`
// (a scenario with `sets`, or a CSV), the files that the scenario names, and those that come with
// tandem.
Status check_files(const std::string& input, const std::vector<std::string>& sets,
                   const std::vector<NamedFile>& outputs, std::vector<NamedFile> inputs = {});

}  // namespace tandem
