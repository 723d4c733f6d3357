// Lowers an order: checks the options, lowers each pipeline rank to a body of ops (lower_rank.h),
// makes the ranks and their communicators (wire.h), and sorts the ops into an order of issue.
#include "schedule/lowering/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/lowering/issue_order.h"
#include "schedule/lowering/lower_context.h"
#include "schedule/lowering/lower_rank.h"
#include "schedule/lowering/wire.h"
#include "schedule/program/validate.h"

namespace tandem {

Status check_stages(std::int64_t stages) {
  constexpr int kStages = INT16_MAX;
  if (stages <= kStages) return Done{};
  return Error::of({"parallel.pp", "parallel.vpp"},
                   fmt::format("found {} stages, expected at most {}", stages, kStages));
}

namespace {

// Checks that sizes fit into the integers of an Op.
Status check_limits(const Context& context) {
  constexpr int kLanes = 250;
  const std::size_t kParts = INT16_MAX;
  RETURN_IF_ERROR(check_stages(context.order.stages));
  for (const StageWork& stage : context.work.stages) {
    if (stage.units.size() > kParts)
      return Error{fmt::format("found {} layers on a stage, expected at most {}",
                               stage.units.size(), kParts)};
  }
  std::vector<int> lanes(context.order.pp(), context.order.vocabulary > 0 ? kVocabularyComms : 0);
  for (const auto& [edge, microbatches] : context.produced) {
    ++lanes[context.rank_of_stage[edge.first]];
    ++lanes[context.rank_of_stage[edge.second]];
  }
  for (const int count : lanes) {
    if (count > kLanes)
      return Error::of({"parallel.vpp"},
                       fmt::format("found {} pipeline edges at one rank, expected at most {}: "
                                   "fewer stages a rank (parallel.vpp)",
                                   count, kLanes));
  }
  return Done{};
}

// Checks the options of an order with vocabulary parallelism.
Status check_vocabulary_options(const LowerOptions& options) {
  const auto refuse = [](const std::string& key, bool found) {
    return Error::of(
        {key, "schedule.vocabulary"},
        fmt::format("found {} = {} with vocabulary parallelism, expected transfers that overlap "
                    "and experts that do not: its passes stand between the others",
                    key, found));
  };
  if (options.expert_overlap) return refuse("overlap.expert", true);
  if (options.overlap_p2p) return Done{};
  return options.batch_p2p ? refuse("overlap.batch_p2p", true) : refuse("overlap.p2p", false);
}

// Checks settings that exclude each other.
Status check_options(const Order& order, const LowerOptions& options) {
  if (options.overlap_p2p && options.batch_p2p)
    return Error::of({"overlap.p2p", "overlap.batch_p2p"},
                     "found overlap.p2p and overlap.batch_p2p both on, expected one of them at "
                     "most: a grouped exchange is waited for");
  if (order.vocabulary > 0) RETURN_IF_ERROR(check_vocabulary_options(options));
  if (!options.overlap_p2p && order.exchanges == BatchedP2p::Never)
    return Error::of(
        {options.batch_p2p ? "overlap.batch_p2p" : "overlap.p2p"},
        fmt::format("found overlap.{} with order '{}', expected transfers that overlap: only "
                    "1f1b, gpipe and interleaved have exchanges",
                    options.batch_p2p ? "batch_p2p = true" : "p2p = false", order.name));
  const DataOptions& data = options.data;
  if (data.param_gather && data.zero == 0)
    return Error::of(
        {"overlap.param_gather", "train.zero"},
        "found overlap.param_gather = true with train.zero = 0, expected train.zero >= 1: without "
        "it every replica updates all parameters and gathers none");
  const bool may_pair = order.trades_layers || order.exchanges == BatchedP2p::Pairs;
  if (options.expert_overlap && !may_pair && !has_cells(order))
    return Error::of(
        {"overlap.expert"},
        fmt::format("found overlap.expert = true with order '{}', expected interleaved, dualpipe, "
                    "dualpipev or a pipeline of one rank: they run a forward and a backward of "
                    "different microbatches together",
                    order.name));
  return Done{};
}

// Lowers the order. Bodies are made by `options`, ranks and communicators by `wire_options`. These
// are the same options, or for one replica those of a job with one rank for each pipeline rank.
Result<OneReplica> lower_wired(const Order& order, const Workload& work,
                               const LowerOptions& options, const LowerOptions& wire_options) {
  CHECK(static_cast<int>(work.stages.size()) == order.stages);
  CHECK(work.vocabulary.has_value() == (order.vocabulary > 0));
  CHECK(options.tp * options.cp * options.dp % (options.ep * options.expert_tp) == 0);
  if (const int shard = options.data.shard; shard > 0) {
    CHECK(options.data.zero > 0 && options.cp * options.dp % shard == 0);
    CHECK(options.tp * shard % (options.ep * options.expert_tp) == 0);
  }
  RETURN_IF_ERROR(check_options(order, options));
  const Context context = make_context(order, work, options);
  RETURN_IF_ERROR(check_limits(context));
  OneReplica lowered;
  Program& program = lowered.program;
  program.name = order.name;
  program.device = options.device;
  program.kernels = work.kernels;
  for (int rank = 0; rank < order.pp(); ++rank) {
    LoweredRank lowered_rank = lower_rank(context, rank);
    lowered.slots.push_back(std::move(lowered_rank.slots));
    program.bodies.push_back(std::move(lowered_rank.body));
  }
  wire({order, work, wire_options, context.rank_of_stage, context.produced}, lowered.slots,
       &program);
  // A replay of many more than 100 years would overflow.
  if (const Status bounded = check_durations(program); !bounded.ok())
    return bounded.error().or_of({"cluster.tflops", "cluster.memory_GBps", "costs.forward_s",
                                  "costs.backward_s", "cluster.gpu", "cluster.preset"});
  RETURN_IF_ERROR(sort_by_issue_order(&program));
  RETURN_IF_ERROR(validate_but_order(program));
  return lowered;
}

}  // namespace

bool overlaps_p2p_by_default(const Order& order) {
  return order.exchanges != BatchedP2p::EachAction;
}

Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options) {
  ASSIGN_OR_RETURN(OneReplica lowered, lower_wired(order, work, options, options));
  return std::move(lowered.program);
}

Result<OneReplica> lower_one_replica(const Order& order, const Workload& work,
                                     const LowerOptions& options) {
  // Each pipeline rank keeps one rank. Parameters that some ranks shard (shard > 0) are then
  // sharded over that one rank. If two chains (DualPipe) hold a copy of a stage each, their two
  // ranks are replicas. Parameters that all ranks shard (shard 0) are sharded over both.
  LowerOptions one_rank;
  one_rank.data.shard = std::min(options.data.shard, 1);
  one_rank.data.secondary = std::min(options.data.secondary, 1);
  return lower_wired(order, work, options, one_rank);
}

}  // namespace tandem
