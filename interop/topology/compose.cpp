// Takes hosts from the fabric's file (else from Slurm's blocks or --hosts, or makes them up),
// groups those that NVLink joins into nodes of equal size, copies one host's wires into each, and
// adds the cables between switches. A block is Slurm's word for an NVLink domain.
#include "interop/topology/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/hostlist.h"
#include "interop/topology/host_template.h"
#include "interop/topology/uplinks.h"

namespace tandem {
namespace {

// A preset's node with more GPUs than any host has is a rack: several hosts that NVLink joins.
constexpr int kMostGpusOfHost = 16;

bool is_rack(const PresetNode& preset) { return preset.gpus > kMostGpusOfHost; }

// A node of the composed cluster: one host, or the hosts of an NVLink domain.
struct JoinedHosts {
  std::string name;
  std::vector<const FabricHost*> hosts;
};

class Composer {
 public:
  Composer(const ImportedTopology& topology, const PresetNode& preset,
           const ComposeOptions& options)
      : topology_(topology), preset_(preset), options_(options), core_(unused_name()) {}

  Result<ComposedCluster> compose() {
    RETURN_IF_ERROR(find_hosts());
    RETURN_IF_ERROR(find_template());
    RETURN_IF_ERROR(join_hosts());
    if (states_rates_) drop_bare_leaves();
    for (const JoinedHosts& node : nodes_) RETURN_IF_ERROR(add_node(node));
    add_fabric();
    note_unmatched();
    cluster_.nodes = static_cast<int>(nodes_.size());
    cluster_.gpus_per_node = static_cast<int>(nodes_.front().hosts.size()) * host_.gpus;
    cluster_.intra_efficiency = host_.intra_efficiency;
    cluster_.nvls = host_.has_switch;
    for (const std::vector<int>& row : host_.adjacency) {
      if (cluster_.gpus_per_node != host_.gpus) break;
      cluster_.nvlinks += cluster_.nvlinks.empty() ? "" : " ";
      for (const int links : row) cluster_.nvlinks += std::to_string(links);
    }
    cluster_.assumed.insert(cluster_.assumed.begin(), host_.assumed.begin(), host_.assumed.end());
    return std::move(cluster_);
  }

 private:
  bool nvlink_joins_hosts() const {
    return is_rack(preset_) || (topology_.node && topology_.node->joins_hosts);
  }

  std::string unused_name() const;
  Status find_hosts();
  void make_hosts();
  void keep_usual_hosts();
  Status keep_named();
  void drop_bare_leaves();
  void note_left_out(const std::vector<std::string>& hosts, const std::string& why);
  Status find_template();
  void join_made_up();
  std::vector<JoinedHosts> hosts_by_domain();
  Status join_hosts();
  Status add_node(const JoinedHosts& node);
  std::vector<const FabricPort*> match_ports(const FabricHost& host);
  void add_nics(const JoinedHosts& node, const FabricHost& host,
                const std::function<std::string(const std::string&)>& site);
  void note_unmatched();
  void add_fabric();
  int hosts_of_rack() const {
    return topology_.node && host_.gpus > 0 ? std::max(1, preset_.gpus / host_.gpus) : 1;
  }

  const ImportedTopology& topology_;
  const PresetNode& preset_;
  const ComposeOptions& options_;
  const std::string core_;  // a made-up switch above all hosts or trees that no file joins
  ComposedCluster cluster_;
  HostTemplate host_;  // every host's inside
  std::vector<FabricHost> hosts_;
  std::vector<std::string> switches_;
  std::vector<FabricCable> cables_;
  bool states_rates_ = false;  // the fabric's file has ports and rates; Slurm's trees have neither
  std::vector<JoinedHosts> nodes_;
  bool by_order_ = false;  // some host's NICs and ports are matched in order, as their names differ
  int unmatched_nics_ = 0, unmatched_ports_ = 0;
  std::map<std::string, double> down_GBps_;  // by switch: sum of the rates to its hosts' NICs
};

// Returns a name for a switch that no file has.
std::string Composer::unused_name() const {
  std::set<std::string> taken(options_.hosts.begin(), options_.hosts.end());
  if (topology_.fabric) {
    taken.insert(topology_.fabric->switches.begin(), topology_.fabric->switches.end());
    for (const FabricHost& host : topology_.fabric->hosts) taken.insert(host.name);
  }
  for (const NvlinkDomain& domain : topology_.domains) {
    taken.insert(domain.name);
    taken.insert(domain.hosts.begin(), domain.hosts.end());
  }
  std::string name = "core";
  for (int i = 2; taken.contains(name); ++i) name = fmt::format("core-{}", i);
  return name;
}

void Composer::note_left_out(const std::vector<std::string>& hosts, const std::string& why) {
  if (!hosts.empty())
    cluster_.left_out.push_back(fmt::format("{} host{} {}: {}", hosts.size(),
                                            hosts.size() == 1 ? "" : "s", why, hostlist_of(hosts)));
}

// Keeps the hosts with the most frequent number of ports: storage hosts, say, have another.
void Composer::keep_usual_hosts() {
  std::map<std::size_t, int> uses;
  for (const FabricHost& host : hosts_) ++uses[host.ports.size()];
  std::size_t usual = 0;
  for (const auto& [ports, hosts] : uses) {
    if (usual == 0 || hosts >= uses[usual]) usual = ports;
  }
  std::vector<std::string> others;
  for (const FabricHost& host : hosts_) {
    if (host.ports.size() != usual) others.push_back(host.name);
  }
  std::erase_if(hosts_, [&](const FabricHost& host) { return host.ports.size() != usual; });
  note_left_out(others,
                fmt::format("of other than {} ports (--hosts takes those that it names)", usual));
}

Status Composer::keep_named() {
  std::map<std::string_view, const FabricHost*> by_name;
  for (const FabricHost& host : hosts_) by_name[host.name] = &host;
  std::vector<FabricHost> kept;
  for (const std::string& name : options_.hosts) {
    const auto found = by_name.find(name);
    if (found == by_name.end())
      return Error{fmt::format("--hosts: found '{}', expected hosts of the fabric, such as '{}'",
                               name, hosts_.front().name)};
    kept.push_back(*found->second);
  }
  hosts_ = std::move(kept);
  std::ranges::stable_sort(hosts_, in_natural_order, &FabricHost::name);
  return Done{};
}

// Takes hosts from the fabric, the blocks or --hosts, in this order; else make_hosts() makes some.
Status Composer::find_hosts() {
  if (topology_.fabric) {
    hosts_ = topology_.fabric->hosts;
    switches_ = topology_.fabric->switches;
    cables_ = topology_.fabric->cables;
    states_rates_ = topology_.fabric->states_rates;
    if (!options_.hosts.empty()) return keep_named();
    if (states_rates_) keep_usual_hosts();
    return Done{};
  }
  switches_ = {core_};
  for (const NvlinkDomain& domain : topology_.domains) {
    const std::string leaf = nvlink_joins_hosts() ? core_ : domain.name;
    if (!nvlink_joins_hosts()) {
      switches_.push_back(domain.name);
      cables_.push_back({domain.name, core_, 0});
    }
    for (const std::string& host : domain.hosts) hosts_.push_back({host, {{"", leaf, 0}}});
  }
  if (!hosts_.empty()) {
    cluster_.assumed.push_back(
        fmt::format("a core that never blocks joins {}: no file has a fabric",
                    nvlink_joins_hosts() ? "all hosts" : "the blocks"));
    return options_.hosts.empty() ? Status(Done{}) : keep_named();
  }
  for (const std::string& name : options_.hosts) hosts_.push_back({name, {{"", core_, 0}}});
  if (hosts_.size() > 1)
    cluster_.assumed.emplace_back("a core that never blocks joins all hosts: no file has a fabric");
  return Done{};
}

// Drops leaf switches whose hosts are all left out. Spines, cabled to leaves that are kept, stay.
void Composer::drop_bare_leaves() {
  std::set<std::string> kept, bare;  // switches
  for (const JoinedHosts& node : nodes_) {
    for (const FabricHost* host : node.hosts) {
      for (const FabricPort& port : host->ports) kept.insert(port.at);
    }
  }
  for (const FabricHost& host : topology_.fabric->hosts) {
    for (const FabricPort& port : host.ports) {
      if (!kept.contains(port.at)) bare.insert(port.at);
    }
  }
  for (const FabricCable& cable : cables_) {
    if (kept.contains(cable.from)) bare.erase(cable.to);
    if (kept.contains(cable.to)) bare.erase(cable.from);
  }
  if (bare.empty()) return;
  std::erase_if(switches_, [&](const std::string& name) { return bare.contains(name); });
  std::erase_if(cables_, [&](const FabricCable& cable) {
    return bare.contains(cable.from) || bare.contains(cable.to);
  });
  cluster_.left_out.push_back(fmt::format("{} leaf switch{} of hosts that are left out: {}",
                                          bare.size(), bare.size() == 1 ? "" : "es",
                                          hostlist_of({bare.begin(), bare.end()})));
}

// Makes up hosts n0, n1, ..., as no file names any: as many nodes as the job's GPUs fill.
void Composer::make_hosts() {
  const bool rack = nvlink_joins_hosts() && topology_.node->hosts == 1;
  const std::int64_t hosts_per_node = rack ? hosts_of_rack() : 1;
  const std::int64_t gpus_per_node = host_.gpus * hosts_per_node;
  const std::int64_t nodes = options_.gpus > 0 ? (options_.gpus - 1) / gpus_per_node + 1 : 1;
  for (std::int64_t i = 0; i < nodes * hosts_per_node; ++i)
    hosts_.push_back({fmt::format("n{}", i), {{"", core_, 0}}});
  if (nodes > 1)
    cluster_.assumed.push_back(
        fmt::format("{} nodes like this one, and a core between them that "
                    "never blocks: no file has a fabric",
                    nodes));
}

// Takes a host's inside from the node's file, or makes it from the preset and the fabric's ports.
Status Composer::find_template() {
  if (topology_.node) {
    ASSIGN_OR_RETURN(host_, host_of(*topology_.node, preset_));
    if (!hosts_.empty() && topology_.node->hosts > 1)
      return Error{
          fmt::format("found a dump of {} hosts, which has no names, beside a fabric; "
                      "expected the dump of one host",
                      topology_.node->hosts)};
    if (!states_rates_) bundle_nics(&host_);
    if (hosts_.empty()) make_hosts();
    return Done{};
  }
  int ports = 0;
  for (const FabricHost& host : hosts_)
    ports = states_rates_ ? std::max(ports, static_cast<int>(host.ports.size())) : 0;
  int gpus = preset_.gpus, nics = preset_.nics;
  if (ports > 0 && is_rack(preset_)) gpus = preset_.gpus * ports / preset_.nics;
  if (ports > 0) nics = ports;
  if (ports == 0 && is_rack(preset_)) {
    // The preset of a rack does not say how many GPUs a host has. In an NVL72 it is 4.
    constexpr int kGpusOfTray = 4;
    gpus = kGpusOfTray;
    nics = preset_.nics * kGpusOfTray / preset_.gpus;
  }
  if (gpus < 1 || nics < 1)
    return Error{fmt::format("found hosts of {} ports, expected at least one GPU of {} a host",
                             ports, preset_.preset)};
  host_ = host_of(preset_, gpus, nics);
  host_.assumed.push_back(
      fmt::format("{} GPUs and {} NICs a host, and its inside, by {}: no file has them", gpus, nics,
                  preset_.preset));
  return Done{};
}

// Groups made-up hosts into racks of as many hosts as the preset's have.
void Composer::join_made_up() {
  // A dump of several hosts is a node as a whole.
  const std::size_t size = topology_.node->hosts == 1 ? hosts_of_rack() : 1;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (i % size == 0)
      nodes_.push_back({size == 1 ? hosts_[i].name : fmt::format("rack{}", i / size), {}});
    nodes_.back().hosts.push_back(&hosts_[i]);
  }
  if (size > 1)
    cluster_.assumed.push_back(
        fmt::format("NVLink joins {} hosts, as in {}", size, preset_.preset));
}

// Returns a node for each block, with those of its hosts that the fabric has.
std::vector<JoinedHosts> Composer::hosts_by_domain() {
  std::map<std::string, const FabricHost*> by_name;
  for (const FabricHost& host : hosts_) by_name[host.name] = &host;
  std::vector<std::string> not_in_fabric, in_no_block;
  std::vector<JoinedHosts> joined;
  for (const NvlinkDomain& domain : topology_.domains) {
    JoinedHosts& node = joined.emplace_back(JoinedHosts{domain.name, {}});
    for (const std::string& host : domain.hosts) {
      const auto found = by_name.find(host);
      if (found == by_name.end()) {
        not_in_fabric.push_back(host);
        continue;
      }
      node.hosts.push_back(found->second);
      by_name.erase(found);
    }
  }
  for (const auto& [name, host] : by_name) in_no_block.push_back(name);
  std::ranges::sort(in_no_block, in_natural_order);
  note_left_out(not_in_fabric, "of blocks that the fabric does not have");
  note_left_out(in_no_block, "in no block");
  return joined;
}

// Returns the size of nodes that keeps most hosts, as smaller domains are dropped and larger ones
// cut: 17 for domains of 18, 18 and 17 hosts (3 x 17 against 2 x 18).
std::size_t common_size(const std::vector<JoinedHosts>& joined) {
  std::size_t size = 0, most = 0;
  for (const JoinedHosts& node : joined) {
    const std::size_t hosts = node.hosts.size();
    const auto nodes = static_cast<std::size_t>(std::ranges::count_if(
        joined, [&](const JoinedHosts& other) { return other.hosts.size() >= hosts; }));
    if (std::pair(hosts * nodes, hosts) > std::pair(most, size)) {
      most = hosts * nodes;
      size = hosts;
    }
  }
  return size;
}

// Groups hosts into nodes of equal size: by block where NVLink joins hosts, else one node per host.
Status Composer::join_hosts() {
  if (hosts_.empty()) return Error{"found no host, expected some"};
  if (nvlink_joins_hosts() && !topology_.fabric && topology_.domains.empty() && topology_.node) {
    join_made_up();
    return Done{};
  }
  if (!nvlink_joins_hosts() || topology_.domains.empty()) {
    for (const FabricHost& host : hosts_) nodes_.push_back({host.name, {&host}});
    if (nvlink_joins_hosts())
      cluster_.assumed.emplace_back(
          "each host is a node of its own: no file says which hosts NVLink joins (Slurm's blocks, "
          "or topograph's model)");
    if (!nvlink_joins_hosts() && topology_.fabric && !topology_.domains.empty())
      cluster_.left_out.push_back(
          fmt::format("{} blocks: NVLink joins no hosts here", topology_.domains.size()));
    return Done{};
  }
  std::vector<JoinedHosts> joined = hosts_by_domain();
  const std::size_t size = common_size(joined);
  if (size == 0) return Error{"found no host of the fabric in any block, expected the same names"};
  std::vector<std::string> surplus;
  for (JoinedHosts& node : joined) {
    const std::size_t kept = node.hosts.size() >= size ? size : 0;
    for (std::size_t i = kept; i < node.hosts.size(); ++i) surplus.push_back(node.hosts[i]->name);
    node.hosts.resize(kept);
    if (kept > 0) nodes_.push_back(std::move(node));
  }
  note_left_out(surplus, fmt::format("so that every NVLink domain has {}", size));
  std::ranges::stable_sort(nodes_, in_natural_order, &JoinedHosts::name);
  return Done{};
}

// Returns for each NIC of the template the host's port that it uses; null: there is none. NICs and
// ports are matched by device name if that matches all NICs or all ports, else in order.
std::vector<const FabricPort*> Composer::match_ports(const FabricHost& host) {
  std::vector<const FabricPort*> port_of(host_.nics.size());
  if (!states_rates_) {  // Slurm's trees give a host one port, for all its NICs
    std::ranges::fill(port_of, &host.ports.front());
    return port_of;
  }
  for (std::size_t i = 0; i < port_of.size(); ++i) {
    for (const FabricPort& port : host.ports) {
      if (!port.device.empty() && port.device == host_.nics[i].device) port_of[i] = &port;
    }
  }
  const std::ptrdiff_t found = std::ssize(port_of) - std::ranges::count(port_of, nullptr);
  if (found == 0 || found < std::min(std::ssize(port_of), std::ssize(host.ports))) {
    by_order_ |= topology_.node.has_value();
    for (std::size_t i = 0; i < port_of.size(); ++i)
      port_of[i] = i < host.ports.size() ? &host.ports[i] : nullptr;
  }
  if (!topology_.node) return port_of;
  const std::set<const FabricPort*> matched(port_of.begin(), port_of.end());
  unmatched_nics_ += static_cast<int>(std::ranges::count(port_of, nullptr));
  for (const FabricPort& port : host.ports) unmatched_ports_ += matched.contains(&port) ? 0 : 1;
  return port_of;
}

// Adds a host's NICs, each with its cable to a switch, and all wires of the host but NVLinks. NICs
// without a port are left out. `site` gives names in the cluster: "n1.gpu0" for "gpu0".
void Composer::add_nics(const JoinedHosts& node, const FabricHost& host,
                        const std::function<std::string(const std::string&)>& site) {
  const std::vector<const FabricPort*> port_of = match_ports(host);
  std::map<std::string, ComposedCable> cable_of;  // by the NIC's name in the template: "nic0"
  for (std::size_t i = 0; i < host_.nics.size(); ++i) {
    if (port_of[i] == nullptr) continue;
    const FabricPort& port = *port_of[i];
    const HostNic& nic = host_.nics[i];
    const std::string device = port.device.empty() ? nic.device : port.device;
    const std::string id = device.empty() ? std::to_string(i) : device;
    const std::string name =
        node.hosts.size() == 1 ? fmt::format("{}.nic{}{}", node.name, device.empty() ? "" : "_", id)
                               : fmt::format("{}.nic_{}_{}", node.name, host.name, id);
    double GBps = port.GBps == 0 ? nic.GBps : port.GBps;
    if (nic.is_stated) GBps = std::min(GBps, nic.GBps);
    cluster_.cables.push_back({name, port.at, GBps, host_.nic_latency_us, 0});
    down_GBps_[port.at] += GBps;
    cable_of[fmt::format("nic{}", i)] = cluster_.cables.back();
  }
  for (const HostWire& wire : host_.others) {
    const auto name_of = [&](const std::string& device) {
      if (!device.starts_with("nic")) return site(device);
      const auto cable = cable_of.find(device);
      return cable == cable_of.end() ? std::string() : cable->second.from;
    };
    const std::string from = name_of(wire.from), to = name_of(wire.to);
    if (from.empty() || to.empty()) continue;
    // A GPU's direct wire to a NIC is never slower than the NIC's cable.
    const bool is_direct = wire.from.starts_with("gpu") && wire.to.starts_with("nic");
    const double GBps = is_direct ? std::max(wire.GBps, cable_of.at(wire.to).GBps) : wire.GBps;
    cluster_.cables.push_back({from, to, GBps, wire.latency_us, wire.efficiency});
  }
}

// Adds the wires of each host of a node. GPUs are numbered through the node.
Status Composer::add_node(const JoinedHosts& node) {
  const bool one_host = node.hosts.size() == 1;
  auto nvlinks_end = static_cast<std::ptrdiff_t>(cluster_.cables.size());
  for (std::size_t i = 0; i < node.hosts.size(); ++i) {
    const FabricHost& host = *node.hosts[i];
    if (std::ranges::find(switches_, host.name) != switches_.end() ||
        std::ranges::find(switches_, node.name) != switches_.end())
      return Error{fmt::format("found '{}' as a host and a switch, expected one", host.name)};
    const auto site = [&](const std::string& device) {
      if (device.starts_with("gpu"))
        return fmt::format("{}.gpu{}", node.name,
                           static_cast<int>(i) * host_.gpus + std::stoi(device.substr(3)));
      if (device == "nvswitch" || one_host) return fmt::format("{}.{}", node.name, device);
      return fmt::format("{}.{}_{}", node.name, host.name, device);
    };
    // NVLinks come before the node's other wires: among equally short routes the first is taken.
    for (const HostWire& wire : host_.nvlinks)
      cluster_.cables.insert(cluster_.cables.begin() + nvlinks_end++,
                             ComposedCable{site(wire.from), site(wire.to), wire.GBps,
                                           wire.latency_us, wire.efficiency});
    cluster_.hosts.push_back(host.name);
    add_nics(node, host, site);
  }
  return Done{};
}

void Composer::note_unmatched() {
  if (by_order_)
    cluster_.assumed.emplace_back(
        "a host's NICs meet its ports in their order: the files call them differently");
  if (unmatched_ports_ > 0)
    cluster_.left_out.push_back(fmt::format(
        "{} ports of hosts in the fabric: the node's file has no NIC for them", unmatched_ports_));
  if (unmatched_nics_ > 0)
    cluster_.left_out.push_back(
        fmt::format("{} NICs of hosts: the fabric has no port for them", unmatched_nics_));
}

// Adds the cables between switches. Rates that no file states follow from the hosts' NICs.
void Composer::add_fabric() {
  if (states_rates_) {
    for (const FabricCable& cable : cables_)
      cluster_.cables.push_back({cable.from, cable.to, cable.GBps, 0, 0});
    return;
  }
  const std::map<std::string, double> uplinks =
      uplinks_GBps(switches_, cables_, down_GBps_, preset_.oversubscription);
  std::vector<std::string> empty, roots;
  std::set<std::string> not_roots;
  for (const FabricCable& cable : cables_) {
    not_roots.insert(cable.from);
    if (const double GBps = uplinks.at(cable.from); GBps > 0)
      cluster_.cables.push_back({cable.from, cable.to, GBps, 0, 0});
  }
  for (const std::string& name : switches_) {
    if (uplinks.at(name) == 0 && (topology_.fabric || name != core_)) {
      empty.push_back(name);
    } else if (!not_roots.contains(name)) {
      roots.push_back(name);
    }
  }
  if (!empty.empty())
    cluster_.left_out.push_back(
        fmt::format("switches without a host below them: {}", hostlist_of(empty)));
  if (!cables_.empty() || topology_.fabric)
    cluster_.assumed.push_back(fmt::format(
        "a leaf's uplinks carry {} its hosts' NICs do, as in {}, and switches above never block: "
        "the files state no rate",
        preset_.oversubscription == 1 ? "what"
                                      : fmt::format("1/{:g} of what", preset_.oversubscription),
        preset_.preset));
  if (roots.size() < 2 || !topology_.fabric) return;
  for (const std::string& root : roots)
    cluster_.cables.push_back({root, core_, uplinks.at(root), 0, 0});
  cluster_.assumed.push_back(
      fmt::format("a core that never blocks joins the {} trees", roots.size()));
}

}  // namespace

Result<ComposedCluster> compose(const ImportedTopology& topology, const PresetNode& preset,
                                const ComposeOptions& options) {
  return Composer(topology, preset, options).compose();
}

}  // namespace tandem
