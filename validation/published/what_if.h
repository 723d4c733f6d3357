// WhatIf: takes runs that differ in one thing, and compares the measured with the predicted change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "validation/published/cases.h"

namespace tandem {

// A run compared with the first one of its source, model and `changed`. Changes are shares: seconds
// with `to` over seconds with `from`, minus 1.
struct WhatIf {
  std::string place;  // "file:line" of the run
  std::string source, model, changed, from, to;
  std::optional<double> measured, predicted;
  std::string reason;  // why one of both is missing
};

// Reads a cases file with two more columns: `changed`, the thing in which the rows of one source
// and model differ, and `value`, its value in a row. Rows may lack a time, and keys that a scenario
// needs.
Result<std::vector<WhatIf>> what_ifs(const std::string& path, Engine engine, int jobs,
                                     const Sets& sets = {});

// Changes beyond this share are judged by their size, too.
inline constexpr double kLargeGain = 0.03;

// The pairs that are predicted, in short: how many go the same way, and how many of the large
// measured changes are predicted to within a third of them.
struct GainErrors {
  int n = 0, same_direction = 0, large = 0, within_a_third = 0;
  double mean_absolute = 0, bias = 0;  // of the difference of both changes
};
GainErrors gain_errors(const std::vector<WhatIf>& pairs);

// Returns {pairs, overall {n, mean_absolute_difference, bias, same_direction, large,
// within_a_third}}.
nlohmann::ordered_json what_ifs_json(const std::vector<WhatIf>& pairs);

}  // namespace tandem
