// PriceJob: prices a job's stages and communication for the places of its ranks on the cluster.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/result.h"
#include "job/site.h"
#include "scenarios/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"
#include "workload/model/workload.h"

namespace tandem {

// Returns the plan with what depends on the placement: on how many nodes the GPUs of the first
// expert group are.
Plan with_placement(Plan plan, const Site& site);

// The costs that a framework adds to the cluster's own figures, by GroupKind.
using CommCosts = std::array<CommCost, kGroupKinds>;
CommCosts comm_costs(const Model& model, const Plan& plan, const FrameworkProfile& profile,
                     const ClusterSpec& cluster);

// Returns the time of the collectives round one block in the slowest tensor group (see
// make_workload).
Nanoseconds block_collective_ns(const Model& model, const Plan& plan, const CostSettings& costs,
                                const Site& site);

// Returns one chain's priced work. `collective_ns`: the result of block_collective_ns(), if the
// caller has it. REQUIRES: the costs' table and profile outlive the call.
Workload price_workload(const Model& model, const OrderedPlan& plan, const CostSettings& costs,
                        const Site& site, std::optional<Nanoseconds> collective_ns = std::nullopt);

// Returns the work of so many chains, each like this one.
Workload for_chains(Workload chain, int chains);

// Returns the work of all chains of a job in this order.
Workload price_workload(const JobSettings& job, const Order& order, const CostSettings& costs,
                        const Site& site);

// Returns the time of every stage's actions, when nothing overlaps.
std::vector<OrderCosts> stage_costs(const Workload& chain, const Model& model, const Plan& plan,
                                    const CostSettings& costs, const Site& site);

// Returns the times of a rank's vocabulary passes when nothing overlaps, and of the communication
// between them over the pipeline. REQUIRES: chain.vocabulary.
VocabularyCosts vocabulary_costs(const Workload& chain, const Model& model, const Plan& plan,
                                 const CostSettings& costs, const Site& site);

// Gives an Error if a run has more ops than limits.ops. It counts the ops of every rank that is
// played, without those that come once an iteration.
Status check_ops(const Workload& chain, const Scenario& scenario);

}  // namespace tandem
