// Vocabulary parallelism: cuts input and output embedding over all ranks of the pipeline, and puts
// their passes into an order (Yeung et al., "Balancing Pipeline Parallelism with Vocabulary
// Parallelism", MLSys 2025, arXiv 2411.05288).
//
// Each rank has a part of the vocabulary's rows and does four passes for a microbatch:
//   E  embedding forward: looks up the tokens that are among its rows; the results are summed at
//      the first stage
//   S  output layer, first pass: computes its part of the logits from the last stage's output,
//      which all ranks receive. The softmax's maximum and sum are then reduced over all ranks.
//   T  output layer, second pass: corrects the softmax by the reduced maximum and sum, and computes
//      the gradient of its part of the weights
//   G  embedding backward: adds the first stage's input gradient to the rows that E looked up
// The last stage's backward needs the gradient of its output, summed over all ranks. In algorithm
// 1, T computes this gradient, so the backward waits for two reductions. In algorithm 2, S computes
// it unscaled and the softmax's reduction scales it; the backward waits for one reduction, and T
// may come at any time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "schedule/order/order.h"

namespace tandem {

// The times of a rank's passes for a microbatch, and of the communication between the passes, in
// the unit of the order's other costs.
struct VocabularyCosts {
  double embedding = 0, s = 1, t = 1, embedding_gradient = 0;
  double sum_input = 0;       // from E to the first stage's F
  double send_output = 0;     // from the last stage's F to S
  double reduce_softmax = 0;  // from S to T
  double sum_gradient = 0;    // from T to the last stage's B; algorithm 2: after reduce_softmax
  double send_gradient = 0;   // from the first stage's B to G
};

// Returns the number of reductions that the last stage's backward waits for, which is 2 in
// algorithm 1, 1 in algorithm 2, and 0 without vocabulary parallelism. The backward is postponed by
// so many microbatches, so that ranks do other passes meanwhile. 1F1B then holds pp + 2 or pp + 1
// activations.
int barriers(int algorithm);

// An input that vocabulary parallelism adds to an action: the output of all actions of a kind for
// the same microbatch, on every rank or of one stage.
struct VocabularyInput {
  ActionKind kind;   // of the producers; Backward: B or I
  int stage = -1;    // the producer's stage, for F, B or I; -1: a pass on every rank
  double delay = 0;  // from the producers' end to the input's use
};
// Returns the input that vocabulary parallelism adds to the action, or nothing.
std::optional<VocabularyInput> vocabulary_input(const Order& order, const Action& action,
                                                const VocabularyCosts& costs = {});
// Returns whether `action`, of the same microbatch, is a producer of the input.
bool gives(const VocabularyInput& input, const Action& action);

// The time that orders made for costs set aside for the vocabulary's passes.
struct VocabularyRoom {
  ActionKind with = ActionKind::BackwardWeight;  // F, I or W: the passes' time is added to its time
  double foreseen = 1;  // share of the last stage's delay between F and I that is set aside
};

struct OrderCosts;
struct OrderSpec;
struct OrderTraits;

// Checks the spec of such an order: the algorithm, several ranks, an order that supports it.
Status check_vocabulary(const OrderTraits& order, const OrderSpec& spec);

// Sets aside time for vocabulary passes in an order made for costs, as spec.vocabulary_room says.
// Adds the time of a rank's passes to its stages' costs. Returns the time to leave between the last
// stage's F and I, in the costs' unit; it assumes that each reduction also waits for one action
// that other ranks are doing. REQUIRES: spec.vocabulary > 0.
double make_room(const OrderSpec& spec, std::vector<OrderCosts>* stages);

// Makes the order with `make` and puts the passes in by with_vocabulary(). For an order made for
// costs it tries several VocabularyRooms and keeps the order that ends first.
Result<Order> make_with_vocabulary(const OrderSpec& spec, const std::vector<OrderCosts>& stages,
                                   bool made_for_costs,
                                   const std::function<Order(const OrderSpec&)>& make);

// Returns the order with E, S, T and G put in. It plays the order at these costs (one entry for
// each stage) and puts each pass where it becomes ready. S comes before everything else, since
// every rank waits for it, and so does algorithm 1's T. Algorithm 2's T comes when nothing else is
// ready or a second T waits. E comes one forward before it is needed. The other actions keep their
// order. Errors: two chains, an order that already has such passes, an order that waits for itself.
Result<Order> with_vocabulary(const Order& order, int algorithm, std::span<const OrderCosts> stages,
                              const VocabularyCosts& costs);

// Returns the lowest stage of each rank, which its vocabulary passes name.
std::vector<Stage> lowest_stages(const Order& order);

// Returns for each rank the most microbatches that are between their S and T at once.
std::vector<int> peak_outputs(const Order& order);

}  // namespace tandem
