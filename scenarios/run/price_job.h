// PriceJob: what a job's communication and its stages take where its ranks are.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"
#include "workload/model/workload.h"

namespace tandem {

// The plan with what its placement says of it: the nodes that an expert group's GPUs are on, as the
// first one's.
Plan placed(Plan plan, const Cluster& cluster, const Placement& placement);

// What a framework adds to what the cluster says, by GroupKind.
using CommCosts = std::array<CommCost, kGroupKinds>;
CommCosts comm_costs(const Model& model, const Plan& plan, const FrameworkProfile& profile,
                     const ClusterSpec& cluster);

// What the collectives round one block take, of the slowest tensor group (make_workload).
Nanoseconds block_collective_ns(const Model& model, const Plan& plan, const CostSettings& costs,
                                const Cluster& cluster, const Placement& placement);

// One chain's work. `collective_ns`: block_collective_ns(), where the caller knows it. REQUIRES:
// the costs' table and profile outlive the call.
Workload price_workload(const Model& model, const OrderedPlan& plan, const CostSettings& costs,
                        const Cluster& cluster, const Placement& placement,
                        std::optional<Nanoseconds> collective_ns = std::nullopt);

// The same for each of so many chains.
Workload for_chains(Workload chain, int chains);

// The work of all chains of a job in an order.
Workload price_workload(const JobSettings& job, const Order& order, const CostSettings& costs,
                        const Cluster& cluster, const Placement& placement);

// What every stage's actions take, when nothing overlaps.
std::vector<OrderCosts> stage_costs(const Workload& chain, const Model& model, const Plan& plan,
                                    const CostSettings& costs, const Cluster& cluster,
                                    const Placement& placement);

// What a rank's passes of the vocabulary take so, and what comes between them over the pipeline.
// REQUIRES: chain.vocabulary.
VocabularyCosts vocabulary_costs(const Workload& chain, const Model& model, const Plan& plan,
                                 const CostSettings& costs, const Cluster& cluster,
                                 const Placement& placement);

// An Error where a run has more ops than limits.ops, of all ranks that none stands for; without
// those that come once an iteration.
Status check_ops(const Workload& chain, const Scenario& scenario);

}  // namespace tandem
