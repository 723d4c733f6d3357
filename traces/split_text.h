// A rank's split as one line of text: what a trace file's header says of it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "traces/metrics.h"

namespace tandem {

// "compute_ns=60 bubble_ns=30 pipeline_exposed_ns=3 pipeline_comm_ns=5 pipeline_overlap_ns=2", with
// the group_kinds that communicate; before it "ranks=48" where the rank stands for so many.
std::string split_text(const RankSplit& split);

// The inverse, for that part of the split.
Result<RankSplit> parse_split(Rank rank, std::string_view text);

}  // namespace tandem
