// A job's order is either listed (in a file such as a PyTorch CSV, or by the search) or named
// (1f1b, zbv, ...). A listed order is read here and checked against the plan. For a named order,
// the values that it is made from are collected.
#include "job/order_job.h"

#include <fmt/format.h>

#include "schedule/order/order_text.h"
#include "schedule/order/primus_table.h"

namespace tandem {
namespace {

// Checks that a listed order has the plan's ranks, stages, microbatches and vocabulary passes.
Status check_fits(const Order& order, const JobSettings& job) {
  const Plan& plan = job.plan;
  if (order.vocabulary != plan.vocabulary)
    return Error::of(
        {"schedule.vocabulary", "schedule.order"},
        fmt::format("found {} in {}, expected schedule.vocabulary and the file to "
                    "agree: tandem schedule SCENARIO --format pytorch writes one",
                    order.vocabulary == 0
                        ? "no vocabulary passes"
                        : fmt::format("vocabulary passes of algorithm {}", order.vocabulary),
                    job.order_file));
  if (order.pp() == plan.pp && order.stages == plan.stages() * order.chains &&
      order.microbatches * order.chains == plan.microbatches())
    return Done{};
  return Error::of(
      {"schedule.order"},
      fmt::format("found {} ranks, {} stages and {} microbatches in {}, expected pp = {} "
                  "ranks, pp x vpp = {} stages{} and global_batch / (micro_batch x dp) = "
                  "{} microbatches",
                  order.pp(), order.stages, order.microbatches, job.order_file, plan.pp,
                  plan.stages(), order.chains > 1 ? " a chain" : "", plan.microbatches()));
}

// Returns whether the job's named order runs passes together layer by layer, so that one pass
// computes while the other exchanges tokens between experts.
bool trades_layers(const JobSettings& job) {
  return job.expert_overlap && pairs_for_experts(job.order);
}

// Returns the bucket size of Megatron-LM's DistributedDataParallel: 40 million parameters, or a
// million for each replica if that is more. Only the first chunk of the first pipeline rank splits
// its gradients into buckets.
Bytes megatron_bucket_bytes(const Plan& plan) {
  constexpr Bytes kLeastParameters = 40'000'000, kParametersPerReplica = 1'000'000;
  return std::max(kLeastParameters, kParametersPerReplica * plan.dp * plan.cp) *
         bytes_of(plan.gradient_dtype);
}

}  // namespace

Result<std::optional<Order>> listed_order(const JobSettings& job) {
  if (job.found_order) return std::optional(job.found_order->order);
  if (job.order_file.empty()) return std::optional<Order>();
  ASSIGN_OR_RETURN(Order order, read_order_file(job.order_file));
  RETURN_IF_ERROR(check_fits(order, job));
  return std::optional(std::move(order));
}

OrderedPlan ordered_plan(const Plan& plan, const Order& order) {
  const std::vector<int> rank_of = stage_to_rank(order);
  return {plan, order.chains, rank_of.front() == rank_of.back(), order.trades_layers};
}

OrderedPlan ordered_plan(const JobSettings& job) {
  const OrderTraits& order = traits_of(job.order);
  return {job.plan, order.chains, ends_on_one_rank(order, job.plan.pp, job.plan.vpp),
          trades_layers(job)};
}

OrderSpec order_spec(const JobSettings& job,
                     const std::function<std::vector<OrderCosts>()>& stage_costs,
                     const std::function<VocabularyCosts()>& vocabulary_costs) {
  OrderSpec spec = job.order;
  const OrderTraits& traits = traits_of(spec);
  spec.expert_overlap = trades_layers(job);
  spec.vocabulary = job.plan.vocabulary;
  if (traits.made_for_costs() || spec.vocabulary > 0) spec.stage_costs = stage_costs();
  if (spec.vocabulary > 0) spec.vocabulary_costs = vocabulary_costs();
  return spec;
}

SharedDevice shared_device(const Scenario& scenario) {
  if (scenario.costs.uniform) return {};
  const DeviceSpec& device = scenario.cluster.spec.device;
  return {device.sms, device.memory_bytes_per_s};
}

LowerOptions lower_options(const JobSettings& job, const Order& order, const SharedDevice& device) {
  const Plan& plan = job.plan;
  LowerOptions options;
  options.tp = plan.tp;
  options.dp = plan.dp;
  options.cp = plan.cp;
  options.ep = plan.ep;
  options.expert_tp = plan.expert_tensor();
  options.amax = plan.amax_reduction;
  options.overlap_p2p = job.overlap_p2p.value_or(overlaps_p2p_by_default(order) && !job.batch_p2p);
  options.batch_p2p = job.batch_p2p;
  options.data = job.data;
  options.data.reshard_after_forward = plan.reshard_after_forward.value_or(true);
  options.data.shard = plan.hsdp_shard;
  options.data.secondary = plan.zero_hpz;
  if (job.data.grad_reduce && order.chains == 1)
    options.data.first_stage_bucket_bytes = megatron_bucket_bytes(plan);
  options.p2p_sms = job.p2p_sms;
  options.expert_overlap = job.expert_overlap;
  options.device = device;
  return options;
}

}  // namespace tandem
