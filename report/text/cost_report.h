// A cost table (measured times of kernels and collectives) as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/text/text_table.h"
#include "workload/cost/cost_table.h"

namespace tandem {

// Returns the table's meta data, then a line a row: the operation, microseconds and rates.
std::string cost_text(const CostTable& table, int width = kAnyWidth);

// Returns one object: `meta`, and `rows` with the file's columns.
nlohmann::ordered_json to_json(const CostTable& table);

}  // namespace tandem
