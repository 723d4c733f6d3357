#include "schedule/lower.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/issue_order.h"
#include "schedule/lower_context.h"
#include "schedule/lower_rank.h"
#include "schedule/validate.h"
#include "schedule/wire.h"

namespace tandem {

namespace {

// What an Op's numbers can hold.
Status check_limits(const Context& context) {
  constexpr int kStages = INT16_MAX;
  constexpr int kLanes = 250;
  if (context.order.stages > kStages)
    return Error{
        fmt::format("found {} stages, expected at most {}", context.order.stages, kStages)};
  std::vector<int> lanes(context.order.pp());
  for (const auto& [edge, microbatches] : context.produced) {
    ++lanes[context.rank_of_stage[edge.first]];
    ++lanes[context.rank_of_stage[edge.second]];
  }
  for (const int count : lanes) {
    if (count > kLanes)
      return Error{
          fmt::format("found {} pipeline edges at one rank, expected at most {}: fewer "
                      "stages a rank (parallel.vpp)",
                      count, kLanes)};
  }
  return Done{};
}

}  // namespace

bool overlaps_p2p_by_default(const Order& order) {
  return order.name != "1f1b" && order.name != "gpipe" && order.name != "none";
}

Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options) {
  CHECK(static_cast<int>(work.stages.size()) == order.stages);
  if (options.overlap_p2p && options.batch_p2p)
    return Error{
        "found overlap.p2p and overlap.batch_p2p both on, expected one of them at most: a grouped "
        "exchange is waited for"};
  if (!options.overlap_p2p && overlaps_p2p_by_default(order) && order.name != "interleaved")
    return Error{
        fmt::format("found overlap.p2p = false with order '{}', expected it on: only 1f1b, gpipe "
                    "and interleaved have exchanges",
                    order.name)};
  const Context context = make_context(order, work, options);
  RETURN_IF_ERROR(check_limits(context));
  Program program;
  program.name = order.name;
  program.kernels = work.kernels;
  std::vector<Slots> slots;
  for (int rank = 0; rank < order.pp(); ++rank) {
    LoweredRank lowered = lower_rank(context, rank);
    slots.push_back(std::move(lowered.slots));
    program.bodies.push_back(std::move(lowered.body));
  }
  wire(context, slots, &program);
  RETURN_IF_ERROR(sort_by_issue_order(&program));
  RETURN_IF_ERROR(validate(program));
  return program;
}

}  // namespace tandem
