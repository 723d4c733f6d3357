// How well other tools predict the runs of a cases file: a line a tool and family.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// Of a tool, on the rows of a family. The figures are percent, as their source gives them.
struct BaselineTool {
  std::string tool;
  std::string family;
  int rows = 0;  // that the figure is of; 0: the source does not say
  double mean_absolute_percent = 0;
  std::optional<double> bias_percent;
  bool reproduced = false;  // by running the tool; else it is what its authors published
  std::string source;
};

// tool, family, mean_absolute_percent, kind (published or reproduced) and source must be there, in
// every line; rows and bias_percent need not.
Result<std::vector<BaselineTool>> read_rivals(const std::string& path);

}  // namespace tandem
