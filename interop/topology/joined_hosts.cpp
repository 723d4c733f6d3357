// Finds a cluster's hosts and their inside, and groups hosts into nodes of equal size. Example: a
// fabric of 54 hosts in NVLink domains of 18, 18, 17 and 1 gives 3 nodes of 17 hosts.
#include "interop/topology/joined_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/hostlist.h"

namespace tandem {
namespace {

// A preset's node with more GPUs than any host has is a rack: several hosts that NVLink joins.
constexpr int kMostGpusOfHost = 16;

bool is_rack(const PresetNode& preset) { return preset.gpus > kMostGpusOfHost; }

bool nvlink_joins_hosts(const ImportedTopology& topology, const PresetNode& preset) {
  return is_rack(preset) || (topology.node && topology.node->joins_hosts);
}

// Returns how many hosts make a node where no file says which NVLink joins: as many as
// together have the GPUs of the preset's node. A dump of several hosts is a node as a whole.
int usual_hosts_of_node(const ImportedTopology& topology, const PresetNode& preset, int gpus) {
  const bool is_dump_of_host = topology.node && topology.node->hosts == 1;
  if (!nvlink_joins_hosts(topology, preset) || !is_dump_of_host || gpus == 0) return 1;
  return std::max(1, preset.gpus / gpus);
}

// Returns a name for a switch that no file has.
std::string unused_name(const ImportedTopology& topology, const ComposeOptions& options) {
  std::set<std::string> taken(options.hosts.begin(), options.hosts.end());
  if (topology.fabric) {
    taken.insert(topology.fabric->switches.begin(), topology.fabric->switches.end());
    for (const FabricHost& host : topology.fabric->hosts) taken.insert(host.name);
  }
  for (const NvlinkDomain& domain : topology.domains) {
    taken.insert(domain.name);
    taken.insert(domain.hosts.begin(), domain.hosts.end());
  }
  std::string name = "core";
  for (int i = 2; taken.contains(name); ++i) name = fmt::format("core-{}", i);
  return name;
}

void note_left_out(const std::vector<std::string>& hosts, const std::string& why,
                   ComposedCluster* notes) {
  if (!hosts.empty())
    notes->left_out.push_back(fmt::format("{} host{} {}: {}", hosts.size(),
                                          hosts.size() == 1 ? "" : "s", why, hostlist_of(hosts)));
}

// Keeps the hosts with the most frequent number of ports, or the largest of several such numbers:
// storage hosts, say, have another.
void keep_usual_hosts(std::vector<FabricHost>* hosts, ComposedCluster* notes) {
  std::map<std::size_t, int> uses;
  for (const FabricHost& host : *hosts) ++uses[host.ports.size()];
  std::size_t usual = 0;
  for (const auto& [ports, count] : uses) {
    if (usual == 0 || count >= uses[usual]) usual = ports;
  }
  std::vector<std::string> others;
  for (const FabricHost& host : *hosts) {
    if (host.ports.size() != usual) others.push_back(host.name);
  }
  std::erase_if(*hosts, [&](const FabricHost& host) { return host.ports.size() != usual; });
  note_left_out(others,
                fmt::format("of other than {} ports (--hosts takes those that it names)", usual),
                notes);
}

Result<std::vector<FabricHost>> named_hosts(const std::vector<FabricHost>& hosts,
                                            const std::vector<std::string>& names) {
  std::map<std::string_view, const FabricHost*> by_name;
  for (const FabricHost& host : hosts) by_name[host.name] = &host;
  std::vector<FabricHost> kept;
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      return Error{fmt::format("--hosts: found '{}', expected hosts of the fabric, such as '{}'",
                               name, hosts.front().name)};
    kept.push_back(*found->second);
  }
  std::ranges::stable_sort(kept, in_natural_order, &FabricHost::name);
  return kept;
}

// Returns a network of the core alone, with the hosts that Slurm's blocks name. Blocks that are no
// NVLink domains are leaves below it.
ImportedFabric network_of_blocks(const std::vector<NvlinkDomain>& blocks, bool nvlink_joins,
                                 const std::string& core) {
  ImportedFabric network;
  network.switches = {core};
  for (const NvlinkDomain& block : blocks) {
    const std::string leaf = nvlink_joins ? core : block.name;
    if (!nvlink_joins) {
      network.switches.push_back(block.name);
      network.cables.push_back({block.name, core});
    }
    for (const std::string& host : block.hosts)
      network.hosts.push_back({host, {{.device = "", .at = leaf}}});
  }
  return network;
}

Result<ImportedFabric> network_of(const ImportedTopology& topology, const PresetNode& preset,
                                  const ComposeOptions& options, const std::string& core,
                                  ComposedCluster* notes) {
  const bool nvlink_joins = nvlink_joins_hosts(topology, preset);
  ImportedFabric network =
      topology.fabric ? *topology.fabric : network_of_blocks(topology.domains, nvlink_joins, core);
  const bool is_of_blocks = !topology.fabric && !network.hosts.empty();
  if (is_of_blocks)
    notes->assumed.push_back(fmt::format("a core that never blocks joins {}: no file has a fabric",
                                         nvlink_joins ? "all hosts" : "the blocks"));
  if (!topology.fabric && !is_of_blocks) {
    for (const std::string& name : options.hosts)
      network.hosts.push_back({name, {{.device = "", .at = core}}});
    if (network.hosts.size() > 1)
      notes->assumed.emplace_back("a core that never blocks joins all hosts: no file has a fabric");
    return network;
  }
  if (!options.hosts.empty()) {
    ASSIGN_OR_RETURN(network.hosts, named_hosts(network.hosts, options.hosts));
  } else if (network.states_rates) {
    keep_usual_hosts(&network.hosts, notes);
  }
  return network;
}

// Returns the inside of hosts that no file describes: the preset's, with as many NICs as the
// fabric's file has ports for.
Result<HostTemplate> inside_by_preset(const PresetNode& preset, const ImportedFabric& network) {
  int ports = 0;  // of a host; 0: no file has them, as Slurm's trees give a host one for all NICs
  if (network.states_rates) {
    for (const FabricHost& host : network.hosts)
      ports = std::max(ports, static_cast<int>(host.ports.size()));
  }
  int gpus = preset.gpus, nics = preset.nics;
  if (ports > 0) {
    nics = ports;
    if (is_rack(preset)) gpus = preset.gpus * ports / preset.nics;
  } else if (is_rack(preset)) {
    // The preset of a rack does not say how many GPUs a host has. In an NVL72 it is 4.
    constexpr int kGpusOfTray = 4;
    gpus = kGpusOfTray;
    nics = preset.nics * kGpusOfTray / preset.gpus;
  }
  if (gpus < 1 || nics < 1)
    return Error{fmt::format("found hosts of {} ports, expected at least one GPU of {} a host",
                             ports, preset.preset)};
  HostTemplate inside = host_of(preset, gpus, nics);
  inside.assumed.push_back(
      ports > 0 ? fmt::format("{} GPUs a host, and its inside, by {}, with a NIC at each of its {} "
                              "ports: no file has them",
                              gpus, preset.preset, ports)
                : fmt::format("{} GPUs and {} NICs a host, and its inside, by {}: no file has them",
                              gpus, nics, preset.preset));
  return inside;
}

Result<HostTemplate> inside_of_hosts(const ImportedTopology& topology, const PresetNode& preset,
                                     const ImportedFabric& network) {
  if (!topology.node) return inside_by_preset(preset, network);
  ASSIGN_OR_RETURN(HostTemplate inside, host_of(*topology.node, preset, network.states_rates));
  if (!network.hosts.empty() && topology.node->hosts > 1)
    return Error{
        fmt::format("found a dump of {} hosts, which has no names, beside a fabric; "
                    "expected the dump of one host",
                    topology.node->hosts)};
  if (!network.states_rates) bundle_nics(&inside);
  share_slots(&inside);
  return inside;
}

// Makes up hosts n0, n1, ..., as no file names any: as many nodes as `gpus` fill.
std::vector<FabricHost> made_up_hosts(std::int64_t gpus, int gpus_per_host, int hosts_per_node,
                                      const std::string& core, ComposedCluster* notes) {
  const std::int64_t gpus_per_node = std::int64_t{gpus_per_host} * hosts_per_node;
  const std::int64_t nodes = gpus > 0 ? (gpus - 1) / gpus_per_node + 1 : 1;
  std::vector<FabricHost> hosts;
  for (std::int64_t i = 0; i < nodes * hosts_per_node; ++i)
    hosts.push_back({fmt::format("n{}", i), {{.device = "", .at = core}}});
  if (nodes > 1)
    notes->assumed.push_back(
        fmt::format("{} nodes like this one, and a core between them that "
                    "never blocks: no file has a fabric",
                    nodes));
  return hosts;
}

// Groups hosts into nodes of `size` in their order.
std::vector<JoinedHosts> nodes_of_size(const std::vector<FabricHost>& hosts, std::size_t size) {
  std::vector<JoinedHosts> nodes;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i % size == 0)
      nodes.push_back({size == 1 ? hosts[i].name : fmt::format("rack{}", i / size), {}});
    nodes.back().hosts.push_back(hosts[i]);
  }
  return nodes;
}

// Returns a node for each block, with those of its hosts that the fabric has.
std::vector<JoinedHosts> hosts_by_domain(const std::vector<FabricHost>& hosts,
                                         const std::vector<NvlinkDomain>& domains,
                                         ComposedCluster* notes) {
  std::map<std::string, const FabricHost*> by_name;
  for (const FabricHost& host : hosts) by_name[host.name] = &host;
  std::vector<std::string> not_in_fabric, in_no_block;
  std::vector<JoinedHosts> joined;
  for (const NvlinkDomain& domain : domains) {
    JoinedHosts& node = joined.emplace_back(JoinedHosts{domain.name, {}});
    for (const std::string& host : domain.hosts) {
      if (const auto found = by_name.extract(host)) {
        node.hosts.push_back(*found.mapped());
      } else {
        not_in_fabric.push_back(host);
      }
    }
  }
  for (const auto& [name, host] : by_name) in_no_block.push_back(name);
  std::ranges::sort(in_no_block, in_natural_order);
  note_left_out(not_in_fabric, "of blocks that the fabric does not have", notes);
  note_left_out(in_no_block, "in no block", notes);
  return joined;
}

// Returns the size of nodes that keeps most hosts, as smaller domains are dropped and larger ones
// cut: 17 for domains of 18, 18 and 17 hosts (3 x 17 against 2 x 18).
std::size_t common_size(const std::vector<JoinedHosts>& joined) {
  std::vector<std::size_t> sizes;
  for (const JoinedHosts& node : joined) sizes.push_back(node.hosts.size());
  std::ranges::sort(sizes, std::greater{});
  std::size_t size = 0, most = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] * (i + 1) > most) size = sizes[i];
    most = std::max(most, sizes[i] * (i + 1));
  }
  return size;
}

// Cuts domains to their common size, and sorts them by name.
Result<std::vector<JoinedHosts>> nodes_of_common_size(std::vector<JoinedHosts> joined,
                                                      ComposedCluster* notes) {
  const std::size_t size = common_size(joined);
  if (size == 0) return Error{"found no host of the fabric in any block, expected the same names"};
  std::vector<std::string> surplus;
  for (JoinedHosts& node : joined) {
    const std::size_t kept = node.hosts.size() >= size ? size : 0;
    for (std::size_t i = kept; i < node.hosts.size(); ++i) surplus.push_back(node.hosts[i].name);
    node.hosts.resize(kept);
  }
  std::erase_if(joined, [](const JoinedHosts& node) { return node.hosts.empty(); });
  note_left_out(surplus, fmt::format("so that every NVLink domain has {}", size), notes);
  std::ranges::stable_sort(joined, in_natural_order, &JoinedHosts::name);
  return joined;
}

// Groups hosts into nodes of equal size: one host each, or where NVLink joins hosts those of a
// block or, if no file has a network, `usual_hosts`.
Result<std::vector<JoinedHosts>> join_hosts(const ImportedTopology& topology,
                                            const PresetNode& preset, int usual_hosts,
                                            const std::vector<FabricHost>& hosts,
                                            ComposedCluster* notes) {
  if (hosts.empty()) return Error{"found no host, expected some"};
  if (!nvlink_joins_hosts(topology, preset)) {
    if (topology.fabric && !topology.domains.empty())
      notes->left_out.push_back(
          fmt::format("{} blocks: NVLink joins no hosts here", topology.domains.size()));
    return nodes_of_size(hosts, 1);
  }
  if (!topology.domains.empty())
    return nodes_of_common_size(hosts_by_domain(hosts, topology.domains, notes), notes);
  if (topology.fabric || !topology.node) {
    notes->assumed.emplace_back(
        "each host is a node of its own: no file says which hosts NVLink joins (Slurm's blocks, "
        "or topograph's model)");
    return nodes_of_size(hosts, 1);
  }
  if (usual_hosts > 1)
    notes->assumed.push_back(
        fmt::format("NVLink joins {} hosts, as in {}", usual_hosts, preset.preset));
  return nodes_of_size(hosts, usual_hosts);
}

void add_switches(const std::vector<FabricHost>& hosts, std::set<std::string>* switches) {
  for (const FabricHost& host : hosts)
    for (const FabricPort& port : host.ports) switches->insert(port.at);
}

// Drops leaf switches whose hosts are all left out. Spines, cabled to leaves that are kept, stay.
void drop_bare_leaves(const std::vector<FabricHost>& all, const std::vector<JoinedHosts>& nodes,
                      ImportedFabric* network, ComposedCluster* notes) {
  std::set<std::string> kept, bare;  // switches
  for (const JoinedHosts& node : nodes) add_switches(node.hosts, &kept);
  add_switches(all, &bare);
  for (const std::string& name : kept) bare.erase(name);
  for (const FabricCable& cable : network->cables) {
    if (kept.contains(cable.from)) bare.erase(cable.to);
    if (kept.contains(cable.to)) bare.erase(cable.from);
  }
  if (bare.empty()) return;
  std::erase_if(network->switches, [&](const std::string& name) { return bare.contains(name); });
  std::erase_if(network->cables, [&](const FabricCable& cable) {
    return bare.contains(cable.from) || bare.contains(cable.to);
  });
  notes->left_out.push_back(fmt::format("{} leaf switch{} of hosts that are left out: {}",
                                        bare.size(), bare.size() == 1 ? "" : "es",
                                        hostlist_of({bare.begin(), bare.end()})));
}

}  // namespace

Result<ClusterHosts> cluster_hosts(const ImportedTopology& topology, const PresetNode& preset,
                                   const ComposeOptions& options, ComposedCluster* notes) {
  const std::string core = unused_name(topology, options);
  ASSIGN_OR_RETURN(ImportedFabric network, network_of(topology, preset, options, core, notes));
  ASSIGN_OR_RETURN(HostTemplate inside, inside_of_hosts(topology, preset, network));
  const int usual_hosts = usual_hosts_of_node(topology, preset, inside.gpus);
  if (network.hosts.empty() && topology.node)
    network.hosts = made_up_hosts(options.gpus, inside.gpus, usual_hosts, core, notes);
  ASSIGN_OR_RETURN(std::vector<JoinedHosts> nodes,
                   join_hosts(topology, preset, usual_hosts, network.hosts, notes));
  if (network.states_rates) drop_bare_leaves(topology.fabric->hosts, nodes, &network, notes);
  notes->assumed.insert(notes->assumed.begin(), inside.assumed.begin(), inside.assumed.end());
  return ClusterHosts{std::move(inside), std::move(nodes), std::move(network), core};
}

}  // namespace tandem
