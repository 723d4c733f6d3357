// Order: what every pipeline rank does, action by action. "1F1B" is a pure function -> Order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace tandem {

// The letters are PyTorch's: F, B (full backward), I (input gradient), W (weight gradient).
enum class ActionKind : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Unshard,     // gather the stage's parameters
  Reshard,     // drop them
  ReduceGrad,  // reduce the stage's gradients over the data-parallel ranks
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
};

// One cell's worth of work. `stage` is the owner's: 0SEND_F1 pairs with 1RECV_F1.
struct Action {
  Stage stage{};
  ActionKind kind = ActionKind::Forward;
  Microbatch microbatch{};  // of no meaning for Unshard, Reshard, ReduceGrad
  bool with_next = false;   // runs together with the next action: PyTorch's (a;b)OVERLAP_F_B

  bool operator==(const Action&) const = default;
};

bool is_compute(ActionKind kind);
bool has_microbatch(ActionKind kind);

// When a rank of the order exchanges with its neighbours where transfers do not overlap: never
// (then they must), after each action, or in the steady state after each pair of an F and a B.
enum class BatchedP2p : std::uint8_t { Never, EachAction, Pairs };

// The ordered actions of every pipeline rank.
struct Order {
  std::string name;
  int stages = 0;
  int microbatches = 0;  // of each chain
  int chains = 1;        // DualPipe runs two: stages 0..S/2-1 and S/2..S-1
  std::vector<std::vector<Action>> ranks;
  BatchedP2p exchanges = BatchedP2p::Never;

  int pp() const { return static_cast<int>(ranks.size()); }
};

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
  // Only for zb1p, zb2p, zbv, v-half, v-min.
  double memory_limit = 0;
  bool expert_overlap = false;  // interleaved: one more warm-up, as Megatron overlaps experts
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
std::vector<std::string> order_names();

// The stages a rank that the order needs: 2 for those in a V, else 1.
int default_vpp(std::string_view name);
// Whether it follows OrderSpec::costs.
bool made_for_costs(std::string_view name);
// Whether the gradients of inputs and of weights are actions of their own.
bool splits_backwards(std::string_view name);
// The chains of stages that run at once.
int chains_of(std::string_view name);
// When transfers can be waited for.
BatchedP2p batched_p2p_of(std::string_view name);

// The rank that computes each stage: rank_of_stage[s], from the order itself; -1 where none does.
std::vector<int> stage_to_rank(const Order& order);

// The stage that consumes what `stage` produces forward (or -1), and the one that it consumes from.
int next_stage(const Order& order, int stage);
int previous_stage(const Order& order, int stage);

// Whether the action gives a gradient to the stage before.
bool produces_gradient(ActionKind kind);

// The stage that an action's input comes from, and the one that its output goes to; -1: none.
int source(const Order& order, const Action& action);
int sink(const Order& order, const Action& action);

// The actions that compute, in their order.
std::vector<Action> compute_actions(const std::vector<Action>& actions);

// An order is valid when every rank has a stage and every stage lives on one rank, each of its
// microbatches has one F and either one B or one I and one W, F before B or I, I before W, and
// nothing waits for itself: replayed rank by rank it ends. Actions that run together (with_next)
// start together. Actions that compute nothing are not looked at. The Error is one line: the bad
// step or, for a cycle, the ranks and the actions they are stuck at; explain() of order_text.h
// shows it in the grid.
Status validate(const Order& order);

// By rank, the forward with which it comes to its peak: its place in `ranks[rank]`. The peak is the
// first moment where the rank's activations, microbatches between their F and their B or I, are
// most, over all its stages.
std::vector<std::size_t> peak_actions(const Order& order);

// The activations that each rank holds at its peak, for every stage of the rank, in stage order.
std::vector<std::vector<int>> peak_live(const Order& order);

}  // namespace tandem
