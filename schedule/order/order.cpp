// The orders by name, each a pure function from sizes (and costs) to the actions of the ranks, and
// what an order says of its stages.
#include "schedule/order/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"
#include "schedule/order/dualpipe.h"
#include "schedule/order/list_scheduler.h"

namespace tandem {
namespace {

using Actions = std::vector<Action>;

// Beyond this an order no longer fits in memory: 16 bytes an action.
constexpr std::int64_t kMaxActions = 100'000'000;

// Work that a rank does once forward and once backward.
struct Unit {
  int chunk = 0;
  int microbatch = 0;
};

Action action(const OrderSpec& spec, int rank, ActionKind kind, const Unit& unit) {
  return Action{Stage{unit.chunk * spec.pp + rank}, kind, Microbatch{unit.microbatch}};
}

// Megatron's order of a rank's forwards: `group` microbatches through every chunk, then the next.
std::vector<Unit> units_in_groups(const OrderSpec& spec, int group) {
  std::vector<Unit> units;
  units.reserve(static_cast<std::size_t>(spec.vpp) * spec.microbatches);
  for (int first = 0; first < spec.microbatches; first += group) {
    const int last = first + std::min(group, spec.microbatches - first);
    for (int chunk = 0; chunk < spec.vpp; ++chunk)
      for (int microbatch = first; microbatch < last; ++microbatch)
        units.push_back({chunk, microbatch});
  }
  return units;
}

// `warm_up` forwards, then a forward and a backward in turn, then the backwards that are left. The
// backwards take the units in the order of the forwards, from the last chunk to the first.
Actions one_forward_one_backward(const OrderSpec& spec, int rank, const std::vector<Unit>& units,
                                 std::int64_t warm_up) {
  const auto count = static_cast<std::int64_t>(units.size());
  Actions actions;
  actions.reserve(2 * units.size());
  for (std::int64_t i = 0; i < count + warm_up; ++i) {
    if (i < count) actions.push_back(action(spec, rank, ActionKind::Forward, units[i]));
    if (i < warm_up) continue;
    const Unit& unit = units[i - warm_up];
    actions.push_back(
        action(spec, rank, ActionKind::Backward, {spec.vpp - 1 - unit.chunk, unit.microbatch}));
  }
  return actions;
}

Actions one_f_one_b(const OrderSpec& spec, int rank) {
  return one_forward_one_backward(spec, rank, units_in_groups(spec, spec.microbatches),
                                  std::min(spec.pp - rank - 1, spec.microbatches));
}

int group_of(const OrderSpec& spec) {
  return spec.group > 0 ? spec.group : std::min(spec.pp, spec.microbatches);
}

// PyTorch's: as many rounds as fill the pipeline, all alike.
int zb_group(const OrderSpec& spec) {
  return spec.microbatches / std::max(1, spec.microbatches / spec.pp);
}

// Each rank runs two units further ahead than the next, so that its F and B alternate without a
// wait.
Actions interleaved(const OrderSpec& spec, int rank) {
  if (spec.vpp == 1) return one_f_one_b(spec, rank);
  const int group = group_of(spec);
  const std::int64_t ahead =
      2LL * (spec.pp - rank - 1) + (spec.vpp - 1LL) * group + (spec.expert_overlap ? 1 : 0);
  return one_forward_one_backward(
      spec, rank, units_in_groups(spec, group),
      std::min(ahead, static_cast<std::int64_t>(spec.vpp) * spec.microbatches));
}

Actions gpipe(const OrderSpec& spec, int rank) {
  return one_forward_one_backward(spec, rank, units_in_groups(spec, spec.microbatches),
                                  spec.microbatches);
}

// Breadth first: every microbatch through a chunk before the next chunk; backward all in reverse.
Actions looped_bfs(const OrderSpec& spec, int rank) {
  const std::vector<Unit> units = units_in_groups(spec, spec.microbatches);
  Actions actions;
  actions.reserve(2 * units.size());
  for (const Unit& unit : units) actions.push_back(action(spec, rank, ActionKind::Forward, unit));
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
    actions.push_back(action(spec, rank, ActionKind::Backward, *unit));
  return actions;
}

// PyTorch's InterleavedZeroBubble: interleaved, but each rank runs one unit further ahead than the
// next, not two, and each rank puts off one W more than the rank before it, which fills its drain.
Actions interleaved_zb(const OrderSpec& spec, int rank) {
  const int group = zb_group(spec);
  const std::int64_t ahead = spec.pp - rank - 1 + (spec.vpp - 1LL) * group;
  const Actions whole = one_forward_one_backward(
      spec, rank, units_in_groups(spec, group),
      std::min(ahead, static_cast<std::int64_t>(spec.vpp) * spec.microbatches));
  Actions actions, weights;
  actions.reserve(whole.size() / 2 * 3);
  weights.reserve(whole.size() / 2);
  int done = 0;  // weights
  for (Action action : whole) {
    if (action.kind == ActionKind::Forward) {
      actions.push_back(action);
      continue;
    }
    action.kind = ActionKind::BackwardInput;
    actions.push_back(action);
    action.kind = ActionKind::BackwardWeight;
    weights.push_back(action);
    if (static_cast<int>(weights.size()) - done > rank) actions.push_back(weights[done++]);
  }
  actions.insert(actions.end(), weights.begin() + done, weights.end());
  return actions;
}

using Ranks = std::vector<Actions>;

template <Actions (*rank_actions)(const OrderSpec&, int rank)>
Ranks each_rank(const OrderSpec& spec) {
  Ranks ranks;
  ranks.reserve(spec.pp);
  for (int rank = 0; rank < spec.pp; ++rank) ranks.push_back(rank_actions(spec, rank));
  return ranks;
}

// Activations of a stage that a rank may hold: from F to W, and of these from F to I.
struct Limits {
  int held = 0;
  int in_flight = held;
};

// Unless told otherwise, with one stage a rank: 1F1B's, or twice that. In a V, as "Controllable
// Memory" has it: 1F1B's, about half and about a third; fewer than 1F1B's on two ranks as well.
Limits zb1p_limits(int pp) { return {pp}; }
Limits twice_pp(int pp) { return {2 * pp}; }
Limits v_half_limits(int pp) { return {2 * (pp / 2) + 2}; }
Limits v_min_limits(int pp) {
  const int held = 2 * ((pp + 4) / 3);
  return {held, std::min(held, std::max(2 * pp - 1, 2))};
}

template <Limits (*own_limits)(int pp)>
Ranks greedy(const OrderSpec& spec) {
  Limits limits = own_limits(spec.pp);
  if (spec.memory_limit > 0) {
    const double all = static_cast<double>(spec.vpp) * spec.microbatches;
    limits = {static_cast<int>(std::min(spec.memory_limit, all))};
  }
  std::vector<OrderCosts> costs = spec.stage_costs;
  if (costs.empty()) costs.assign(static_cast<std::size_t>(spec.pp) * spec.vpp, spec.costs);
  return schedule_greedily(
      {spec.pp, spec.vpp, spec.microbatches, std::move(costs), limits.held, limits.in_flight});
}

Ranks both_ways(const OrderSpec& spec) { return dualpipe(spec.pp, spec.microbatches / 2); }
Ranks both_ways_in_a_v(const OrderSpec& spec) { return dualpipe_v(spec.pp, spec.microbatches); }

Status any_size(const OrderSpec&) { return Done{}; }

Status one_chunk(const OrderSpec& spec) {
  if (spec.vpp != 1)
    return Error{fmt::format("order {}: found vpp = {}, expected 1: it has one stage a rank",
                             spec.name, spec.vpp)};
  return Done{};
}

Status one_rank(const OrderSpec& spec) {
  if (spec.pp != 1)
    return Error{fmt::format("order none: found pp = {}, expected 1: it has no pipeline", spec.pp)};
  return one_chunk(spec);
}

// The rules of Megatron's microbatch_group_size_per_vp_stage; a last group that is smaller must
// still fill the pipeline.
Status whole_groups(const OrderSpec& spec) {
  if (spec.vpp == 1) return Done{};
  const int group = group_of(spec);
  const int least = std::min(spec.pp, spec.microbatches);
  if (group < least || group > spec.microbatches)
    return Error::of({"schedule.group"},
                     fmt::format("order interleaved: found group N = {}, expected at least "
                                 "min(PP, M) = {} and at most M = {}",
                                 group, least, spec.microbatches));
  const int rest = spec.microbatches % group;
  if (rest != 0 && rest < spec.pp)
    return Error::of(
        {"schedule.group"},
        fmt::format("order interleaved: M % N = {} must be 0 or >= PP={}; found M = {} "
                    "microbatches in groups of N = {}",
                    rest, spec.pp, spec.microbatches, group));
  return Done{};
}

Status whole_rounds(const OrderSpec& spec) {
  const int rounds = std::max(1, spec.microbatches / spec.pp);
  if (spec.microbatches % rounds != 0)
    return Error{fmt::format(
        "order interleaved-zb: found M = {} microbatches, expected a multiple of the max(1, M / "
        "PP) = {} rounds that they run in",
        spec.microbatches, rounds)};
  return Done{};
}

Status enough_for_dualpipe(const OrderSpec& spec) {
  if (spec.microbatches < 2LL * spec.pp)
    return Error{fmt::format("order {}: found {} microbatches, expected at least 2 PP = {}",
                             spec.name, spec.microbatches, 2LL * spec.pp)};
  return Done{};
}

Status two_chains(const OrderSpec& spec) {
  if (spec.vpp != 1)
    return Error{fmt::format(
        "order dualpipe: found vpp = {}, expected 1: a rank has one stage of each of two chains",
        spec.vpp)};
  if (spec.pp % 2 != 0)
    return Error{fmt::format(
        "order dualpipe: found pp = {}, expected an even one: its two chains meet halfway",
        spec.pp)};
  if (spec.microbatches % 2 != 0)
    return Error{fmt::format(
        "order dualpipe: found {} microbatches, expected an even number: half for each chain",
        spec.microbatches)};
  return enough_for_dualpipe(spec);
}

struct NamedOrder {
  std::string_view name;
  Ranks (*make)(const OrderSpec&);
  Status (*check)(const OrderSpec&);
  bool greedy = false;   // follows costs and a memory limit
  bool v_shape = false;  // two stages a rank, down the ranks and back up
  bool splits_backwards = true;
  int chains = 1;
  BatchedP2p exchanges = BatchedP2p::Never;
};

constexpr NamedOrder kOrders[] = {
    {.name = "none",
     .make = each_rank<one_f_one_b>,
     .check = one_rank,
     .splits_backwards = false,
     .exchanges = BatchedP2p::EachAction},
    {.name = "gpipe",
     .make = each_rank<gpipe>,
     .check = one_chunk,
     .splits_backwards = false,
     .exchanges = BatchedP2p::EachAction},
    {.name = "1f1b",
     .make = each_rank<one_f_one_b>,
     .check = one_chunk,
     .splits_backwards = false,
     .exchanges = BatchedP2p::EachAction},
    {.name = "interleaved",
     .make = each_rank<interleaved>,
     .check = whole_groups,
     .splits_backwards = false,
     .exchanges = BatchedP2p::Pairs},
    {.name = "looped-bfs",
     .make = each_rank<looped_bfs>,
     .check = any_size,
     .splits_backwards = false},
    {"zb1p", greedy<zb1p_limits>, one_chunk, true},
    {"zb2p", greedy<twice_pp>, one_chunk, true},
    {"interleaved-zb", each_rank<interleaved_zb>, whole_rounds},
    {"zbv", greedy<twice_pp>, any_size, true, true},
    {"v-half", greedy<v_half_limits>, any_size, true, true},
    {"v-min", greedy<v_min_limits>, any_size, true, true},
    {.name = "dualpipe", .make = both_ways, .check = two_chains, .chains = 2},
    {.name = "dualpipev", .make = both_ways_in_a_v, .check = enough_for_dualpipe, .v_shape = true},
};

const NamedOrder* find_order(std::string_view name) {
  const auto* const named = std::find_if(std::begin(kOrders), std::end(kOrders),
                                         [&](const NamedOrder& o) { return o.name == name; });
  return named == std::end(kOrders) ? nullptr : named;
}

Error unknown_order(std::string_view found) {
  return Error{fmt::format("found order '{}', expected one of {}, or a CSV file; nearest is '{}'",
                           found, fmt::join(order_names(), ", "), nearest(found, order_names()))};
}

Status check_sizes(const OrderSpec& spec) {
  if (spec.pp < 1) return Error{fmt::format("found pp = {}, expected at least 1", spec.pp)};
  if (spec.vpp < 1) return Error{fmt::format("found vpp = {}, expected at least 1", spec.vpp)};
  if (spec.microbatches < 1)
    return Error{fmt::format("found {} microbatches, expected at least 1", spec.microbatches)};
  if (spec.group < 0)
    return Error{
        fmt::format("found group N = {}, expected at least 1, or 0 for min(PP, M)", spec.group)};
  const double actions = 2.0 * spec.pp * spec.vpp * spec.microbatches;
  if (actions > static_cast<double>(kMaxActions))
    return Error{
        fmt::format("found an order of {:.0f} actions (2 x pp {} x vpp {} x {} microbatches), "
                    "expected at most {}",
                    actions, spec.pp, spec.vpp, spec.microbatches, kMaxActions)};
  return Done{};
}

Status check_costs(const OrderCosts& costs) {
  for (const double cost : {costs.forward, costs.input, costs.weight, costs.transfer}) {
    if (!(cost >= 0) || std::isinf(cost))
      return Error{fmt::format("found a cost of {}, expected one that is not negative", cost)};
  }
  return Done{};
}

// What only some orders have, or take.
Status check_options(const NamedOrder& named, const OrderSpec& spec) {
  if (named.v_shape && spec.vpp != 2)
    return Error{fmt::format(
        "order {}: found vpp = {}, expected 2: its stages lie in a V, down the ranks and back up",
        spec.name, spec.vpp)};
  if (spec.expert_overlap && (spec.name != "interleaved" || spec.vpp == 1))
    return Error{fmt::format(
        "order {}: found expert overlap with vpp = {}, expected order interleaved with vpp >= 2: "
        "others have no warm-up to add to",
        spec.name, spec.vpp)};
  if (spec.memory_limit == 0) return Done{};
  if (!named.greedy)
    return Error{fmt::format(
        "order {}: found a memory limit, expected none: its actions follow from the sizes alone",
        spec.name)};
  if (!(spec.memory_limit >= spec.vpp))
    return Error{fmt::format(
        "order {}: found a memory limit of {} activations, expected at least {}: a rank holds one "
        "of each of its stages",
        spec.name, spec.memory_limit, spec.vpp)};
  return Done{};
}

// By how many activations an action changes what its rank holds.
int change_of_live(ActionKind kind) {
  if (kind == ActionKind::Forward) return 1;
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput ? -1 : 0;
}

}  // namespace

bool is_compute(ActionKind kind) { return kind <= ActionKind::BackwardWeight; }

bool has_microbatch(ActionKind kind) {
  return kind != ActionKind::Unshard && kind != ActionKind::Reshard &&
         kind != ActionKind::ReduceGrad;
}

Status check_order(const OrderSpec& spec) {
  const NamedOrder* const named = find_order(spec.name);
  if (named == nullptr) return unknown_order(spec.name);
  RETURN_IF_ERROR(check_sizes(spec));
  RETURN_IF_ERROR(check_costs(spec.costs));
  for (const OrderCosts& costs : spec.stage_costs) RETURN_IF_ERROR(check_costs(costs));
  CHECK(spec.stage_costs.empty() ||
        spec.stage_costs.size() == static_cast<std::size_t>(spec.pp) * spec.vpp);
  RETURN_IF_ERROR(check_options(*named, spec));
  return named->check(spec);
}

Result<Order> make_order(const OrderSpec& spec) {
  RETURN_IF_ERROR(check_order(spec));
  const NamedOrder* const named = find_order(spec.name);
  return Order{spec.name,
               named->chains * spec.pp * spec.vpp,
               spec.microbatches / named->chains,
               named->chains,
               named->make(spec),
               named->exchanges};
}

int default_vpp(std::string_view name) {
  const NamedOrder* const named = find_order(name);
  return named != nullptr && named->v_shape ? 2 : 1;
}

bool made_for_costs(std::string_view name) {
  const NamedOrder* const named = find_order(name);
  return named != nullptr && named->greedy;
}

bool splits_backwards(std::string_view name) {
  const NamedOrder* const named = find_order(name);
  return named != nullptr && named->splits_backwards;
}

int chains_of(std::string_view name) {
  const NamedOrder* const named = find_order(name);
  return named != nullptr ? named->chains : 1;
}

BatchedP2p batched_p2p_of(std::string_view name) {
  const NamedOrder* const named = find_order(name);
  return named != nullptr ? named->exchanges : BatchedP2p::Never;
}

std::vector<std::string> order_names() {
  std::vector<std::string> names;
  for (const NamedOrder& order : kOrders) names.emplace_back(order.name);
  return names;
}

std::vector<int> stage_to_rank(const Order& order) {
  std::vector<int> rank_of_stage(order.stages, -1);
  for (int rank = 0; rank < order.pp(); ++rank) {
    for (const Action& action : order.ranks[rank]) {
      if (!is_compute(action.kind)) continue;
      CHECK(index(action.stage) >= 0 && index(action.stage) < order.stages);
      if (rank_of_stage[index(action.stage)] < 0) rank_of_stage[index(action.stage)] = rank;
    }
  }
  return rank_of_stage;
}

int next_stage(const Order& order, int stage) {
  const int per_chain = order.stages / order.chains;
  return (stage + 1) % per_chain == 0 ? -1 : stage + 1;
}

int previous_stage(const Order& order, int stage) {
  const int per_chain = order.stages / order.chains;
  return stage % per_chain == 0 ? -1 : stage - 1;
}

std::vector<std::size_t> peak_actions(const Order& order) {
  std::vector<std::size_t> places;
  for (const Actions& actions : order.ranks) {
    int live = 0, peak = 0;
    std::size_t place = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      live += change_of_live(actions[i].kind);
      if (live > peak) {
        peak = live;
        place = i;
      }
    }
    places.push_back(place);
  }
  return places;
}

std::vector<std::vector<int>> peak_live(const Order& order) {
  const std::vector<int> rank_of_stage = stage_to_rank(order);
  const std::vector<std::size_t> peak = peak_actions(order);
  std::vector<int> live(order.stages);
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const Actions& actions = order.ranks[rank];
    for (std::size_t i = 0; i < actions.size() && i <= peak[rank]; ++i)
      live[index(actions[i].stage)] += change_of_live(actions[i].kind);
  }
  std::vector<std::vector<int>> peaks(order.pp());
  for (int stage = 0; stage < order.stages; ++stage)
    if (rank_of_stage[stage] >= 0) peaks[rank_of_stage[stage]].push_back(live[stage]);
  return peaks;
}

bool produces_gradient(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput;
}

int source(const Order& order, const Action& action) {
  const int stage = index(action.stage);
  if (action.kind == ActionKind::Forward) return previous_stage(order, stage);
  return produces_gradient(action.kind) ? next_stage(order, stage) : -1;
}

int sink(const Order& order, const Action& action) {
  const int stage = index(action.stage);
  if (action.kind == ActionKind::Forward) return next_stage(order, stage);
  return produces_gradient(action.kind) ? previous_stage(order, stage) : -1;
}

std::vector<Action> compute_actions(const std::vector<Action>& actions) {
  std::vector<Action> kept;
  kept.reserve(actions.size());
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(kept),
               [](const Action& action) { return is_compute(action.kind); });
  return kept;
}

}  // namespace tandem
