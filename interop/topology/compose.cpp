// Makes the cables of a cluster: copies one host's wires into each host of each node, joins each
// NIC to the switch that its port is at, and adds the cables between switches. Two hosts of two
// GPUs, each its own node, at one leaf:
//   n0.gpu0 n0.nvswitch, n0.gpu1 n0.nvswitch, n0.nic0 leaf, n0.gpu0 n0.nic0, ..., the same of n1
#include "interop/topology/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/hostlist.h"
#include "interop/topology/joined_hosts.h"

namespace tandem {
namespace {

// Differences between the files of the node and of the fabric, over all hosts.
struct Mismatch {
  bool by_order = false;  // some host's NICs and ports are matched in order: their names differ
  std::ptrdiff_t nics = 0, ports = 0;  // of hosts, without a partner
};

// Returns for each NIC the host's port that it uses; null: there is none. NICs and ports are
// matched by device name if that matches all NICs or all ports, else in order.
std::vector<const FabricPort*> match_ports(const std::vector<HostNic>& nics,
                                           const std::vector<FabricPort>& ports,
                                           Mismatch* mismatch) {
  std::vector<const FabricPort*> port_of(nics.size());
  for (std::size_t i = 0; i < nics.size(); ++i) {
    for (const FabricPort& port : ports) {
      if (!port.device.empty() && port.device == nics[i].device) port_of[i] = &port;
    }
  }
  const std::ptrdiff_t found = std::ssize(port_of) - std::ranges::count(port_of, nullptr);
  if (found == 0 || found < std::min(std::ssize(port_of), std::ssize(ports))) {
    mismatch->by_order = true;
    for (std::size_t i = 0; i < nics.size(); ++i)
      port_of[i] = i < ports.size() ? &ports[i] : nullptr;
  }
  mismatch->nics += std::ranges::count(port_of, nullptr);
  for (const FabricPort& port : ports) {
    if (std::ranges::find(port_of, &port) == port_of.end()) ++mismatch->ports;
  }
  return port_of;
}

void note(const Mismatch& mismatch, ComposedCluster* cluster) {
  if (mismatch.by_order)
    cluster->assumed.emplace_back(
        "a host's NICs meet its ports in their order: the files call them differently");
  if (mismatch.ports > 0)
    cluster->left_out.push_back(fmt::format(
        "{} ports of hosts in the fabric: the node's file has no NIC for them", mismatch.ports));
  if (mismatch.nics > 0)
    cluster->left_out.push_back(
        fmt::format("{} NICs of hosts: the fabric has no port for them", mismatch.nics));
}

// A host of a node. Gives its devices their names in the cluster.
struct HostOfNode {
  const HostTemplate& inside;
  const JoinedHosts& node;
  std::size_t number = 0;  // in the node

  const FabricHost& host() const { return node.hosts[number]; }

  // Returns "n1.gpu0" for "gpu0"; GPUs are numbered through the node.
  std::string site(const std::string& device) const {
    if (device.starts_with("gpu"))
      return fmt::format("{}.gpu{}", node.name,
                         static_cast<int>(number) * inside.gpus + std::stoi(device.substr(3)));
    if (device == "nvswitch" || node.hosts.size() == 1)
      return fmt::format("{}.{}", node.name, device);
    return fmt::format("{}.{}_{}", node.name, host().name, device);
  }

  // `device`: of the NIC; empty: unknown.
  std::string nic_site(std::size_t nic, const std::string& device) const {
    const std::string id = device.empty() ? std::to_string(nic) : device;
    if (node.hosts.size() > 1) return fmt::format("{}.nic_{}_{}", node.name, host().name, id);
    return fmt::format("{}.nic{}{}", node.name, device.empty() ? "" : "_", id);
  }
};

// Adds a host's NICs, each with its cable to a switch, and all wires of the host but NVLinks. NICs
// without a port are left out.
void add_nics(const HostOfNode& of, const std::vector<const FabricPort*>& port_of,
              std::vector<ComposedCable>* cables) {
  std::map<std::string, ComposedCable> cable_of;  // by the NIC's name in the template: "nic0"
  for (std::size_t i = 0; i < of.inside.nics.size(); ++i) {
    if (port_of[i] == nullptr) continue;
    const FabricPort& port = *port_of[i];
    const HostNic& nic = of.inside.nics[i];
    // The port's rate counts if it is stated, but no more than a stated rate of the NIC.
    double GBps = port.GBps == 0 ? nic.GBps : port.GBps;
    if (nic.is_stated) GBps = std::min(GBps, nic.GBps);
    cables->push_back({of.nic_site(i, port.device.empty() ? nic.device : port.device), port.at,
                       GBps, of.inside.nic_latency_us, 0});
    cable_of[fmt::format("nic{}", i)] = cables->back();
  }
  for (const HostWire& wire : of.inside.others) {
    const auto is_left_out = [&](const std::string& device) {
      return device.starts_with("nic") && !cable_of.contains(device);
    };
    if (is_left_out(wire.from) || is_left_out(wire.to)) continue;
    const auto site = [&](const std::string& device) {
      return device.starts_with("nic") ? cable_of.at(device).from : of.site(device);
    };
    // A GPU's direct wire to a NIC is never slower than the NIC's cable.
    const bool is_direct = wire.from.starts_with("gpu") && wire.to.starts_with("nic");
    const double GBps = is_direct ? std::max(wire.GBps, cable_of.at(wire.to).GBps) : wire.GBps;
    cables->push_back({site(wire.from), site(wire.to), GBps, wire.latency_us, wire.efficiency});
  }
}

// Adds the cables of all nodes.
Result<Mismatch> add_nodes(const ClusterHosts& hosts, ComposedCluster* cluster) {
  const std::vector<std::string>& switches = hosts.network.switches;
  const auto is_switch = [&](const std::string& name) {
    return std::ranges::find(switches, name) != switches.end();
  };
  Mismatch mismatch;
  for (const JoinedHosts& node : hosts.nodes) {
    // NVLinks come before the node's other wires: among equally short routes the first is taken.
    for (std::size_t i = 0; i < node.hosts.size(); ++i) {
      const HostOfNode of{hosts.inside, node, i};
      if (is_switch(of.host().name) || is_switch(node.name))
        return Error{
            fmt::format("found '{}' as a host and a switch, expected one", of.host().name)};
      cluster->hosts.push_back(of.host().name);
      for (const HostWire& wire : hosts.inside.nvlinks)
        cluster->cables.push_back(
            {of.site(wire.from), of.site(wire.to), wire.GBps, wire.latency_us, wire.efficiency});
    }
    for (std::size_t i = 0; i < node.hosts.size(); ++i) {
      const HostOfNode of{hosts.inside, node, i};
      const std::vector<FabricPort>& ports = of.host().ports;
      // Slurm's trees give a host one port, for all its NICs.
      add_nics(of,
               hosts.network.states_rates
                   ? match_ports(hosts.inside.nics, ports, &mismatch)
                   : std::vector<const FabricPort*>(hosts.inside.nics.size(), &ports.front()),
               &cluster->cables);
    }
  }
  return mismatch;
}

// Returns the rate that each switch carries up, GB/s: the sum of the rates that the switches below
// it carry up, plus its own hosts' rate (`down_GBps`, by switch) divided by the oversubscription.
// REQUIRES: each cable leads from a switch to the one above it, and there is no cycle.
std::map<std::string, double> uplinks_GBps(const ImportedFabric& network,
                                           const std::map<std::string, double>& down_GBps,
                                           double oversubscription) {
  std::map<std::string, double> GBps;
  std::map<std::string, std::string> above;  // a switch -> the one above it
  std::map<std::string, int> missing;  // how many switches directly below have not been added yet
  for (const std::string& name : network.switches) {
    const auto own = down_GBps.find(name);
    GBps[name] = own == down_GBps.end() ? 0 : own->second / oversubscription;
  }
  for (const FabricCable& cable : network.cables) {
    above[cable.from] = cable.to;
    ++missing[cable.to];
  }
  const std::map<std::string, int> below = missing;
  for (const std::string& leaf : network.switches) {
    if (below.contains(leaf)) continue;
    // Goes up from a leaf, and stops at a switch of which some switch below has not been added.
    std::string here = leaf;
    for (auto up = above.find(here); up != above.end(); up = above.find(here)) {
      GBps[up->second] += GBps[here];
      here = up->second;
      if (--missing[here] > 0) break;
    }
  }
  return GBps;
}

// Adds the cables between switches, with rates that follow from the hosts' NICs, as no file states
// them. hosts.core is a switch that no file names: the only root where no file has a fabric, and
// added here above the trees where a file has several.
void add_switch_cables(const ClusterHosts& hosts, const PresetNode& preset,
                       ComposedCluster* cluster) {
  const ImportedFabric& network = hosts.network;
  if (network.switches == std::vector<std::string>{hosts.core}) return;  // all hosts hang on it
  std::map<std::string, double> down_GBps;  // by switch: sum of the rates to its hosts' NICs
  for (const ComposedCable& cable : cluster->cables) down_GBps[cable.to] += cable.GBps;
  const std::map<std::string, double> uplinks =
      uplinks_GBps(network, down_GBps, preset.oversubscription);
  std::set<std::string> not_roots;
  for (const FabricCable& cable : network.cables) {
    not_roots.insert(cable.from);
    if (const double GBps = uplinks.at(cable.from); GBps > 0)
      cluster->cables.push_back({cable.from, cable.to, GBps});
  }
  std::vector<std::string> empty, roots;
  for (const std::string& name : network.switches) {
    if (uplinks.at(name) == 0 && name != hosts.core) {
      empty.push_back(name);
    } else if (!not_roots.contains(name)) {
      roots.push_back(name);
    }
  }
  if (!empty.empty())
    cluster->left_out.push_back(
        fmt::format("switches without a host below them: {}", hostlist_of(empty)));
  cluster->assumed.push_back(fmt::format(
      "a leaf's uplinks carry {} its hosts' NICs do, {}, and switches above never block: the files "
      "state no rate",
      preset.oversubscription == 1 ? "what"
                                   : fmt::format("1/{:g} of what", preset.oversubscription),
      preset.oversubscription_is_set ? "by --set" : "as in " + preset.preset));
  if (roots.size() < 2) return;
  for (const std::string& root : roots)
    cluster->cables.push_back({root, hosts.core, uplinks.at(root)});
  cluster->assumed.push_back(
      fmt::format("a core that never blocks joins the {} trees", roots.size()));
}

// Returns the value of cluster.nvlinks, such as "011 101 110".
std::string nvlinks_text(const std::vector<std::vector<int>>& adjacency) {
  std::string text;
  for (const std::vector<int>& row : adjacency) {
    text += text.empty() ? "" : " ";
    for (const int links : row) text += std::to_string(links);
  }
  return text;
}

}  // namespace

Result<ComposedCluster> compose(const ImportedTopology& topology, const PresetNode& preset,
                                const ComposeOptions& options) {
  ComposedCluster cluster;
  ASSIGN_OR_RETURN(const ClusterHosts hosts, cluster_hosts(topology, preset, options, &cluster));
  ASSIGN_OR_RETURN(const Mismatch mismatch, add_nodes(hosts, &cluster));
  if (topology.node) note(mismatch, &cluster);
  if (hosts.network.states_rates) {
    for (const FabricCable& cable : hosts.network.cables)
      cluster.cables.push_back({cable.from, cable.to, cable.GBps});
  } else {
    add_switch_cables(hosts, preset, &cluster);
  }
  const std::size_t hosts_of_node = hosts.nodes.front().hosts.size();
  cluster.nodes = static_cast<int>(hosts.nodes.size());
  cluster.gpus_per_node = static_cast<int>(hosts_of_node) * hosts.inside.gpus;
  cluster.intra_efficiency = hosts.inside.intra_efficiency;
  cluster.nvls = hosts.inside.has_switch;
  if (hosts_of_node == 1) cluster.nvlinks = nvlinks_text(hosts.inside.adjacency);
  return cluster;
}

}  // namespace tandem
