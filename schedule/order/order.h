// Order: what every pipeline rank does, action by action. 1F1B of 2 stages and 3 microbatches, for
// example:
//
//   rank 0  0F0 0F1 0B0 0F2 0B1 0B2
//   rank 1  1F0 1B0 1F1 1B1 1F2 1B2
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace tandem {

// The kinds of actions. The letters are PyTorch's: F, B (full backward), I (input gradient), W
// (weight gradient).
enum class ActionKind : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Unshard,     // gather the stage's parameters
  Reshard,     // drop the gathered parameters
  ReduceGrad,  // reduce the stage's gradients over the data-parallel ranks
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  // Passes of vocabulary parallelism (schedule/order/vocabulary.h), on every rank for its own rows
  // of the vocabulary. The letters are E, S, T and G.
  EmbeddingForward,   // looks up the tokens among its rows
  OutputS,            // the output layer's first pass
  OutputT,            // the output layer's second pass, with the weight gradient
  EmbeddingBackward,  // adds the gradient to the rows that were looked up
};

// One action. `stage` is always a stage of the acting rank: 0SEND_F1 pairs with 1RECV_F1.
struct Action {
  Stage stage{};
  ActionKind kind = ActionKind::Forward;
  Microbatch microbatch{};  // no meaning for Unshard, Reshard, ReduceGrad
  bool with_next = false;   // runs together with the next action: PyTorch's (a;b)OVERLAP_F_B

  bool operator==(const Action&) const = default;
};

bool is_compute(ActionKind kind);
bool is_vocabulary(ActionKind kind);
bool has_microbatch(ActionKind kind);

// The times when a rank sends and receives all its outstanding transfers as one batch, if transfers
// do not overlap compute: never (transfers must overlap), after each action, or in the steady state
// after each pair of an F and a B.
enum class BatchedP2p : std::uint8_t { Never, EachAction, Pairs };

// The ordered actions of every pipeline rank.
struct Order {
  std::string name;
  int stages = 0;
  int microbatches = 0;  // of each chain
  int chains = 1;        // DualPipe runs two: stages 0..S/2-1 and S/2..S-1
  std::vector<std::vector<Action>> ranks;
  BatchedP2p exchanges = BatchedP2p::Never;
  // Actions that run together alternate layer by layer, as in Megatron-LM's combined 1F1B: whenever
  // the backward frees a layer's activations, the forward adds one layer's.
  bool trades_layers = false;
  int vocabulary = 0;  // vocabulary parallelism's algorithm, 1 or 2; 0: none

  int pp() const { return static_cast<int>(ranks.size()); }
  // Return the size of a table by stage and microbatch, and the index of an entry of it.
  std::size_t slots() const { return static_cast<std::size_t>(stages) * microbatches; }
  std::size_t slot(int stage, Microbatch microbatch) const {
    return static_cast<std::size_t>(stage) * microbatches + index(microbatch);
  }
};

// Returns by stage the rank that computes it, or -1 if no rank does.
std::vector<int> stage_to_rank(const Order& order);

// Return the stage that takes this stage's forward output, and the stage whose forward output this
// stage takes; -1: none.
int next_stage(const Order& order, int stage);
int previous_stage(const Order& order, int stage);

// Returns whether the kind computes an input gradient, for the stage before: B or I.
bool produces_gradient(ActionKind kind);

// Return the stage that an action's input comes from, and the stage that its output goes to; -1:
// none.
int source(const Order& order, const Action& action);
int sink(const Order& order, const Action& action);

// Returns whether any actions run together with the next ones.
bool has_cells(const Order& order);

// Return the actions that compute, in their order: of one rank, or as an order of all ranks.
std::vector<Action> compute_actions(const std::vector<Action>& actions);
Order without_communication(Order order);

// Checks that an order is valid:
// - Every rank has a stage, and every stage is on one rank.
// - Each microbatch of a stage has one F, and one B or one I and one W. F comes before B or I,
//   and I before W.
// - Nothing waits for itself: replayed rank by rank the order ends. Actions that run together
//   (with_next) start together.
// - With vocabulary parallelism every rank has each of its passes once for each microbatch, in the
//   order in which the stages that give and take their arrays have them. Without, no rank has any.
// Actions that compute nothing are not checked. The Error is one line: the bad step or, for a
// cycle, the ranks and the actions at which they are stuck. explain_fault() of order_text.h marks
// the step in the rows of the order.
Status validate(const Order& order);

// Returns for each rank the index in `ranks[rank]` of the forward with which it reaches its peak:
// the first moment when the rank holds the most activations over all its stages. An activation is
// held from a microbatch's F on a stage to its B or I there.
std::vector<std::size_t> peak_actions(const Order& order);

// Returns the activations that each rank holds at its peak, for each of its stages in stage order.
std::vector<std::vector<int>> peak_live(const Order& order);

}  // namespace tandem
