// The orders by name: what is known of each, and how it is made from sizes and costs. A new order
// is one more row of the table in named_orders.cpp.
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

// Where the stages of an order stand on the pipeline ranks.
struct StagePlacement {
  // REQUIRES: 0 <= stage < chains x pp x vpp.
  int (*rank_of)(int stage, int pp, int vpp);
  int vpp = 0;                  // stages a rank that it needs; 0: any number
  std::string_view words = {};  // how they lie, where it needs a number: "in a V, ..."
};

// Stage = chunk x pp + rank.
inline constexpr StagePlacement kLooped{[](int stage, int pp, int) { return stage % pp; }};

// What a full pipeline does again and again.
struct OrderRounds {
  int microbatches = 1;  // of a round, of all chains together; 0: none is known
  int fill = 0;          // microbatches that go before the first one, on any rank
};

// What is known of an order without making it. Whoever wants to know asks this, never the name.
struct OrderTraits {
  std::string_view name;
  // The actions of the ranks. REQUIRES: the spec is checked.
  std::vector<std::vector<Action>> (*make)(const OrderSpec&) = nullptr;
  Status (*check)(const OrderSpec&) = nullptr;  // the order's own rules
  // With a round's microbatches more, it is the same order with one more round. Null: not known.
  // REQUIRES: the spec is checked.
  OrderRounds (*rounds)(const OrderSpec&) = nullptr;
  StagePlacement placement = kLooped;
  int chains = 1;  // that run at once, each over all ranks
  // When transfers can be waited for.
  BatchedP2p exchanges = BatchedP2p::Never;
  bool splits_backwards = false;  // gradients of inputs and weights are actions of their own
  bool pairs = false;             // a forward runs together with a backward (with_next)
  // Made for OrderSpec::costs under a limit of activations, which is this by itself, as help texts
  // say it; empty: it takes neither.
  std::string_view memory_rule = {};
  bool groups = false;          // takes OrderSpec::group
  bool expert_warm_up = false;  // takes OrderSpec::expert_overlap
  bool pipelines = true;        // false: it has one rank
  int least_vpp = 1;            // with fewer stages a rank it is another order of the table

  // Whether its ranks can share the vocabulary: one chain over several, a pass at a time.
  bool takes_vocabulary() const { return pipelines && chains == 1 && !pairs; }

  // The stages a rank where nobody says.
  int default_vpp() const { return placement.vpp > 0 ? placement.vpp : 1; }
  bool made_for_costs() const { return !memory_rule.empty(); }
};

std::span<const OrderTraits> named_orders();

// Times of one stage's F, I and W and of a transfer between two ranks, in any one unit.
struct OrderCosts {
  double forward = 1, input = 1, weight = 1, transfer = 0;
};

// What a named order is made from.
struct OrderSpec {
  std::string name;
  int pp = 1;
  int vpp = 1;
  int microbatches = 1;  // of all chains together
  int group =
      0;  // interleaved: Megatron's microbatch_group_size_per_vp_stage; 0: min(pp, microbatches)
  OrderCosts costs = {};                     // what those that take a memory limit are made for
  std::vector<OrderCosts> stage_costs = {};  // the same, one a stage; empty: all alike
  // Most activations that a rank holds, of one stage each, from F to W; 0: the order's own limit.
  double memory_limit = 0;
  bool expert_overlap = false;  // interleaved: one more warm-up, as Megatron overlaps experts
  // Vocabulary parallelism's algorithm, 1 or 2 (schedule/order/vocabulary.h), and what its passes
  // take; 0: none. A rank holds as many more activations as the last stage's gradients come later.
  int vocabulary = 0;
  VocabularyCosts vocabulary_costs = {};
  VocabularyRoom vocabulary_room = {};  // tried one by one: make_order's own
  // Where the name is looked up. REQUIRES: they outlive the spec.
  std::span<const OrderTraits> orders = named_orders();
};

// Errors name the rule that is broken, e.g. "M % N = 1 must be 0 or >= PP=2" for interleaved.
//
// - `none`, `gpipe`, `1f1b`, `interleaved`, `looped-bfs`: stage = chunk * pp + rank.
// - `zb1p`, `zb2p`: one stage a rank, backwards split into I and W; made for the costs, so that no
//   rank holds more than the limit (pp and 2 pp activations). `interleaved-zb`: PyTorch's, for any
//   vpp; it knows no costs.
// - `zbv`, `v-half`, `v-min`: the same with two stages a rank in a V (stage s >= pp is on rank
//   2 pp - 1 - s), which hold as much as 1F1B, about half and about a third of it: 2 pp,
//   2 floor(pp / 2) + 2 and 2 ceil((pp + 2) / 3) activations of these half stages.
// - `dualpipe`: two chains of pp stages, one down the ranks and one up, with half the microbatches
//   each; chain 1's stage s is stage pp + s of the order, on rank pp - 1 - s. `dualpipev`: one
//   chain in a V. Both pair a forward of one direction with a backward of the other (with_next).
Result<Order> make_order(const OrderSpec& spec);
// The rules of make_order, without the order: as many specs a second as a search asks for.
Status check_order(const OrderSpec& spec);

// What is known of the order of that name. An order from a file has no row: its stages are taken to
// be looped, and its actions to be F and B.
const OrderTraits& traits_of(std::string_view name,
                             std::span<const OrderTraits> orders = named_orders());
const OrderTraits& traits_of(const OrderSpec& spec);

// What Megatron-LM runs with so many stages a rank where nobody says.
std::string_view default_order(int vpp);

// The names of those of which `holds` is true, in the order of the table.
std::vector<std::string> order_names(std::span<const OrderTraits> orders = named_orders());
std::vector<std::string> order_names(bool (*holds)(const OrderTraits&));
// The same as help texts have them: "zb1p, zb2p and zbv".
std::string order_list(bool (*holds)(const OrderTraits&));

// The rank of each of a chain's stages, of the chain so numbered.
std::vector<int> ranks_of_chain(const OrderTraits& order, int pp, int vpp, int chain = 0);
// Whether the first and the last stage of all its chains share a rank.
bool ends_on_one_rank(const OrderTraits& order, int pp, int vpp);

}  // namespace tandem
