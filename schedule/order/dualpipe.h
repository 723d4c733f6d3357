// DualPipe and DualPipeV: microbatches enter at both ends of what a rank holds, and each forward of
// one direction runs together with a backward of the other.
#pragma once

#include <vector>

#include "schedule/order/order.h"

namespace tandem {

// DeepSeek's DualPipe (DeepSeek-V3 technical report, 3.2.1): a chain down the ranks, stages 0 to
// pp - 1, and one up, stages pp to 2 pp - 1, with `microbatches` each.
// REQUIRES: pp even, microbatches >= pp.
std::vector<std::vector<Action>> dualpipe(int pp, int microbatches);

// DualPipeV ("cut in half"): one chain that turns round at the last rank, stage s >= pp on rank
// 2 pp - 1 - s. REQUIRES: microbatches >= 2 pp.
std::vector<std::vector<Action>> dualpipe_v(int pp, int microbatches);

}  // namespace tandem
