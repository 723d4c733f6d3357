// Greedy list scheduling: makes the zero-bubble orders for given costs and memory limits.
#pragma once

#include <vector>

#include "schedule/order/named_orders.h"

namespace tandem {

// A pipeline of `chunks` stages a rank: one, or two laid in a V (stage s >= pp is on rank 2 pp - 1
// - s).
struct ListProblem {
  int pp = 1;
  int chunks = 1;
  int microbatches = 1;
  std::vector<OrderCosts> costs;  // one for each stage; the transfer is the first one's
  int memory_limit = 1;           // of a rank: most forwards without a W
  int in_flight_limit = 1;        // of a rank: most forwards without an I
  double turn = 0;                // from the last stage's F to its I
};

// Returns the actions of every rank, with each backward split into I and W. It plays several greedy
// policies on a few microbatches, and also orders of F and I that are known from the sizes and get
// their W for these costs. It keeps the one that ends first. Of equal ones it keeps the one with
// the shortest windows (from a rank's first action to its last), then the one that holds the fewest
// activations between F and I. Whatever is started is ready, so the order cannot wait for itself.
// REQUIRES: both limits >= chunks; costs of pp x chunks stages.
//
// Sources. Split backwards and filling with W: Qi et al., "Zero Bubble Pipeline Parallelism"
// (2024), 3.1. The V and what it holds: Qi et al., "Pipeline Parallelism with Controllable Memory"
// (2024), 3.
std::vector<std::vector<Action>> schedule_greedily(const ListProblem& problem);

// Returns the round that schedule_greedily() repeats, for any number of microbatches from `fill`
// on. While microbatches are left to enter, what is done next follows only from what is in flight.
// So once everything in flight is, relative to now, as it was a round before, the round repeats
// until the last microbatch has entered, and what follows then is the same too. Returns 0
// microbatches if this was not seen while the problem's microbatches entered, or the first 16 (pp +
// 8) of them.
OrderRounds greedy_rounds(const ListProblem& problem);

}  // namespace tandem
