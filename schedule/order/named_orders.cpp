// The orders by name: each a pure function from sizes (and costs) to the actions of the ranks, and
// the table of their traits.
#include "schedule/order/named_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"
#include "schedule/order/dualpipe.h"
#include "schedule/order/greedy_orders.h"

namespace tandem {
namespace {

using Actions = std::vector<Action>;

// The most actions of an order, which take 16 bytes of memory each.
constexpr std::int64_t kMaxActions = 100'000'000;

// One chunk of one microbatch, which a rank does once forward and once backward.
struct Unit {
  int chunk = 0;
  int microbatch = 0;
};

Action action(const OrderSpec& spec, int rank, ActionKind kind, const Unit& unit) {
  return Action{Stage{unit.chunk * spec.pp + rank}, kind, Microbatch{unit.microbatch}};
}

// Returns the order of a rank's forwards in Megatron-LM: `group` microbatches through every chunk,
// then the next group. With 2 chunks and groups of 2, as chunk.microbatch: 0.0 0.1 1.0 1.1, then
// 0.2 0.3 1.2 1.3.
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

// Returns `warm_up` forwards (and barriers() more with vocabulary parallelism, but at most all),
// then forwards and backwards in turn, then the remaining backwards. The backwards take the units
// in the order of the forwards, but from the last chunk to the first.
Actions one_forward_one_backward(const OrderSpec& spec, int rank, const std::vector<Unit>& units,
                                 std::int64_t warm_up) {
  const auto count = static_cast<std::int64_t>(units.size());
  warm_up = std::min(warm_up + barriers(spec.vocabulary), count);
  Actions actions;
  actions.reserve(2 * units.size());
  for (std::int64_t i = 0; i < count + warm_up; ++i) {
    if (i < count) actions.push_back(action(spec, rank, ActionKind::Forward, units[i]));
    if (i < warm_up) continue;
    if (i < count) actions.back().with_next = spec.expert_overlap;
    const Unit& unit = units[i - warm_up];
    actions.push_back(
        action(spec, rank, ActionKind::Backward, {spec.vpp - 1 - unit.chunk, unit.microbatch}));
  }
  return actions;
}

int warm_up_of(const OrderSpec& spec, int rank) {
  return spec.pp - rank - 1 + (spec.expert_overlap ? 1 : 0);
}

Actions one_f_one_b(const OrderSpec& spec, int rank) {
  return one_forward_one_backward(spec, rank, units_in_groups(spec, spec.microbatches),
                                  warm_up_of(spec, rank));
}

int group_of(const OrderSpec& spec) {
  return spec.group > 0 ? spec.group : std::min(spec.pp, spec.microbatches);
}

// This function and group_by_group(), zb_groups() and two_of_each_chain() below are values of
// OrderTraits::rounds.
OrderRounds one_by_one(const OrderSpec& spec) { return {1, warm_up_of(spec, 0)}; }

// Returns the microbatches of a group of interleaved-zb. As in PyTorch, the microbatches are cut
// into max(1, microbatches / pp) equal groups.
int zb_group(const OrderSpec& spec) {
  return spec.microbatches / std::max(1, spec.microbatches / spec.pp);
}

// Makes Megatron-LM's interleaved 1F1B. Each rank runs two units further ahead than the next, so
// that its F and B alternate without waiting.
Actions interleaved(const OrderSpec& spec, int rank) {
  if (spec.vpp == 1) return one_f_one_b(spec, rank);
  const int group = group_of(spec);
  const std::int64_t ahead =
      2LL * (spec.pp - rank - 1) + (spec.vpp - 1LL) * group + (spec.expert_overlap ? 1 : 0);
  return one_forward_one_backward(spec, rank, units_in_groups(spec, group), ahead);
}

// Rank 0 runs fewer than vpp x group + 2 pp units ahead, as interleaved() says. A microbatch has
// vpp units, so these are group + 2 pp / vpp microbatches.
OrderRounds rounds_of_groups(const OrderSpec& spec, int group) {
  return {group, group + 2 * spec.pp / spec.vpp};
}

OrderRounds group_by_group(const OrderSpec& spec) {
  return spec.vpp == 1 ? one_by_one(spec) : rounds_of_groups(spec, group_of(spec));
}

OrderRounds zb_groups(const OrderSpec& spec) { return rounds_of_groups(spec, zb_group(spec)); }

Actions gpipe(const OrderSpec& spec, int rank) {
  return one_forward_one_backward(spec, rank, units_in_groups(spec, spec.microbatches),
                                  spec.microbatches);
}

// Goes breadth first: all microbatches pass a chunk before the first passes the next chunk. The
// backwards are in the reverse order of the forwards.
Actions looped_bfs(const OrderSpec& spec, int rank) {
  const std::vector<Unit> units = units_in_groups(spec, spec.microbatches);
  Actions actions;
  actions.reserve(2 * units.size());
  for (const Unit& unit : units) actions.push_back(action(spec, rank, ActionKind::Forward, unit));
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit)
    actions.push_back(action(spec, rank, ActionKind::Backward, *unit));
  return actions;
}

// Makes PyTorch's InterleavedZeroBubble. It is like interleaved(), but each rank runs one unit
// further ahead than the next, not two. Rank r postpones r weight gradients, which fill its idle
// time at the end.
Actions interleaved_zb(const OrderSpec& spec, int rank) {
  const int group = zb_group(spec);
  const std::int64_t ahead = spec.pp - rank - 1 + (spec.vpp - 1LL) * group;
  const Actions whole = one_forward_one_backward(spec, rank, units_in_groups(spec, group), ahead);
  Actions actions, weights;
  actions.reserve(whole.size() / 2 * 3);
  weights.reserve(whole.size() / 2);
  int done = 0;  // of `weights`
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

// Makes all ranks' actions with a function that makes one rank's.
template <Actions (*rank_actions)(const OrderSpec&, int rank)>
Ranks each_rank(const OrderSpec& spec) {
  Ranks ranks;
  ranks.reserve(spec.pp);
  for (int rank = 0; rank < spec.pp; ++rank) ranks.push_back(rank_actions(spec, rank));
  return ranks;
}

Ranks both_ways(const OrderSpec& spec) { return dualpipe(spec.pp, spec.microbatches / 2); }
Ranks both_ways_in_a_v(const OrderSpec& spec) { return dualpipe_v(spec.pp, spec.microbatches); }

// Returns rounds of two microbatches of each chain. Transfers that begin at the same time go in the
// other order in the second one, so a single microbatch does not repeat.
template <int kChains>
OrderRounds two_of_each_chain(const OrderSpec& spec) {
  return {2 * kChains, 2 * spec.pp};
}

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

// Checks the rules of Megatron-LM's microbatch_group_size_per_vp_stage. A smaller last group must
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

// Places stages down the ranks and back up: a chain of two stages a rank, or a second chain the
// other way.
int down_and_up(int stage, int pp, int) {
  const int place = stage % pp;
  return stage / pp % 2 == 0 ? place : pp - 1 - place;
}

constexpr StagePlacement kInAV{down_and_up, 2, "in a V, down the ranks and back up"};

// Makes the row of an order that list scheduling makes: one stage a rank, or two in a V.
template <LimitsOf limits>
constexpr OrderTraits greedy(std::string_view name, std::string_view memory_rule,
                             StagePlacement placement) {
  return {.name = name,
          .make = [](const OrderSpec& spec) { return make_greedy(spec, limits); },
          .check = placement.vpp > 0 ? any_size : one_chunk,
          .rounds = [](const OrderSpec& spec) { return rounds_of_greedy(spec, limits); },
          .placement = placement,
          .splits_backwards = true,
          .memory_rule = memory_rule};
}

constexpr OrderTraits kOrders[] = {
    {.name = "none",
     .make = each_rank<one_f_one_b>,
     .check = one_rank,
     .rounds = one_by_one,
     .exchanges = BatchedP2p::EachAction,
     .expert_pairs = true,
     .pipelines = false},
    {.name = "gpipe",
     .make = each_rank<gpipe>,
     .check = one_chunk,
     .exchanges = BatchedP2p::EachAction},
    {.name = "1f1b",
     .make = each_rank<one_f_one_b>,
     .check = one_chunk,
     .rounds = one_by_one,
     .exchanges = BatchedP2p::EachAction,
     .expert_pairs = true},
    {.name = "interleaved",
     .make = each_rank<interleaved>,
     .check = whole_groups,
     .rounds = group_by_group,
     .exchanges = BatchedP2p::Pairs,
     .groups = true,
     .expert_pairs = true,
     .least_vpp = 2},
    {.name = "looped-bfs", .make = each_rank<looped_bfs>, .check = any_size},
    greedy<zb1p_limits>("zb1p", "pp", kLooped),
    greedy<twice_pp>("zb2p", "2pp", kLooped),
    {.name = "interleaved-zb",
     .make = each_rank<interleaved_zb>,
     .check = whole_rounds,
     .rounds = zb_groups,
     .splits_backwards = true},
    greedy<twice_pp>("zbv", "2pp", kInAV),
    greedy<v_half_limits>("v-half", "2floor(pp / 2) + 2", kInAV),
    greedy<v_min_limits>("v-min", "2ceil((pp + 2) / 3)", kInAV),
    {.name = "dualpipe",
     .make = both_ways,
     .check = two_chains,
     .rounds = two_of_each_chain<2>,
     .placement = {down_and_up},
     .chains = 2,
     .splits_backwards = true,
     .pairs = true},
    {.name = "dualpipev",
     .make = both_ways_in_a_v,
     .check = enough_for_dualpipe,
     .rounds = two_of_each_chain<1>,
     .placement = kInAV,
     .splits_backwards = true,
     .pairs = true},
};

// The traits of an order from a file.
constexpr OrderTraits kUnnamed{};

Error unknown_order(const OrderSpec& spec) {
  const std::vector<std::string> names = order_names(spec.orders);
  return Error{fmt::format("found order '{}', expected one of {}, or a file; nearest is '{}'",
                           spec.name, fmt::join(names, ", "), nearest(spec.name, names))};
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

// Checks options that only some orders have.
Status check_options(const OrderTraits& order, const OrderSpec& spec) {
  const auto& [rank_of, vpp, words] = order.placement;
  if (vpp > 0 && spec.vpp != vpp)
    return Error{fmt::format("order {}: found vpp = {}, expected {}: its stages lie {}", spec.name,
                             spec.vpp, vpp, words)};
  if (spec.expert_overlap && !pairs_for_experts(spec))
    return Error{fmt::format(
        "order {}: found expert overlap with pp = {} and vpp = {}, expected order {} with pp = 1 "
        "or vpp >= 2: others run no forward beside a backward",
        spec.name, spec.pp, spec.vpp,
        order_list([](const OrderTraits& o) { return o.expert_pairs; }))};
  RETURN_IF_ERROR(check_vocabulary(order, spec));
  if (spec.memory_limit == 0) return Done{};
  if (!order.made_for_costs())
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

}  // namespace

std::span<const OrderTraits> named_orders() { return kOrders; }

const OrderTraits& traits_of(std::string_view name, std::span<const OrderTraits> orders) {
  const auto named = std::ranges::find(orders, name, &OrderTraits::name);
  return named == orders.end() ? kUnnamed : *named;
}

const OrderTraits& traits_of(const OrderSpec& spec) { return traits_of(spec.name, spec.orders); }

std::string_view default_order(int vpp) { return vpp > 1 ? "interleaved" : "1f1b"; }

Status check_order(const OrderSpec& spec) {
  const OrderTraits& order = traits_of(spec);
  if (order.make == nullptr) return unknown_order(spec);
  RETURN_IF_ERROR(check_sizes(spec));
  RETURN_IF_ERROR(check_costs(spec.costs));
  for (const OrderCosts& costs : spec.stage_costs) RETURN_IF_ERROR(check_costs(costs));
  CHECK(spec.stage_costs.empty() ||
        spec.stage_costs.size() == static_cast<std::size_t>(spec.pp) * spec.vpp);
  RETURN_IF_ERROR(check_options(order, spec));
  return order.check(spec);
}

Result<Order> make_order(const OrderSpec& spec) {
  RETURN_IF_ERROR(check_order(spec));
  const OrderTraits& traits = traits_of(spec);
  const auto make = [&traits](const OrderSpec& sized) {
    return Order{.name = sized.name,
                 .stages = traits.chains * sized.pp * sized.vpp,
                 .microbatches = sized.microbatches / traits.chains,
                 .chains = traits.chains,
                 .ranks = traits.make(sized),
                 .exchanges = traits.exchanges,
                 .trades_layers = sized.expert_overlap};
  };
  if (spec.vocabulary == 0) return make(spec);
  return make_with_vocabulary(spec, stage_costs(spec), traits.made_for_costs(), make);
}

bool pairs_for_experts(const OrderSpec& spec) {
  return traits_of(spec).expert_pairs && (spec.pp == 1 || spec.vpp > 1);
}

std::vector<std::string> order_names(std::span<const OrderTraits> orders) {
  std::vector<std::string> names;
  for (const OrderTraits& order : orders) names.emplace_back(order.name);
  return names;
}

std::vector<std::string> order_names(bool (*holds)(const OrderTraits&)) {
  std::vector<std::string> names;
  for (const OrderTraits& order : kOrders) {
    if (holds(order)) names.emplace_back(order.name);
  }
  return names;
}

std::string order_list(bool (*holds)(const OrderTraits&)) {
  const std::vector<std::string> names = order_names(holds);
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 < names.size() ? ", " : " and ";
    list += names[i];
  }
  return list;
}

std::vector<int> ranks_of_chain(const OrderTraits& order, int pp, int vpp, int chain) {
  std::vector<int> ranks(static_cast<std::size_t>(pp) * vpp);
  for (std::size_t stage = 0; stage < ranks.size(); ++stage)
    ranks[stage] = order.placement.rank_of(static_cast<int>(chain * ranks.size() + stage), pp, vpp);
  return ranks;
}

bool ends_on_one_rank(const OrderTraits& order, int pp, int vpp) {
  return order.placement.rank_of(0, pp, vpp) ==
         order.placement.rank_of(order.chains * pp * vpp - 1, pp, vpp);
}

}  // namespace tandem
