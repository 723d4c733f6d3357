// tandem topology: a cluster as a table, or as a graph for Graphviz.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/text_width.h"
#include "report/text/text_table.h"
#include "scenarios/run/place.h"
#include "scenarios/run/run.h"
#include "topology/preset.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

struct TopologyOptions {
  std::string input;
  std::string format = "table";
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
  for (const auto& [precision, share] : device.own_gemm_efficiency)
    text += fmt::format(", {:.3g} % in {}", 100 * share, precision);
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

std::string collective_line(const Cluster& cluster, int gpus) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < gpus; ++i) devices.push_back(static_cast<DeviceId>(i));
  constexpr Bytes kBytes = 1 << 30;
  const double s = to_seconds(collective_ns(cluster, CommKind::AllReduce, kBytes, devices));
  return fmt::format("{:.3f} ms, bus bandwidth {:.1f} GB/s", 1e3 * s,
                     2.0 * (gpus - 1) / gpus * kBytes / s / GB);
}

// The levels of a regular cluster.
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

void print_table(const Cluster& cluster, const std::string& preset, int width) {
  const ClusterSpec& spec = cluster.spec();
  std::vector<Cells> rows;
  const auto add = [&](std::string key, std::string value) {
    rows.push_back({std::move(key), std::move(value)});
  };
  add("name", spec.name);
  add("GPU", fmt::format("{}, {:.1f} GiB at {:.0f} GB/s, {} SMs", spec.device.name,
                         spec.device.memory_bytes / GiB, spec.device.memory_bytes_per_s / GB,
                         spec.device.sms));
  add("", fmt::format("{:.1f} GiB of them kept for CUDA's context, NCCL and fragmentation",
                      memory_reserve_bytes(spec.device) / GiB));
  for (const auto& [precision, flops] : spec.device.flops_per_s)
    add("peak " + precision, fmt::format("{:.0f} TFLOP/s, dense", flops * 1e-12));
  add("GEMMs", gemms(spec.device));
  add("fused attention",
      fmt::format("{:.3g} % of the 16-bit peak", 100 * spec.device.attention_efficiency));
  add("size", fmt::format("{} GPUs on {} nodes of {}", cluster.gpus(), cluster.nodes(),
                          spec.gpus_per_node));
  if (spec.cables) {
    add("links", fmt::format("{}, as listed", cluster.links()));
  } else {
    add_links(spec, add);
  }
  add("collectives", collectives(spec));
  const int node = std::min(cluster.gpus(), spec.gpus_per_node);
  if (node > 1)
    add(fmt::format("all-reduce of 1 GiB, {} GPUs", node), collective_line(cluster, node));
  if (cluster.nodes() > 1)
    add(fmt::format("all-reduce of 1 GiB, {} GPUs", cluster.gpus()),
        collective_line(cluster, cluster.gpus()));
  fmt::print("{}", laid_out({{"", Place::Name}, {"", Place::First, Align::Left}}, rows, width));
  if (preset.empty()) return;
  if (const auto sources = preset_sources(preset); sources.ok()) {
    fmt::print("\nsources\n");
    for (const auto& [key, source] : *sources)
      fmt::print("{}\n", wrapped(fmt::format("  {}: {}", key, source), width));
  }
}

Status show(const TopologyOptions& options) {
  Scenario scenario;
  if (options.input.ends_with(".toml")) {
    ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, load_scenarios(options.input));
    scenario = scenarios.front();
    if (!scenario.costs.need_cluster())
      return Error::at(options.input,
                       "found uniform costs, which know no cluster; expected [cluster]");
  } else {
    ASSIGN_OR_RETURN(scenario.cluster.spec, load_preset(options.input));
    scenario.cluster.preset = scenario.path = options.input;
    scenario.cluster.gpus = 2 * scenario.cluster.spec.gpus_per_node;
  }
  if (options.gpus > 0) scenario.cluster.gpus = options.gpus;
  ASSIGN_OR_RETURN(const Cluster cluster, make_cluster(scenario));
  if (options.format == "dot") {
    fmt::print("{}", cluster.dot());
  } else {
    print_table(cluster, scenario.cluster.preset, text_width(options.wide));
  }
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
  command.option("--format", &options->format, "table, or dot for Graphviz")
      .one_of({"table", "dot"})
      .show_default();
  add_wide(command, &options->wide);
  command.footer("Example: tandem topology jz-a100 --format dot | dot -Tsvg > jz-a100.svg");
  command.run([options] { return show(*options); });
}

}  // namespace tandem
