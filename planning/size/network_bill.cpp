// Counts the switches of a folded Clos network from the leaves up: leaves_of() makes the leaves,
// tier_above() the fewest switches that join a tier. A third tier joins pods of two.
#include "planning/size/network_bill.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"

namespace tandem {
namespace {

constexpr SwitchModel kSwitches[] = {
    {"SB7800", 100, 36, "InfiniBand", "NVIDIA SB7800 data sheet: 36 ports of EDR"},
    {"OPA-100", 100, 48, "Omni-Path", "Intel Omni-Path Edge Switch 100 series: 48 ports"},
    {"SN4600C", 100, 64, "Ethernet", "NVIDIA Spectrum-3 SN4600C data sheet: 64 ports of 100 GbE"},
    {"QM8700", 200, 40, "InfiniBand", "NVIDIA Quantum QM8700 data sheet: 40 ports of HDR"},
    {"SN4600", 200, 64, "Ethernet", "NVIDIA Spectrum-3 SN4600 data sheet: 64 ports of 200 GbE"},
    {"QM9700", 400, 64, "InfiniBand", "NVIDIA Quantum-2 QM9700 data sheet: 64 ports of NDR"},
    {"SN5600", 400, 128, "Ethernet", "NVIDIA Spectrum-4 SN5600 data sheet: 128 ports of 400 GbE"},
    {"Q3400-RA", 800, 144, "InfiniBand",
     "NVIDIA Quantum-X800 Q3400-RA data sheet: 144 ports of XDR"},
    {"SN5600", 800, 64, "Ethernet", "NVIDIA Spectrum-4 SN5600 data sheet: 64 ports of 800 GbE"}};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Returns a switch's cables up for its cables down. 1e-9 undoes rounding of the division.
std::int64_t cables_up(std::int64_t down, double oversubscription) {
  return std::llround(std::ceil(static_cast<double>(down) / oversubscription - 1e-9));
}
// Returns the most ports of a switch that can go down.
std::int64_t most_down(int ports, double oversubscription) {
  return std::llround(std::floor(ports * oversubscription / (1 + oversubscription) + 1e-9));
}

// The switches of a tier, and the cables that each switch of the tier below has up to them.
struct UpperTier {
  std::int64_t switches = 0, cables_up = 0;
};

// Returns the fewest switches that join `below` switches of `ports` ports, each with `down` cables
// down. An upper switch has `upper_ports` ports for these. Nothing: the ports do not suffice.
std::optional<UpperTier> tier_above(std::int64_t below, std::int64_t down, double oversubscription,
                                    int ports, std::int64_t upper_ports) {
  const std::int64_t up = cables_up(down, oversubscription);
  for (std::int64_t n = divided_up(below * up, upper_ports); n <= up; ++n) {
    const std::int64_t to_each = divided_up(up, n);  // cables of a lower switch to each of n
    if (below * to_each <= upper_ports && down + n * to_each <= ports)
      return UpperTier{n, n * to_each};
  }
  return std::nullopt;
}

// The leaf switches of a fabric.
struct LeafTier {
  std::int64_t leaves = 0, down = 0;  // number of leaves, and cables down of each
  double oversubscription = 1;
  std::int64_t pods = 0;  // number of leaves of the spec that are pods, as no switch is so large
  double pod_oversubscription = 1;
};

// Returns the fabric's leaves. If a leaf of the spec has more cables than a switch has ports, it is
// a pod, and these are the leaves inside all pods.
LeafTier leaves_of(const ClusterSpec& spec, std::int64_t nodes, int ports) {
  const Fabric& fabric = spec.fabric;
  // Returns the fewest leaves for so many NICs, with at most half of the ports down.
  const auto packed = [&](std::int64_t nics) {
    const std::int64_t leaves = divided_up(nics, most_down(ports, 1));
    return LeafTier{.leaves = leaves, .down = divided_up(nics, leaves)};
  };
  if (fabric.kind == Fabric::Star) return packed(nodes * spec.nics_per_node);

  const bool rails = fabric.kind == Fabric::RailOptimised;
  const std::int64_t groups = divided_up(nodes, fabric.nodes_per_leaf);
  const std::int64_t group_nodes = std::min<std::int64_t>(nodes, fabric.nodes_per_leaf);
  // A leaf has all NICs of its nodes; in a rail-optimised fabric, one NIC of each.
  const std::int64_t down = group_nodes * (rails ? 1 : spec.nics_per_node);
  if (down + cables_up(down, fabric.oversubscription) <= ports)
    return {.leaves = groups * (rails ? spec.nics_per_node : 1),
            .down = down,
            .oversubscription = fabric.oversubscription};
  LeafTier pod = packed(group_nodes * spec.nics_per_node);
  if (groups == 1) return pod;  // nothing is above it, so its leaves are all there is
  pod.leaves *= groups;
  pod.pods = groups;
  pod.pod_oversubscription = fabric.oversubscription;
  return pod;
}

// Returns whether the spec joins so many nodes by one leaf, or by no leaves at all.
bool is_one_switch(const ClusterSpec& spec, std::int64_t nodes) {
  return spec.fabric.kind == Fabric::Star || nodes <= spec.fabric.nodes_per_leaf;
}

// Adds a tier of spines above all leaves; nothing: two tiers do not suffice.
std::optional<NetworkBill> in_two_tiers(NetworkBill bill, const LeafTier& tier) {
  const int ports = bill.model.ports;
  const auto spines = tier_above(tier.leaves, tier.down, tier.oversubscription, ports, ports);
  if (!spines) return std::nullopt;
  bill.tiers = 2;
  bill.spine_switches = spines->switches;
  bill.leaf_spine_cables = tier.leaves * spines->cables_up;
  return bill;
}

// Adds spines above the leaves of each pod, and cores above all pods; nothing: three tiers do not
// suffice. A spine has a cable to each leaf of its pod. So unless the spec's leaves are the pods, a
// pod has at most as many leaves as a spine has ports down.
std::optional<NetworkBill> in_three_tiers(NetworkBill bill, const LeafTier& tier) {
  const int ports = bill.model.ports;
  const std::int64_t spine_down = most_down(ports, tier.pod_oversubscription);
  const std::int64_t pods = tier.pods > 0 ? tier.pods : divided_up(tier.leaves, spine_down);
  const std::int64_t pod_leaves = divided_up(tier.leaves, pods);
  const auto spines = tier_above(pod_leaves, tier.down, tier.oversubscription, ports, spine_down);
  if (!spines) return std::nullopt;
  // The first spines of all pods have cores of their own, the second spines others, and so on. So
  // with 8 spines in each of 4 pods, the cores are those that join 4 spines, 8 times.
  const std::int64_t down = pod_leaves * spines->cables_up / spines->switches;  // of a spine
  const auto cores = tier_above(pods, down, tier.pod_oversubscription, ports, ports);
  if (!cores) return std::nullopt;
  bill.tiers = 3;
  bill.spine_switches = pods * spines->switches;
  bill.core_switches = spines->switches * cores->switches;
  bill.leaf_spine_cables = tier.leaves * spines->cables_up;
  bill.spine_core_cables = bill.spine_switches * cores->cables_up;
  return bill;
}

// Returns the bill with switches of this model; nothing: three tiers do not suffice.
std::optional<NetworkBill> bill_with(const SwitchModel& model, const ClusterSpec& spec,
                                     std::int64_t nodes) {
  NetworkBill bill{.model = model};
  if (nodes == 1) return bill;
  bill.node_cables = nodes * spec.nics_per_node;
  bill.tiers = bill.leaf_switches = 1;
  if (bill.node_cables <= model.ports && is_one_switch(spec, nodes)) return bill;

  const LeafTier tier = leaves_of(spec, nodes, model.ports);
  bill.leaf_switches = tier.leaves;
  if (tier.pods == 0) {
    if (const auto two = in_two_tiers(bill, tier)) return two;
  }
  return in_three_tiers(bill, tier);
}

// Returns the switches to try, in order: all of the slowest rate that carries a NIC's.
Result<std::vector<SwitchModel>> models_for(double nic_Gbit_per_s, std::string_view name) {
  std::vector<SwitchModel> models;
  std::set<std::string_view> names;
  double fastest = 0;
  for (const SwitchModel& model : kSwitches) {
    names.insert(model.name);
    if (!name.empty() && model.name != name) continue;
    fastest = std::max(fastest, model.port_Gbit_per_s);
    if (model.port_Gbit_per_s < nic_Gbit_per_s * (1 - 1e-9)) continue;
    if (models.empty() || model.port_Gbit_per_s == models.front().port_Gbit_per_s)
      models.push_back(model);
  }
  if (fastest == 0)
    return Error{
        fmt::format("found the switch '{}', expected one of {}", name, fmt::join(names, ", "))};
  if (models.empty())
    return Error::of(
        {"cluster.nic_Gbitps"},
        fmt::format("found NICs of {:g} Gbit/s, expected at most {:g}: no {} has faster "
                    "ports",
                    nic_Gbit_per_s, fastest, name.empty() ? "switch in the table" : name));
  return models;
}

}  // namespace

std::span<const SwitchModel> switch_models() { return kSwitches; }

Result<NetworkBill> network_bill(const ClusterSpec& spec, int nodes, std::string_view switch_name) {
  if (spec.cables != nullptr)
    return Error::of({"cluster.cables"},
                     "found a list of cables, expected a fabric by its kind: what is bought of the "
                     "first is in the list");
  const double nic_Gbit_per_s = spec.nic_bytes_per_s / Gbit;
  const auto models = models_for(nic_Gbit_per_s, switch_name);
  const bool are_too_fast = !models.ok() && !models.error().place.keys.empty();
  if (nodes == 1 && are_too_fast) return NetworkBill{};  // it needs no switch
  if (!models.ok()) return models.error();
  for (const SwitchModel& model : *models) {
    if (const auto bill = bill_with(model, spec, nodes)) return *bill;
  }
  const SwitchModel& largest = *std::ranges::max_element(*models, {}, &SwitchModel::ports);
  const std::int64_t ports = largest.ports;
  return Error::of(
      {"cluster.fabric"},
      fmt::format("found {} nodes with {} NICs of {:g} Gbit/s each, expected what three tiers of "
                  "{} join: {} NICs if nothing is oversubscribed ({})",
                  nodes, spec.nics_per_node, nic_Gbit_per_s, largest.name,
                  ports * ports * ports / 4, largest.source));
}

double network_price(const NetworkBill& bill, const NetworkPrices& prices) {
  return static_cast<double>(bill.switches()) * prices.node_switch +
         static_cast<double>(bill.optics()) * prices.optic +
         static_cast<double>(bill.cables()) * prices.cable;
}

}  // namespace tandem
