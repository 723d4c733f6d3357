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
  std::vector<OrderCosts> costs;  // by stage; all transfers take costs[0].transfer
  int memory_limit = 1;           // of a rank: most forwards without a W
  int in_flight_limit = 1;        // of a rank: most forwards without an I
  double turn = 0;                // from the end of the last stage's F to its I
};

// Returns the actions of every rank, with each backward split into I (input gradient) and W (weight
// gradient). It tries several greedy policies on a few microbatches. It also tries skeletons:
// orders of F and I that follow from the sizes, into which W is put for these costs. The one that
// ends first is kept; of equal ones the one with the shortest window (a rank's first action to its
// last), then the one that holds the fewest activations between F and I. An action starts only once
// it is ready, so the order cannot deadlock. REQUIRES: both limits >= chunks; costs of pp x chunks
// stages.
//
// Sources. Split backwards and filling with W: Qi et al., "Zero Bubble Pipeline Parallelism"
// (2024), 3.1. The V and what it holds: Qi et al., "Pipeline Parallelism with Controllable Memory"
// (2024), 3.
std::vector<std::vector<Action>> schedule_greedily(const ListProblem& problem);

// Returns the round that schedule_greedily() repeats, for any number of microbatches from `fill`
// on. While microbatches are left to enter, the next actions depend only on the microbatches in
// flight. Once these are, relative to the present time, as they were a round ago, the round repeats
// until the last microbatch has entered. Returns 0 microbatches if no round was found among the
// problem's microbatches, or the first 16 (pp + 8) of them.
OrderRounds greedy_rounds(const ListProblem& problem);

}  // namespace tandem
