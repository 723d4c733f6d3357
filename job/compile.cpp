// Compiles in three stages, each of which calls the one before: to_prices() gives the cluster, the
// plan and the priced work, to_order() adds the order, to_program() all else. Their Errors name
// keys of the scenario only (or_of() adds some at the end); the functions of the header add the
// file and line.
#include "job/compile.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "job/job_warnings.h"
#include "job/order_job.h"
#include "job/perturb.h"
#include "job/price_job.h"
#include "job/site.h"
#include "schedule/lowering/lower.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// The results of compile()'s steps up to the priced work, and the order if the job lists one.
struct PricedJob {
  Site site;
  OrderedPlan plan;
  Workload chain;  // the work of one chain
  std::optional<Order> listed;
};

// Returns the time of a block's tensor collectives if slow_parts() makes them slower: the CPU,
// which launches kernels meanwhile, then waits for less.
std::optional<Nanoseconds> slower_collective_ns(const Scenario& scenario, const Plan& plan,
                                                const Site& site) {
  const auto& slower = scenario.variability.perturbation;
  if (!slower || slower->kind != GroupKind::Tensor) return std::nullopt;
  return block_collective_ns(scenario.job.model, plan, scenario.costs, site, slower->factor);
}

Result<PricedJob> to_prices(const Scenario& scenario) {
  const JobSettings& job = scenario.job;
  ASSIGN_OR_RETURN(Site site, build_site(scenario));
  ASSIGN_OR_RETURN(std::optional<Order> listed, listed_order(job));
  const OrderedPlan plan = listed ? ordered_plan(job.plan, *listed) : ordered_plan(job);
  Workload chain = price_workload(job.model, plan, scenario.costs, site,
                                  slower_collective_ns(scenario, plan, site));
  RETURN_IF_ERROR(check_ops(chain, scenario));
  return PricedJob{std::move(site), plan, std::move(chain), std::move(listed)};
}

// Returns the values that the job's named order is made from.
OrderSpec spec_of(const Scenario& scenario, const PricedJob& priced) {
  const JobSettings& job = scenario.job;
  return order_spec(
      job,
      [&] {
        return stage_costs(priced.chain, job.model, priced.plan, scenario.costs, priced.site);
      },
      [&] {
        return vocabulary_costs(priced.chain, job.model, priced.plan, scenario.costs, priced.site);
      });
}

Result<OrderedJob> to_order(const Scenario& scenario) {
  ASSIGN_OR_RETURN(PricedJob priced, to_prices(scenario));
  auto& [site, plan, chain, listed] = priced;
  if (!listed) {
    auto order = make_order(spec_of(scenario, priced));
    if (!order.ok())
      return order.error().or_of(
          {"schedule.order", "schedule.group", "parallel.vpp", "parallel.pp"});
    listed = *std::move(order);
  }
  return OrderedJob{std::move(site), plan, std::move(chain), *std::move(listed)};
}

Result<CompiledJob> to_program(const Scenario& scenario,
                               const std::function<void(CompiledJob*)>& before_prices) {
  ASSIGN_OR_RETURN(OrderedJob ordered, to_order(scenario));
  auto& [site, plan, chain, order] = ordered;
  Workload work = for_chains(std::move(chain), order.chains);
  auto program = lower(order, work, lower_options(scenario.job, order, shared_device(scenario)));
  if (!program.ok())
    return program.error().or_of(
        {"overlap.p2p", "overlap.batch_p2p", "schedule.order", "parallel.pp"});
  CompiledJob job{plan, std::move(work), std::move(order), *std::move(program), std::move(site),
                  {}};
  if (before_prices) before_prices(&job);
  job.program.comm_costs = comm_costs(scenario.job.model, with_placement(plan, job.site),
                                      scenario.costs.profile, job.site.cluster.spec());
  slow_parts(scenario.variability, job.order, &job.program);
  price(&job.program, job.site.cluster, job.site.placement);
  job.folds = !slow_stragglers(scenario.variability, job.order, job.site, &job.program);
  ASSIGN_OR_RETURN(job.warnings, job_warnings(scenario, job));
  if (const Status status = check_durations(job.program); !status.ok())
    return status.error().or_of({"cluster.intra_GBps", "cluster.nic_Gbitps", "cluster.preset"});
  return job;
}

// Returns the value. Adds the file and line of the scenario's keys to an Error.
template <class Value>
Result<Value> at_keys(const Scenario& scenario, Result<Value> made) {
  if (!made.ok()) return scenario.placed(made.error());
  return made;
}

}  // namespace

Result<OrderSpec> named_order(const Scenario& scenario) {
  CHECK(!scenario.job.is_open());
  const auto priced = at_keys(scenario, to_prices(scenario));
  if (!priced.ok()) return priced.error();
  return spec_of(scenario, *priced);
}

Result<OrderedJob> order_job(const Scenario& scenario) {
  CHECK(!scenario.job.is_open());
  return at_keys(scenario, to_order(scenario));
}

Result<CompiledJob> compile(const Scenario& scenario,
                            const std::function<void(CompiledJob*)>& before_prices) {
  CHECK(!scenario.job.is_open());
  return at_keys(scenario, to_program(scenario, before_prices));
}

}  // namespace tandem
