// PriceJob: prices a job's stages and communication, given where its ranks are on the cluster.
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

// Returns the plan with expert_nodes set: the number of nodes that hold the first expert group.
Plan with_placement(Plan plan, const Site& site);

// The costs that a framework adds to the cluster's own latencies and bandwidths, by GroupKind.
using CommCosts = std::array<CommCost, kGroupKinds>;
CommCosts comm_costs(const Model& model, const Plan& plan, const FrameworkProfile& profile,
                     const ClusterSpec& cluster);

// Returns the time of the tensor collectives around one block (attention or MLP) in the slowest
// tensor group, as make_workload() needs it. `times`: they carry this many times their bytes.
Nanoseconds block_collective_ns(const Model& model, const Plan& plan, const CostSettings& costs,
                                const Site& site, double times = 1);

// Returns the priced work of one chain: all stages of the model. `collective_ns`: the result of
// block_collective_ns(), if the caller has it. REQUIRES: the costs' table and profile outlive it.
Workload price_workload(const Model& model, const OrderedPlan& plan, const CostSettings& costs,
                        const Site& site, std::optional<Nanoseconds> collective_ns = std::nullopt);

// Returns the work of `chains` chains like this one: 2 with DualPipe, else 1.
Workload for_chains(Workload chain, int chains);

// Returns the priced work of all chains of a job with this order.
Workload price_workload(const JobSettings& job, const Order& order, const CostSettings& costs,
                        const Site& site);

// Returns the times in seconds of every stage's actions if nothing overlaps.
std::vector<OrderCosts> stage_costs(const Workload& chain, const Model& model, const Plan& plan,
                                    const CostSettings& costs, const Site& site);

// Returns the times in seconds of a rank's vocabulary passes if nothing overlaps, and of the
// communication between them over the pipeline. REQUIRES: chain.vocabulary.
VocabularyCosts vocabulary_costs(const Workload& chain, const Model& model, const Plan& plan,
                                 const CostSettings& costs, const Site& site);

// Returns an Error if a run has more ops than limits.ops. Counts the ops of every rank that is
// played, but not those that come once an iteration.
Status check_ops(const Workload& chain, const Scenario& scenario);

}  // namespace tandem
