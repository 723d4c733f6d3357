// Context: facts about an order as a whole that lowering needs.
#pragma once

#include <map>
#include <vector>

#include "schedule/lowering/lower.h"
#include "schedule/order/order.h"
#include "workload/model/workload.h"

namespace tandem {

// The facts that the lowering of all ranks shares.
struct Context {
  const Order& order;
  const Workload& work;
  const LowerOptions& options;
  std::vector<int> rank_of_stage;
  std::map<Edge, std::vector<int>> produced;  // by edge: its microbatches, in the sender's order

  bool remote(int from, int to) const {
    return from >= 0 && to >= 0 && rank_of_stage[from] != rank_of_stage[to];
  }

  // Returns the pipeline ranks that hold the parameters of `rank`: itself and, if the order runs
  // two chains, the one with the other copy.
  std::vector<int> holders(int rank) const;
  // Return how many GPUs share one dense parameter, and one expert's.
  int data_ranks() const { return options.dp * options.cp * order.chains; }
  int expert_data_ranks() const {
    return options.tp * data_ranks() / (options.expert_tp * options.ep);
  }
  // Return how many of those cut it among them, and how many hold the same cut.
  int shard_ranks() const { return options.data.shard > 0 ? options.data.shard : data_ranks(); }
  int expert_shard_ranks() const {
    return options.tp * shard_ranks() / (options.expert_tp * options.ep);
  }
  int replicas() const { return data_ranks() / shard_ranks(); }
  GroupKind amax_kind() const {
    return options.amax == AmaxReduction::Tensor ? GroupKind::Tensor : GroupKind::Data;
  }
};

Context make_context(const Order& order, const Workload& work, const LowerOptions& options);

}  // namespace tandem
