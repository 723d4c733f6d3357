// The table that a page draws of a sweep's results.
#pragma once

#include <string>

#include "base/result.h"
#include "report/page/page_data.h"

namespace tandem {

// Reads a CSV of `tandem sweep` (docs/formats.md): names, the keys that runs set, and their main
// results. Except for the name, only columns in which rows differ are kept. The chart's y axis is
// tokens a second, or the iteration time if there are none. Its x axis is GPUs, or memory if all
// runs have the same number of GPUs.
Result<PageTable> sweep_table(const std::string& results_csv);

}  // namespace tandem
