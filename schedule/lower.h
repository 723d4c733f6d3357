// Lowering: from an Order of actions to a Program of ops on lanes.
#pragma once

#include "base/result.h"
#include "schedule/order.h"
#include "schedule/program.h"
#include "workload/workload.h"

namespace tandem {

struct LowerOptions {
  int tp = 1;
  int dp = 1;
  // Pipeline transfers beside compute: each directed edge issues in the sender's order of
  // production. Off: 1F1B and GPipe exchange after each action, interleaved after each action in
  // warm-up and cool-down and after each F, B pair in between; other orders have no such form.
  bool overlap_p2p = false;
  bool batch_p2p = false;  // an exchange is issued as one group; excludes overlap_p2p
};

// Whether transfers overlap where nothing is said: all orders but 1F1B, GPipe and none.
bool overlaps_p2p_by_default(const Order& order);

// The order, valid, over tp x dp x pp ranks; rank = tensor + tp (data + dp pipeline), as Megatron
// numbers them. Compute ops are priced by the workload; communication has bytes, and no duration
// yet (price.h).
Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options);

}  // namespace tandem
