// Local search with late acceptance: moves one action of the critical path at a time, replays the
// order and keeps it if it is no worse than the order some moves ago.
#include "schedule/search/order_moves.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/order/order_replay.h"

namespace tandem {
namespace {

// The most places by which one move shifts an action.
constexpr int kFarthest = 8;

}  // namespace

OrderMoves::OrderMoves(const SearchProblem& problem, Order start, std::uint64_t seed)
    : problem_(problem), current_(std::move(start)), best_(current_), random_(seed) {
  forward_end_.resize(static_cast<std::size_t>(problem.stages()) * problem.microbatches);
  input_end_.resize(forward_end_.size());
  forward_position_.resize(forward_end_.size());
  input_position_.resize(forward_end_.size());
  for (const std::vector<Action>& actions : current_.ranks) {
    starts_.emplace_back(actions.size());
    ends_.emplace_back(actions.size());
  }
  CHECK(replay());
  current_value_ = best_value_ = replayed_value_;
  history_.fill(replayed_value_);
  find_critical();
}

double OrderMoves::ready(const Action& action) const {
  const int s = index(action.stage);
  const std::size_t this_slot = slot(action);
  const auto arrives = [&](int from, double end) {
    const bool same = problem_.rank_of_stage[from] == problem_.rank_of_stage[s];
    return same ? end : end + problem_.costs[from].transfer;
  };
  const auto microbatches = static_cast<std::size_t>(problem_.microbatches);
  if (action.kind == ActionKind::Forward)
    return s == 0 ? 0 : arrives(s - 1, forward_end_[this_slot - microbatches]);
  if (action.kind == ActionKind::BackwardWeight) return input_end_[this_slot];
  const double forward = forward_end_[this_slot];
  if (s + 1 == problem_.stages()) return forward;
  return std::max(forward, arrives(s + 1, input_end_[this_slot + microbatches]));
}

// Replays current_ in sweeps over the ranks. Returns false if it waits for itself.
bool OrderMoves::replay() {
  std::ranges::fill(forward_end_, kNotYet);
  std::ranges::fill(input_end_, kNotYet);
  std::vector<std::size_t> position(current_.ranks.size());
  std::vector<double> clock(current_.ranks.size());
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t rank = 0; rank < current_.ranks.size(); ++rank) {
      const std::vector<Action>& actions = current_.ranks[rank];
      for (std::size_t& i = position[rank]; i < actions.size(); ++i) {
        const double ready_time = ready(actions[i]);
        if (ready_time == kNotYet) break;
        goes_on = true;
        starts_[rank][i] = std::max(clock[rank], ready_time);
        clock[rank] =
            starts_[rank][i] + cost_of(problem_.costs[index(actions[i].stage)], actions[i].kind);
        ends_[rank][i] = clock[rank];
        if (actions[i].kind == ActionKind::BackwardWeight) continue;
        const bool is_forward = actions[i].kind == ActionKind::Forward;
        (is_forward ? forward_end_ : input_end_)[slot(actions[i])] = clock[rank];
        (is_forward ? forward_position_ : input_position_)[slot(actions[i])] = static_cast<int>(i);
      }
    }
  }
  replayed_value_ = {};
  for (std::size_t rank = 0; rank < current_.ranks.size(); ++rank) {
    if (position[rank] < current_.ranks[rank].size()) return false;
    replayed_value_.makespan = std::max(replayed_value_.makespan, clock[rank]);
    replayed_value_.ends += clock[rank];
  }
  return true;
}

// Finds the critical path: goes back from the action that ends last, in each step to the action
// whose end its start waited for. Notes the actions that waited for their rank's previous action.
void OrderMoves::find_critical() {
  critical_.clear();
  Place place;
  for (int rank = 0; rank < problem_.pp(); ++rank) {
    if (!ends_[rank].empty() && ends_[rank].back() == current_value_.makespan)
      place = {rank, static_cast<int>(ends_[rank].size()) - 1};
  }
  for (;;) {
    const double start = starts_[place.rank][place.position];
    if (start <= 0) return;
    if (place.position > 0 && ends_[place.rank][place.position - 1] >= start) {
      critical_.push_back(place);
      --place.position;
      continue;
    }
    const Action& action = current_.ranks[place.rank][place.position];
    const int s = index(action.stage);
    const bool forward = action.kind == ActionKind::Forward;
    const int from = forward ? s - 1 : s + 1;
    CHECK(from >= 0 && from < problem_.stages());
    const std::size_t sender = static_cast<std::size_t>(from) * problem_.microbatches +
                               static_cast<std::size_t>(index(action.microbatch));
    place = {problem_.rank_of_stage[from],
             forward ? forward_position_[sender] : input_position_[sender]};
  }
}

void OrderMoves::move(int rank, int from, int to) {
  const auto actions = current_.ranks[rank].begin();
  if (from < to)
    std::rotate(actions + from, actions + from + 1, actions + to + 1);
  else
    std::rotate(actions + to, actions + from, actions + from + 1);
}

bool OrderMoves::keeps_limit(int rank) const {
  return peak_of_rank(problem_, current_.ranks[rank]) <=
         problem_.limit_bytes[rank] * kRoundingOfBytes;
}

void OrderMoves::step() {
  if (critical_.empty()) return;
  const auto [rank, position] = critical_[random_below(static_cast<int>(critical_.size()))];
  const std::vector<Action>& actions = current_.ranks[rank];
  // Half of the moves put the action earlier, by 1 or by up to 8 places. The others put the
  // nearest W before the action behind it, if there is one.
  int from = position;
  int to =
      random_below(2) == 0 ? position - 1 : std::max(0, position - 1 - random_below(kFarthest));
  if (random_below(2) == 0) {
    int weight = position - 1;
    while (weight >= 0 && actions[weight].kind != ActionKind::BackwardWeight) --weight;
    if (weight >= 0) {
      from = weight;
      to = std::min(static_cast<int>(actions.size()) - 1, position + random_below(kFarthest));
    }
  }
  move(rank, from, to);
  Value& before = history_[steps_++ % history_.size()];
  const bool is_possible = keeps_limit(rank) && replay();
  if (is_possible && (replayed_value_ <= before || replayed_value_ <= current_value_)) {
    current_value_ = replayed_value_;
    find_critical();
  } else {
    move(rank, to, from);
  }
  before = current_value_;
  if (current_value_ >= best_value_) return;
  best_ = current_;
  best_value_ = current_value_;
}

}  // namespace tandem
