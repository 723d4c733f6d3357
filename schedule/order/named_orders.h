// The orders by name: their traits, and how each is made from sizes and costs. A new order is one
// more row of the table in named_orders.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/order/order.h"
#include "schedule/order/vocabulary.h"

namespace tandem {

struct OrderSpec;

// The pipeline ranks that an order's stages are on.
struct StagePlacement {
  // REQUIRES: 0 <= stage < chains x pp x vpp.
  int (*rank_of)(int stage, int pp, int vpp);
  int vpp = 0;                  // required stages a rank; 0: any number
  std::string_view words = {};  // the placement in Errors about a wrong vpp: "in a V, ..."
};

// Looped: chunk c of rank r is stage c x pp + r.
inline constexpr StagePlacement kLooped{[](int stage, int pp, int) { return stage % pp; }};

// The round that a full pipeline repeats: a sequence of actions that recurs with later
// microbatches.
struct OrderRounds {
  int microbatches = 1;  // microbatches of a round, of all chains together; 0: not known
  int fill = 0;          // microbatches that fill the pipeline; rounds follow
};

// The properties of an order that are known without making it. All code asks for these properties
// and never compares names.
struct OrderTraits {
  std::string_view name;
  // Makes the actions of the ranks. REQUIRES: the spec is checked.
  std::vector<std::vector<Action>> (*make)(const OrderSpec&) = nullptr;
  Status (*check)(const OrderSpec&) = nullptr;  // checks the order's own rules
  // Returns the order's round. Adding a round's microbatches to the spec gives the same order with
  // one more round. Null: not known. REQUIRES: the spec is checked.
  OrderRounds (*rounds)(const OrderSpec&) = nullptr;
  StagePlacement placement = kLooped;
  int chains = 1;  // chains that run at once, each over all ranks
  // When ranks exchange with their neighbours if transfers do not overlap compute.
  BatchedP2p exchanges = BatchedP2p::Never;
  bool splits_backwards = false;  // input and weight gradients are separate actions
  bool pairs = false;             // forwards run together with backwards (with_next)
  // For orders made for OrderSpec::costs under a limit of activations: the default limit, as help
  // texts print it. Empty: the order uses neither costs nor limit.
  std::string_view memory_rule = {};
  bool groups = false;        // uses OrderSpec::group
  bool expert_pairs = false;  // uses OrderSpec::expert_overlap, see pairs_for_experts()
  bool pipelines = true;      // false: always one rank
  int least_vpp = 1;          // with a smaller vpp it is the same as another order of the table

  // Returns whether vocabulary parallelism is possible: one chain over several ranks, without
  // paired passes.
  bool takes_vocabulary() const { return pipelines && chains == 1 && !pairs; }

  // Returns the stages a rank if the user gives none.
  int default_vpp() const { return placement.vpp > 0 ? placement.vpp : 1; }
  bool made_for_costs() const { return !memory_rule.empty(); }
};

std::span<const OrderTraits> named_orders();

// The times of one stage's F, I and W, and of a transfer between two ranks, in any one unit.
struct OrderCosts {
  double forward = 1, input = 1, weight = 1, transfer = 0;

  double work() const { return forward + input + weight; }  // for one microbatch
};

// The sizes, costs and options that a named order is made from.
struct OrderSpec {
  std::string name;
  int pp = 1;
  int vpp = 1;
  int microbatches = 1;  // of all chains together
  // For interleaved: Megatron's microbatch_group_size_per_vp_stage; 0: min(pp, microbatches).
  int group = 0;
  OrderCosts costs = {};                     // for orders that are made for costs
  std::vector<OrderCosts> stage_costs = {};  // by stage; empty: `costs` for all
  // The most activations (one microbatch on one stage, from F to W) that a rank may hold. 0: the
  // order's own limit.
  double memory_limit = 0;
  // Megatron-LM's overlap of expert communication: one more warm-up forward, and each B runs
  // together with the F before it. Only for orders with pairs_for_experts().
  bool expert_overlap = false;
  // The algorithm of vocabulary parallelism (schedule/order/vocabulary.h), 1 or 2; 0: none. Its
  // reductions delay the last stage's backward, for which ranks may hold barriers() x vpp more
  // activations.
  int vocabulary = 0;
  VocabularyCosts vocabulary_costs = {};
  VocabularyRoom vocabulary_room = {};  // set by make_order(), which tries several
  // The table in which the name is looked up. REQUIRES: it outlives the spec.
  std::span<const OrderTraits> orders = named_orders();
};

// Makes an order. The Errors name the rule that is broken, such as "M % N = 1 must be 0 or >= PP=2"
// for interleaved.
//
// - `none`, `gpipe`, `1f1b`, `interleaved`, `looped-bfs`: stage = chunk * pp + rank.
// - `zb1p`, `zb2p`: one stage a rank, backwards split into I and W. They are made for the costs, so
//   that no rank holds more than the limit (pp and 2 pp activations). `interleaved-zb`: PyTorch's,
//   for any vpp; it takes no costs.
// - `zbv`, `v-half`, `v-min`: made for costs with two stages a rank in a V (stage s >= pp is on
//   rank 2 pp - 1 - s). They hold as much as 1F1B, about half and about a third of it: 2 pp,
//   2 floor(pp / 2) + 2 and 2 ceil((pp + 2) / 3) activations of these half stages.
// - `dualpipe`: two chains of pp stages, one down the ranks and one up, with half the microbatches
//   each. Chain 1's stage s is stage pp + s of the order, on rank pp - 1 - s. `dualpipev`: one
//   chain in a V. Both pair a forward of one direction with a backward of the other (with_next).
Result<Order> make_order(const OrderSpec& spec);
// Checks the rules of make_order() without making the order, so that a search can ask for many
// specs.
Status check_order(const OrderSpec& spec);

// Returns the traits of the order of that name. An order from a file has no row: its stages are
// taken to be looped, and its actions to be F and B.
const OrderTraits& traits_of(std::string_view name,
                             std::span<const OrderTraits> orders = named_orders());
const OrderTraits& traits_of(const OrderSpec& spec);

// Returns whether Megatron-LM can overlap experts in the order: on one pipeline rank, or
// interleaved.
bool pairs_for_experts(const OrderSpec& spec);

// Returns the order that Megatron-LM runs by default with so many stages a rank.
std::string_view default_order(int vpp);

// Return the names of all orders of a table, or of those for which `holds` is true, in the table's
// order.
std::vector<std::string> order_names(std::span<const OrderTraits> orders = named_orders());
std::vector<std::string> order_names(bool (*holds)(const OrderTraits&));
// Returns the same as help texts have it: "zb1p, zb2p and zbv".
std::string order_list(bool (*holds)(const OrderTraits&));

// Returns the rank of each stage of the chain of that number.
std::vector<int> ranks_of_chain(const OrderTraits& order, int pp, int vpp, int chain = 0);
// Returns whether the first and the last stage of all its chains share a rank.
bool ends_on_one_rank(const OrderTraits& order, int pp, int vpp);

}  // namespace tandem
