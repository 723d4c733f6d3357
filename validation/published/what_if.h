// What-if: of runs that differ in one thing, how much it changed, measured and predicted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "validation/published/cases.h"

namespace tandem {

// A run against the first one of its source, model and `changed`. Changes are shares: seconds with
// `to` over seconds with `from`, less 1.
struct WhatIf {
  std::string place;  // "file:line" of the run
  std::string source, model, changed, from, to;
  std::optional<double> measured, predicted;
  std::string reason;  // without one of both: why
};

// Of a cases file with two more columns: `changed`, what the rows of one source and model differ
// in, and `value`, what it is in a row. Rows need not have a time, nor all that a scenario takes.
Result<std::vector<WhatIf>> what_ifs(const std::string& path, Engine engine, int jobs,
                                     const Sets& sets = {});

// {pairs, overall {n, mean_absolute_difference, bias, same_direction}}.
nlohmann::ordered_json what_ifs_json(const std::vector<WhatIf>& pairs);

}  // namespace tandem
