// Finds the least times (floors) from which lower_bound() computes a job's bound. Lowers and prices
// a Program of two microbatches, one with split backwards (input and weight gradients apart) and
// one with whole backwards. Its ops' prices give the floors of each stage and rank: of passes,
// transfers and reductions, and of the time after the last pass. Terms of a Program:
//   body         the ops that a rank does in an iteration; ranks that do the same share one
//   lane         a queue of a body, whose ops run one after another: compute, tensor, 0>1, ...
//   folded rank  a rank that is played for all ranks equal to it
#include "job/iteration_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "job/memory_timeline.h"
#include "job/order_job.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/pass_floor.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"
#include "workload/memory/memory.h"
#include "workload/memory/reserve.h"

namespace tandem {
namespace {

constexpr double kMoreThanAnyFloor = 1e300;  // in ns or bytes: the start of a search for the least

// Returns whether an op may take less than its price, so that there is no bound.
bool may_be_faster(const Scenario& scenario, const CompiledJob& job, bool links_are_shared) {
  if (scenario.variability.jitter > 0) return true;
  if (!links_are_shared) return false;
  // A price assumes that all groups that share a link use it at once, at a constant rate. A
  // transfer is faster if the link is faster for a while, or if the groups use it at different
  // times, as ranks that differ do.
  const SlowLink& slow = scenario.variability.slow_link;
  const bool link_changes = !slow.name.empty() && !slow.fails_for_good();
  const bool pipeline_ranks_have_one_body = job.program.bodies.size() == job.order.ranks.size();
  return link_changes || !job.folds || !pipeline_ranks_have_one_body;
}

// Returns an order of two microbatches over the stages and ranks of `like`. The first microbatch
// has split backwards, the second whole ones. DualPipe has two chains of stages.
Order split_and_whole_order(const Order& like) {
  Order order{.name = like.name, .stages = like.stages, .microbatches = 2, .chains = like.chains};
  order.ranks.resize(like.ranks.size());
  const std::vector<int> rank_of = stage_to_rank(like);
  const auto add = [&](int stage, ActionKind kind, int microbatch) {
    order.ranks[rank_of[stage]].push_back(
        {static_cast<Stage>(stage), kind, static_cast<Microbatch>(microbatch)});
  };
  // Both chains act in each turn, so that both ranks with a stage's parameters use them together.
  const int per_chain = like.stages / like.chains;
  const auto add_all = [&](ActionKind kind, int microbatch) {
    for (int turn = 0; turn < per_chain; ++turn) {
      const int stage = produces_gradient(kind) ? per_chain - 1 - turn : turn;
      for (int chain = 0; chain < like.chains; ++chain)
        add(chain * per_chain + stage, kind, microbatch);
    }
  };
  add_all(ActionKind::Forward, 0);
  add_all(ActionKind::BackwardInput, 0);
  add_all(ActionKind::BackwardWeight, 0);
  add_all(ActionKind::Forward, 1);
  add_all(ActionKind::Backward, 1);
  return order;
}

// Returns the Program of two microbatches, priced like the job's. Transfers overlap compute, and no
// two passes run together, so that each op has a price of its own.
Result<Program> price_two_microbatches(const Scenario& scenario, const CompiledJob& job,
                                       const Workload& work) {
  const Order order = split_and_whole_order(job.order);
  LowerOptions options = lower_options(scenario.job, order, shared_device(scenario));
  options.overlap_p2p = true;
  options.batch_p2p = options.expert_overlap = false;
  ASSIGN_OR_RETURN(Program program, lower(order, work, options));
  program.comm_costs = job.program.comm_costs;
  price(&program, job.site.cluster, job.site.placement);
  return program;
}

// Returns whether an op reduces a stage's gradients once an iteration.
bool is_reduction(const Op& op) {
  return (op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter) && op.microbatch < 0 &&
         op.stage >= 0;
}

// An op of a folded rank, as the replay played it.
struct ReplayedOp {
  const Body* body = nullptr;
  const LaneQueues* queues = nullptr;
  std::size_t first_event = 0;  // of the rank
  std::uint32_t number = 0;

  const Op& op() const { return body->ops[number]; }
  std::size_t event() const { return first_event + number; }
};

// Returns the length of the longest path from the end of each event of the replay, through ops that
// come once an iteration (microbatch -1: reductions, the optimizer). Reductions of single stages
// have length 0 here, as problem() counts them apart.
std::vector<Nanoseconds> longest_paths(const Program& program, const RankFolding& folding,
                                       const Replay& replay) {
  const std::vector<LaneQueues> queues = lane_queues(program);
  // By place in the replay's topological order: one compute op, or the ops of all members of one
  // communication, which share a place.
  std::vector<std::vector<ReplayedOp>> in_order(replay.settled.size());
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    const int body = folding.folded_ranks[p].body;
    ReplayedOp own{&program.bodies[body], &queues[body], replay.first[p]};
    for (; own.number < own.body->ops.size(); ++own.number)
      in_order[replay.settled[own.event()]].push_back(own);
  }
  std::vector<Nanoseconds> after_ns(replay.settled.size());  // by event: the path after its end
  for (auto together = in_order.rbegin(); together != in_order.rend(); ++together) {
    Nanoseconds path = 0;  // the ops' duration and the longest path after them
    for (const ReplayedOp& own : *together) {
      const Nanoseconds own_ns = is_reduction(own.op()) ? 0 : own.op().duration_ns;
      path = std::max(path, own_ns + after_ns[own.event()]);
    }
    for (const ReplayedOp& own : *together) {
      if (own.op().microbatch >= 0) continue;
      const auto extend = [&](std::uint32_t awaited) {
        Nanoseconds& after = after_ns[own.first_event + awaited];
        after = std::max(after, path);
      };
      // The op follows those that it waits for, and the one before it on its lane.
      for (const std::uint32_t wait : own.body->waits_of(own.op())) extend(wait);
      const std::uint32_t place = own.queues->place[own.number];
      if (place > 0) extend(own.queues->lanes[own.op().lane][place - 1]);
    }
  }
  return after_ns;
}

// Returns, for each pipeline rank, the least time from its last pass to the iteration's end.
std::vector<double> times_after_last_pass(const Program& program, const RankFolding& folding,
                                          const Replay& replay, int pipeline_ranks) {
  const std::vector<Nanoseconds> after_ns = longest_paths(program, folding, replay);
  std::vector<double> times_ns(pipeline_ranks, kMoreThanAnyFloor);
  const std::size_t gpus = program.ranks.size() / pipeline_ranks;  // of a pipeline rank, in a row
  for (std::size_t p = 0; p < folding.folded_ranks.size(); ++p) {
    const FoldedRank& rank = folding.folded_ranks[p];
    const std::vector<Op>& ops = program.bodies[rank.body].ops;
    std::uint32_t last_pass = 0;
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      if (is_compute(ops[i].kind) && ops[i].kind != OpKind::Optimizer) last_pass = i;
    }
    double& finish = times_ns[static_cast<std::size_t>(index(rank.rank)) / gpus];
    finish = std::min(finish, static_cast<double>(after_ns[replay.first[p] + last_pass]));
  }
  return times_ns;
}

// Returns how long a body's data-parallel gathers, or else reductions, take for one stage, where
// they wait for each other and queue on their lanes. With HSDP the lane of replicas reduces dense
// parameters while the other one scatters experts'. Of a communication in parts only part 0 counts.
double data_ns(const Body& body, bool gathers, int stage) {
  std::vector<double> end_of_op(body.ops.size());  // 0: not one of these ops
  std::map<int, double> end_of_lane;
  double last = 0;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    const bool is_of_stage = op.stage == stage && op.microbatch < 0 && op.part == 0;
    const bool is_of_kind = !is_compute(op.kind) && gathers == (op.kind == OpKind::AllGather);
    if (!is_of_stage || !is_of_kind) continue;
    double& end = end_of_lane[op.lane];
    for (const std::uint32_t wait : body.waits_of(op)) end = std::max(end, end_of_op[wait]);
    end += static_cast<double>(op.duration_ns);
    end_of_op[i] = end;
    last = std::max(last, end);
  }
  return last;
}

// Returns the time of the body's reductions on the lane where they take longest.
double reductions_ns(const Body& body) {
  std::map<int, double> lane_ns;
  for (const Op& op : body.ops) {
    if (is_reduction(op)) lane_ns[op.lane] += static_cast<double>(op.duration_ns);
  }
  double most = 0;
  for (const auto& [lane, sum] : lane_ns) most = std::max(most, sum);
  return most;
}

// Returns the factor by which the scenario slows a stage's compute.
double slowdown_of(const VariabilitySettings& variability, int stage) {
  const bool straggles = std::ranges::count(variability.stragglers.stages, stage) > 0;
  double factor = straggles ? variability.stragglers.factor : 1;
  const auto& perturbation = variability.perturbation;
  if (perturbation && perturbation->stage == stage) factor *= perturbation->factor;
  return factor;
}

// Returns how passes that the order runs together share the compute lane: Interleaved with expert
// overlap, where one pass computes while the other communicates; Successive if the order pairs
// passes; else None.
LaneSharing sharing_of(const Scenario& scenario, const Order& order) {
  const LowerOptions options = lower_options(scenario.job, order, {});
  if (options.expert_overlap) return LaneSharing::Interleaved;
  const bool exchanges_pairs = order.exchanges == BatchedP2p::Pairs && !options.overlap_p2p;
  return exchanges_pairs || has_cells(order) ? LaneSharing::Successive : LaneSharing::None;
}

// Collects the floors of all stages and ranks. The GPUs of one pipeline rank may have different
// bodies: each floor is the least over these bodies.
class JobFloors {
 public:
  JobFloors(const Scenario& scenario, const CompiledJob& job, const Program& program)
      : scenario_(scenario),
        job_(job),
        work_(job.work),
        program_(program),
        rank_of_(stage_to_rank(job.order)),
        sharing_(sharing_of(scenario, job.order)) {
    const std::size_t gpus = program.ranks.size() / job.order.ranks.size();  // of a pipeline rank
    bodies_.resize(job.order.ranks.size());
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
      bodies_[rank / gpus].insert(program.ranks[rank].body);
    for (const Body& body : program.bodies) prices_.emplace_back(body);
  }

  BoundProblem problem() const {
    BoundProblem problem{.rank_of_stage = rank_of_,
                         .chains = job_.order.chains,
                         .microbatches = job_.plan.microbatches() / job_.order.chains,
                         .interleaves = sharing_ == LaneSharing::Interleaved};
    for (int s = 0; s < job_.order.stages; ++s) problem.stages.push_back(floor_of(s));
    for (int rank = 0; rank < job_.order.pp(); ++rank) {
      problem.ranks.push_back(
          {.reductions = least(rank, [&](int b) { return reductions_ns(program_.bodies[b]); }),
           .lane = least(rank, [&](int b) { return busiest_lane_ns(rank, b); }),
           .vocabulary = least(rank, [&](int b) { return vocabulary_ns(b); })});
    }
    // With ZeRO 2 and one pipeline rank, gradients are reduced after each microbatch, and how much
    // of that is left after the last microbatch is not known: it counts as 0.
    if (job_.order.pp() == 1 && job_.plan.zero >= 2) {
      for (StageFloor& stage : problem.stages) stage.reduced = 0;
      problem.ranks.front().reductions = 0;
    }
    return problem;
  }

 private:
  // Returns the least value over the bodies that the GPUs of a pipeline rank have.
  template <class Value>  // double(int body)
  double least(int rank, Value value) const {
    double least = kMoreThanAnyFloor;
    for (const int body : bodies_[rank]) least = std::min(least, value(body));
    return least;
  }

  // Returns all floors of stage s.
  StageFloor floor_of(int s) const {
    const int rank = rank_of_[s];
    std::optional<StageFloor> least_passes;
    for (const int body : bodies_[rank]) {
      const StageFloor passes = passes_of(s, body);
      least_passes = least_passes ? least_of(*least_passes, passes) : passes;
    }
    StageFloor floor = least_passes.value_or(StageFloor{});
    // Sets the time of a transfer to stage `to`, and of the tensor group's all-gather that follows
    // it (sequence parallelism).
    const auto set_transfer = [&](int to, double* transfer, double* gather) {
      if (to < 0 || rank_of_[to] == rank) return;
      const std::string lane = std::to_string(s) + ">" + std::to_string(to);
      const int arrays = work_.arrays_between(s, to, job_.order.stages / job_.order.chains);
      *transfer = least(rank, [&](int body) {
        return prices_[body].of(lane, OpKind::Send, arrays * work_.pipeline_bytes);
      });
      *gather = least(rank_of_[to], [&](int body) {
        return prices_[body].of("tensor", OpKind::AllGather, arrays * work_.pipeline_gather_bytes);
      });
    };
    set_transfer(next_stage(job_.order, s), &floor.to_next, &floor.after_next);
    set_transfer(previous_stage(job_.order, s), &floor.to_previous, &floor.after_previous);
    return floor;
  }

  // Returns the floors of a stage's passes and data parallelism on GPUs with this body. Orders may
  // have whole or split backwards: the faster counts. A TimedPass says how long a pass takes
  //   floor   to its output, with floor.lane() the whole time on the compute lane
  //   alone   if the rank does nothing else
  //   trail   on the compute lane after its last gradient, while reductions may run
  StageFloor passes_of(int s, int body) const {
    const StageWork& work = work_.stages[s];
    const PassPrices& prices = prices_[body];
    const int per_chain = job_.order.stages / job_.order.chains;
    const double slowdown = slowdown_of(scenario_.variability, s % per_chain);
    const auto timed = [&](const Pass& pass, double amax_ns) {
      return pass_floor(pass, prices, sharing_, slowdown, amax_ns);
    };
    const double amax_ns = prices.least_of("amax");  // of every pass but weight gradients
    const TimedPass whole = timed(work.backward, amax_ns),
                    input = timed(work.backward_input, amax_ns),
                    weight = timed(work.backward_weight, /*amax_ns=*/0);
    StageFloor stage;
    stage.forward = timed(work.forward, amax_ns).floor;
    stage.input = least_of(whole.floor, input.floor);
    stage.backward = std::min(whole.floor.lane(), input.floor.lane() + weight.floor.lane());
    stage.backward_alone = std::min(whole.alone, input.alone + weight.floor.lane());
    if (job_.order.pp() > 1) stage.ready = data_ns(program_.bodies[body], /*gathers=*/true, s);
    stage.reduced = std::max(0.0, data_ns(program_.bodies[body], /*gathers=*/false, s) -
                                      std::max(whole.trail, weight.trail));
    return stage;
  }

  // Returns a microbatch's time on the body's busiest communication lane, by the faster backward.
  double busiest_lane_ns(int rank, int body) const {
    double most = 0;
    for (const char* lane : {"tensor", "expert tensor", "context", "expert"}) {
      double sum = 0;
      for (int s = 0; s < job_.order.stages; ++s) {
        if (rank_of_[s] != rank) continue;
        const StageWork& work = work_.stages[s];
        const auto ns = [&](const Pass& pass) { return prices_[body].lane_ns(pass, lane); };
        sum += ns(work.forward) +
               std::min(ns(work.backward), ns(work.backward_input) + ns(work.backward_weight));
      }
      most = std::max(most, sum);
    }
    return most;
  }

  // Returns the compute time of a microbatch's vocabulary passes: S and T, which compute the loss
  // and its gradients, and the embedding's gradient. The embedding itself is left out, as it may
  // come before the first forward.
  double vocabulary_ns(int body) const {
    if (!work_.vocabulary) return 0;
    double sum = 0;
    for (const Pass* pass :
         {&work_.vocabulary->s, &work_.vocabulary->t, &work_.vocabulary->embedding_gradient})
      sum += pass_floor(*pass, prices_[body], sharing_, 1, 0).floor.lane();
    return sum;
  }

  const Scenario& scenario_;
  const CompiledJob& job_;
  const Workload& work_;
  const Program& program_;
  std::vector<int> rank_of_;
  LaneSharing sharing_;
  std::vector<std::set<int>> bodies_;  // by pipeline rank
  std::vector<PassPrices> prices_;     // by body
};

// Sets the bytes that a microbatch's activations take on each stage, and the bytes that each rank
// has room for. On a stage m microbatches take fixed + m x per_microbatch bytes: 5 GB for one and 8
// GB for two are 2 GB + m x 3 GB.
void add_memory(const Scenario& scenario, const CompiledJob& job, BoundProblem* problem) {
  const DeviceSpec& device = scenario.cluster.spec.device;
  const PlanMemory memory(scenario.job.model, job.plan);
  const auto activation_bytes = [&](int stage, int microbatches) {
    const auto in_chain = static_cast<Stage>(stage % (job.order.stages / job.order.chains));
    const LiveActivations::Entry live{in_chain, microbatches};
    return memory.of_rank(std::span(&live, 1), /*outputs=*/0).activations;
  };
  std::vector<double> fixed(job.order.pp(), kMoreThanAnyFloor);  // the least of a rank's stages
  for (int s = 0; s < job.order.stages; ++s) {
    const double one = activation_bytes(s, 1), per_microbatch = activation_bytes(s, 2) - one;
    problem->stages[s].activation = per_microbatch;
    double& least = fixed[problem->rank_of_stage[s]];
    least = std::min(least, one - per_microbatch);
  }
  for (const MemoryTimeline& rank :
       memory_timelines(scenario.job.model, job.plan, job.order, device.gemm_workspace_bytes)) {
    const double room = usable_bytes(device, scenario.job.model, job.plan) - rank.held.total();
    problem->ranks[rank.pipeline_rank].memory =
        std::max(room, rank.peak().activations) - fixed[rank.pipeline_rank];
  }
}

}  // namespace

std::optional<LowerBound> iteration_bound(const Scenario& scenario, const CompiledJob& job,
                                          bool links_are_shared) {
  if (may_be_faster(scenario, job, links_are_shared)) return std::nullopt;
  Workload without_vocabulary = job.work;  // vocabulary passes are not part of the two microbatches
  without_vocabulary.vocabulary.reset();
  const auto program = price_two_microbatches(scenario, job, without_vocabulary);
  if (!program.ok()) return std::nullopt;
  BoundProblem problem = JobFloors(scenario, job, *program).problem();
  const RankFolding folding = fold(*program);
  const auto played = replay(*program, folding);
  if (!played.ok()) return std::nullopt;
  const std::vector<double> finish =
      times_after_last_pass(*program, folding, *played, job.order.pp());
  for (int rank = 0; rank < job.order.pp(); ++rank) problem.ranks[rank].finish = finish[rank];
  if (!scenario.costs.uniform) add_memory(scenario, job, &problem);
  LowerBound bound = lower_bound(problem);
  bound.makespan *= 1e-9;  // ns to seconds
  return bound;
}

}  // namespace tandem
