// Finds the order in which each pipeline rank does its passes. Candidates are the named orders
// (1F1B, interleaved, ZB-V, ...) and orders that an OrderSearch makes for each placement of the
// stages on the ranks. The searches share the budget by successive halving: of three equal rounds,
// the better half stays after the first and the best one after the second. The named orders and the
// best orders found are played in full on the ideal engine, and the best of all is taken.
#include "planning/choose/auto_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "job/order_job.h"
#include "job/price_job.h"
#include "job/site.h"
#include "planning/choose/auto_layout.h"
#include "planning/choose/measured_costs.h"
#include "planning/play/play_job.h"
#include "results/job_result.h"
#include "schedule/order/vocabulary.h"
#include "schedule/search/order_search.h"
#include "topology/cluster.h"
#include "workload/memory/memory.h"
#include "workload/memory/reserve.h"
#include "workload/model/workload.h"

namespace tandem {
namespace {

// How good a fully played order is. Orders that fit into memory come before those that do not.
struct PlayedValue {
  bool fits = false;
  double seconds = std::numeric_limits<double>::infinity();

  bool better_than(const PlayedValue& other) const {
    return std::tuple(!fits, seconds) < std::tuple(!other.fits, other.seconds);
  }
};

// Returns the scenario with `vpp` stages (Megatron-LM's model chunks) on a rank.
Scenario with_vpp(Scenario scenario, int vpp) {
  scenario.job.plan.vpp = vpp;
  scenario.job.order.vpp = vpp;
  if (scenario.job.layout == "auto") scenario.job.plan.layers_per_stage.clear();
  return scenario;
}

Status check_layers(const Scenario& scenario) {
  const Model& model = scenario.job.model;
  const Plan& plan = scenario.job.plan;
  if (scenario.job.layout == "auto" && plan.stages() <= model.layers) return Done{};
  return check_model(model, plan);
}

// Returns the numbers of stages on a rank to try: the scenario's if it is set or costs are stated,
// or all those of a list into which its layers can be cut. Stated seconds are those of a whole
// stage: with twice as many stages they would be another job, of twice the work.
std::vector<int> vpps_to_try(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  const bool layout_is_open = scenario.job.layout == "auto";
  if (plan.pp == 1 || scenario.costs.uniform || scenario.places.contains("parallel.vpp") ||
      (!layout_is_open && !plan.layers_per_stage.empty()))
    return {plan.vpp};
  std::vector<int> vpps;
  for (const int vpp : layout_is_open ? std::vector{1, 2} : std::vector{1, 2, 3, 4, 6, 8}) {
    if (check_layers(with_vpp(scenario, vpp)).ok()) vpps.push_back(vpp);
  }
  return vpps;
}

// Returns what a rank of these stages holds with one microbatch on the stage `busy`, or on none.
// `waits`: the microbatch waits for its weight gradient.
MemoryUse held_by_rank(const PlanMemory& memory, const std::vector<std::size_t>& stages,
                       std::optional<std::size_t> busy, bool waits = false) {
  std::vector<LiveActivations::Entry> live;
  for (const std::size_t stage : stages) {
    const int held = stage == busy ? 1 : 0;
    live.push_back({static_cast<Stage>(stage), waits ? 0 : held, waits ? held : 0});
  }
  return memory.of_rank(live, /*outputs=*/0);
}

// Sets the bytes that activations may take on each rank, and the bytes that a microbatch keeps on
// each stage, from its F to its I (`live`) and from its I to its W (`stash`). With uniform costs
// bytes are unknown, and a microbatch counts as 1 on each stage until its weight gradient, as an
// input gradient frees next to nothing ("Zero Bubble", table 1). Limit of a rank: the GPU's usable
// bytes, less what the rank holds without any microbatch, less the GEMM workspace; and no more than
// schedule.memory_limit microbatches take.
void add_bytes(const Scenario& scenario, SearchProblem* problem) {
  const JobSettings& job = scenario.job;
  // With both ends on one rank the head needs no copy of the embedding, which takes memory.
  const bool ends_on_one_rank = problem->rank_of_stage.front() == problem->rank_of_stage.back();
  const OrderedPlan plan(job.plan, /*copies_of_model=*/1, ends_on_one_rank,
                         /*passes_trade_layers=*/false);
  problem->bytes.resize(problem->rank_of_stage.size());
  std::optional<PlanMemory> memory;
  if (!scenario.costs.uniform) memory.emplace(job.model, plan);
  const DeviceSpec& device = scenario.cluster.spec.device;
  for (int rank = 0; rank < job.plan.pp; ++rank) {
    std::vector<std::size_t> stages;
    for (std::size_t stage = 0; stage < problem->bytes.size(); ++stage) {
      if (problem->rank_of_stage[stage] == rank) stages.push_back(stage);
    }
    double limit = std::numeric_limits<double>::infinity();
    std::optional<MemoryUse> held;
    if (memory) held = held_by_rank(*memory, stages, std::nullopt);
    if (held && device.memory_bytes > 0)
      limit = usable_bytes(device, job.model, plan) - held->total() - device.gemm_workspace_bytes;
    double bytes_of_all_stages = 0;  // of one microbatch
    for (const std::size_t stage : stages) {
      StageBytes& bytes = problem->bytes[stage];
      bytes = {1, 1};
      if (held) {
        const auto more = [&](bool waits) {
          return held_by_rank(*memory, stages, stage, waits).activations - held->activations;
        };
        bytes.live = more(/*waits=*/false);
        bytes.stash = more(/*waits=*/true);
      }
      bytes_of_all_stages += bytes.live;
    }
    if (job.order.memory_limit > 0)
      limit = std::min(limit, job.order.memory_limit * bytes_of_all_stages);
    problem->limit_bytes.push_back(limit);
  }
}

// Returns the problem of OrderSearch: the scenario's stages on these ranks, with their costs and
// bytes.
SearchProblem problem_of(const Scenario& scenario, std::vector<int> rank_of_stage,
                         const Site& site) {
  const JobSettings& job = scenario.job;
  SearchProblem problem{.microbatches = job.plan.microbatches(),
                        .rank_of_stage = std::move(rank_of_stage)};
  const std::vector<int>& ranks = problem.rank_of_stage;
  const OrderedPlan plan(job.plan, /*copies_of_model=*/1, ranks.front() == ranks.back(),
                         /*passes_trade_layers=*/false);
  const Workload chain = price_workload(job.model, plan, scenario.costs, site);
  problem.costs = stage_costs(chain, job.model, job.plan, scenario.costs, site);
  add_bytes(scenario, &problem);
  return problem;
}

// Whether no rank ever holds more activations than those of schedule.memory_limit microbatches on
// all its stages.
bool keeps_memory_limit(const JobSettings& job, const Order& order) {
  if (job.order.memory_limit == 0) return true;
  for (const std::vector<Action>& actions : order.ranks) {
    int held = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::Forward) ++held;
      if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardWeight) --held;
      if (held > job.order.memory_limit * job.plan.vpp) return false;
    }
  }
  return true;
}

// Whether the last stage is on the rank of the first one.
bool ends_on_first_rank(const Order& order) {
  const std::vector<int> rank_of = stage_to_rank(order);
  return rank_of.size() > 1 && rank_of.front() == rank_of.back();
}

// Plays orders in full and keeps the best.
class OrderPlays {
 public:
  // Plays all named orders that allow these sizes. If the layout is open, each order gets its own.
  void play_named(const Scenario& scenario) {
    for (const OrderTraits& traits : scenario.job.order.orders) {
      if (scenario.job.plan.vpp < traits.least_vpp) continue;
      Scenario named = scenario;
      OrderSpec& order = named.job.order;
      order.name = traits.name;
      order.memory_limit = 0;  // few orders take one; play() compares what is held with it
      if (!traits.groups) order.group = 0;
      if (!check_order(order).ok()) continue;
      order.vocabulary = named.job.plan.vocabulary;
      if (!check_vocabulary(traits, order).ok()) continue;
      play(std::move(named), scenario.job.order.memory_limit);
    }
  }
  // Plays an order that a search made.
  void play_made(const Scenario& scenario, Order order) {
    Scenario made = scenario;
    made.job.found_order = {std::move(order), {}};
    play(std::move(made), scenario.job.order.memory_limit);
  }

  // Returns the scenario with the best order. If none could be played, returns the last one's
  // Error.
  Result<Scenario> best() const {
    if (!best_)
      return last_error_.value_or(
          Error::of({"schedule.order"}, "found no order that takes these sizes"));
    Scenario scenario = best_->scenario;
    OrderFinding& finding = scenario.job.found_order->finding;
    finding.iteration_s = best_->value.seconds;
    // A named order that does not fit is no alternative to one that does.
    if (!named_ || (best_->value.fits && !named_->value.fits)) return scenario;
    finding.named = named_->scenario.job.found_order->finding.name;
    finding.named_vpp = named_->scenario.job.plan.vpp;
    finding.named_s = named_->value.seconds;
    return scenario;
  }

  struct PlayedOrder {
    Scenario scenario;  // with a layout and an order
    PlayedValue value;
  };
  const std::vector<PlayedOrder>& played() const { return played_; }
  const Scenario& best_scenario() const { return best_->scenario; }

 private:
  // Plays a scenario with an order, and first finds its layout if that is open. An order beyond
  // `memory_limit` (schedule.memory_limit) counts as one that does not fit.
  void play(Scenario scenario, double memory_limit) {
    if (scenario.job.layout == "auto") {
      auto with_stages = with_layout(scenario);
      if (!with_stages.ok()) {
        last_error_ = with_stages.error();
        return;
      }
      scenario = *std::move(with_stages);
    }
    Scenario undisturbed = scenario;
    undisturbed.variability = scenario.variability.without_disturbances();
    const auto job = play_once(undisturbed, Engine::Ideal);
    if (!job.ok()) {
      last_error_ = job.error();
      return;
    }
    const RunResult result = result_of(undisturbed, job->job, job->trace);
    scenario.job.order.memory_limit = memory_limit;
    const bool fits = (!result.training || result.training->fits) &&
                      keeps_memory_limit(scenario.job, job->job.order);
    const PlayedValue value{fits, result.iteration_s};
    const bool is_named = !scenario.job.found_order;
    scenario.job.found_order = {job->job.order,
                                {.name = is_named ? scenario.job.order.name : "",
                                 .in_a_v = ends_on_first_rank(job->job.order)}};
    scenario.job.order.name = kAutoOrder;
    played_.push_back({std::move(scenario), value});
    if (!best_ || value.better_than(best_->value)) best_ = played_.back();
    if (is_named && (!named_ || value.better_than(named_->value))) named_ = played_.back();
  }

  std::vector<PlayedOrder> played_;
  std::optional<PlayedOrder> best_, named_;
  std::optional<Error> last_error_;
};

// Returns the seconds that the busiest rank computes in an iteration.
double busiest_rank_s(const SearchProblem& problem) {
  std::vector<double> work(problem.pp());
  for (int stage = 0; stage < problem.stages(); ++stage) {
    const OrderCosts& costs = problem.costs[stage];
    work[problem.rank_of_stage[stage]] +=
        problem.microbatches * (costs.forward + costs.input + costs.weight);
  }
  return *std::ranges::max_element(work);
}

// The search for an order on one placement of the stages on the ranks.
struct PlacementSearch {
  Scenario scenario;
  int candidates = 0;  // number of orders that it tries if the user sets no budget
  OrderSearch search;
};

// Returns the rank of each stage, for every placement to try: in order, and also in a V if each
// rank has an even number of stages. For 2 ranks with 2 stages each: 0,1,0,1 and 0,1,1,0.
std::vector<std::vector<int>> placements_of(const Plan& plan) {
  std::vector<std::vector<int>> placements = {stages_in_order(plan.pp, plan.vpp)};
  if (plan.vpp % 2 == 0) placements.push_back(stages_in_a_v(plan.pp, plan.vpp));
  return placements;
}

// Returns one search for each placement of the scenario's stages.
std::vector<PlacementSearch> searches_of(const Scenario& scenario, const Site& site) {
  std::vector<PlacementSearch> searches;
  for (const std::vector<int>& ranks : placements_of(scenario.job.plan)) {
    SearchProblem problem = problem_of(scenario, ranks, site);
    const std::vector<Order> named = named_orders_for(problem);
    const int candidates = default_candidates(problem);
    searches.push_back({scenario, candidates, OrderSearch(std::move(problem), named)});
  }
  return searches;
}

// Runs one round of all searches. Together they get `seconds`, or `candidates` if that is 0.
void play_round(std::vector<PlacementSearch>* searches, int candidates, double seconds) {
  using Clock = std::chrono::steady_clock;
  if (seconds == 0) {
    for (PlacementSearch& placed : *searches)
      placed.search.play(candidates / static_cast<int>(searches->size()));
    return;
  }
  constexpr int kCandidatesAtOnce = 20;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    for (PlacementSearch& placed : *searches) placed.search.play(kCandidatesAtOnce);
  } while (Clock::now() < end);
}

// Runs the searches by successive halving: all share the first third of the budget, the better half
// of them the second, and the best one gets the last. Then refines the best one's order by moves.
void halve_searches(std::vector<PlacementSearch>* searches, const JobSettings& job) {
  constexpr int kRounds = 3;
  constexpr int kMovesShare = 10;  // refining by moves tries a tenth as many orders
  // By default the budget is that of the search with the most actions, which are the slowest to
  // play: about three seconds for all searches together.
  const int candidates =
      job.order_budget > 0
          ? job.order_budget
          : std::ranges::min_element(*searches, {}, &PlacementSearch::candidates)->candidates;
  for (int round = 0; round < kRounds; ++round) {
    play_round(searches, candidates / kRounds, job.order_seconds / kRounds);
    std::ranges::stable_sort(*searches, {},
                             [](const PlacementSearch& p) { return p.search.best(); });
    const std::size_t left = round + 2 == kRounds ? 1 : (searches->size() + 1) / 2;
    searches->erase(searches->begin() + static_cast<std::ptrdiff_t>(left), searches->end());
  }
  searches->front().search.refine(std::max(1, candidates / kMovesShare));
}

// Searches for all scenarios, and plays the best orders found in full.
Status search(const std::vector<Scenario>& scenarios, OrderPlays* plays) {
  constexpr std::size_t kPlayedInFull = 4;
  ASSIGN_OR_RETURN(const Site site, make_site(scenarios.front()));
  std::vector<PlacementSearch> searches;
  for (const Scenario& scenario : scenarios) {
    for (PlacementSearch& placed : searches_of(scenario, site))
      searches.push_back(std::move(placed));
  }
  halve_searches(&searches, scenarios.front().job);
  for (const PlacementSearch& placed : searches) {
    for (SearchedOrder& found : placed.search.orders(kPlayedInFull))
      plays->play_made(placed.scenario, std::move(found.order));
  }
  return Done{};
}

// Returns at most three of the layouts that were found for named orders: those whose busiest rank
// has the least to compute, since no order ends before that rank has computed.
Result<std::vector<Scenario>> good_layouts(const Scenario& scenario, const OrderPlays& plays) {
  constexpr std::size_t kMost = 3;
  ASSIGN_OR_RETURN(const Site site, make_site(scenario));
  std::vector<std::pair<double, Scenario>> layouts;  // with the seconds of the busiest rank
  for (const OrderPlays::PlayedOrder& played : plays.played()) {
    // A SearchProblem has one chain, so layouts that were found for two are of no use to it.
    if (!played.value.fits || played.scenario.job.found_order->order.chains > 1) continue;
    Scenario open = played.scenario;
    const std::vector<int> rank_of = stage_to_rank(open.job.found_order->order);
    open.job.found_order.reset();
    const auto is_same = [&](const auto& other) {
      const Plan &a = other.second.job.plan, &b = open.job.plan;
      return a.layers_per_stage == b.layers_per_stage && a.mtp_before_loss == b.mtp_before_loss;
    };
    if (std::ranges::any_of(layouts, is_same)) continue;
    const double busiest_s = busiest_rank_s(problem_of(open, rank_of, site));
    layouts.emplace_back(busiest_s, std::move(open));
  }
  std::ranges::stable_sort(layouts, {}, &std::pair<double, Scenario>::first);
  std::vector<Scenario> best;
  for (auto& [busiest_s, open] : layouts) {
    if (best.size() < kMost) best.push_back(std::move(open));
  }
  return best;
}

// Finds the best order for the stages' times in a measured trace. Orders are compared by the quick
// replay of stages, since the simulator cannot use the measured times.
Result<Scenario> with_measured_order(const Scenario& scenario) {
  const JobSettings& job = scenario.job;
  if (job.layout == "auto")
    return scenario.placed(Error::of(
        {"parallel.layout"},
        "found parallel.layout = auto with a trace, expected the layout that was traced"));
  ASSIGN_OR_RETURN(const Site site, make_site(scenario));
  SearchedOrder best_named{{}, std::numeric_limits<double>::infinity()};
  std::vector<PlacementSearch> searches;
  for (const std::vector<int>& ranks : placements_of(job.plan)) {
    SearchProblem problem = problem_of(scenario, ranks, site);
    ASSIGN_OR_RETURN(problem.costs, measured_costs(job.order_trace, problem.costs));
    const std::vector<Order> named = named_orders_for(problem);
    for (const Order& order : named) {
      const double seconds = makespan(problem, order);
      if (fits(problem, order) && seconds < best_named.makespan) best_named = {order, seconds};
    }
    const int candidates = default_candidates(problem);
    searches.push_back({scenario, candidates, OrderSearch(std::move(problem), named)});
  }
  halve_searches(&searches, job);
  const std::vector<SearchedOrder> found = searches.front().search.orders(1);
  const bool is_named = found.empty() || found.front().makespan >= best_named.makespan;
  const SearchedOrder& best = is_named ? best_named : found.front();
  if (best.order.ranks.empty())
    return Error::of({"schedule.order"},
                     "found no order that fits, expected one: a rank's memory "
                     "holds no microbatch of all its stages");
  Scenario with_best = scenario;
  with_best.job.found_order = {best.order,
                               {.name = is_named ? best.order.name : "",
                                .in_a_v = ends_on_first_rank(best.order),
                                .iteration_s = best.makespan,
                                .named = best_named.order.name,
                                .named_vpp = job.plan.vpp,
                                .named_s = best_named.makespan}};
  return with_best;
}

}  // namespace

Result<Scenario> with_order(const Scenario& scenario) {
  if (!scenario.job.order_trace.empty()) return with_measured_order(scenario);
  constexpr int kMostSearched = 2;  // a search takes long with more stages on a rank
  const std::vector<int> vpps = vpps_to_try(scenario);
  OrderPlays plays;
  std::vector<Scenario> scenarios;
  for (const int vpp : vpps) {
    const Scenario candidate = with_vpp(scenario, vpp);
    plays.play_named(candidate);
    if (vpp <= kMostSearched || vpps.size() == 1) scenarios.push_back(candidate);
  }
  // A search cannot place the passes of vocabulary parallelism, so named orders alone are tried.
  if (scenario.job.plan.pp == 1 || scenario.job.plan.vocabulary > 0) return plays.best();
  if (scenario.job.layout == "auto") {
    ASSIGN_OR_RETURN(scenarios, good_layouts(scenario, plays));
  }
  if (!scenarios.empty()) RETURN_IF_ERROR(search(scenarios, &plays));
  if (scenario.job.layout == "auto" && !plays.played().empty()) {
    // Finds a layout for the best order, and then an order for that layout.
    Scenario best = plays.best_scenario();
    best.job.layout = "auto";
    ASSIGN_OR_RETURN(best, with_layout(best));
    best.job.found_order.reset();
    RETURN_IF_ERROR(search({best}, &plays));
  }
  return plays.best();
}

}  // namespace tandem
