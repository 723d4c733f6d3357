// BaselineTools: how well other tools predict the runs of a cases file, one line for each tool and
// family.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// A tool's accuracy on the rows of a family, in percent as its source gives it.
struct BaselineTool {
  std::string tool;
  std::string family;
  int rows = 0;  // rows behind the figure; 0: the source does not say
  double mean_absolute_percent = 0;
  std::optional<double> bias_percent;
  bool reproduced = false;  // by running the tool; else its authors published it
  std::string source;
};

// Reads a CSV. The columns tool, family, mean_absolute_percent, kind (published or reproduced) and
// source must be there and not empty; rows and bias_percent may be missing.
Result<std::vector<BaselineTool>> read_rivals(const std::string& path);

}  // namespace tandem
