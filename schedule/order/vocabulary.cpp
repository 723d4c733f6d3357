// Puts vocabulary passes into an order by a discrete-event simulation: whenever a rank is free, it
// decides whether S, T or its next action is due. E and G are then merged in by the times at which
// microbatches enter and leave the first stage. In: an order and its times. Out: the order with E,
// S, T and G, which vocabulary.h defines. 1F1B of 3 ranks begins so in algorithm 2, with F = S = T
// = 1, B = 2 and E = G = 0:
//
//   rank 0  F0 F1 F2 S0 F3 S1 T0 T1 .  .  S2 B0--- F4
//   rank 1  .  F0 F1 S0 F2 S1 T0 T1 .  B0--- S2 F3 T2
//   rank 2  .  .  F0 S0 F1 S1 T0 B0--- F2 S2 T1 B1---
//
// A cell is an action, or several that run together.
#include "schedule/order/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/check.h"
#include "schedule/order/named_orders.h"
#include "schedule/order/order_replay.h"

namespace tandem {
namespace {

// An action, and a time of it.
struct Timed {
  double time = 0;
  Action action;
};

// Plays an order and puts S and T in.
class OutputPlayer {
 public:
  OutputPlayer(const Order& order, int algorithm, std::span<const OrderCosts> stages,
               const VocabularyCosts& costs)
      : order_(order),
        algorithm_(algorithm),
        stages_(stages),
        costs_(costs),
        rank_of_stage_(stage_to_rank(order)),
        lowest_stages_(lowest_stages(order)),
        ends_(order, stages),
        ranks_(order.pp()),
        played_(order.pp()),
        s_(order.microbatches, {order.pp()}),
        t_(s_) {
    double longest = 1e-9;
    for (const OrderCosts& stage : stages)
      longest = std::max({longest, stage.forward, stage.input, stage.weight});
    shortest_ = 1e-6 * longest;
  }

  // Returns an Error if the order waits for itself.
  Status run() {
    wake_all(0);
    while (!wakes_.empty()) {
      const auto [now, rank] = wakes_.top();
      wakes_.pop();
      if (ranks_[rank].busy_until <= now) decide(rank, now);
    }
    for (int rank = 0; rank < order_.pp(); ++rank) {
      const RankState& at = ranks_[rank];
      const bool has_outputs = at.s == order_.microbatches && at.t == order_.microbatches;
      if (has_outputs && at.position == order_.ranks[rank].size()) continue;
      return Error{fmt::format(
          "order {}: found a rank {} that waits for itself once the vocabulary's passes are in it, "
          "expected no backward of the last stage in the cell of its own forward",
          order_.name, rank)};
    }
    return Done{};
  }

  // Returns each rank's actions with S and T put in, with the times when their cells start.
  const std::vector<std::vector<Timed>>& played() const { return played_; }
  // Return the first stage's forwards with the times when their E are due on all ranks, and its
  // backwards with those when their G are due, both in order of time. E is due once the first stage
  // starts the preceding microbatch's forward, G once the first stage's gradient has arrived.
  const std::vector<Timed>& e_due() const { return e_due_; }
  const std::vector<Timed>& g_due() const { return g_due_; }

 private:
  struct RankState {
    double busy_until = 0;
    std::size_t position = 0;  // place of its next action
    int s = 0, t = 0;          // S and T that it has started
  };
  using Wake = std::pair<double, int>;  // time and rank; the rank then decides

  // Gives every action some time, so that the actions that wait for it start later.
  double longer(double time) const { return std::max(time, shortest_); }

  // Returns when the microbatch's softmax maximum and sum are reduced over all ranks.
  double softmax_reduced(Microbatch microbatch) const {
    return s_[index(microbatch)].end_on_all() + costs_.reduce_softmax;
  }
  // Returns when the last stage has the gradient of its output, summed over all ranks.
  double gradient_summed(Microbatch microbatch) const {
    return (algorithm_ == 2 ? softmax_reduced(microbatch) : t_[index(microbatch)].end_on_all()) +
           costs_.sum_gradient;
  }

  // Returns when all inputs of an action of the given order are there.
  double ready(const Action& action) const {
    const bool needs_sum = produces_gradient(action.kind) && source(order_, action) < 0;
    return std::max(ends_.ready(action), needs_sum ? gradient_summed(action.microbatch) : 0);
  }

  // Return when the rank's next cell, its next S and its next T have their inputs; kNotYet: the end
  // of one of these inputs is not known, or nothing is left to do.
  double cell_ready(int rank) const {
    const std::vector<Action>& actions = order_.ranks[rank];
    const int position = static_cast<int>(ranks_[rank].position);
    if (ranks_[rank].position == actions.size()) return kNotYet;
    double when = 0;
    for (int i = position; i < end_of_cell(actions, position); ++i)
      when = std::max(when, ready(actions[i]));
    return when;
  }
  double s_ready(int rank) const {
    const auto next = static_cast<std::size_t>(ranks_[rank].s);
    if (next == outputs_.size()) return kNotYet;
    return ends_.end_of_forward(order_.stages - 1, outputs_[next]) + costs_.send_output;
  }
  double t_ready(int rank) const {
    const RankState& at = ranks_[rank];
    return at.t < at.s ? softmax_reduced(outputs_[at.t]) : kNotYet;
  }

  // Starts the pass or cell that is due on a free rank. S comes first, since every rank waits for
  // it; then T in algorithm 1, or if two T are waiting; then the rank's next cell; then any other
  // T.
  void decide(int rank, double now) {
    RankState& at = ranks_[rank];
    if (s_ready(rank) <= now) return start_output(ActionKind::OutputS, at.s++, rank, now);
    const bool t_comes = t_ready(rank) <= now;
    constexpr int kMostWaiting = 2;
    const bool t_is_urgent = algorithm_ == 1 || at.s - at.t >= kMostWaiting;
    const double next = cell_ready(rank);
    if (next <= now && !(t_comes && t_is_urgent)) return start_cell(rank, now);
    // A T that can wait does not start if the next action comes within half of T's time.
    if (t_comes && (t_is_urgent || next - now >= costs_.t / 2))
      return start_output(ActionKind::OutputT, at.t++, rank, now);
    if (next < kNotYet) wakes_.push({next, rank});
  }

  // Starts S or T of the microbatch whose output the last stage had as the `nth`.
  void start_output(ActionKind kind, int nth, int rank, double now) {
    const bool is_s = kind == ActionKind::OutputS;
    const Microbatch microbatch = outputs_[nth];
    const double end = now + longer(is_s ? costs_.s : costs_.t);
    played_[rank].push_back({now, {lowest_stages_[rank], kind, microbatch}});
    AllRanksPass& all = (is_s ? s_ : t_)[index(microbatch)];
    all.note(end);
    const ActionKind gives_gradient = algorithm_ == 2 ? ActionKind::OutputS : ActionKind::OutputT;
    if (all.ranks_left == 0) {
      if (is_s) wake_all(softmax_reduced(microbatch));
      if (kind == gives_gradient) wake(rank_of_stage_.back(), gradient_summed(microbatch));
    }
    end_at(end, rank);
  }

  void start_cell(int rank, double now) {
    std::size_t& position = ranks_[rank].position;
    const std::vector<Action>& actions = order_.ranks[rank];
    const auto end = static_cast<std::size_t>(end_of_cell(actions, static_cast<int>(position)));
    double clock = now;
    for (; position < end; ++position) {
      const Action& action = actions[position];
      clock += longer(cost_of(stages_[index(action.stage)], action.kind));
      played_[rank].push_back({now, action});
      finish(action, now, clock);
    }
    end_at(clock, rank);
  }

  // Notes that an action, whose cell started at `cell`, ends, and wakes the ranks that wait for it.
  void finish(const Action& action, double cell, double end) {
    ends_.note(action, end);
    if (action.kind == ActionKind::BackwardWeight) return;
    const int to = sink(order_, action);
    if (to >= 0) wake(rank_of_stage_[to], ends_.arrival(index(action.stage), to, end));
    if (action.kind != ActionKind::Forward) {
      if (to < 0) g_due_.push_back({end + costs_.send_gradient, action});
      return;
    }
    if (index(action.stage) == 0) e_due_.push_back({std::exchange(next_e_due_, cell), action});
    if (to < 0) {
      outputs_.push_back(action.microbatch);
      wake_all(end + costs_.send_output);
    }
  }

  void end_at(double end, int rank) {
    ranks_[rank].busy_until = end;
    wake(rank, end);
  }
  // Lets the rank decide at that time; if it is busy then, it decides at its action's end.
  void wake(int rank, double when) { wakes_.push({when, rank}); }
  void wake_all(double when) {
    for (int rank = 0; rank < order_.pp(); ++rank) wake(rank, when);
  }

  const Order& order_;
  const int algorithm_;
  const std::span<const OrderCosts> stages_;
  const VocabularyCosts& costs_;
  const std::vector<int> rank_of_stage_;
  const std::vector<Stage> lowest_stages_;
  PassEnds ends_;
  std::vector<RankState> ranks_;
  std::vector<std::vector<Timed>> played_;
  std::vector<AllRanksPass> s_, t_;  // by microbatch
  std::vector<Microbatch> outputs_;  // played forwards of the last stage, in order of time
  std::vector<Timed> e_due_, g_due_;
  double next_e_due_ = 0;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  double shortest_ = 0;  // the shortest time of any action
};

// Returns a rank's actions with E and G put in, each before the first cell that starts when it is
// due. As all ranks use the same times, all have E in the same order, and likewise G. An E may come
// before a G on one rank and after it on another. This cannot deadlock: each kind of communication
// has a lane of its own, and a G comes only once its gradient is there. `own`: the rank's lowest
// stage.
std::vector<Action> with_inputs(const OutputPlayer& player, int rank, Stage own) {
  std::vector<Action> actions;
  std::size_t e = 0, g = 0;  // that are put in
  const auto add_due = [&](double now) {
    const auto add = [&](ActionKind kind, const std::vector<Timed>& due, std::size_t* next) {
      for (; *next < due.size() && due[*next].time <= now; ++*next)
        actions.push_back({own, kind, due[*next].action.microbatch});
    };
    add(ActionKind::EmbeddingForward, player.e_due(), &e);
    add(ActionKind::EmbeddingBackward, player.g_due(), &g);
  };
  bool in_cell = false;
  for (const Timed& timed : player.played()[rank]) {
    if (!in_cell) add_due(timed.time);
    actions.push_back(timed.action);
    in_cell = timed.action.with_next;
  }
  add_due(kNotYet);
  return actions;
}

}  // namespace

int barriers(int algorithm) {
  if (algorithm == 1) return 2;
  return algorithm == 2 ? 1 : 0;
}

Status check_vocabulary(const OrderTraits& order, const OrderSpec& spec) {
  if (spec.vocabulary == 0) return Done{};
  if (spec.vocabulary < 0 || spec.vocabulary > 2)
    return Error{
        fmt::format("order {}: found algorithm {} of vocabulary parallelism, expected 1 or 2",
                    spec.name, spec.vocabulary)};
  if (!order.takes_vocabulary())
    return Error::of(
        {"schedule.vocabulary"},
        fmt::format("order {}: found vocabulary parallelism, expected one of {}", spec.name,
                    order_list([](const OrderTraits& o) { return o.takes_vocabulary(); })));
  if (spec.pp < 2)
    return Error::of({"schedule.vocabulary", "parallel.pp"},
                     fmt::format("order {}: found vocabulary parallelism with pp = {}, expected "
                                 "at least 2 ranks that share the vocabulary",
                                 spec.name, spec.pp));
  return Done{};
}

double make_room(const OrderSpec& spec, std::vector<OrderCosts>* stages) {
  const VocabularyCosts& own = spec.vocabulary_costs;
  double longest = 0;
  for (OrderCosts& stage : *stages) {
    longest = std::max({longest, stage.forward, stage.input, stage.weight});
    double* grown = &stage.weight;
    if (spec.vocabulary_room.with == ActionKind::Forward) grown = &stage.forward;
    if (spec.vocabulary_room.with == ActionKind::BackwardInput) grown = &stage.input;
    *grown += (own.s + own.t + own.embedding + own.embedding_gradient) / spec.vpp;
  }
  const double sent = own.send_output + own.reduce_softmax + own.sum_gradient;
  const double passes = own.s + (spec.vocabulary == 1 ? own.t : 0);  // passes that B waits for
  return spec.vocabulary_room.foreseen * (barriers(spec.vocabulary) * longest + passes + sent);
}

Result<Order> make_with_vocabulary(const OrderSpec& spec, const std::vector<OrderCosts>& stages,
                                   bool made_for_costs,
                                   const std::function<Order(const OrderSpec&)>& make) {
  if (!made_for_costs)
    return with_vocabulary(make(spec), spec.vocabulary, stages, spec.vocabulary_costs);
  std::optional<Order> best;
  double least = kNotYet;
  for (const ActionKind with :
       {ActionKind::BackwardWeight, ActionKind::Forward, ActionKind::BackwardInput}) {
    for (const double foreseen : {1.0, 0.5, 0.0}) {
      OrderSpec trial = spec;
      trial.vocabulary_room = {with, foreseen};
      ASSIGN_OR_RETURN(Order order, with_vocabulary(make(trial), spec.vocabulary, stages,
                                                    spec.vocabulary_costs));
      const double makespan = replay_stages(order, stages, spec.vocabulary_costs).makespan;
      if (makespan >= least) continue;
      least = makespan;
      best = std::move(order);
    }
  }
  return *std::move(best);
}

std::optional<VocabularyInput> vocabulary_input(const Order& order, const Action& action,
                                                const VocabularyCosts& costs) {
  if (order.vocabulary == 0) return {};
  const int stage = index(action.stage);
  const double summed =
      order.vocabulary == 1 ? costs.sum_gradient : costs.reduce_softmax + costs.sum_gradient;
  switch (action.kind) {
    case ActionKind::Forward:
      if (stage != 0) return {};
      return VocabularyInput{ActionKind::EmbeddingForward, -1, costs.sum_input};
    case ActionKind::Backward:
    case ActionKind::BackwardInput:
      if (stage != order.stages - 1) return {};
      return VocabularyInput{order.vocabulary == 1 ? ActionKind::OutputT : ActionKind::OutputS, -1,
                             summed};
    case ActionKind::OutputS:
      return VocabularyInput{ActionKind::Forward, order.stages - 1, costs.send_output};
    case ActionKind::OutputT:
      return VocabularyInput{ActionKind::OutputS, -1, costs.reduce_softmax};
    case ActionKind::EmbeddingBackward:
      return VocabularyInput{ActionKind::Backward, 0, costs.send_gradient};
    default:
      return {};
  }
}

bool gives(const VocabularyInput& input, const Action& action) {
  if (input.stage < 0) return action.kind == input.kind;
  if (index(action.stage) != input.stage) return false;
  return input.kind == ActionKind::Backward ? produces_gradient(action.kind)
                                            : action.kind == input.kind;
}

Result<Order> with_vocabulary(const Order& order, int algorithm, std::span<const OrderCosts> stages,
                              const VocabularyCosts& costs) {
  CHECK(algorithm == 1 || algorithm == 2);
  CHECK(static_cast<int>(stages.size()) == order.stages);
  if (order.chains != 1 || order.vocabulary != 0)
    return Error{fmt::format(
        "order {}: found {}, expected one chain of stages without passes of the vocabulary",
        order.name,
        order.chains != 1 ? fmt::format("{} chains", order.chains) : "such passes in it already")};
  const Order plain = without_communication(order);
  OutputPlayer player(plain, algorithm, stages, costs);
  RETURN_IF_ERROR(player.run());
  Order with = plain;
  with.vocabulary = algorithm;
  with.exchanges = BatchedP2p::Never;
  const std::vector<Stage> lowest = lowest_stages(plain);
  for (int rank = 0; rank < plain.pp(); ++rank)
    with.ranks[rank] = with_inputs(player, rank, lowest[rank]);
  return with;
}

std::vector<Stage> lowest_stages(const Order& order) {
  std::vector<Stage> lowest(order.pp(), Stage{order.stages});
  const std::vector<int> rank_of = stage_to_rank(order);
  for (int stage = order.stages - 1; stage >= 0; --stage)
    if (rank_of[stage] >= 0) lowest[rank_of[stage]] = Stage{stage};
  return lowest;
}

std::vector<int> peak_outputs(const Order& order) {
  std::vector<int> peaks;
  for (const std::vector<Action>& actions : order.ranks) {
    int open = 0, peak = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::OutputS) peak = std::max(peak, ++open);
      if (action.kind == ActionKind::OutputT) --open;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tandem
