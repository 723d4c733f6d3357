#include "scenarios/search/auto_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/run/order_job.h"
#include "scenarios/run/place.h"
#include "scenarios/run/price_job.h"
#include "scenarios/run/run.h"
#include "schedule/search/order_search.h"
#include "topology/cluster.h"
#include "workload/model/workload.h"

namespace tandem {
namespace {

// What an order comes to in full: those that fit go before those that do not.
struct OrderValue {
  bool fits = false;
  double seconds = std::numeric_limits<double>::infinity();

  bool better_than(const OrderValue& other) const {
    return std::tuple(!fits, seconds) < std::tuple(!other.fits, other.seconds);
  }
};

// The scenario with so many stages a rank.
Scenario with_chunks(Scenario scenario, int vpp) {
  scenario.job.plan.vpp = vpp;
  scenario.job.order.vpp = vpp;
  return scenario;
}

// The stages a rank to look at: the scenario's, or all that its layers can be cut into.
std::vector<int> chunks_of(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  if (plan.pp == 1 || scenario.places.contains("parallel.vpp") || !plan.layers_per_stage.empty())
    return {plan.vpp};
  std::vector<int> chunks;
  for (const int vpp : {1, 2, 3, 4, 6, 8}) {
    const Scenario one = with_chunks(scenario, vpp);
    const Status status = scenario.costs.uniform ? check_stated(one.job.model, one.job.plan)
                                                 : check(one.job.model, one.job.plan);
    if (status.ok()) chunks.push_back(vpp);
  }
  return chunks;
}

// What a rank's activations may take, and what its stages' take. The GPU holds what a W needs from
// F on: an input gradient frees next to nothing ("Zero Bubble", table 1).
void add_bytes(const Scenario& scenario, SearchProblem* problem) {
  const JobSettings& job = scenario.job;
  const bool one_ends = problem->rank_of_stage.front() == problem->rank_of_stage.back();
  const OrderedPlan plan(job.plan, 1, one_ends);
  problem->bytes.resize(problem->rank_of_stage.size());
  for (int rank = 0; rank < job.plan.pp; ++rank) {
    LiveActivations none{.ranks = {{}}};
    std::vector<std::size_t> stages;
    for (std::size_t stage = 0; stage < problem->bytes.size(); ++stage) {
      if (problem->rank_of_stage[stage] != rank) continue;
      stages.push_back(stage);
      none.ranks[0].push_back({static_cast<Stage>(stage), 0});
    }
    double of_all = static_cast<double>(stages.size());
    double limit = std::numeric_limits<double>::infinity();
    for (const std::size_t stage : stages) problem->bytes[stage] = {1, 1};
    if (!scenario.costs.uniform) {
      const MemoryUse held = peak_memory(job.model, plan, none);
      const DeviceSpec& device = scenario.cluster.spec.device;
      if (device.memory_bytes > 0)
        limit = usable_memory_bytes(device) - held.total() - device.gemm_workspace_bytes;
      of_all = 0;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        LiveActivations one = none;
        one.ranks[0][i].microbatches = 1;
        const double bytes = peak_memory(job.model, plan, one).activations - held.activations;
        problem->bytes[stages[i]] = {bytes, bytes};
        of_all += bytes;
      }
    }
    if (job.order.memory_limit > 0) limit = std::min(limit, job.order.memory_limit * of_all);
    problem->limit_bytes.push_back(limit);
  }
}

// The named orders, and those made for the stages, played in full.
class FullOrders {
 public:
  explicit FullOrders(const Scenario& scenario) : scenario_(scenario) {
    scenario_.variability.jitter = 0;
    scenario_.variability.repeats = 1;
  }

  // Named orders that cannot be played at these sizes are passed over.
  void play_named(int vpp) {
    for (const OrderTraits& traits : scenario_.job.order.orders) {
      if (vpp < traits.least_vpp) continue;
      Scenario one = with_chunks(scenario_, vpp);
      one.job.order.name = traits.name;
      one.job.order.memory_limit = 0;
      if (!traits.groups) one.job.order.group = 0;
      if (!check_order(one.job.order).ok()) continue;
      play(std::move(one));
    }
  }
  void play_made(int vpp, Order order) {
    Scenario one = with_chunks(scenario_, vpp);
    one.job.found_order.emplace().order = std::move(order);
    play(std::move(one));
  }

  // The scenario with the best; an Error of the last where none could be played.
  Result<Scenario> best() const {
    if (!best_)
      return last_error_.value_or(
          Error::of({"schedule.order"}, "found no order that takes these sizes"));
    Scenario scenario = *best_;
    OrderFinding& finding = scenario.job.found_order->finding;
    finding.iteration_s = best_value_.seconds;
    if (best_value_.fits && !named_value_.fits) return scenario;
    finding.named = named_;
    finding.named_vpp = named_vpp_;
    finding.named_s = named_value_.seconds;
    return scenario;
  }

 private:
  void play(Scenario one) {
    const auto played = play_once(one, Engine::Ideal);
    if (!played.ok()) {
      last_error_ = played.error();
      return;
    }
    const RunResult result = result_of(one, played->job, played->trace);
    const OrderValue value{!result.training || result.training->fits, result.iteration_s};
    const std::string name = one.job.found_order ? "" : one.job.order.name;
    if (!name.empty() && value.better_than(named_value_)) {
      named_ = name;
      named_vpp_ = one.job.plan.vpp;
      named_value_ = value;
    }
    if (best_ && !value.better_than(best_value_)) return;
    best_value_ = value;
    const std::vector<int> rank_of = stage_to_rank(played->job.order);
    const bool in_a_v = rank_of.size() > 1 && rank_of.front() == rank_of.back();
    best_ = std::move(one);
    best_->job.found_order = {played->job.order, {.name = name, .in_a_v = in_a_v}};
  }

  Scenario scenario_;
  std::optional<Scenario> best_;
  OrderValue best_value_, named_value_;
  std::string named_;
  int named_vpp_ = 0;
  std::optional<Error> last_error_;
};

struct Placed {
  int vpp = 1;
  int candidates = 0;  // where nobody says
  OrderSearch search;
};

// One search for each number of stages a rank and each placement.
std::vector<Placed> searches_of(const Scenario& scenario, const std::vector<int>& chunks,
                                const Cluster& cluster, const Placement& placement) {
  constexpr int kMostSearched = 4;
  std::vector<Placed> searches;
  for (const int vpp : chunks) {
    if (vpp > kMostSearched && chunks.size() > 1) continue;
    const Scenario one = with_chunks(scenario, vpp);
    const Plan& plan = one.job.plan;
    std::vector<std::vector<int>> placements = {stages_in_order(plan.pp, vpp)};
    if (vpp % 2 == 0) placements.push_back(stages_in_a_v(plan.pp, vpp));
    for (const std::vector<int>& ranks : placements) {
      SearchProblem problem{.microbatches = plan.microbatches(), .rank_of_stage = ranks};
      const OrderedPlan ordered(plan, 1, ranks.front() == ranks.back());
      const Workload chain = price_workload(one.job.model, ordered, one.costs, cluster, placement);
      problem.costs = stage_costs(chain, one.job.model, plan, one.costs, cluster, placement);
      add_bytes(one, &problem);
      const std::vector<Order> named = named_orders_for(problem);
      const int candidates = default_candidates(problem);
      searches.push_back({vpp, candidates, OrderSearch(std::move(problem), named)});
    }
  }
  return searches;
}

// All searches for a while, then the better half of them, down to one.
void play_off(std::vector<Placed>* searches, int candidates) {
  while (!searches->empty()) {
    const auto rounds = static_cast<int>(std::bit_width(searches->size()));
    const int portion = candidates / rounds / static_cast<int>(searches->size());
    for (Placed& placed : *searches) placed.search.play(portion);
    candidates -= portion * static_cast<int>(searches->size());
    if (searches->size() == 1) break;
    std::ranges::stable_sort(*searches, {}, [](const Placed& p) { return p.search.best(); });
    searches->erase(searches->begin() + static_cast<std::ptrdiff_t>((searches->size() + 1) / 2),
                    searches->end());
  }
}

}  // namespace

Result<Scenario> with_order(const Scenario& scenario) {
  const std::vector<int> chunks = chunks_of(scenario);
  FullOrders full(scenario);
  for (const int vpp : chunks) full.play_named(vpp);
  if (scenario.job.plan.pp > 1) {
    ASSIGN_OR_RETURN(const Cluster cluster, make_cluster(scenario));
    const Placement placement = place_ranks(scenario.cluster, cluster);
    std::vector<Placed> searches = searches_of(scenario, chunks, cluster, placement);
    int candidates = scenario.job.order_budget;
    if (candidates == 0)
      candidates = std::ranges::min_element(searches, {}, &Placed::candidates)->candidates;
    play_off(&searches, candidates);
    for (const Placed& placed : searches) {
      for (SearchedOrder& found : placed.search.orders(4))
        full.play_made(placed.vpp, std::move(found.order));
    }
  }
  return full.best();
}

}  // namespace tandem
