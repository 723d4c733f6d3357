// Makes the wires of one host, from a file about its inside or from a preset alone. NVLinks get the
// rate that NCCL counts for them; what the file leaves out (NVLinks, NICs, GPUs, rates) is the
// preset's, and is noted as assumed.
#include "interop/topology/host_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "interop/topology/nccl_rates.h"

namespace tandem {
namespace {

// Returns the compute capability of a node's GPUs; 0: nothing says it.
int sm_of(const ImportedNode& node, const PresetNode& preset) {
  for (const ImportedGpu& gpu : node.gpus) {
    if (gpu.sm > 0) return gpu.sm;
    if (const KnownGpu* known = known_gpu(gpu.pci_id)) return known->sm;
  }
  return sm_of_device(preset.device);
}

// Adds the preset's NVLinks between the host's GPUs: its first ones, if the host has fewer. From
// GPU to GPU a message passes two wires of a switch, so each of them has half of the latency.
void add_preset_nvlinks(const PresetNode& preset, HostTemplate* host) {
  int most = 1;
  for (const std::vector<int>& row : preset.nvlinks)
    most = std::max(most, *std::ranges::max_element(row));
  host->has_switch = preset.nvlinks.empty();
  for (int i = 0; i < host->gpus; ++i) {
    const std::string gpu = fmt::format("gpu{}", i);
    if (host->has_switch)
      host->nvlinks.push_back({gpu, "nvswitch", preset.intra_GBps, preset.intra_latency_us / 2});
    for (int j = i + 1; j < host->gpus && !host->has_switch; ++j) {
      if (const int links = preset.nvlinks[i][j]; links > 0)
        host->nvlinks.push_back({gpu, fmt::format("gpu{}", j), preset.intra_GBps * links / most,
                                 preset.intra_latency_us, 0, links});
    }
  }
}

// Returns the rate of all NVLinks of a preset's GPU together. Without a switch, intra_GBps is the
// rate of the pair of GPUs that most NVLinks join.
double nvlinks_GBps(const PresetNode& preset) {
  int most_of_pair = 1, most_of_gpu = 1;
  for (const std::vector<int>& row : preset.nvlinks) {
    most_of_pair = std::max(most_of_pair, *std::ranges::max_element(row));
    most_of_gpu = std::max(most_of_gpu, std::accumulate(row.begin(), row.end(), 0));
  }
  return preset.intra_GBps * most_of_gpu / most_of_pair;
}

// NCCL counts less for an NVLink than its line rate, of which the preset's efficiency is a share.
// Restates it as a share of NCCL's rate, so that rate x efficiency stays the same: an NVLink of 25
// GB/s at 0.8 carries 20, which is 0.97 of NCCL's 20.6 GB/s. If that exceeds 1 (a V100's 25 GB/s at
// 0.89 carry more than NCCL's 20), the wires get the higher rate and the efficiency is 1.
void restate_efficiency(const PresetNode& preset, int sm, HostTemplate* host) {
  const double line_GBps = nvlink_line_GBps(sm);
  double restated = preset.intra_efficiency * line_GBps / nccl_nvlink_GBps(sm);
  // dgx-2 states 300 GB/s, both directions of six NVLinks, and its efficiency is a share of that:
  // the factor is 2. It is 1 for a preset that states one direction.
  if (sm == sm_of_device(preset.device))
    restated *= std::max(1.0, nvlinks_GBps(preset) / (most_nvlinks(sm) * line_GBps));
  for (HostWire& wire : host->nvlinks) wire.GBps *= std::max(1.0, restated);
  host->intra_efficiency = std::min(1.0, restated);
  host->assumed.push_back(fmt::format(
      "NVLinks reach {:.4g} of the rates that NCCL counts: {}'s {:g} of {:g} GB/s, restated",
      host->intra_efficiency, preset.preset, preset.intra_efficiency, preset.intra_GBps));
}

using Adjacency = std::vector<std::vector<int>>;

// A GPU and its number of NVLinks.
struct LinkedGpu {
  std::string gpu;
  int nvlinks = 0;
};

// Returns the GPU with most NVLinks.
LinkedGpu most_linked(const std::vector<NodeWire>& nvlinks) {
  std::map<std::string, int> links_of;  // by GPU
  for (const NodeWire& wire : nvlinks) {
    for (const std::string& end : {wire.from, wire.to})
      if (end.starts_with("gpu")) links_of[end] += wire.nvlinks;
  }
  LinkedGpu most;
  for (const auto& [gpu, links] : links_of)
    if (links > most.nvlinks) most = {gpu, links};
  return most;
}

// Returns the most NVLinks that a GPU of the node can have: as many as its kind, and if it is the
// preset's, no more than that has behind a switch (8 of an H800's).
int nvlinks_of_gpu(int sm, const PresetNode& preset) {
  const double line_GBps = nvlink_line_GBps(sm);
  if (line_GBps == 0 || !preset.nvlinks.empty() || sm != sm_of_device(preset.device))
    return most_nvlinks(sm);
  return std::min(most_nvlinks(sm), static_cast<int>(std::lround(preset.intra_GBps / line_GBps)));
}

// Returns each GPU's NVLinks to a switch that gives these pairs: a pair has as many as the GPU of
// the two with fewer, so NV12 and NV10 are of GPUs with 12, 12 and 10 links. Empty: no switch does.
std::vector<int> links_to_switch(const std::vector<NodeWire>& pairs, std::size_t gpus) {
  Adjacency links(gpus, std::vector<int>(gpus));
  for (const NodeWire& wire : pairs) {
    const int from = std::stoi(wire.from.substr(3)), to = std::stoi(wire.to.substr(3));
    links[from][to] = links[to][from] = wire.nvlinks;
  }
  std::vector<int> own;
  for (std::size_t i = 0; i < gpus; ++i) {
    own.push_back(*std::ranges::max_element(links[i]));
    for (std::size_t j = 0; j < i; ++j)
      if (links[i][j] != std::min(own[i], own[j])) return {};
  }
  return own;
}

// Returns NVLinks to a switch, and notes GPUs with fewer than others.
std::vector<NodeWire> switch_wires(const std::vector<int>& links, HostTemplate* host) {
  const int usual = *std::ranges::max_element(links);
  std::vector<NodeWire> wires;
  std::vector<std::string> fewer;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::string gpu = fmt::format("gpu{}", i);
    if (links[i] > 0) wires.push_back(NodeWire::of_nvlinks(gpu, "nvswitch", links[i]));
    if (links[i] < usual) fewer.push_back(fmt::format("{} {}", gpu, links[i]));
  }
  if (!fewer.empty())
    host->assumed.push_back(
        fmt::format("{} NVLinks of each GPU lead to a switch, but of {}: a pair has as many as the "
                    "GPU of the two with fewer",
                    usual, fmt::join(fewer, ", ")));
  return wires;
}

// Returns a node's NVLinks. If a table of pairs counts more for a GPU than it can have, they lead
// to a switch: NV18 among 8 GPUs would be 7 x 18 links. Two GPUs with all 18 have a switch, too.
Result<std::vector<NodeWire>> counted_nvlinks(const ImportedNode& node, const PresetNode& preset,
                                              HostTemplate* host) {
  std::vector<NodeWire> nvlinks;
  std::ranges::copy_if(node.wires, std::back_inserter(nvlinks),
                       [](const NodeWire& wire) { return wire.kind == NodeWire::Nvlink; });
  const int most = nvlinks_of_gpu(sm_of(node, preset), preset);
  const bool has_all = std::ranges::any_of(
      nvlinks, [](const NodeWire& wire) { return wire.nvlinks == kMostNvlinks; });
  if (node.counts_pairs && (has_all || most_linked(nvlinks).nvlinks > most)) {
    const std::vector<int> links = links_to_switch(nvlinks, node.gpus.size());
    if (!links.empty()) nvlinks = switch_wires(links, host);
  }
  const LinkedGpu linked = most_linked(nvlinks);
  if (linked.nvlinks <= most) return nvlinks;
  return Error{fmt::format(
      "found {} NVLinks of {} ({}), expected at most the {} of a GPU as {} has{}", linked.nvlinks,
      linked.gpu, node.kind, most, preset.preset,
      node.counts_pairs ? ", or pairs at a switch, each with the links of the GPU with fewer"
                        : "")};
}

// Adds NVLinks that a file counts, each at NCCL's rate for this kind of GPU. If the kind is
// unknown, a GPU's links together get the rate of the preset's.
void add_counted_nvlinks(const std::vector<NodeWire>& nvlinks, int sm, const PresetNode& preset,
                         HostTemplate* host) {
  const double nccl_GBps = nccl_nvlink_GBps(sm);  // of one link; 0: the kind is unknown
  const double link_GBps =
      nccl_GBps > 0 ? nccl_GBps : nvlinks_GBps(preset) / std::max(1, most_linked(nvlinks).nvlinks);
  for (const NodeWire& wire : nvlinks) {
    const bool to_switch = wire.to == "nvswitch";
    host->has_switch |= to_switch;
    host->nvlinks.push_back({wire.from, wire.to, wire.nvlinks * link_GBps,
                             preset.intra_latency_us / (to_switch ? 2 : 1), 0, wire.nvlinks});
  }
  if (host->nvlinks.empty()) return;
  if (nccl_GBps > 0) return restate_efficiency(preset, sm, host);
  host->assumed.push_back(
      fmt::format("NVLinks as fast as {}'s: no file says which GPUs they are of", preset.preset));
}

// Returns a NIC's rate if no file states it: the user's, or the preset's. If there are more NICs
// than the preset has, they share the preset's sum equally.
double usual_nic_GBps(const PresetNode& preset, std::size_t nics) {
  if (preset.nic_is_set) return preset.nic_GBps;
  return std::min(preset.nic_GBps, preset.nic_GBps * preset.nics / static_cast<double>(nics));
}

void add_nics(const ImportedNode& node, const PresetNode& preset, bool has_rates,
              HostTemplate* host) {
  bool has_usual = false;  // some NIC's rate is not stated
  for (const ImportedNic& nic : node.nics) {
    has_usual |= nic.GBps == 0;
    host->nics.push_back({nic.name,
                          nic.GBps > 0 ? nic.GBps : usual_nic_GBps(preset, node.nics.size()),
                          nic.GBps > 0, nic.slot});
  }
  if (has_usual && !has_rates)
    host->assumed.push_back(fmt::format("NICs of {:g} Gbit/s, by {}: no file says it",
                                        8 * usual_nic_GBps(preset, node.nics.size()),
                                        preset.nic_is_set ? "--set" : preset.preset));
}

// Adds GPUs that the file leaves out, spread over the switches that its NICs hang on: of 8 GPUs and
// 4 switches GPUs 0 and 1 hang on the first. Their wires are as fast as the fastest NIC's.
void spread_gpus(const ImportedNode& node, const PresetNode& preset, HostTemplate* host) {
  std::vector<std::string> switches;
  double fastest = 0;
  for (const NodeWire& wire : node.wires) {
    if (!wire.from.starts_with("nic")) continue;
    fastest = std::max(fastest, wire.GBps);
    if (std::ranges::find(switches, wire.to) == switches.end()) switches.push_back(wire.to);
  }
  host->gpus = preset.gpus;
  for (int i = 0; i < host->gpus; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * switches.size() / host->gpus;
    host->others.push_back(
        {.from = fmt::format("gpu{}", i), .to = switches[at], .GBps = fastest, .efficiency = 1});
  }
  host->assumed.push_back(
      fmt::format("{} GPUs, as {} has, spread over the {} PCIe switches: the "
                  "file names none",
                  host->gpus, preset.preset, switches.size()));
}

// Returns whether NVLinks join all GPUs, directly or through other GPUs.
bool is_connected(const Adjacency& adjacency) {
  std::vector<bool> reached(adjacency.size());
  std::vector<std::size_t> next = {0};
  while (!next.empty()) {
    const std::size_t here = next.back();
    next.pop_back();
    if (reached[here]) continue;
    reached[here] = true;
    for (std::size_t to = 0; to < adjacency.size(); ++to) {
      if (adjacency[here][to] > 0) next.push_back(to);
    }
  }
  return std::ranges::find(reached, false) == reached.end();
}

// Returns the NVLinks between each two GPUs, divided by the least common divisor that leaves one
// digit a pair, as cluster.nvlinks has them. Empty: there is a switch, there are more than eight
// GPUs or no such divisor, or NVLinks do not join all GPUs.
Adjacency adjacency_of(const HostTemplate& host) {
  constexpr int kMostGpus = 8, kMostLinks = 9;
  if (host.has_switch || host.nvlinks.empty() || host.gpus > kMostGpus) return {};
  int divisor = 1, most = 0;
  for (const HostWire& wire : host.nvlinks) most = std::max(most, wire.nvlinks);
  const auto leaves_digit = [&](const HostWire& wire) {
    return wire.nvlinks % divisor == 0 && wire.nvlinks / divisor <= kMostLinks;
  };
  while (divisor <= most && !std::ranges::all_of(host.nvlinks, leaves_digit)) ++divisor;
  if (divisor > most) return {};
  Adjacency adjacency(host.gpus, std::vector<int>(host.gpus));
  for (const HostWire& wire : host.nvlinks) {
    const int from = std::stoi(wire.from.substr(3)), to = std::stoi(wire.to.substr(3));
    adjacency[from][to] = adjacency[to][from] = wire.nvlinks / divisor;
  }
  return is_connected(adjacency) ? adjacency : Adjacency{};
}

// Replaces NVLinks between GPUs by a hub, as in presets without a switch. `adjacency` keeps how
// many each pair has.
void join_by_hub(const PresetNode& preset, HostTemplate* host) {
  host->adjacency = adjacency_of(*host);
  if (host->adjacency.empty()) return;
  double fastest = 0;
  for (const HostWire& wire : host->nvlinks) fastest = std::max(fastest, wire.GBps);
  host->nvlinks.clear();
  for (int i = 0; i < host->gpus; ++i)
    host->nvlinks.push_back(
        {fmt::format("gpu{}", i), "nvlinks", fastest, preset.intra_latency_us / 2});
  host->assumed.emplace_back(
      "NVLinks from GPU to GPU stand as a hub at the best pair's rate; cluster.nvlinks says which "
      "pairs have how many, and so which rings fit");
}

bool has_no_rate(const NodeWire& wire) { return wire.kind == NodeWire::Pcie && wire.GBps == 0; }

// Adds a preset's NICs. GPUs share a NIC, or a GPU has several, evenly: with 8 GPUs and 4 NICs,
// GPUs 0 and 1 have nic0. A wire joins each GPU to each of its NICs.
void add_own_nics(const PresetNode& preset, int nics, HostTemplate* host) {
  for (int i = 0; i < nics; ++i)
    host->nics.push_back({"", usual_nic_GBps(preset, static_cast<std::size_t>(nics)), false});
  // Joins a GPU to a NIC by a wire as fast as the NIC, which so limits nothing.
  const auto add_wire = [&](int gpu, int nic) {
    host->others.push_back({.from = fmt::format("gpu{}", gpu),
                            .to = fmt::format("nic{}", nic),
                            .GBps = preset.nic_GBps,
                            .efficiency = 1});
  };
  for (int i = 0; i < std::max(host->gpus, nics); ++i)
    host->gpus >= nics ? add_wire(i, i * nics / host->gpus) : add_wire(i * host->gpus / nics, i);
}

// A PCIe switch, or a CPU, with the GPUs and NICs that hang on it.
struct PcieSite {
  int gpus = 0;
  std::vector<std::size_t> nics;
  std::set<double> nic_GBps;
};

std::size_t nic_number(const std::string& nic) { return std::stoul(nic.substr(3)); }

// Returns for each NIC the first one of its bundle: itself, if it is not bundled.
std::vector<std::size_t> bundles_of(const HostTemplate& host) {
  std::map<std::string, PcieSite> sites;
  for (const HostWire& wire : host.others) {
    if (wire.from.starts_with("gpu")) ++sites[wire.to].gpus;
    if (!wire.from.starts_with("nic")) continue;
    const std::size_t nic = nic_number(wire.from);
    sites[wire.to].nics.push_back(nic);
    sites[wire.to].nic_GBps.insert(host.nics[nic].GBps);
  }
  std::vector<std::size_t> bundle_of(host.nics.size());
  std::iota(bundle_of.begin(), bundle_of.end(), 0);
  for (const auto& [name, site] : sites) {
    if (site.gpus == 0 || site.nics.size() % site.gpus != 0 || site.nic_GBps.size() > 1) continue;
    const std::size_t bundle_size = site.nics.size() / site.gpus;
    for (std::size_t i = 0; i < site.nics.size(); ++i)
      bundle_of[site.nics[i]] = site.nics[i - i % bundle_size];
  }
  return bundle_of;
}

// Returns how many ports share this NIC's PCIe wire, itself included.
std::ptrdiff_t ports_at_slot(const HostTemplate& host, const HostNic& nic) {
  return nic.slot < 0 ? 1 : std::ranges::count(host.nics, nic.slot, &HostNic::slot);
}

}  // namespace

void bundle_nics(HostTemplate* host) {
  const std::vector<std::size_t> bundle_of = bundles_of(*host);
  std::vector<HostNic> bundles;
  std::vector<std::size_t> number_of(bundle_of.size());  // by a bundle's first NIC
  for (std::size_t i = 0; i < bundle_of.size(); ++i) {
    if (bundle_of[i] != i) continue;
    number_of[i] = bundles.size();
    bundles.push_back(host->nics[i]);
    const std::ptrdiff_t members = std::ranges::count(bundle_of, i);
    bundles.back().GBps *= static_cast<double>(members);
    if (members > 1) bundles.back().slot = -1;  // its wires are parts of slots
  }
  if (bundles.size() == host->nics.size()) return;
  host->assumed.push_back(
      fmt::format("{} NICs stand as {} with their rates together: NCCL sends by all that are as "
                  "near",
                  host->nics.size(), bundles.size()));
  std::vector<HostWire> wires;
  for (HostWire wire : host->others) {
    if (!wire.from.starts_with("nic")) {
      wires.push_back(std::move(wire));
      continue;
    }
    const std::size_t nic = nic_number(wire.from);
    if (std::ranges::count(bundle_of, bundle_of[nic]) > 1)
      wire.GBps /= static_cast<double>(ports_at_slot(*host, host->nics[nic]));
    wire.from = fmt::format("nic{}", number_of[bundle_of[nic]]);
    const auto same = std::ranges::find_if(wires, [&](const HostWire& other) {
      return other.from == wire.from && other.to == wire.to;
    });
    if (same == wires.end()) {
      wires.push_back(std::move(wire));
    } else {
      same->GBps += wire.GBps;
    }
  }
  host->nics = std::move(bundles);
  host->others = std::move(wires);
}

void share_slots(HostTemplate* host) {
  std::map<int, std::string> switch_at;  // by slot
  std::vector<HostWire> wires;
  for (HostWire wire : host->others) {
    const bool is_of_nic = wire.from.starts_with("nic");
    const HostNic* const nic = is_of_nic ? &host->nics[nic_number(wire.from)] : nullptr;
    if (nic != nullptr && ports_at_slot(*host, *nic) > 1) {
      const auto [known, is_new] =
          switch_at.try_emplace(nic->slot, fmt::format("slot{}", switch_at.size()));
      if (is_new) {
        wires.push_back(wire);
        wires.back().from = known->second;
      }
      wire.to = known->second;
    }
    wires.push_back(std::move(wire));
  }
  host->others = std::move(wires);
}

Result<HostTemplate> host_of(const ImportedNode& node, const PresetNode& preset, bool has_rates) {
  HostTemplate host;
  host.gpus = static_cast<int>(node.gpus.size());
  host.nic_latency_us = preset.inter_latency_us / 2;  // a message passes two NICs' cables
  if (!node.states_gpus) spread_gpus(node, preset, &host);
  if (node.states_nvlinks) {
    ASSIGN_OR_RETURN(const std::vector<NodeWire> nvlinks, counted_nvlinks(node, preset, &host));
    add_counted_nvlinks(nvlinks, sm_of(node, preset), preset, &host);
  } else {
    if (preset.gpus < host.gpus)
      return Error{
          fmt::format("found {} GPUs in a file without NVLinks, expected a preset of a "
                      "node with as many: {} has {}",
                      host.gpus, preset.preset, preset.gpus)};
    add_preset_nvlinks(preset, &host);
    host.assumed.push_back(
        fmt::format("NVLinks as {} has them: the file states none", preset.preset));
  }
  join_by_hub(preset, &host);
  const double pcie = pcie_GBps_of(sm_of(node, preset));
  if (node.nics.empty()) {
    add_own_nics(preset, std::max(1, preset.nics * host.gpus / preset.gpus), &host);
    host.assumed.push_back(
        fmt::format("{} NICs, as {} has: the file names none", host.nics.size(), preset.preset));
  } else {
    add_nics(node, preset, has_rates, &host);
  }
  if (std::ranges::any_of(node.wires, has_no_rate))
    host.assumed.push_back(
        fmt::format("PCIe of {:g} GB/s, as {}'s GPUs have: the file states no "
                    "rate",
                    pcie, preset.preset));
  // Without NVLinks a message between two GPUs passes both their PCIe wires, so each has half of
  // the latency. A message to another node passes its GPU's wire first, so the NIC's cable has that
  // much less.
  const double inside_us = host.nvlinks.empty() ? preset.intra_latency_us / 2 : 0;
  host.nic_latency_us = std::max(0.0, host.nic_latency_us - inside_us);
  for (const NodeWire& wire : node.wires) {
    if (wire.kind == NodeWire::Nvlink) continue;
    host.others.push_back({wire.from, wire.to, has_no_rate(wire) ? pcie : wire.GBps,
                           wire.from.starts_with("gpu") ? inside_us : 0, 1});
  }
  return host;
}

HostTemplate host_of(const PresetNode& preset, int gpus, int nics) {
  HostTemplate host;
  host.gpus = gpus;
  host.nic_latency_us = preset.inter_latency_us / 2;
  add_preset_nvlinks(preset, &host);
  join_by_hub(preset, &host);
  add_own_nics(preset, nics, &host);
  return host;
}

}  // namespace tandem
