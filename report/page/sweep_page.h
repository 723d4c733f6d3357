// The table that a page draws of a sweep's results.
#pragma once

#include <string>

#include "base/result.h"
#include "report/page/page_data.h"

namespace tandem {

// Of a CSV of `tandem sweep` (docs/formats.md): names, what the runs set, and of what they give the
// main numbers; but for the name only columns in which rows differ. The frontier is of tokens a
// second over GPUs; where all runs have as many GPUs, over memory; without tokens, of the iteration
// over GPUs.
Result<PageTable> sweep_table(const std::string& results_csv);

}  // namespace tandem
