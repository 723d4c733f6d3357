// Compile: from a Scenario to a Program ready to play, a value a step:
//
//   cluster -> placement -> plan -> priced workload -> order -> program -> slower parts -> prices
//
// Each step is a function of the values before it, in a file of its own (place, order_job,
// price_job, perturb), so that others can stop at any of them and go on with theirs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/lowering/price.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program.h"
#include "topology/cluster.h"
#include "workload/model/workload.h"

namespace tandem {

// As far as the order.
struct OrderedJob {
  Cluster cluster;
  Placement placement;
  OrderedPlan plan;
  Workload chain;  // one chain's
  Order order;
};

// What an engine or an executor is given.
struct CompiledJob {
  OrderedPlan plan;  // the scenario's, with what the order says of it
  Workload work;     // all chains'
  Order order;
  Program program;
  Cluster cluster;
  Placement placement;
  std::vector<std::string> warnings;
  bool folds = true;  // equal ranks do the same; not where stragglers made them differ
};

// What the order that the job names is made from. REQUIRES: it names one.
Result<OrderSpec> named_order(const Scenario& scenario);

// Errors stand at the scenario's keys.
Result<OrderedJob> order_job(const Scenario& scenario);

// `before_prices`: what changes the lowered Program, or nothing. Errors stand at the scenario's
// keys.
Result<CompiledJob> compile(const Scenario& scenario,
                            const std::function<void(CompiledJob*)>& before_prices = {});

}  // namespace tandem
