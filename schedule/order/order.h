// Order: what every pipeline rank does, action by action.
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
  // Of vocabulary parallelism (schedule/order/vocabulary.h), on every rank for its own rows; the
  // letters are E, S, T and G.
  EmbeddingForward,   // looks up
  OutputS,            // the head's first pass
  OutputT,            // its second, which ends with the weights' gradient
  EmbeddingBackward,  // adds up the gradient of what was looked up
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
bool is_vocabulary(ActionKind kind);
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
  int vocabulary = 0;  // vocabulary parallelism's algorithm, 1 or 2; 0: none

  int pp() const { return static_cast<int>(ranks.size()); }
};

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
// start together. Under vocabulary parallelism every rank has its passes once for each microbatch,
// in the order in which the stages that give and take their arrays have them; else no rank has any.
// Actions that compute nothing are not looked at. The Error is one line: the bad
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
