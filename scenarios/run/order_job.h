// OrderJob: the order in which a job's stages act, what it says of the plan, and how it is lowered.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "workload/model/model.h"

namespace tandem {

// The order of the job's file, or the one that was found; nothing where the job names one.
Result<std::optional<Order>> listed_order(const JobSettings& job);

// The job's plan with what an order says of it, or with what the table of orders does.
OrderedPlan ordered_plan(const Plan& plan, const Order& order);
OrderedPlan ordered_plan(const JobSettings& job);

// What the order that the job names is made from. Costs are asked for where it is made for them;
// both are, in one unit, with vocabulary parallelism.
OrderSpec order_spec(const JobSettings& job,
                     const std::function<std::vector<OrderCosts>()>& stage_costs,
                     const std::function<VocabularyCosts()>& vocabulary_costs);

// Whose SMs and memory bandwidth ops contend for; of uniform costs none.
SharedDevice shared_device(const Scenario& scenario);
LowerOptions lower_options(const JobSettings& job, const Order& order, const SharedDevice& device);

}  // namespace tandem
