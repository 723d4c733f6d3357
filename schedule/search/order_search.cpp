// Searches policies: the numbers by which list scheduling chooses each rank's next action
// (policy_scheduler.h), first of given policies, then by late acceptance from the best of them.
// refine() moves single actions of the best order. In: stages with times and bytes, and orders to
// begin with. Out: the fastest orders that fit into memory.
#include "schedule/search/order_search.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "schedule/search/order_moves.h"
#include "schedule/search/policies.h"
#include "schedule/search/policy_scheduler.h"

namespace tandem {
namespace {

struct TriedPolicy {
  SchedulePolicy policy;
  PolicyOutcome outcome;
};

// Changes one policy again and again. Late acceptance: a change stays if it is no worse than the
// policy some changes ago (Burke and Bykov, "The late acceptance Hill-Climbing heuristic", 2017).
class PolicyClimb {
 public:
  PolicyClimb(TriedPolicy start, std::uint64_t seed)
      : random_(seed), current_(start), best_(start) {
    history_.fill(start.outcome);
  }

  void step(const SearchProblem& problem, PolicyScheduler* scheduler) {
    SchedulePolicy next = changed_policy(problem, current_.policy, &random_);
    const PolicyOutcome outcome = scheduler->play(next);
    PolicyOutcome& before = history_[steps_++ % history_.size()];
    if (outcome <= before || outcome <= current_.outcome) current_ = {std::move(next), outcome};
    before = current_.outcome;
    if (current_.outcome < best_.outcome) best_ = current_;
  }

  const TriedPolicy& best() const { return best_; }

 private:
  std::mt19937_64 random_;
  TriedPolicy current_, best_;
  std::array<PolicyOutcome, 50> history_;
  std::size_t steps_ = 0;
};

}  // namespace

int default_candidates(const SearchProblem& problem) {
  constexpr std::int64_t kActions = 24'000'000;  // that take about three seconds to schedule
  constexpr std::int64_t kFewest = 500, kMost = 20'000;
  const std::int64_t actions = 3LL * problem.stages() * problem.microbatches;  // F, I and W
  return static_cast<int>(std::clamp(kActions / actions, kFewest, kMost));
}

// A search in three phases. It plays the starting policies, then variants of the best kVaried of
// them, then one step after another of kClimbs climbs in turn, which begin at the best policies of
// both phases before.
class OrderSearch::State {
 public:
  State(SearchProblem problem, const std::vector<Order>& starts) : problem_(std::move(problem)) {
    for (const Order& start : starts) {
      if (fits(problem_, start)) orders_.push_back(played(start));
    }
    if (!can_fit(problem_)) return;
    scheduler_.emplace(problem_);
    for (SchedulePolicy& policy : starting_policies(problem_))
      waiting_.push_back(std::move(policy));
  }
  // The scheduler refers to the problem.
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  State(State&&) = delete;
  State& operator=(State&&) = delete;
  ~State() = default;

  // Plays one candidate: the next waiting policy or, once there are none, a step of a climb.
  void step() {
    if (waiting_.empty()) return climbs_[turn_++ % climbs_.size()].step(problem_, &*scheduler_);
    const PolicyOutcome outcome = scheduler_->play(waiting_.front());
    tried_.push_back({std::move(waiting_.front()), outcome});
    waiting_.pop_front();
    if (waiting_.empty()) begin_next_phase();
  }
  // Takes the fastest of the best few orders in which no actions run together, and improves it by
  // moves. Adds a new order only if a move improved it.
  void refine(int moves) {
    constexpr std::size_t kMostTried = 8;
    const std::vector<SearchedOrder> best = orders(kMostTried);
    const auto start = std::ranges::find_if_not(best, has_cells, &SearchedOrder::order);
    if (start == best.end()) return;
    OrderMoves search(problem_, start->order, 1);
    for (int i = 0; i < moves; ++i) search.step();
    if (search.best().ranks == start->order.ranks) return;
    orders_.push_back(played(search.best()));
    orders_.back().order.name = "auto";
    orders_.back().order.exchanges = BatchedP2p::Never;
  }
  bool can_step() const { return scheduler_.has_value(); }

  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (const SearchedOrder& order : orders_) least = std::min(least, order.makespan);
    for (const TriedPolicy& tried : policies()) least = std::min(least, tried.outcome.makespan);
    return least;
  }

  std::vector<SearchedOrder> orders(std::size_t most) const {
    std::vector<SearchedOrder> orders = orders_;
    for (const TriedPolicy& tried : policies()) {
      PolicyScheduler scheduler(problem_);
      scheduler.play(tried.policy);
      if (Order order = scheduler.order(); fits(problem_, order)) orders.push_back(played(order));
    }
    std::ranges::stable_sort(orders, {}, &SearchedOrder::makespan);
    std::vector<SearchedOrder> distinct;
    for (SearchedOrder& found : orders) {
      const auto is_same = [&](const SearchedOrder& other) {
        return other.order.ranks == found.order.ranks;
      };
      if (distinct.size() < most && std::ranges::none_of(distinct, is_same))
        distinct.push_back(std::move(found));
    }
    return distinct;
  }

 private:
  static constexpr std::size_t kVaried = 8, kClimbs = 4;

  SearchedOrder played(const Order& order) const { return {order, makespan(problem_, order)}; }

  static bool by_outcome(const TriedPolicy& a, const TriedPolicy& b) {
    return a.outcome < b.outcome;
  }

  // Called when no policy waits: the first time adds variants, the second time begins climbs.
  void begin_next_phase() {
    if (has_variants_) {
      for (const TriedPolicy& tried : best_of_tried(kClimbs))
        climbs_.emplace_back(tried, climbs_.size() + 1);
      return;
    }
    has_variants_ = true;
    for (const TriedPolicy& tried : best_of_tried(kVaried))
      for (SchedulePolicy& variant : variants_of(problem_, tried.policy))
        waiting_.push_back(std::move(variant));
  }

  // Returns the best tried policies, no two of equal outcome.
  std::vector<TriedPolicy> best_of_tried(std::size_t most) {
    std::ranges::stable_sort(tried_, by_outcome);
    std::vector<TriedPolicy> best;
    for (const TriedPolicy& tried : tried_) {
      if (best.size() < most && (best.empty() || tried.outcome != best.back().outcome))
        best.push_back(tried);
    }
    return best;
  }

  // Returns the best of each climb or, before the climbs, the best tried so far.
  std::vector<TriedPolicy> policies() const {
    std::vector<TriedPolicy> best;
    if (climbs_.empty() && !tried_.empty())
      best.push_back(*std::ranges::min_element(tried_, by_outcome));
    for (const PolicyClimb& climb : climbs_) best.push_back(climb.best());
    return best;
  }

  const SearchProblem problem_;
  std::vector<SearchedOrder> orders_;  // the starts, and the results of moves
  std::optional<PolicyScheduler> scheduler_;
  std::deque<SchedulePolicy> waiting_;  // still to be tried
  std::vector<TriedPolicy> tried_;
  bool has_variants_ = false;
  std::vector<PolicyClimb> climbs_;
  std::size_t turn_ = 0;
};

OrderSearch::OrderSearch(SearchProblem problem, const std::vector<Order>& starts)
    : state_(std::make_unique<State>(std::move(problem), starts)) {}
OrderSearch::OrderSearch(OrderSearch&&) noexcept = default;
OrderSearch& OrderSearch::operator=(OrderSearch&&) noexcept = default;
OrderSearch::~OrderSearch() = default;

void OrderSearch::play(int candidates) {
  if (!state_->can_step()) return;
  for (int i = 0; i < candidates; ++i) state_->step();
}

void OrderSearch::refine(int candidates) {
  // A move takes a tenth of the time of a policy, and less if it is refused at once.
  constexpr int kMovesOfCandidate = 10;
  state_->refine(kMovesOfCandidate * candidates);
}

double OrderSearch::best() const { return state_->best(); }

std::vector<SearchedOrder> OrderSearch::orders(std::size_t most) const {
  return state_->orders(most);
}

}  // namespace tandem
