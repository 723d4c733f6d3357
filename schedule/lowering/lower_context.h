// What lowering needs to know of an order as a whole.
#pragma once

#include <map>
#include <vector>

#include "schedule/lowering/lower.h"
#include "schedule/order/order.h"
#include "workload/model/workload.h"

namespace tandem {

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
  // Those of them that cut it among them; and how many have the same cut, of either.
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
