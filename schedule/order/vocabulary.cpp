// Puts vocabulary passes into an order by a discrete-event simulation: whenever a rank is free, it
// decides whether S, T or its next action is due. E and G are then merged in by the times at which
// microbatches enter and leave the first stage. In: an order and its times. Out: the order with E,
// S, T and G, which vocabulary.h defines.
//
// A cell is an action, or several that run together.
#include "schedule/order/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"
#include "schedule/order/named_orders.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"

namespace tandem {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

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
        forward_end_(static_cast<std::size_t>(order.stages) * order.microbatches, kUnknown),
        gradient_end_(forward_end_),
        ranks_(order.pp()),
        played_(order.pp()),
        s_(order.microbatches),
        t_(order.microbatches) {
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
      const auto ended = [&](int done) { return done == order_.microbatches; };
      if (at.position < order_.ranks[rank].size() || !ended(at.s) || !ended(at.t))
        return Error{fmt::format(
            "order {}: found a rank {} that waits for itself once the vocabulary's passes are in "
            "it, expected no backward of the last stage in the cell of its own forward",
            order_.name, rank)};
    }
    return Done{};
  }

  // Returns each rank's actions with S and T put in, with the times when their cells start.
  const std::vector<std::vector<Timed>>& played() const { return played_; }
  // Return the first stage's forwards with their starts, and its backwards with their ends, each in
  // order of time.
  const std::vector<Timed>& entries() const { return entries_; }
  const std::vector<Timed>& exits() const { return exits_; }

 private:
  struct RankState {
    double busy_until = 0;
    std::size_t position = 0;  // place of its next action
    int s = 0, t = 0;          // S and T that it has started
  };
  // A microbatch's S or T, which every rank does.
  struct AllRanksPass {
    int ranks = 0;   // that have started it
    double end = 0;  // of the last of them
  };
  using Wake = std::pair<double, int>;  // time and rank; the rank then decides

  std::size_t slot(int stage, Microbatch microbatch) const {
    return static_cast<std::size_t>(stage) * order_.microbatches + index(microbatch);
  }
  bool is_last(int stage) const { return stage == order_.stages - 1; }
  // Gives every action some time, so that the actions that wait for it start later.
  double longer(double time) const { return std::max(time, shortest_); }

  // Returns when the microbatch's softmax maximum and sum are reduced over all ranks.
  double softmax_reduced(Microbatch microbatch) const {
    const AllRanksPass& s = s_[index(microbatch)];
    return s.ranks < order_.pp() ? kUnknown : s.end + costs_.reduce_softmax;
  }
  // Returns when the last stage has the gradient of its output, summed over all ranks.
  double gradient_summed(Microbatch microbatch) const {
    if (algorithm_ == 2) return softmax_reduced(microbatch) + costs_.sum_gradient;
    const AllRanksPass& t = t_[index(microbatch)];
    return t.ranks < order_.pp() ? kUnknown : t.end + costs_.sum_gradient;
  }

  double arrived(int from, int to, double end) const {
    return rank_of_stage_[from] == rank_of_stage_[to] ? end : end + stages_[from].transfer;
  }

  // Returns when all inputs of an action of the given order are there.
  double ready(const Action& action) const {
    const int stage = index(action.stage);
    if (action.kind == ActionKind::BackwardWeight)
      return gradient_end_[slot(stage, action.microbatch)];
    const int from = source(order_, action);
    if (action.kind == ActionKind::Forward)
      return from < 0 ? 0 : arrived(from, stage, forward_end_[slot(from, action.microbatch)]);
    const double own = forward_end_[slot(stage, action.microbatch)];
    if (from < 0) return std::max(own, gradient_summed(action.microbatch));
    return std::max(own, arrived(from, stage, gradient_end_[slot(from, action.microbatch)]));
  }

  // Return when the rank's next cell, its next S and its next T have their inputs.
  double cell_ready(int rank) const {
    const std::vector<Action>& actions = order_.ranks[rank];
    const int position = static_cast<int>(ranks_[rank].position);
    double when = 0;
    for (int i = position; i < end_of_cell(actions, position); ++i)
      when = std::max(when, ready(actions[i]));
    return when;
  }

  double s_ready(int rank) const {
    const int next = ranks_[rank].s;
    if (next >= static_cast<int>(outputs_.size())) return kUnknown;
    const double end = forward_end_[slot(order_.stages - 1, outputs_[next])];
    return end + costs_.send_output;
  }
  double t_ready(int rank) const {
    const RankState& at = ranks_[rank];
    return at.t < at.s ? softmax_reduced(outputs_[at.t]) : kUnknown;
  }

  // Starts the pass or cell that is due on a free rank. S comes first, since every rank waits for
  // it; then T in algorithm 1, or if two T are waiting; then the rank's next cell; then any other
  // T.
  void decide(int rank, double now) {
    RankState& at = ranks_[rank];
    if (s_ready(rank) <= now) return start_output(ActionKind::OutputS, rank, now);
    const bool t_comes = t_ready(rank) <= now;
    constexpr int kMostWaiting = 2;
    if (t_comes && (algorithm_ == 1 || at.s - at.t >= kMostWaiting))
      return start_output(ActionKind::OutputT, rank, now);
    const bool has_more = at.position < order_.ranks[rank].size();
    const double next = has_more ? cell_ready(rank) : kUnknown;
    if (next <= now) return start_cell(rank, now);
    // T does not start if the next action comes within half of T's time.
    if (t_comes && next - now >= costs_.t / 2) return start_output(ActionKind::OutputT, rank, now);
    if (next < kUnknown) wakes_.push({next, rank});
  }

  void start_output(ActionKind kind, int rank, double now) {
    RankState& at = ranks_[rank];
    const bool first = kind == ActionKind::OutputS;
    const Microbatch microbatch = outputs_[first ? at.s++ : at.t++];
    at.busy_until = now + longer(first ? costs_.s : costs_.t);
    played_[rank].push_back({now, {Stage{lowest_stage(rank)}, kind, microbatch}});
    AllRanksPass& all = (first ? s_ : t_)[index(microbatch)];
    all.end = std::max(all.end, at.busy_until);
    if (++all.ranks == order_.pp()) {
      wake_all(softmax_reduced(microbatch));
      if (first == (algorithm_ == 2)) wake(rank_of_stage_.back(), gradient_summed(microbatch));
    }
    wakes_.push({at.busy_until, rank});
  }

  void start_cell(int rank, double now) {
    RankState& at = ranks_[rank];
    const std::vector<Action>& actions = order_.ranks[rank];
    const auto end = static_cast<std::size_t>(end_of_cell(actions, static_cast<int>(at.position)));
    double clock = now;
    for (; at.position < end; ++at.position) clock = finish(actions[at.position], rank, now, clock);
    at.busy_until = clock;
    wakes_.push({clock, rank});
  }

  // Plays the action from `clock` on. Returns when it ends. `cell`: when its cell started.
  double finish(const Action& action, int rank, double cell, double clock) {
    const int stage = index(action.stage);
    const OrderCosts& costs = stages_[stage];
    played_[rank].push_back({cell, action});
    switch (action.kind) {
      case ActionKind::Forward:
        if (stage == 0) entries_.push_back({cell, action});
        clock += longer(costs.forward);
        forward_end_[slot(stage, action.microbatch)] = clock;
        if (is_last(stage)) {
          outputs_.push_back(action.microbatch);
          wake_all(clock + costs_.send_output);
        } else {
          wake(rank_of_stage_[stage + 1], arrived(stage, stage + 1, clock));
        }
        return clock;
      case ActionKind::BackwardWeight:
        return clock + longer(costs.weight);
      default:
        clock += longer(costs.input + (action.kind == ActionKind::Backward ? costs.weight : 0));
        gradient_end_[slot(stage, action.microbatch)] = clock;
        if (stage == 0) exits_.push_back({clock, action});
        if (stage > 0) wake(rank_of_stage_[stage - 1], arrived(stage, stage - 1, clock));
        return clock;
    }
  }

  int lowest_stage(int rank) const {
    const auto found = std::ranges::find(rank_of_stage_, rank);
    return static_cast<int>(found - rank_of_stage_.begin());
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
  std::vector<double> forward_end_, gradient_end_;  // by stage and microbatch
  std::vector<RankState> ranks_;
  std::vector<std::vector<Timed>> played_;
  std::vector<AllRanksPass> s_, t_;  // by microbatch
  std::vector<Microbatch> outputs_;  // played forwards of the last stage, in order of time
  std::vector<Timed> entries_, exits_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  double shortest_ = 0;  // the shortest time of any action
};

// Returns a rank's actions with E and G put in. E of a microbatch comes once the first stage has
// started the preceding microbatch's forward. G comes once the first stage's gradient has arrived.
// All ranks use the same times, so E and G have the same order on all ranks, which cannot deadlock.
std::vector<Action> with_inputs(const std::vector<Timed>& played, Stage own,
                                const std::vector<Timed>& entries, const std::vector<Timed>& exits,
                                double send_gradient) {
  std::vector<Action> actions;
  actions.reserve(played.size() + entries.size() + exits.size());
  std::size_t next_in = 0, next_out = 0;
  const auto add = [&](ActionKind kind, const Timed& timed) {
    actions.push_back({own, kind, timed.action.microbatch});
  };
  bool in_cell = false;
  for (const Timed& timed : played) {
    while (!in_cell && next_in < entries.size() &&
           (next_in == 0 || entries[next_in - 1].time <= timed.time))
      add(ActionKind::EmbeddingForward, entries[next_in++]);
    while (!in_cell && next_out < exits.size() &&
           exits[next_out].time + send_gradient <= timed.time)
      add(ActionKind::EmbeddingBackward, exits[next_out++]);
    actions.push_back(timed.action);
    in_cell = timed.action.with_next;
  }
  while (next_in < entries.size()) add(ActionKind::EmbeddingForward, entries[next_in++]);
  while (next_out < exits.size()) add(ActionKind::EmbeddingBackward, exits[next_out++]);
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
        fmt::format("order {}: found algorithm {} of vocabulary parallelism, expected 1 "
                    "or 2",
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
    double& grown = spec.vocabulary_room.with == ActionKind::Forward         ? stage.forward
                    : spec.vocabulary_room.with == ActionKind::BackwardInput ? stage.input
                                                                             : stage.weight;
    grown += (own.s + own.t + own.embedding + own.embedding_gradient) / spec.vpp;
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
  double least = kUnknown;
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
  Order plain = order;
  for (std::vector<Action>& actions : plain.ranks) actions = compute_actions(actions);
  OutputPlayer player(plain, algorithm, stages, costs);
  RETURN_IF_ERROR(player.run());
  Order with = plain;
  with.vocabulary = algorithm;
  with.exchanges = BatchedP2p::Never;
  const std::vector<int> rank_of = stage_to_rank(plain);
  for (int rank = 0; rank < plain.pp(); ++rank) {
    const auto own = std::ranges::find(rank_of, rank) - rank_of.begin();
    with.ranks[rank] = with_inputs(player.played()[rank], Stage{static_cast<int>(own)},
                                   player.entries(), player.exits(), costs.send_gradient);
  }
  return with;
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
