// Vocabulary parallelism: cuts input and output embedding over all ranks of the pipeline, and puts
// their passes into an order (Yeung et al., "Balancing Pipeline Parallelism with Vocabulary
// Parallelism", MLSys 2025, arXiv 2411.05288).
//
// Each rank has a part of the vocabulary and does four passes for a microbatch:
//   E  looks its rows up; the results are summed at the first stage
//   S  turns the last stage's output, which all ranks get, into logits, their largest and their
//      sum, which are reduced over all ranks
//   T  corrects the softmax by those and computes the gradient of the weights
//   G  adds the gradient of the looked-up rows to its own rows
// The gradient of the last stage's output is summed over the ranks, and only then can this stage do
// its backward. In algorithm 1 T computes that gradient, after two reductions. In algorithm 2 S
// does, before the reduction, whose result scales it; so one reduction remains, and T may come at
// any time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "schedule/order/order.h"

namespace tandem {

// The times of a rank's passes for a microbatch, and of what the ranks then send each other, in the
// unit of the order's other costs.
struct VocabularyCosts {
  double embedding = 0, s = 1, t = 1, embedding_gradient = 0;
  double sum_input = 0;       // from E to the first stage's F
  double send_output = 0;     // from the last stage's F to S
  double reduce_softmax = 0;  // from S to T
  double sum_gradient = 0;    // from T to the last stage's B; algorithm 2: after reduce_softmax
  double send_gradient = 0;   // from the first stage's B to G
};

// Returns by how many microbatches the last stage's backward comes later, so that ranks do other
// passes during the algorithm's reductions. 1F1B then holds p + 2 microbatches with algorithm 1, p
// + 1 with 2.
int barriers(int algorithm);

// The input of an action from vocabulary parallelism, besides its own: this kind of action for the
// same microbatch, on every rank or of one stage.
struct VocabularyInput {
  ActionKind kind;
  int stage = -1;    // stage of that F, B or I; -1: on every rank
  double delay = 0;  // from the end of that to its use
};
std::optional<VocabularyInput> vocabulary_input(const Order& order, const Action& action,
                                                const VocabularyCosts& costs = {});
// Returns whether `action` gives the input.
bool gives(const VocabularyInput& input, const Action& action);

// The room that orders made for costs leave for the vocabulary's passes: the action of a stage
// whose time grows, and the share of the last stage's delay that is foreseen.
struct VocabularyRoom {
  ActionKind with = ActionKind::BackwardWeight;
  double foreseen = 1;
};

struct OrderCosts;
struct OrderSpec;
struct OrderTraits;

// Checks the spec of such an order: the algorithm, several ranks, an order that supports it.
Status check_vocabulary(const OrderTraits& order, const OrderSpec& spec);

// Leaves room in an order that is made for costs, as spec.vocabulary_room says. Adds the time of a
// rank's passes to its stages' costs. Returns the time to leave between the last stage's F and I,
// each reduction behind an action that other ranks are doing, in the costs' unit. REQUIRES:
// spec.vocabulary > 0.
double make_room(const OrderSpec& spec, std::vector<OrderCosts>* stages);

// Returns with_vocabulary() of the order that `make` gives for the spec. For an order that is made
// for costs it tries several ways to leave room, plays each, and keeps the best.
Result<Order> make_with_vocabulary(const OrderSpec& spec, const std::vector<OrderCosts>& stages,
                                   bool made_for_costs,
                                   const std::function<Order(const OrderSpec&)>& make);

// Returns the order with E, S, T and G put in where they are ready when it is played at these costs
// (one entry for each stage). S comes before everything else, since every rank waits for it. So
// does algorithm 1's T. Algorithm 2's T comes when nothing else is ready or a second one waits. E
// comes one forward before it is needed. Everything else stays in its order. Errors: two chains,
// passes that are already there, an order that waits for itself.
Result<Order> with_vocabulary(const Order& order, int algorithm, std::span<const OrderCosts> stages,
                              const VocabularyCosts& costs);

// Returns for each rank the most microbatches between S and T.
std::vector<int> peak_outputs(const Order& order);

}  // namespace tandem
