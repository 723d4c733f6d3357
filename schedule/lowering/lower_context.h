// Context: the facts about an order, a workload and options that the lowering of all ranks shares.
#pragma once

#include <map>
#include <vector>

#include "schedule/lowering/lower.h"
#include "schedule/order/order.h"
#include "workload/model/workload.h"

namespace tandem {

struct Context {
  const Order& order;
  const Workload& work;
  const LowerOptions& options;
  std::vector<int> rank_of_stage;
  // By pipeline edge between two ranks: the microbatches that cross it, in the sender's order.
  std::map<Edge, std::vector<int>> produced;

  // Returns whether both stages exist and are on different ranks.
  bool remote(int from, int to) const {
    return from >= 0 && to >= 0 && rank_of_stage[from] != rank_of_stage[to];
  }

  // Returns the pipeline ranks that hold the parameters of `rank`'s stages: itself and, if the
  // order runs two chains, the rank with the other chain's copy.
  std::vector<int> holders(int rank) const;
  // Return how many GPUs share one dense parameter, and one expert's.
  int data_ranks() const { return options.dp * options.cp * order.chains; }
  int expert_data_ranks() const {
    return options.tp * data_ranks() / (options.expert_tp * options.ep);
  }
  // Return how many of these GPUs shard the parameter among them.
  int shard_ranks() const { return options.data.shard > 0 ? options.data.shard : data_ranks(); }
  int expert_shard_ranks() const {
    return options.tp * shard_ranks() / (options.expert_tp * options.ep);
  }
  // Returns how many GPUs hold the same shard of a parameter.
  int replicas() const { return data_ranks() / shard_ranks(); }
  GroupKind amax_kind() const {
    return options.amax == AmaxReduction::Tensor ? GroupKind::Tensor : GroupKind::Data;
  }
};

Context make_context(const Order& order, const Workload& work, const LowerOptions& options);

}  // namespace tandem
