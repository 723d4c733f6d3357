// In: hosts, a node's inside and a fabric, as far as files say them. Out: nodes of equally many
// hosts, the wires in each, copied from one host's, and the cables between the nodes.
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

// No host has more GPUs: a preset's node that has more is a rack that NVLink joins.
constexpr int kMostGpusOfHost = 16;

bool is_rack(const PresetNode& preset) { return preset.gpus > kMostGpusOfHost; }

// The hosts of a node in the cluster's sense: one, or those of an NVLink domain.
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
  bool by_domain() const {
    return is_rack(preset_) || (topology_.node && topology_.node->joins_hosts);
  }

  std::string unused_name() const;
  Status find_hosts();
  void make_hosts();
  void keep_most_alike();
  Status keep_named();
  void drop_bare_leaves();
  void note_left_out(const std::vector<std::string>& hosts, const std::string& why);
  Status find_template();
  void join_made_up();
  std::vector<JoinedHosts> hosts_by_domain();
  Status join_hosts();
  Status add_node(const JoinedHosts& node);
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
  const std::string core_;  // the switch that joins what no file joins
  ComposedCluster cluster_;
  HostTemplate host_;
  std::vector<FabricHost> hosts_;
  std::vector<std::string> switches_;
  std::vector<FabricCable> cables_;
  bool states_rates_ = false;
  std::vector<JoinedHosts> nodes_;
  bool by_order_ = false;  // NICs and ports are matched in order: their names differ
  // NICs of a node's file without a port, and ports without a NIC.
  int unmatched_nics_ = 0, unmatched_ports_ = 0;
  std::map<std::string, double> down_GBps_;  // by switch: what it carries to its hosts
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

// Keeps the hosts with the usual number of ports: storage and management hosts have others.
void Composer::keep_most_alike() {
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
    if (states_rates_) keep_most_alike();
    return Done{};
  }
  switches_ = {core_};
  for (const NvlinkDomain& domain : topology_.domains) {
    const std::string at = by_domain() ? core_ : domain.name;
    if (!by_domain()) {
      switches_.push_back(domain.name);
      cables_.push_back({domain.name, core_, 0});
    }
    for (const std::string& host : domain.hosts) hosts_.push_back({host, {{"", at, 0}}});
  }
  if (!hosts_.empty()) {
    cluster_.assumed.push_back(
        fmt::format("a core that never blocks joins {}: no file has a fabric",
                    by_domain() ? "all hosts" : "the blocks"));
    return options_.hosts.empty() ? Status(Done{}) : keep_named();
  }
  for (const std::string& name : options_.hosts) hosts_.push_back({name, {{"", core_, 0}}});
  if (hosts_.size() > 1)
    cluster_.assumed.emplace_back("a core that never blocks joins all hosts: no file has a fabric");
  return Done{};
}

// Drops leaf switches whose hosts are all left out. A spine stays, though its only own host may be
// a management host that is left out: other leaves hang on it.
void Composer::drop_bare_leaves() {
  std::set<std::string> kept, bare;
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
  std::erase_if(switches_, [&](const std::string& one) { return bare.contains(one); });
  std::erase_if(cables_, [&](const FabricCable& cable) {
    return bare.contains(cable.from) || bare.contains(cable.to);
  });
  cluster_.left_out.push_back(fmt::format("{} leaf switch{} of hosts that are left out: {}",
                                          bare.size(), bare.size() == 1 ? "" : "es",
                                          hostlist_of({bare.begin(), bare.end()})));
}

// Makes hosts with names of its own, as no file has any: whole nodes for the job's GPUs.
void Composer::make_hosts() {
  const bool rack = by_domain() && topology_.node->hosts == 1;
  const std::int64_t of_node = std::int64_t{host_.gpus} * (rack ? hosts_of_rack() : 1);
  const std::int64_t nodes = options_.gpus > 0 ? (options_.gpus - 1) / of_node + 1 : 1;
  for (std::int64_t i = 0; i < nodes * of_node / host_.gpus; ++i)
    hosts_.push_back({fmt::format("n{}", i), {{"", core_, 0}}});
  if (nodes > 1)
    cluster_.assumed.push_back(
        fmt::format("{} nodes like this one, and a core between them that "
                    "never blocks: no file has a fabric",
                    nodes));
}

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
      fmt::format("{} GPUs and {} NICs a host, and its inside, by {}: no file "
                  "has them",
                  gpus, nics, preset_.preset));
  return Done{};
}

// Makes racks of as many hosts as the preset has, as no file names any host.
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

// Returns each block's hosts, of those that the fabric has.
std::vector<JoinedHosts> Composer::hosts_by_domain() {
  std::map<std::string, const FabricHost*> by_name;
  for (const FabricHost& host : hosts_) by_name[host.name] = &host;
  std::vector<std::string> unknown, without;
  std::vector<JoinedHosts> joined;
  for (const NvlinkDomain& domain : topology_.domains) {
    JoinedHosts& node = joined.emplace_back(JoinedHosts{domain.name, {}});
    for (const std::string& host : domain.hosts) {
      const auto found = by_name.find(host);
      if (found == by_name.end()) {
        unknown.push_back(host);
        continue;
      }
      node.hosts.push_back(found->second);
      by_name.erase(found);
    }
  }
  for (const auto& [name, host] : by_name) without.push_back(name);
  std::ranges::sort(without, in_natural_order);
  note_left_out(unknown, "of blocks that the fabric does not have");
  note_left_out(without, "in no block");
  return joined;
}

// Returns how many hosts each domain keeps, so that most are kept: for 18, 18 and 17 hosts 17.
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

// Joins hosts into nodes, each of equally many.
Status Composer::join_hosts() {
  if (hosts_.empty()) return Error{"found no host, expected some"};
  if (by_domain() && !topology_.fabric && topology_.domains.empty() && topology_.node) {
    join_made_up();
    return Done{};
  }
  if (!by_domain() || topology_.domains.empty()) {
    for (const FabricHost& host : hosts_) nodes_.push_back({host.name, {&host}});
    if (by_domain())
      cluster_.assumed.emplace_back(
          "each host is a node of its own: no file says which hosts NVLink joins (Slurm's blocks, "
          "or topograph's model)");
    if (!by_domain() && topology_.fabric && !topology_.domains.empty())
      cluster_.left_out.push_back(
          fmt::format("{} blocks: NVLink joins no hosts here", topology_.domains.size()));
    return Done{};
  }
  std::vector<JoinedHosts> joined = hosts_by_domain();
  const std::size_t size = common_size(joined);
  if (size == 0) return Error{"found no host of the fabric in any block, expected the same names"};
  std::vector<std::string> beyond;
  for (JoinedHosts& node : joined) {
    const std::size_t kept = node.hosts.size() >= size ? size : 0;
    for (std::size_t i = kept; i < node.hosts.size(); ++i) beyond.push_back(node.hosts[i]->name);
    node.hosts.resize(kept);
    if (kept > 0) nodes_.push_back(std::move(node));
  }
  note_left_out(beyond, fmt::format("so that every NVLink domain has {}", size));
  std::ranges::stable_sort(nodes_, in_natural_order, &JoinedHosts::name);
  return Done{};
}

// Adds the NICs that are in the fabric, each with its cable to a switch, and the wires to them.
void Composer::add_nics(const JoinedHosts& node, const FabricHost& host,
                        const std::function<std::string(const std::string&)>& site) {
  const bool one_host = node.hosts.size() == 1;
  const bool all_at_one = !states_rates_;  // Slurm's trees name no devices: one port is for all
  std::vector<const FabricPort*> port_of(host_.nics.size());
  std::size_t found = 0;
  for (std::size_t i = 0; i < host_.nics.size(); ++i) {
    for (const FabricPort& port : host.ports) {
      if (!port.device.empty() && port.device == host_.nics[i].device) port_of[i] = &port;
    }
    found += port_of[i] != nullptr ? 1 : 0;
  }
  // NICs and ports are matched by name if all NICs or all ports are found so, else in order.
  const bool named = found > 0 && found >= std::min(host_.nics.size(), host.ports.size());
  if (!named) std::ranges::fill(port_of, nullptr);
  by_order_ |= !named && !all_at_one && topology_.node.has_value();
  for (std::size_t i = 0; i < host_.nics.size() && !named; ++i) {
    if (all_at_one) port_of[i] = &host.ports.front();
    if (!all_at_one && i < host.ports.size()) port_of[i] = &host.ports[i];
  }
  const std::set<const FabricPort*> met(port_of.begin(), port_of.end());
  if (topology_.node && !all_at_one) {
    unmatched_nics_ += static_cast<int>(std::ranges::count(port_of, nullptr));
    for (const FabricPort& port : host.ports) unmatched_ports_ += met.contains(&port) ? 0 : 1;
  }
  // "nic0" -> its name and its cable's rate.
  std::map<std::string, std::pair<std::string, double>> name_of;
  for (std::size_t i = 0; i < host_.nics.size(); ++i) {
    if (port_of[i] == nullptr) continue;
    const FabricPort& port = *port_of[i];
    std::string device = port.device.empty() ? host_.nics[i].device : port.device;
    std::string name = device.empty() ? fmt::format("nic{}", i) : "nic_" + device;
    if (!one_host)
      name = fmt::format("nic_{}_{}", host.name, device.empty() ? fmt::format("{}", i) : device);
    name = fmt::format("{}.{}", node.name, name);
    const HostNic& nic = host_.nics[i];
    const double GBps = port.GBps == 0  ? nic.GBps
                        : nic.is_stated ? std::min(port.GBps, nic.GBps)
                                        : port.GBps;
    cluster_.cables.push_back({name, port.at, GBps, host_.nic_latency_us, 0});
    down_GBps_[port.at] += GBps;
    name_of[fmt::format("nic{}", i)] = {std::move(name), GBps};
  }
  for (const HostWire& wire : host_.others) {
    const auto end = [&](const std::string& at) {
      if (!at.starts_with("nic")) return site(at);
      const auto nic = name_of.find(at);
      return nic == name_of.end() ? std::string() : nic->second.first;
    };
    const std::string from = end(wire.from), to = end(wire.to);
    if (from.empty() || to.empty()) continue;
    // A GPU's own wire to a NIC limits nothing.
    const bool is_own = wire.from.starts_with("gpu") && wire.to.starts_with("nic");
    const double GBps = is_own ? std::max(wire.GBps, name_of.at(wire.to).second) : wire.GBps;
    cluster_.cables.push_back({from, to, GBps, wire.latency_us, wire.efficiency});
  }
}

Status Composer::add_node(const JoinedHosts& node) {
  const bool one_host = node.hosts.size() == 1;
  std::size_t first = cluster_.cables.size();
  for (std::size_t i = 0; i < node.hosts.size(); ++i) {
    const FabricHost& host = *node.hosts[i];
    if (std::ranges::find(switches_, host.name) != switches_.end() ||
        std::ranges::find(switches_, node.name) != switches_.end())
      return Error{fmt::format("found '{}' as a host and a switch, expected one", host.name)};
    const auto site = [&](const std::string& at) {
      if (at.starts_with("gpu"))
        return fmt::format("{}.gpu{}", node.name,
                           static_cast<int>(i) * host_.gpus + std::stoi(at.substr(3)));
      if (at == "nvswitch" || one_host) return fmt::format("{}.{}", node.name, at);
      return fmt::format("{}.{}_{}", node.name, host.name, at);
    };
    // NVLinks come before all other wires of the node: of equally short ways the first is taken.
    std::vector<ComposedCable> nvlinks;
    for (const HostWire& wire : host_.nvlinks)
      nvlinks.push_back(
          {site(wire.from), site(wire.to), wire.GBps, wire.latency_us, wire.efficiency});
    cluster_.cables.insert(cluster_.cables.begin() + static_cast<std::ptrdiff_t>(first),
                           nvlinks.begin(), nvlinks.end());
    first += nvlinks.size();
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

void Composer::add_fabric() {
  if (states_rates_) {
    for (const FabricCable& cable : cables_)
      cluster_.cables.push_back({cable.from, cable.to, cable.GBps, 0, 0});
    return;
  }
  const std::map<std::string, double> uplinks =
      uplinks_GBps(switches_, cables_, down_GBps_, preset_.oversubscription);
  std::vector<std::string> empty, roots;
  std::set<std::string> below;
  for (const FabricCable& cable : cables_) {
    below.insert(cable.from);
    if (const double GBps = uplinks.at(cable.from); GBps > 0)
      cluster_.cables.push_back({cable.from, cable.to, GBps, 0, 0});
  }
  for (const std::string& one : switches_) {
    const bool is_core = !topology_.fabric && one == core_;
    if (uplinks.at(one) == 0 && !is_core) {
      empty.push_back(one);
    } else if (!below.contains(one)) {
      roots.push_back(one);
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
