// Vocabulary parallelism: input and output embedding cut over all ranks of the pipeline, their
// passes laid into an order (Yeung et al., "Balancing Pipeline Parallelism with Vocabulary
// Parallelism", MLSys 2025, arXiv 2411.05288).
//
// Each rank has a part of the vocabulary and does four things for a microbatch: E looks its rows up
// (what they give is summed at the first stage); S takes the last stage's output, which all ranks
// get, to logits and their largest and sum (which are reduced over all ranks); T corrects the
// softmax by those and gives the gradient of the weights; G adds the gradient of what was looked up
// to its rows. The gradient of the last stage's output is summed over the ranks, and only then has
// this stage its backward: in algorithm 1 T gives it, behind two reductions; in algorithm 2 S does,
// before the reduction, whose outcome scales it, so that one is left and T may come at any time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "schedule/order/order.h"

namespace tandem {

// Times of a rank's passes for a microbatch, and of what the ranks then send each other, in the
// unit of the order's other costs.
struct VocabularyCosts {
  double embedding = 0, s = 1, t = 1, embedding_gradient = 0;
  double sum_input = 0;       // from E to the first stage's F
  double send_output = 0;     // from the last stage's F to S
  double reduce_softmax = 0;  // from S to T
  double sum_gradient = 0;    // from T to the last stage's B; in algorithm 2 behind the softmax's
  double send_gradient = 0;   // from the first stage's B to G
};

// Microbatches that the last stage's backward comes later, so that the ranks reach the algorithm's
// reductions beside other passes: 1F1B holds p + 2 microbatches with algorithm 1, p + 1 with 2.
int barriers(int algorithm);

// What an action waits for of vocabulary parallelism, beside its own input: this kind of action for
// the same microbatch, on every rank or of one stage.
struct VocabularyInput {
  ActionKind kind;
  int stage = -1;    // whose F, or B or I; -1: every rank's
  double delay = 0;  // between the two
};
std::optional<VocabularyInput> vocabulary_input(const Order& order, const Action& action,
                                                const VocabularyCosts& costs = {});
// Whether `action` is what the input says.
bool gives(const VocabularyInput& input, const Action& action);

// How orders that are made for costs leave time for the vocabulary's passes: with which action of a
// stage, and how much of what delays the last stage's gradients is foreseen.
struct VocabularyRoom {
  ActionKind with = ActionKind::BackwardWeight;
  double foreseen = 1;
};

struct OrderCosts;
struct OrderSpec;
struct OrderTraits;

// What a spec of such an order must keep: the algorithm, several ranks, an order that takes it.
Status check_vocabulary(const OrderTraits& order, const OrderSpec& spec);

// For orders that are made for costs, as spec.vocabulary_room says: time for a rank's passes in its
// stages' costs; and what they put between the last stage's F and I, each behind an action that
// other ranks are in: given, in the costs' unit. REQUIRES: spec.vocabulary > 0.
double make_room(const OrderSpec& spec, std::vector<OrderCosts>* stages);

// with_vocabulary of the order that `make` gives for the spec; of one that is made for costs the
// best, when it is played, of several ways to leave room.
Result<Order> make_with_vocabulary(const OrderSpec& spec, const std::vector<OrderCosts>& stages,
                                   bool made_for_costs,
                                   const std::function<Order(const OrderSpec&)>& make);

// The same order with E, S, T and G put in where they are ready when it is played at these costs
// (one entry a stage): S before all else, as every rank waits for it; algorithm 1's T as well,
// algorithm 2's where nothing else is ready or a second one waits. E comes a forward ahead of where
// it is needed. What the ranks do else stays in its order. Errors: an order of two chains, one that
// has such passes already, one that waits for itself.
Result<Order> with_vocabulary(const Order& order, int algorithm, std::span<const OrderCosts> stages,
                              const VocabularyCosts& costs);

// By rank, the most microbatches between S and T.
std::vector<int> peak_outputs(const Order& order);

}  // namespace tandem
