// Job: a scenario's plan on its cluster: where its ranks are, what its communication costs, what
// its stages do.
#pragma once

#include <array>
#include <vector>

#include "scenarios/config/scenario.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/price.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"
#include "workload/model/workload.h"

namespace tandem {

Placement placement_of(const Scenario& scenario, const Cluster& cluster);

// The scenario's plan with what an order says of it.
OrderedPlan plan_of(const Scenario& scenario, bool ends_on_one_rank, int copies);
OrderedPlan plan_of(const Scenario& scenario, const Order& order);
// With what is known of one chain of the order that the scenario names.
OrderedPlan plan_of_chain(const Scenario& scenario);

std::array<CommCost, kGroupKinds> comm_costs(const Scenario& scenario);

// One chain's work.
Workload workload(const Scenario& scenario, const OrderedPlan& plan, const Cluster& cluster,
                  const Placement& placement);

// The same for each of the order's chains.
Workload workload(const Scenario& scenario, const Order& order, const Cluster& cluster,
                  const Placement& placement);

// What every stage's actions take, when nothing overlaps.
std::vector<OrderCosts> order_costs(const Scenario& scenario, const OrderedPlan& plan,
                                    const Cluster& cluster);

LowerOptions lower_options(const Scenario& scenario, const Order& order);

}  // namespace tandem
