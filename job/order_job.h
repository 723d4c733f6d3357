// OrderJob: the order in which a job's stages act, the plan as this order determines it, and the
// options with which it is lowered.
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

// Returns the order of the job's file, or the order that was found; nothing where the job names an
// order.
Result<std::optional<Order>> listed_order(const JobSettings& job);

// Returns the job's plan completed by an order, or by the table of named orders.
OrderedPlan ordered_plan(const Plan& plan, const Order& order);
OrderedPlan ordered_plan(const JobSettings& job);

// Returns what the named order of the job is made from. stage_costs() is called only where the
// order is made for costs. With vocabulary parallelism both functions are called, and their costs
// are in the same unit.
OrderSpec order_spec(const JobSettings& job,
                     const std::function<std::vector<OrderCosts>()>& stage_costs,
                     const std::function<VocabularyCosts()>& vocabulary_costs);

// Returns the SMs and memory bandwidth that ops contend for; none with uniform costs.
SharedDevice shared_device(const Scenario& scenario);
LowerOptions lower_options(const JobSettings& job, const Order& order, const SharedDevice& device);

}  // namespace tandem
