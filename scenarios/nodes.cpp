#include "scenarios/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

// Returns the GPUs of a node that the job uses if no key says so.
int even_part(const ClusterSettings& cluster) {
  const int node = cluster.spec.gpus_per_node;
  const int nodes = (cluster.gpus + node - 1) / node;
  return nodes > 1 && cluster.gpus % nodes == 0 ? cluster.gpus / nodes : node;
}

}  // namespace

Status take_part_of_nodes(ClusterSettings* cluster) {
  ClusterSpec& spec = cluster->spec;
  const bool is_listed = spec.cables != nullptr || !spec.nvlinks.empty();
  const int node = spec.gpus_per_node;
  const bool is_set = cluster->gpus_of_node > 0;
  if (node == 0 || (is_listed && !is_set)) return Done{};
  if (is_set && (is_listed || cluster->gpus_of_node > node))
    return Error::of(
        {"cluster.gpus_of_node"},
        fmt::format("cluster.gpus_of_node: found {}, expected {}", cluster->gpus_of_node,
                    is_listed ? "none where a node's links are listed"
                              : fmt::format("at most a node's {} GPUs", node)));
  const int part = is_set ? cluster->gpus_of_node : even_part(*cluster);
  spec.nics_per_node = std::max(1, spec.nics_per_node);
  spec = with_part_of_node(std::move(spec), part);
  return Done{};
}

}  // namespace tandem
