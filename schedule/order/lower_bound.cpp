// Lower bounds by relaxation: each bound respects the limits of one resource only. The resources
// are the path of one microbatch, a rank's compute lane, its memory, an edge between stages, a
// communication lane and a rank's gradient reductions. A bound is the least time before the
// resource can be used, plus the time for which it is used, plus the least time after. For a
// compute lane this is the preemptive one-machine bound (Jackson 1955, Carlier 1982). In: the
// floors (least times) of passes and ranks. Out: the largest bound and its kind.
#include "schedule/order/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"path",      "work",          "memory",
                                                    "transfers", "communication", "reductions"};

// Work that a rank's compute lane does once for each microbatch. It cannot begin before `head`, and
// the iteration lasts at least `tail` after the work's end.
struct LaneWork {
  double head = 0, time = 0, tail = 0;
};

class BoundFinder {
 public:
  explicit BoundFinder(const BoundProblem& problem)
      : problem_(problem),
        per_chain_(static_cast<int>(problem.stages.size()) / problem.chains),
        stages_of_rank_(problem.ranks.size()),
        input_ready_(problem.stages.size()),
        forward_to_backward_(problem.stages.size()),
        gradient_ready_(problem.stages.size()),
        after_output_(problem.stages.size()),
        after_gradient_(problem.stages.size()),
        after_input_gradient_(problem.stages.size()) {
    for (int s = 0; s < stages(); ++s) stages_of_rank_[problem.rank_of_stage[s]].push_back(s);
    for (int first = 0; first < stages(); first += per_chain_)
      follow_chain(first, first + per_chain_ - 1);
  }

  LowerBound largest() {
    for (int first = 0; first < stages(); first += per_chain_)
      keep_larger(input_ready_[first] + floor(first).forward.length() + after_output_[first],
                  BoundKind::Path, -1);
    for (int rank = 0; rank < static_cast<int>(stages_of_rank_.size()); ++rank) {
      if (stages_of_rank_[rank].empty()) continue;
      bound_work(rank);
      bound_memory(rank);
      bound_communication(rank);
      bound_reductions(rank);
    }
    bound_transfers();
    return best_;
  }

 private:
  int stages() const { return static_cast<int>(problem_.stages.size()); }
  const StageFloor& floor(int stage) const { return problem_.stages[stage]; }
  double finish(int stage) const { return problem_.ranks[problem_.rank_of_stage[stage]].finish; }

  // Follows one microbatch through a chain, there and back. Finds when each stage's passes can
  // begin at the earliest, and the least time from their outputs to the iteration's end.
  void follow_chain(int first, int last) {
    input_ready_[first] = floor(first).ready;
    for (int s = first + 1; s <= last; ++s)
      input_ready_[s] = std::max(
          floor(s).ready, input_ready_[s - 1] + floor(s - 1).forward.length() + to_next(s - 1));
    forward_to_backward_[last] = 0;
    for (int s = last; s >= first; --s) {
      if (s < last)
        forward_to_backward_[s] = to_next(s) + floor(s + 1).forward.length() +
                                  forward_to_backward_[s + 1] + floor(s + 1).input.length() +
                                  to_previous(s + 1);
      gradient_ready_[s] = input_ready_[s] + floor(s).forward.length() + forward_to_backward_[s];
    }
    // Once a stage has the gradient, two things are left, and the longer one counts: the rest of
    // its own backward, and the gradient's way home through the stages before it.
    for (int s = first; s <= last; ++s) {
      const double computed = floor(s).input.computed;
      after_input_gradient_[s] = backward_left(s) + after_last_gradient(s);
      after_gradient_[s] =
          std::min(computed + backward_left(s), floor(s).backward_alone) + after_last_gradient(s);
      if (s > first) {
        const double home = floor(s).input.rest + to_previous(s) + after_gradient_[s - 1];
        after_input_gradient_[s] = std::max(after_input_gradient_[s], home);
        after_gradient_[s] = std::max(after_gradient_[s], computed + home);
      }
      after_output_[s] = forward_to_backward_[s] + after_gradient_[s];
    }
  }

  double to_next(int s) const { return floor(s).to_next + floor(s).after_next; }
  double to_previous(int s) const { return floor(s).to_previous + floor(s).after_previous; }

  // Returns the compute time of a backward that is left once its input gradient is computed.
  double backward_left(int s) const {
    return std::max(0.0, floor(s).backward - floor(s).input.lane_before);
  }
  // Returns the time after the stage's last gradient.
  double after_last_gradient(int s) const { return floor(s).reduced + finish(s); }
  // Returns the stage's compute time for a microbatch.
  double on_lane(int s) const { return floor(s).forward.lane() + floor(s).backward; }
  // Return when the stage, or any of the rank's stages, can begin to compute.
  double start(int s) const { return input_ready_[s] + floor(s).forward.lead; }
  double earliest(int rank) const {
    return least(rank, [this](int s) { return start(s); });
  }
  // Returns the least time_of(stage) of the rank's stages.
  template <class TimeOf>
  double least(int rank, TimeOf time_of) const {
    double value = std::numeric_limits<double>::infinity();
    for (const int s : stages_of_rank_[rank]) value = std::min(value, time_of(s));
    return value;
  }

  // Returns four jobs for each stage of the rank: the forward up to the compute that its output
  // needs, the rest of the forward, and the same two of the backward. The rank's vocabulary passes
  // follow.
  std::vector<LaneWork> jobs_of(int rank) const {
    std::vector<LaneWork> jobs;
    for (const int s : stages_of_rank_[rank]) {
      const StageFloor& stage = floor(s);
      jobs.push_back({start(s), stage.forward.lane_before, stage.forward.rest + after_output_[s]});
      jobs.push_back({start(s), stage.forward.lane_after, after_last_gradient(s)});
      jobs.push_back({gradient_ready_[s] + stage.input.lead, stage.input.lane_before,
                      after_input_gradient_[s]});
      jobs.push_back(
          {gradient_ready_[s] + stage.input.lead, backward_left(s), after_last_gradient(s)});
    }
    const RankFloor& own = problem_.ranks[rank];
    jobs.push_back({earliest(rank), own.vocabulary, own.finish});
    std::erase_if(jobs, [](const LaneWork& job) { return job.time <= 0; });
    return jobs;
  }

  // Bounds the makespan by every subset of the rank's jobs: their least head, plus their time for
  // all microbatches, plus their least tail. The largest bound is among those of the following
  // subsets: all jobs whose head is at least h and whose tail is at least t, for each head h and
  // tail t.
  void bound_work(int rank) {
    std::vector<LaneWork> jobs = jobs_of(rank);
    std::ranges::sort(jobs, std::ranges::greater{}, &LaneWork::head);
    for (const LaneWork& last : jobs) {
      double time = 0;
      for (const LaneWork& job : jobs) {
        if (job.tail < last.tail) continue;
        time += job.time;
        keep_larger(job.head + problem_.microbatches * time + last.tail, BoundKind::Work, rank);
      }
    }
  }

  // Returns how long an activation lives: from a forward's begin until the input gradient is
  // computed; if passes interleave, from the forward's output to the gradient's arrival.
  double lifetime(int s) const {
    if (problem_.interleaves) return floor(s).forward.rest + forward_to_backward_[s];
    return floor(s).forward.lane_before + floor(s).forward.rest + forward_to_backward_[s] +
           floor(s).input.computed;
  }

  // Bounds the makespan by memory, in two ways. First, the sum of bytes x lifetime over all
  // activations of the rank is at most limit x time. Second, if at most k activations of one stage
  // fit, forward i + k waits until forward i's activation is freed. The last forward thus ends a
  // chain of `rounds` lifetimes, one after another, before which there are last % k forwards.
  void bound_memory(int rank) {
    const double limit = problem_.ranks[rank].memory;
    if (!(limit > 0) || std::isinf(limit)) return;
    double area = 0;
    for (const int s : stages_of_rank_[rank]) area += floor(s).activation * lifetime(s);
    keep_larger(earliest(rank) + problem_.microbatches * area / limit +
                    least(rank, [this](int s) { return after_input_gradient_[s]; }),
                BoundKind::Memory, rank);
    if (problem_.interleaves) return;
    for (const int s : stages_of_rank_[rank]) {
      if (floor(s).activation <= 0) continue;
      const double alive = std::floor(limit / floor(s).activation * (1 + 1e-12));
      if (alive < 1 || alive >= problem_.microbatches) continue;
      const int k = static_cast<int>(alive), last = problem_.microbatches - 1;
      const int rounds = last / k + 1;
      keep_larger(start(s) + last % k * floor(s).forward.lane() + rounds * lifetime(s) +
                      after_input_gradient_[s],
                  BoundKind::Memory, rank);
    }
  }

  // Bounds the makespan by the busiest communication lane, which takes `lane` a microbatch.
  void bound_communication(int rank) {
    const double lane = problem_.ranks[rank].lane;
    if (lane <= 0) return;
    keep_larger(least(rank, [this](int s) { return input_ready_[s]; }) +
                    problem_.microbatches * lane + problem_.ranks[rank].finish,
                BoundKind::Communication, rank);
  }

  // Bounds the makespan by the gradient reductions. The first one waits for a stage's last
  // gradient: for all passes of all microbatches but the last, and for the last microbatch's
  // forward.
  void bound_reductions(int rank) {
    const double all = problem_.ranks[rank].reductions;
    if (all <= 0) return;
    const double begin = least(rank, [this](int s) {
      return start(s) + (problem_.microbatches - 1) * on_lane(s) + floor(s).forward.lane_before;
    });
    keep_larger(begin + all + problem_.ranks[rank].finish, BoundKind::Reductions, rank);
  }

  // Bounds the makespan by each edge, on which the transfers of all microbatches queue.
  void bound_transfers() {
    const int m = problem_.microbatches;
    for (int s = 0; s < stages(); ++s) {
      const StageFloor& stage = floor(s);
      const int rank = problem_.rank_of_stage[s];
      if (stage.to_next > 0)
        keep_larger(input_ready_[s] + stage.forward.length() + m * stage.to_next +
                        stage.after_next + floor(s + 1).forward.length() + after_output_[s + 1],
                    BoundKind::Transfers, rank);
      if (stage.to_previous > 0)
        keep_larger(gradient_ready_[s] + stage.input.length() + m * stage.to_previous +
                        stage.after_previous + after_gradient_[s - 1],
                    BoundKind::Transfers, rank);
    }
  }

  // Keeps a bound only if it is larger than those before.
  void keep_larger(double makespan, BoundKind kind, int rank) {
    if (makespan > best_.makespan * (1 + 1e-12)) best_ = {makespan, kind, rank};
  }

  const BoundProblem& problem_;
  const int per_chain_;
  std::vector<std::vector<int>> stages_of_rank_;
  // Times by stage, of one microbatch that has the pipeline for itself.
  std::vector<double> input_ready_;           // when its forward's input can be there
  std::vector<double> forward_to_backward_;   // from its forward's output to its gradient's arrival
  std::vector<double> gradient_ready_;        // when its backward's gradient can be there
  std::vector<double> after_output_;          // from its forward's output to the iteration's end
  std::vector<double> after_gradient_;        // from its gradient's arrival to that end
  std::vector<double> after_input_gradient_;  // from its computed input gradient to that end
  LowerBound best_{-1};
};

}  // namespace

std::string_view bound_kind_name(BoundKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<BoundKind> bound_kind(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<BoundKind>(at - kNames.begin());
}

LowerBound lower_bound(const BoundProblem& problem) {
  CHECK(problem.microbatches >= 1 && problem.chains >= 1);
  CHECK(problem.rank_of_stage.size() == problem.stages.size());
  CHECK(problem.stages.size() % problem.chains == 0 && !problem.stages.empty());
  return BoundFinder(problem).largest();
}

std::string words_of(const LowerBound& bound) {
  switch (bound.kind) {
    case BoundKind::Path:
      return "one microbatch's way through all stages and back";
    case BoundKind::Work:
      return fmt::format("the work of rank {} with its way in and out", bound.rank);
    case BoundKind::Memory:
      return fmt::format("the memory of rank {}", bound.rank);
    case BoundKind::Transfers:
      return fmt::format("what rank {} sends", bound.rank);
    case BoundKind::Communication:
      return fmt::format("the communication of rank {}", bound.rank);
    default:
      return fmt::format("the gradient reductions of rank {}", bound.rank);
  }
}

BoundProblem bound_problem(const Order& order, std::span<const OrderCosts> stages, bool memory) {
  CHECK(static_cast<int>(stages.size()) == order.stages);
  BoundProblem problem{.rank_of_stage = stage_to_rank(order),
                       .chains = order.chains,
                       .microbatches = order.microbatches};
  problem.ranks.resize(order.pp());
  const auto transfer = [&](int from, int to) {
    return to < 0 || problem.rank_of_stage[from] == problem.rank_of_stage[to]
               ? 0
               : stages[from].transfer;
  };
  for (int s = 0; s < order.stages; ++s) {
    const OrderCosts& costs = stages[s];
    problem.stages.push_back({.forward = {.computed = costs.forward, .lane_before = costs.forward},
                              .input = {.computed = costs.input, .lane_before = costs.input},
                              .backward = costs.input + costs.weight,
                              .to_next = transfer(s, next_stage(order, s)),
                              .to_previous = transfer(s, previous_stage(order, s)),
                              .activation = 1});
  }
  if (!memory) return problem;
  const std::vector<std::vector<int>> peaks = peak_live(order);
  for (int rank = 0; rank < order.pp(); ++rank)
    problem.ranks[rank].memory = std::accumulate(peaks[rank].begin(), peaks[rank].end(), 0);
  return problem;
}

}  // namespace tandem
