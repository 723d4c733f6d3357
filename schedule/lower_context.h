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
  std::int16_t tensor = -1, context = -1, expert = -1;
  std::int16_t data = -1, expert_data = -1;  // gradients and parameters
  std::int16_t embedding = -1, norm = -1;
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

  // The pipeline ranks that hold the parameters of `rank`: itself, and where the order runs two
  // chains the one that holds the other copy.
  std::vector<int> holders(int rank) const;
  // How many GPUs share one dense parameter, and one expert's.
  int data_ranks() const { return options.dp * options.cp * order.chains; }
  int expert_data_ranks() const {
    return options.tp * data_ranks() / (options.expert_tp * options.ep);
  }
};

Context make_context(const Order& order, const Workload& work, const LowerOptions& options);

}  // namespace tandem
