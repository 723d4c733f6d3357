// A rank's split as one line of text, as a trace file's header has it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "traces/metrics.h"

namespace tandem {

// Returns for instance "compute_ns=60 bubble_ns=30 pipeline_exposed_ns=3 pipeline_comm_ns=5
// pipeline_overlap_ns=2": group kinds that communicate have three words each. "ranks=48" comes
// first where the rank stands for 48.
std::string split_text(const RankSplit& split);

// Reads what split_text writes; all other fields of the split keep their defaults.
Result<RankSplit> parse_split(Rank rank, std::string_view text);

}  // namespace tandem
