// Greedy list scheduling: the zero-bubble orders, which follow from costs and a memory limit.
#pragma once

#include <vector>

#include "schedule/order/named_orders.h"

namespace tandem {

// A pipeline of `chunks` stages a rank: one, or two laid in a V (stage s >= pp is on rank
// 2 pp - 1 - s).
struct ListProblem {
  int pp = 1;
  int chunks = 1;
  int microbatches = 1;
  std::vector<OrderCosts> costs;  // one a stage; the transfer is the first one's
  int memory_limit = 1;           // of a rank: forwards that have had no W yet
  int in_flight_limit = 1;        // of a rank: forwards that have had no I yet
  double turn = 0;                // between the last stage's F and its I
};

// The actions of every rank, each backward split into I and W. Several greedy policies, and orders
// of F and I that are known from the sizes and get their W for these costs, are played on a few
// microbatches, and the one that ends first is kept; of equal ones the one with the shortest
// windows (from a rank's first action to its last), then the one that holds the fewest activations
// between F and I. What is started is always ready, so the order cannot wait for itself. REQUIRES:
// both limits >= chunks; costs of pp x chunks stages.
//
// Split backwards and filling with W: Qi et al., "Zero Bubble Pipeline Parallelism" (2024), 3.1;
// the V and what it holds: Qi et al., "Pipeline Parallelism with Controllable Memory" (2024), 3.
std::vector<std::vector<Action>> schedule_greedily(const ListProblem& problem);

// What schedule_greedily does again and again with any number of microbatches from `fill` on. While
// microbatches are left to enter, what is done next follows from what is in flight alone. So once
// all that is in flight, relative to now, is as it was a round before, the round repeats until the
// last microbatch has entered, and what comes then is the same too. 0 microbatches: this was not
// seen while those of the problem entered, or the first 16 (pp + 8).
OrderRounds greedy_rounds(const ListProblem& problem);

}  // namespace tandem
