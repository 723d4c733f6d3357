// What lowering needs to know of an order as a whole, and where a body's communicators stand.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedule/lower.h"
#include "schedule/order.h"
#include "workload/workload.h"

namespace tandem {

// A directed pipeline edge: activations from a stage to the next, gradients from a stage to the one
// before.
using Edge = std::pair<int, int>;

// Where the communicators of a body stand; -1: none.
struct Slots {
  std::int16_t tensor = -1, data = -1, embedding = -1, norm = -1;
  std::map<Edge, std::int16_t> edges;
};

// What all ranks of a lowering have in common.
struct Context {
  const Order& order;
  const Workload& work;
  const LowerOptions& options;
  std::vector<int> rank_of_stage;
  std::map<Edge, std::vector<int>> produced;  // an edge's microbatches, in the sender's order

  bool remote(int from, int to) const {
    return from >= 0 && to >= 0 && rank_of_stage[from] != rank_of_stage[to];
  }
};

Context make_context(const Order& order, const Workload& work, const LowerOptions& options);

}  // namespace tandem
