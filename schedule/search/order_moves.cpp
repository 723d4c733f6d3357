// Local search with late acceptance: moves one action of the critical path at a time, replays the
// order and keeps it if it is no worse than the order some moves ago.
#include "schedule/search/order_moves.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kNotYet = -1;
// The farthest that an action moves at once.
constexpr int kFarthest = 8;

double duration(const OrderCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return costs.forward;
    case ActionKind::Backward:
      return costs.input + costs.weight;
    case ActionKind::BackwardInput:
      return costs.input;
    default:
      return costs.weight;
  }
}

}  // namespace

OrderMoves::OrderMoves(const SearchProblem& problem, Order start, std::uint64_t seed)
    : problem_(problem), at_(std::move(start)), best_(at_), random_(seed) {
  forward_end_.resize(static_cast<std::size_t>(problem.stages()) * problem.microbatches);
  input_end_.resize(forward_end_.size());
  forward_at_.resize(forward_end_.size());
  input_at_.resize(forward_end_.size());
  for (const std::vector<Action>& actions : at_.ranks) {
    starts_.emplace_back(actions.size());
    ends_.emplace_back(actions.size());
  }
  CHECK(replay());
  at_value_ = best_value_ = value_;
  history_.fill(value_);
  find_critical();
}

double OrderMoves::ready(const Action& action) const {
  const int s = index(action.stage);
  const std::size_t own = slot(action);
  const auto arrives = [&](int from, double end) {
    if (end == kNotYet || problem_.rank_of_stage[from] == problem_.rank_of_stage[s]) return end;
    return end + problem_.costs[from].transfer;
  };
  const auto microbatches = static_cast<std::size_t>(problem_.microbatches);
  if (action.kind == ActionKind::Forward)
    return s == 0 ? 0 : arrives(s - 1, forward_end_[own - microbatches]);
  if (action.kind == ActionKind::BackwardWeight) return input_end_[own];
  const double forward = forward_end_[own];
  if (forward == kNotYet || s + 1 == problem_.stages()) return forward;
  const double gradient = arrives(s + 1, input_end_[own + microbatches]);
  return gradient == kNotYet ? kNotYet : std::max(forward, gradient);
}

// Replays the order. Returns false if it waits for itself.
bool OrderMoves::replay() {
  std::ranges::fill(forward_end_, kNotYet);
  std::ranges::fill(input_end_, kNotYet);
  std::vector<std::size_t> position(at_.ranks.size());
  std::vector<double> clock(at_.ranks.size());
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t rank = 0; rank < at_.ranks.size(); ++rank) {
      const std::vector<Action>& actions = at_.ranks[rank];
      for (std::size_t& i = position[rank]; i < actions.size(); ++i) {
        const double when = ready(actions[i]);
        if (when == kNotYet) break;
        goes_on = true;
        starts_[rank][i] = std::max(clock[rank], when);
        clock[rank] =
            starts_[rank][i] + duration(problem_.costs[index(actions[i].stage)], actions[i].kind);
        ends_[rank][i] = clock[rank];
        if (actions[i].kind == ActionKind::BackwardWeight) continue;
        const bool is_forward = actions[i].kind == ActionKind::Forward;
        (is_forward ? forward_end_ : input_end_)[slot(actions[i])] = clock[rank];
        (is_forward ? forward_at_ : input_at_)[slot(actions[i])] = static_cast<int>(i);
      }
    }
  }
  value_ = {};
  for (std::size_t rank = 0; rank < at_.ranks.size(); ++rank) {
    if (position[rank] < at_.ranks[rank].size()) return false;
    value_.first = std::max(value_.first, clock[rank]);
    value_.second += clock[rank];
  }
  return true;
}

// Goes back from the action that ends last, always to what its start waited for.
void OrderMoves::find_critical() {
  critical_.clear();
  Place at;
  for (int rank = 0; rank < problem_.pp(); ++rank) {
    if (!ends_[rank].empty() && ends_[rank].back() == at_value_.first)
      at = {rank, static_cast<int>(ends_[rank].size()) - 1};
  }
  for (;;) {
    const double start = starts_[at.rank][at.position];
    if (start <= 0) return;
    if (at.position > 0 && ends_[at.rank][at.position - 1] >= start) {
      critical_.push_back(at);
      --at.position;
      continue;
    }
    const Action& action = at_.ranks[at.rank][at.position];
    const int s = index(action.stage);
    const bool forward = action.kind == ActionKind::Forward;
    const int from = forward ? s - 1 : s + 1;
    CHECK(from >= 0 && from < problem_.stages());
    const std::size_t there = static_cast<std::size_t>(from) * problem_.microbatches +
                              static_cast<std::size_t>(index(action.microbatch));
    at = {problem_.rank_of_stage[from], forward ? forward_at_[there] : input_at_[there]};
  }
}

void OrderMoves::move(int rank, int from, int to) {
  const auto at = at_.ranks[rank].begin();
  if (from < to)
    std::rotate(at + from, at + from + 1, at + to + 1);
  else
    std::rotate(at + to, at + from, at + from + 1);
}

bool OrderMoves::keeps_limit(int rank) const {
  return peak_of_rank(problem_, at_.ranks[rank]) <= problem_.limit_bytes[rank] * kRoundingOfBytes;
}

void OrderMoves::step() {
  if (critical_.empty()) return;
  const auto [rank, position] = critical_[random_below(static_cast<int>(critical_.size()))];
  const std::vector<Action>& actions = at_.ranks[rank];
  // Moves the action forward in the order, or the nearest W before it to a place after it.
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
  if (keeps_limit(rank) && replay() && (value_ <= before || value_ <= at_value_)) {
    at_value_ = value_;
    find_critical();
  } else {
    move(rank, to, from);
  }
  before = at_value_;
  if (at_value_ >= best_value_) return;
  best_ = at_;
  best_value_ = at_value_;
}

}  // namespace tandem
