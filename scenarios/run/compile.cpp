#include "scenarios/run/compile.h"

#include <optional>
#include <utility>

#include "scenarios/run/job_warnings.h"
#include "scenarios/run/order_job.h"
#include "scenarios/run/perturb.h"
#include "scenarios/run/place.h"
#include "scenarios/run/price_job.h"
#include "scenarios/search/resolve.h"
#include "schedule/lowering/lower.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

Result<OrderedJob> to_order(const Scenario& scenario) {
  const JobSettings& job = scenario.job;
  ASSIGN_OR_RETURN(Cluster cluster,
                   build_cluster(scenario.cluster, scenario.costs, scenario.variability));
  Placement placement = place_ranks(scenario.cluster, cluster);
  ASSIGN_OR_RETURN(std::optional<Order> order, listed_order(job));
  const OrderedPlan plan = order ? ordered_plan(job.plan, *order) : ordered_plan(job);
  Workload chain = price_workload(job.model, plan, scenario.costs, cluster, placement);
  RETURN_IF_ERROR(check_ops(chain, scenario));
  if (!order) {
    ASSIGN_OR_RETURN(
        order,
        make_order(
            job,
            [&] { return stage_costs(chain, job.model, plan, scenario.costs, cluster, placement); },
            [&] {
              return vocabulary_costs(chain, job.model, plan, scenario.costs, cluster, placement);
            }));
  }
  return OrderedJob{std::move(cluster), std::move(placement), plan, std::move(chain),
                    *std::move(order)};
}

Result<CompiledJob> to_program(const Scenario& scenario,
                               const std::function<void(CompiledJob*)>& before_prices) {
  ASSIGN_OR_RETURN(OrderedJob ordered, to_order(scenario));
  auto& [cluster, placement, plan, chain, order] = ordered;
  Workload work = for_chains(std::move(chain), order.chains);
  auto program = lower(order, work, lower_options(scenario.job, order, shared_device(scenario)));
  if (!program.ok())
    return program.error().or_of(
        {"overlap.p2p", "overlap.batch_p2p", "schedule.order", "parallel.pp"});
  CompiledJob job{plan,
                  std::move(work),
                  std::move(order),
                  *std::move(program),
                  std::move(cluster),
                  std::move(placement),
                  {}};
  if (before_prices) before_prices(&job);
  job.program.comm_costs = comm_costs(scenario.job.model, placed(plan, job.cluster, job.placement),
                                      scenario.costs.profile, job.cluster.spec());
  slow_parts(scenario.variability, &job.program);
  price(&job.program, job.cluster, job.placement);
  job.folds = !slow_stragglers(scenario.variability, job.cluster, job.placement, &job.program);
  ASSIGN_OR_RETURN(job.warnings, job_warnings(scenario, job));
  if (const Status status = check_durations(job.program); !status.ok())
    return status.error().or_of({"cluster.intra_GBps", "cluster.nic_Gbitps", "cluster.preset"});
  return job;
}

}  // namespace

Result<OrderedJob> order_job(const Scenario& scenario) {
  if (is_open(scenario)) {
    ASSIGN_OR_RETURN(const Scenario found, resolved(scenario));
    return order_job(found);
  }
  auto job = to_order(scenario);
  if (!job.ok()) return scenario.placed(job.error());
  return job;
}

Result<CompiledJob> compile(const Scenario& scenario,
                            const std::function<void(CompiledJob*)>& before_prices) {
  if (is_open(scenario)) {
    ASSIGN_OR_RETURN(const Scenario found, resolved(scenario));
    return compile(found, before_prices);
  }
  auto job = to_program(scenario, before_prices);
  if (!job.ok()) return scenario.placed(job.error());
  return job;
}

}  // namespace tandem
