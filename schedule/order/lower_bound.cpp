// Lower bounds by relaxation: each bound keeps one resource (the way of one microbatch, a rank's
// compute lane, its memory, an edge, a communication lane, its reductions) and gives it the least
// time before and after. The work of a lane is the preemptive one-machine bound (Jackson 1955,
// Carlier 1982). In: the floors of passes and ranks. Out: the largest bound and its kind.
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

// Work on a rank's compute lane for each microbatch. It cannot begin before `head`, and after its
// end the iteration takes at least `tail`.
struct LaneWork {
  double head = 0, time = 0, tail = 0;
};

class BoundFinder {
 public:
  explicit BoundFinder(const BoundProblem& problem)
      : problem_(problem),
        per_chain_(static_cast<int>(problem.stages.size()) / problem.chains),
        of_rank_(problem.ranks.size()),
        input_ready_(problem.stages.size()),
        forward_to_backward_(problem.stages.size()),
        gradient_ready_(problem.stages.size()),
        after_output_(problem.stages.size()),
        after_input_gradient_(problem.stages.size()) {
    for (int s = 0; s < stages(); ++s) of_rank_[problem.rank_of_stage[s]].push_back(s);
    for (int first = 0; first < stages(); first += per_chain_)
      follow_chain(first, first + per_chain_ - 1);
  }

  LowerBound largest() {
    for (int first = 0; first < stages(); first += per_chain_)
      keep_larger(input_ready_[first] + floor(first).forward.length() + after_output_[first],
                  BoundKind::Path, -1);
    for (int rank = 0; rank < static_cast<int>(of_rank_.size()); ++rank) {
      if (of_rank_[rank].empty()) continue;
      work(rank);
      memory(rank);
      communication(rank);
      reductions(rank);
    }
    if (problem_.transfers_queue) transfers();
    return best_;
  }

 private:
  int stages() const { return static_cast<int>(problem_.stages.size()); }
  const StageFloor& floor(int stage) const { return problem_.stages[stage]; }
  double finish(int stage) const { return problem_.ranks[problem_.rank_of_stage[stage]].finish; }

  // Follows one microbatch through a chain. Finds when each stage's passes can begin at the
  // earliest, and what must follow them.
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
    for (int s = first; s <= last; ++s) {
      after_input_gradient_[s] = end_on_stage(s);
      if (s > first)
        after_input_gradient_[s] =
            std::max(after_input_gradient_[s], floor(s).input.rest + to_previous(s) +
                                                   floor(s - 1).input.computed +
                                                   after_input_gradient_[s - 1]);
    }
    for (int s = first; s <= last; ++s)
      after_output_[s] =
          forward_to_backward_[s] + floor(s).input.computed + after_input_gradient_[s];
  }

  double to_next(int s) const { return floor(s).to_next + floor(s).after_next; }
  double to_previous(int s) const { return floor(s).to_previous + floor(s).after_previous; }

  // Returns how much of a backward's compute is left when its input gradient is computed.
  double left(int s) const { return std::max(0.0, floor(s).backward - floor(s).input.lane_before); }
  // Returns the time from then to the iteration's end, counting only this stage.
  double end_on_stage(int s) const { return left(s) + after_last_gradient(s); }
  // Returns the time after the stage's last gradient.
  double after_last_gradient(int s) const { return floor(s).reduced + finish(s); }
  double on_lane(int s) const { return floor(s).forward.lane() + floor(s).backward; }
  double start(int s) const { return input_ready_[s] + floor(s).forward.lead; }

  double earliest(int rank) const {
    double head = std::numeric_limits<double>::infinity();
    for (const int s : of_rank_[rank]) head = std::min(head, start(s));
    return head;
  }
  template <class Tail>
  double least(int rank, Tail tail) const {
    double value = std::numeric_limits<double>::infinity();
    for (const int s : of_rank_[rank]) value = std::min(value, tail(s));
    return value;
  }

  std::vector<LaneWork> jobs(int rank) const {
    std::vector<LaneWork> list;
    for (const int s : of_rank_[rank]) {
      const StageFloor& stage = floor(s);
      list.push_back({start(s), stage.forward.lane_before, stage.forward.rest + after_output_[s]});
      list.push_back({start(s), stage.forward.lane_after, after_last_gradient(s)});
      list.push_back({gradient_ready_[s] + stage.input.lead, stage.input.lane_before,
                      after_input_gradient_[s]});
      list.push_back({gradient_ready_[s] + stage.input.lead, left(s), after_last_gradient(s)});
    }
    const RankFloor& own = problem_.ranks[rank];
    list.push_back({earliest(rank), own.vocabulary, own.finish});
    std::erase_if(list, [](const LaneWork& job) { return job.time <= 0; });
    return list;
  }

  // Bounds the makespan for every subset of the rank's jobs: the least head, plus all their time,
  // plus the least tail. It suffices to take, for each tail, the jobs with at least that tail, one
  // after another from the largest head on.
  void work(int rank) {
    std::vector<LaneWork> list = jobs(rank);
    std::ranges::sort(list, std::ranges::greater{}, &LaneWork::head);
    for (const LaneWork& last : list) {
      double time = 0;
      for (const LaneWork& job : list) {
        if (job.tail < last.tail) continue;
        time += job.time;
        keep_larger(job.head + problem_.microbatches * time + last.tail, BoundKind::Work, rank);
      }
    }
  }

  // Returns how long an activation lives: from a forward's begin until the input gradient is
  // computed; if passes interleave, from the forward's output to the gradient's arrival.
  double held(int s) const {
    if (problem_.interleaves) return floor(s).forward.rest + forward_to_backward_[s];
    return floor(s).forward.lane_before + floor(s).forward.rest + forward_to_backward_[s] +
           floor(s).input.computed;
  }

  // Bounds the makespan by memory, in two ways. First, all activations of the rank, as bytes x
  // time, have to fit under its limit. Second, at most k activations of one stage fit, so forward i
  // + k waits until forward i's activation is gone. The last forward thus ends a chain of `rounds`
  // activations, one after another; the first of the chain has last % k forwards before it.
  void memory(int rank) {
    const double limit = problem_.ranks[rank].memory;
    if (!(limit > 0) || std::isinf(limit)) return;
    double area = 0;
    for (const int s : of_rank_[rank]) area += floor(s).activation * held(s);
    keep_larger(earliest(rank) + problem_.microbatches * area / limit +
                    least(rank, [this](int s) { return after_input_gradient_[s]; }),
                BoundKind::Memory, rank);
    if (problem_.interleaves) return;
    for (const int s : of_rank_[rank]) {
      if (floor(s).activation <= 0) continue;
      const double alive = std::floor(limit / floor(s).activation * (1 + 1e-12));
      if (alive < 1 || alive >= problem_.microbatches) continue;
      const int k = static_cast<int>(alive), last = problem_.microbatches - 1;
      const int rounds = last / k + 1;
      keep_larger(start(s) + last % k * floor(s).forward.lane() + rounds * held(s) +
                      after_input_gradient_[s],
                  BoundKind::Memory, rank);
    }
  }

  // Bounds the makespan by the busiest communication lane, which takes `lane` a microbatch.
  void communication(int rank) {
    const double lane = problem_.ranks[rank].lane;
    if (lane <= 0) return;
    keep_larger(least(rank, [this](int s) { return input_ready_[s]; }) +
                    problem_.microbatches * lane + problem_.ranks[rank].finish,
                BoundKind::Communication, rank);
  }

  // Bounds the makespan by the gradient reductions. The first of them waits for a stage's last
  // gradient, and so for all passes of its microbatches but the last one, and for that one's
  // forward.
  void reductions(int rank) {
    const double all = problem_.ranks[rank].reductions;
    if (all <= 0) return;
    const double begin = least(rank, [this](int s) {
      return start(s) + (problem_.microbatches - 1) * on_lane(s) + floor(s).forward.lane_before;
    });
    keep_larger(begin + all + problem_.ranks[rank].finish, BoundKind::Reductions, rank);
  }

  // Bounds the makespan by each edge, on which the transfers of all microbatches queue.
  void transfers() {
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
                        stage.after_previous + floor(s - 1).input.computed +
                        after_input_gradient_[s - 1],
                    BoundKind::Transfers, rank);
    }
  }

  // Keeps a bound only if it is larger than those before.
  void keep_larger(double makespan, BoundKind kind, int rank) {
    if (makespan > best_.makespan * (1 + 1e-12)) best_ = {makespan, kind, rank};
  }

  const BoundProblem& problem_;
  const int per_chain_;
  std::vector<std::vector<int>> of_rank_;
  // By stage: when a microbatch's input can be there, the time from its forward to its backward,
  // when its gradient can be there, what must follow a forward's output, and what must follow a
  // computed input gradient.
  std::vector<double> input_ready_, forward_to_backward_, gradient_ready_, after_output_,
      after_input_gradient_;
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
                       .microbatches = order.microbatches,
                       .transfers_queue = false};
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
