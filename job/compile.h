// Compile: turns a Scenario into a Program that is ready to play, in steps:
//
//   site -> plan -> priced workload -> order -> program -> slower parts -> prices
//
// Each step is a function of the values before it, in a file of its own (site, order_job,
// price_job, perturb), so that a caller can also make the steps one by one.
//
// REQUIRES, for each function here: no key of the scenario is still "auto" (schedule.order,
// parallel.layout). planning/choose/resolve.h chooses their values.
#pragma once

#include <functional>
#include <string>
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

// The results of compile()'s steps up to the order.
struct OrderedJob {
  Site site;
  OrderedPlan plan;
  Workload chain;  // the work of one chain of stages; DualPipe has two chains
  Order order;
};

// A compiled job: what an engine or an executor needs to play it.
struct CompiledJob {
  OrderedPlan plan;  // the scenario's plan, completed by the order
  Workload work;     // the work of all chains
  Order order;
  Program program;
  Site site;
  std::vector<std::string> warnings;
  bool folds = true;  // ranks with the same body behave alike; false: stragglers differ
};

// Returns the values that the job's named order is made from: sizes, and costs if it needs them.
// REQUIRES: the job names an order.
Result<OrderSpec> named_order(const Scenario& scenario);

// Compiles up to the order. Errors name the file and line of the scenario's keys.
Result<OrderedJob> order_job(const Scenario& scenario);

// Compiles the scenario. `before_prices` may change the lowered Program before it is priced. Errors
// name the file and line of the scenario's keys.
Result<CompiledJob> compile(const Scenario& scenario,
                            const std::function<void(CompiledJob*)>& before_prices = {});

}  // namespace tandem
