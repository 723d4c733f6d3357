// OrderJob: finds a job's order of passes, completes the plan by it, and collects the options with
// which the order is lowered to a Program.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "workload/model/model.h"

namespace tandem {

// Returns the order of the job's file, or the one that the search found; nullopt if the job names
// an order such as 1f1b.
Result<std::optional<Order>> listed_order(const JobSettings& job);

// Returns the plan completed by an order, or by the traits of the job's named order: the number of
// chains, and whether the pipeline begins and ends on one rank.
OrderedPlan ordered_plan(const Plan& plan, const Order& order);
OrderedPlan ordered_plan(const JobSettings& job);

// Returns the values that the job's named order is made from. stage_costs() is called only if the
// order depends on costs. With vocabulary parallelism both functions are called, and their costs
// are in the same unit.
OrderSpec order_spec(const JobSettings& job,
                     const std::function<std::vector<OrderCosts>()>& stage_costs,
                     const std::function<VocabularyCosts()>& vocabulary_costs);

// Returns the GPU's SMs and memory bandwidth, for which ops contend; zeros with uniform costs.
SharedDevice shared_device(const Scenario& scenario);
LowerOptions lower_options(const JobSettings& job, const Order& order, const SharedDevice& device);

}  // namespace tandem
