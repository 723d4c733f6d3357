// NetworkBill: the switches, cables and optics of the fabric between the nodes of a cluster.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/cluster.h"

namespace tandem {

// A switch as it is sold, with all its ports at one rate.
struct SwitchModel {
  std::string_view name;
  double port_Gbit_per_s = 0;
  int ports = 0;
  std::string_view network;  // "InfiniBand", "Omni-Path", "Ethernet"
  std::string_view source;
};

// Returns the known switches by rising port rate; the usual one of each rate comes first.
std::span<const SwitchModel> switch_models();

struct NetworkBill {
  SwitchModel model;
  int tiers = 0;  // 0: one node needs no network
  std::int64_t leaf_switches = 0, spine_switches = 0, core_switches = 0;
  std::int64_t node_cables = 0, leaf_spine_cables = 0, spine_core_cables = 0;

  std::int64_t switches() const { return leaf_switches + spine_switches + core_switches; }
  std::int64_t cables() const { return node_cables + leaf_spine_cables + spine_core_cables; }
  // One transceiver at each end of a cable, as all are optical. A twin-port one counts as two.
  std::int64_t optics() const { return 2 * cables(); }
};

// Counts the switches and cables that join all NICs of so many nodes: one switch if it has the
// ports and the spec has no more than one leaf (or, rail-optimised, one a rail), else a folded Clos
// network of two tiers (leaf, spine), else of three (leaf, spine, core).
// - In a star, half of a leaf's ports go down to NICs, and half up. Rail-optimised fabrics and fat
//   trees have the spec's leaves and oversubscription. If such a leaf is larger than a switch, it
//   is built as a pod of two tiers, which is oversubscribed above its spines.
// - A switch has equally many cables to each switch above it, and there are as few of those as
//   possible.
// `switch_name`: one of switch_models(); empty: of those with the slowest ports that carry a NIC's
// rate, the first that suffices.
// Errors: a fabric that three tiers cannot make, NICs faster than any port, an unknown switch,
// listed cables.
// REQUIRES: nodes >= 1, and a spec that Cluster::build() takes.
Result<NetworkBill> network_bill(const ClusterSpec& spec, int nodes,
                                 std::string_view switch_name = {});

// Prices of one piece each, in the currency of the scenario's other prices.
struct NetworkPrices {
  double node_switch = 0;  // price.switch
  double optic = 0;        // price.optic: of one port, so half a twin-port transceiver's
  double cable = 0;        // price.cable

  bool operator==(const NetworkPrices&) const = default;
};

double network_price(const NetworkBill& bill, const NetworkPrices& prices);

}  // namespace tandem
