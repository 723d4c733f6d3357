// tandem topology: prints a cluster as a table, or as a graph for Graphviz.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/file.h"
#include "base/hostlist.h"
#include "base/outputs.h"
#include "cli/cluster_input.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "job/site.h"
#include "launch/standard_output.h"
#include "planning/simulate/simulate.h"
#include "report/page/cluster_svg.h"
#include "report/text/text_table.h"
#include "topology/fabric_shape.h"
#include "topology/preset.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

struct TopologyOptions {
  std::string input;
  std::string format = "table";
  std::string output;
  int gpus = 0;
  bool wide = false;
};

std::string rate(double bytes_per_s, double efficiency) {
  return fmt::format("{:.4g} GB/s = {:.4g} Gbit/s a direction, of which NCCL reaches {:.0f} %",
                     bytes_per_s / GB, bytes_per_s / Gbit, 100 * efficiency);
}

std::string fabric(const Fabric& fabric) {
  if (fabric.kind == Fabric::Star) return "star: a core that never blocks";
  return fmt::format("{}, {} nodes a leaf, oversubscription {:.3g}",
                     fabric.kind == Fabric::RailOptimised ? "rail-optimised" : "fat tree",
                     fabric.nodes_per_leaf, fabric.oversubscription);
}

std::string gemms(const DeviceSpec& device) {
  std::string text = fmt::format("{:.3g} % of the peak", 100 * device.gemm_efficiency);
  for (const auto& [precision, own] : device.own_gemms)
    text += fmt::format(", {:.3g} % in {}", 100 * own.efficiency, precision);
  return text;
}

std::string collectives(const ClusterSpec& spec) {
  std::string text = "flat rings";
  if (spec.collectives == Collectives::Hierarchical) text = "hierarchical rings";
  if (spec.collectives == Collectives::Auto) text = "flat or hierarchical rings, the faster";
  if (spec.trees) text += ", trees";
  if (spec.nvls) text += ", NVLS";
  return spec.in_network_reduction ? text + "; the switches reduce" : text;
}

// Prices an all-reduce. The bus bandwidth is nccl-tests': 2 (n - 1) / n of the bytes, over the
// time.
std::string collective_line(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const std::size_t gpus = devices.size();
  constexpr Bytes kBytes = 1 << 30;
  const double s = to_seconds(collective_ns(cluster, CommKind::AllReduce, kBytes, devices));
  return fmt::format(
      "{:.3f} ms, bus bandwidth {:.1f} GB/s", 1e3 * s,
      2.0 * static_cast<double>(gpus - 1) / static_cast<double>(gpus) * kBytes / s / GB);
}

// Adds a line for each level of a regular cluster: the node, the NICs, the fabric.
template <class Add>
void add_links(const ClusterSpec& spec, const Add& add) {
  add("inside a node", rate(spec.intra_bytes_per_s, spec.intra_efficiency));
  add("", fmt::format("{:.3g} us a message", 1e6 * spec.intra_latency_s));
  add("between nodes", fmt::format("{} NICs of {}", spec.nics_per_node,
                                   rate(spec.nic_bytes_per_s, spec.inter_efficiency)));
  if (spec.ring_efficiency < 1)
    add("", fmt::format("rings reach {:.1f} % of that", 100 * spec.ring_efficiency));
  if (spec.communicator_bytes_per_s > 0)
    add("", fmt::format("one communicator has {:.4g} GB/s of a node at most",
                        spec.communicator_bytes_per_s / GB));
  add("", fmt::format("{:.3g} us a message", 1e6 * spec.inter_latency_s));
  add("a node's NICs",
      fmt::format("{:.4g} Gbit/s a direction", spec.nics_per_node * spec.nic_bytes_per_s / Gbit));
  add("fabric", fabric(spec.fabric));
}

// Describes equal leaves: "31: 17 x 50 GB/s down, 16 x 50 GB/s up, oversubscription 1.06".
std::string leaves_text(const LeafShape& leaf, std::size_t count) {
  const auto links_text = [](int links, double bytes_per_s) {
    return fmt::format("{} x {:.4g} GB/s", links, bytes_per_s / links / GB);
  };
  const std::string down = links_text(leaf.down_links, leaf.down_bytes_per_s);
  if (leaf.up_links == 0) return fmt::format("{}: {} down, none up", count, down);
  return fmt::format("{}: {} down, {} up, oversubscription {:.3g}", count, down,
                     links_text(leaf.up_links, leaf.up_bytes_per_s), leaf.oversubscription());
}

// Adds lines that describe the fabric of listed cables: a line for each kind of equal leaves, the
// most oversubscribed first, then how many switches lie between two nodes.
template <class Add>
void add_shape(const FabricShape& shape, const Add& add) {
  constexpr std::size_t kMostLines = 8;
  const auto key = [](const LeafShape& leaf) {
    return std::tuple(-leaf.oversubscription(), leaf.down_links, leaf.up_links,
                      leaf.down_bytes_per_s, leaf.up_bytes_per_s);
  };
  std::map<decltype(key(LeafShape{})), std::vector<const LeafShape*>> kinds;
  for (const LeafShape& leaf : shape.leaves) kinds[key(leaf)].push_back(&leaf);
  add("switches",
      fmt::format("{} between nodes, {} of them leaves", shape.switches, shape.leaves.size()));
  std::size_t lines = 0;
  for (const auto& [shared_key, leaves] : kinds) {
    if (++lines > kMostLines) {
      add("", fmt::format("{} kinds more, less oversubscribed", kinds.size() - kMostLines));
      break;
    }
    std::vector<std::string> names;
    for (const LeafShape* leaf : leaves) names.push_back(leaf->name);
    add(lines == 1 ? "leaves" : "", leaves_text(*leaves.front(), leaves.size()));
    if (kinds.size() > 1) add("", "  " + hostlist_of(names));
  }
  std::int64_t pairs = 0;
  for (const auto& [hops, count] : shape.pairs) pairs += count;
  bool first = true;
  for (const auto& [hops, count] : shape.pairs) {
    add(first ? "between two nodes" : "",
        fmt::format("{} switch{}: {} pair{}, {:.1f} %", hops, hops == 1 ? "" : "es", count,
                    count == 1 ? "" : "s",
                    100.0 * static_cast<double>(count) / static_cast<double>(pairs)));
    first = false;
  }
}

// Returns "12 of 16 GPUs on 2 nodes of 8" for a job of 12.
std::string size_text(const Site& site) {
  const int gpus = site.cluster.gpus(), used = static_cast<int>(site.placement.size());
  return fmt::format("{}{} GPUs on {} nodes of {}", used == gpus ? "" : fmt::format("{} of ", used),
                     gpus, site.cluster.nodes(), site.cluster.spec().gpus_per_node);
}

// Adds an all-reduce of a node's GPUs, and one of all that the job has, if they are on several.
template <class Add>
void add_collectives(const Site& site, const Add& add) {
  const auto add_line = [&](const std::vector<DeviceId>& devices) {
    add(fmt::format("all-reduce of 1 GiB, {} GPUs", devices.size()),
        collective_line(site.cluster, devices));
  };
  const NodeId first = site.cluster.node_of(site.placement.front());
  std::vector<DeviceId> node;
  for (const DeviceId gpu : site.placement)
    if (site.cluster.node_of(gpu) == first) node.push_back(gpu);
  if (node.size() > 1) add_line(node);
  if (node.size() < site.placement.size()) add_line(site.placement);
}

void print_table(const Site& site, const std::string& preset, int width) {
  const Cluster& cluster = site.cluster;
  const ClusterSpec& spec = cluster.spec();
  std::vector<Cells> rows;
  const auto add = [&](std::string key, std::string value) {
    rows.push_back({std::move(key), std::move(value)});
  };
  add("name", spec.name);
  add("GPU", fmt::format("{}, {:.1f} GiB at {:.0f} GB/s, {} SMs", spec.device.name,
                         spec.device.memory_bytes / GiB, spec.device.memory_bytes_per_s / GB,
                         spec.device.sms));
  if (spec.device.own_memory_reserve_bytes)
    add("", fmt::format("{:.1f} GiB of them for no tensor (cluster.memory_reserve_GiB)",
                        *spec.device.own_memory_reserve_bytes / GiB));
  for (const auto& [precision, flops] : spec.device.flops_per_s)
    add("peak " + precision, fmt::format("{:.0f} TFLOP/s, dense", flops * 1e-12));
  add("GEMMs", gemms(spec.device));
  add("fused attention",
      fmt::format("{:.3g} % of the 16-bit peak", 100 * spec.device.attention_efficiency));
  add("size", size_text(site));
  if (spec.cables) {
    add("links", fmt::format("{}, as listed", cluster.links()));
    if (const auto shape = fabric_shape(*spec.cables); shape.ok()) add_shape(*shape, add);
  } else {
    add_links(spec, add);
  }
  add("collectives", collectives(spec));
  add_collectives(site, add);
  fmt::print(standard_output(), "{}",
             laid_out({{"", Place::Name}, {"", Place::First, Align::Left}}, rows, width));
  if (preset.empty()) return;
  if (const auto sources = preset_sources(preset); sources.ok()) {
    fmt::print(standard_output(), "\nsources\n");
    for (const auto& [key, source] : *sources)
      fmt::print(standard_output(), "{}\n", wrapped(fmt::format("  {}: {}", key, source), width));
  }
}

Status show(const TopologyOptions& options) {
  RETURN_IF_ERROR(check_files(options.input, {}, {{"-o", options.output}}));
  ASSIGN_OR_RETURN(Scenario scenario, load_cluster(options.input));
  if (options.gpus > 0) scenario.cluster.gpus = options.gpus;
  ASSIGN_OR_RETURN(Site site, make_changed_site(scenario));
  if (const std::string idle = idle_nics(site); !idle.empty()) say("warning: " + idle);
  // Listed links are shown whole, whatever part of them the scenario's job has.
  const bool is_whole = options.gpus == 0 && scenario.cluster.spec.cables != nullptr;
  if (is_whole) site.placement = in_order(site.cluster.gpus());
  if (options.format == "table") {
    print_table(site, scenario.cluster.preset, text_width(options.wide));
    return Done{};
  }
  const std::string text = options.format == "dot"
                               ? site.cluster.dot()
                               : cluster_svg(site.cluster.graph(), site.cluster.spec().name);
  if (!options.output.empty()) return write_file(options.output, text);
  fmt::print(standard_output(), "{}", text);
  return Done{};
}

}  // namespace

void add_topology(const Command& app) {
  auto options = std::make_shared<TopologyOptions>();
  std::string presets;
  for (const std::string& preset : preset_names()) presets += ' ' + preset;
  const Command command =
      app.subcommand("topology", "Shows a cluster: a preset, or that of a scenario's first run.");
  command.option("input", &options->input, "SCENARIO.toml or one of:" + presets).required();
  command.option("--gpus", &options->gpus, "GPUs to build; default two nodes, or the scenario's")
      .at_least_one();
  command.option("--format", &options->format, "table, dot for Graphviz, or svg, a picture")
      .one_of({"table", "dot", "svg"})
      .show_default();
  command.option("-o,--output", &options->output, "of dot and svg; default standard output");
  add_wide(command, &options->wide);
  command.footer("Example: tandem topology jz-a100 --format dot | dot -Tsvg > jz-a100.svg");
  command.run([options] { return show(*options); });
}

}  // namespace tandem
