// DualPipe and DualPipeV: microbatches enter at both ends of the pipeline, and each forward of one
// direction runs together with a backward of the other.
#pragma once

#include <vector>

#include "schedule/order/order.h"

namespace tandem {

// Makes DeepSeek's DualPipe (DeepSeek-V3 technical report, 3.2.1). One chain goes down the ranks
// (stages 0 to pp - 1) and one goes up (stages pp to 2 pp - 1), with `microbatches` each.
// REQUIRES: pp even, microbatches >= pp.
std::vector<std::vector<Action>> dualpipe(int pp, int microbatches);

// Makes DualPipeV ("cut in half"). One chain turns round at the last rank: stage s >= pp is on rank
// 2 pp - 1 - s. REQUIRES: microbatches >= 2 pp.
std::vector<std::vector<Action>> dualpipe_v(int pp, int microbatches);

}  // namespace tandem
