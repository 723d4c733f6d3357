// Finds the shortest paths inside a node by breadth-first search from each GPU and each port.
#include "topology/node_paths.h"

#include <algorithm>
#include <cstdint>

namespace tandem {
namespace {

using EdgePaths = std::vector<std::optional<std::vector<int>>>;  // by site; nullopt: no path

EdgePaths paths_from(int root, const NodeWiring& wiring,
                     const std::vector<std::vector<int>>& edges_from) {
  EdgePaths paths(wiring.sites.size());
  paths[root].emplace();
  std::vector<int> queue = {root};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const int at = queue[i];
    if (at != root && wiring.sites[at] == Vertex::Nic) continue;
    for (const int edge : edges_from[at]) {
      const int to = wiring.edges[edge].second;
      if (paths[to]) continue;
      paths[to] = paths[at];
      paths[to]->push_back(edge);
      queue.push_back(to);
    }
  }
  return paths;
}

}  // namespace

NodePaths paths_inside(const NodeWiring& wiring) {
  std::vector<std::vector<int>> edges_from(wiring.sites.size());
  for (std::size_t edge = 0; edge < wiring.edges.size(); ++edge)
    edges_from[wiring.edges[edge].first].push_back(static_cast<int>(edge));
  std::vector<EdgePaths> from_port;
  for (const int port : wiring.ports) from_port.push_back(paths_from(port, wiring, edges_from));
  const std::ptrdiff_t gpus = std::ranges::count(wiring.sites, Vertex::Gpu);
  const auto ports = static_cast<std::ptrdiff_t>(wiring.ports.size());
  NodePaths paths;
  for (std::ptrdiff_t gpu = 0; gpu < gpus; ++gpu) {
    const EdgePaths from_gpu = paths_from(static_cast<int>(gpu), wiring, edges_from);
    paths.gpu_to_gpu.emplace_back(from_gpu.begin(), from_gpu.begin() + gpus);
    std::vector<PortPath>& to_ports = paths.to_ports.emplace_back();
    std::vector<PortPath>& from_ports = paths.from_ports.emplace_back();
    for (std::ptrdiff_t i = 0; i < ports; ++i) {
      const std::ptrdiff_t number = (gpu * ports / gpus + i) % ports;
      const int port = wiring.ports[number];
      if (from_gpu[port]) to_ports.push_back({port, *from_gpu[port]});
      if (from_port[number][gpu]) from_ports.push_back({port, *from_port[number][gpu]});
    }
    std::ranges::stable_sort(to_ports, {}, &PortPath::hops);
    std::ranges::stable_sort(from_ports, {}, &PortPath::hops);
  }
  return paths;
}

}  // namespace tandem
