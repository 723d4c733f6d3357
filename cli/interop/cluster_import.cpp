// Imports a cluster in these steps: read the files, choose a preset for all that they do not state,
// compose the nodes and links of both, check that they can be built, and write keys and CSV.
#include "cli/interop/cluster_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/hostlist.h"
#include "interop/topology/cables_csv.h"
#include "interop/topology/compose.h"
#include "interop/topology/nccl_rates.h"
#include "interop/topology/topologies.h"
#include "scenarios/fields.h"
#include "topology/cluster_keys.h"
#include "topology/fabric_shape.h"
#include "topology/listed_cables.h"
#include "topology/preset.h"

namespace tandem {
namespace {

// A number of a preset's node that --set may give: a value of `key` times `unit`.
struct SettableNumber {
  std::string_view key;
  double PresetNode::*number;
  double unit;
};

constexpr std::array kSettable = {
    SettableNumber{"cluster.intra_GBps", &PresetNode::intra_GBps, 1},
    SettableNumber{"cluster.intra_latency_us", &PresetNode::intra_latency_us, 1},
    SettableNumber{"cluster.nic_Gbitps", &PresetNode::nic_GBps, 0.125},
    SettableNumber{"cluster.inter_latency_us", &PresetNode::inter_latency_us, 1},
    SettableNumber{"cluster.oversubscription", &PresetNode::oversubscription, 1}};

// Checks the value as a scenario's key of that name.
Status check_value(std::string_view key, const KeyValue& value) {
  ClusterSpec spec;
  for (const BoundKey<ClusterSpec>& bound : cluster_keys()) {
    if (bound.key.name() == key) return set_by(bound, key, {value, "--set"}, &spec);
  }
  return Done{};
}

// Keys that no scenario has beside links, and that no number of the links follows from.
constexpr std::array kNeverBesideLinks = {"cluster.nics_per_node", "cluster.fabric",
                                          "cluster.nodes_per_leaf", "cluster.nics_on_switch"};

// Returns the node with --set's numbers.
Result<PresetNode> node_with_sets(PresetNode node, const std::map<std::string, KeyValue>& sets) {
  for (const char* key : kNeverBesideLinks) {
    if (sets.contains(key))
      return Error{
          fmt::format("--set: found {} beside files of a cluster, expected none: the file "
                      "of its links has them all",
                      key)};
  }
  for (const SettableNumber& settable : kSettable) {
    const auto set = sets.find(std::string(settable.key));
    if (set == sets.end()) continue;
    double value = 0;
    if (const auto* whole = std::get_if<std::int64_t>(&set->second))
      value = static_cast<double>(*whole);
    if (const auto* number = std::get_if<double>(&set->second)) value = *number;
    RETURN_IF_ERROR(check_value(settable.key, set->second));
    node.*settable.number = value * settable.unit;
    node.nic_is_set |= settable.number == &PresetNode::nic_GBps;
    node.oversubscription_is_set |= settable.number == &PresetNode::oversubscription;
  }
  return node;
}

bool is_same(const ComposedCluster& a, const ComposedCluster& b) {
  return a.intra_efficiency == b.intra_efficiency &&
         std::ranges::equal(a.cables, b.cables, [](const auto& x, const auto& y) {
           return x.GBps == y.GBps && x.latency_us == y.latency_us;
         });
}

// Notes the numbers that --set gave the links. Refuses one that makes no difference.
Status note_sets(const ImportedTopology& topology, const PresetNode& own,
                 const ClusterImportOptions& options, const ComposeOptions& wanted,
                 ComposedCluster* composed) {
  for (const SettableNumber& settable : kSettable) {
    if (!options.sets.contains(std::string(settable.key))) continue;
    PresetNode changed = own;
    changed.*settable.number = 2 * (own.*settable.number) + 1;
    ASSIGN_OR_RETURN(const ComposedCluster other, compose(topology, changed, wanted));
    const double value = own.*settable.number / settable.unit;
    if (is_same(*composed, other))
      return Error{fmt::format(
          "--set: found {} = {:g}, expected none: no number of these links follows from it",
          settable.key, value)};
    composed->assumed.push_back(
        fmt::format("{} = {:g} of the links, by --set: no file says it", settable.key, value));
  }
  return Done{};
}

PresetNode preset_node(const std::string& name, const ClusterSpec& spec) {
  return {.preset = name,
          .device = spec.device.name,
          .gpus = spec.gpus_per_node,
          .nics = spec.nics_per_node,
          .intra_GBps = spec.intra_bytes_per_s / GB,
          .intra_efficiency = spec.intra_efficiency,
          .intra_latency_us = spec.intra_latency_s * 1e6,
          .nic_GBps = spec.nic_bytes_per_s / GB,
          .inter_efficiency = spec.inter_efficiency,
          .inter_latency_us = spec.inter_latency_s * 1e6,
          .oversubscription = spec.fabric.oversubscription,
          .nvlinks = spec.nvlinks,
          .nvls = spec.nvls};
}

// Checks that the GPUs of the files are of the generation of --cluster's. `file_preset`: the preset
// with the files' GPUs; empty: they name none that is known.
Status check_generation(const std::string& file_preset, const std::string& preset,
                        const DeviceSpec& device) {
  if (file_preset.empty()) return Done{};
  ASSIGN_OR_RETURN(const ClusterSpec of_files, load_preset(file_preset));
  const int stated = sm_of_device(of_files.device.name), wanted = sm_of_device(device.name);
  if (stated == 0 || wanted == 0 || stated == wanted) return Done{};
  return Error{
      fmt::format("found GPUs of compute capability {}, as {} has, beside --cluster {} "
                  "({}), expected those of the cluster's GPUs, {}",
                  stated, file_preset, preset, device.name, wanted)};
}

std::vector<ListedCable> listed(const ComposedCluster& composed) {
  std::vector<ListedCable> cables;
  for (const ComposedCable& cable : composed.cables)
    cables.push_back(
        {cable.from, cable.to, cable.GBps * GB, cable.latency_us * 1e-6, cable.efficiency});
  return cables;
}

// Checks, before anything is written, that the links make a cluster that can be built. Notes NICs
// that stay idle.
Status check_joined(ComposedCluster* composed, const std::string& preset,
                    const ClusterSpec& of_preset) {
  ClusterSpec spec = of_preset;
  spec.name = preset;
  spec.nvlinks.clear();  // the composed links replace the preset's
  spec.cables = std::make_shared<const std::vector<ListedCable>>(listed(*composed));
  spec.has_hosts = true;
  ASSIGN_OR_RETURN(spec.gpus_per_node, gpus_per_node(*spec.cables));
  ASSIGN_OR_RETURN(const Cluster cluster,
                   Cluster::build(spec, composed->nodes * composed->gpus_per_node));
  if (const std::string idle = idle_nics(cluster); !idle.empty()) composed->assumed.push_back(idle);
  return Done{};
}

// Sets cluster.hosts if the names of the nodes do not say all about the hosts.
Status set_hosts(const ComposedCluster& composed, ImportedPlan* plan) {
  if (composed.hosts.size() > static_cast<std::size_t>(composed.nodes)) {
    plan->set("cluster.hosts", hostlist_of(composed.hosts),
              "in order of their GPUs, several a node");
    return Done{};
  }
  const std::vector<ListedCable> cables = listed(composed);
  if (!need_hosts(cables)) return Done{};
  ASSIGN_OR_RETURN(const std::vector<std::string> names, node_names(cables));
  plan->set("cluster.hosts", hostlist_of(names), "these names are hosts', not numbers of nodes");
  return Done{};
}

void set_keys(const ComposedCluster& composed, const PresetNode& preset, bool by_option,
              const std::string& output, ImportedPlan* plan) {
  plan->set("cluster.preset", preset.preset,
            by_option ? "--cluster: its GPUs, and what no file says"
                      : "the files' GPUs; and what no file says");
  plan->set("cluster.name", std::filesystem::path(output).stem().string(), "");
  plan->set("cluster.links_file", std::filesystem::path(links_path(output)).filename().string(),
            fmt::format("{} node{} of {} GPUs", composed.nodes, composed.nodes == 1 ? "" : "s",
                        composed.gpus_per_node));
  if (composed.intra_efficiency > 0)
    plan->set("cluster.intra_efficiency",
              std::stod(fmt::format("{:.10g}", composed.intra_efficiency)),  // ten digits
              fmt::format("of NVLinks as NCCL counts them: {:.4g} of the line rate, as {} has",
                          preset.intra_efficiency, preset.preset));
  if (!composed.nvlinks.empty())
    plan->set("cluster.nvlinks", composed.nvlinks, "each GPU's NVLinks to each");
  if (!composed.nvls && preset.nvls)
    plan->set("cluster.nvls", false, "no switch joins a node's GPUs");
}

}  // namespace

bool is_for_links(const std::string& key) {
  return std::ranges::find(kSettable, key, &SettableNumber::key) != kSettable.end();
}

std::string links_path(const std::string& output) {
  return std::filesystem::path(output).replace_extension(".links.csv").string();
}

Result<ImportedCluster> import_cluster(const std::vector<ImportSource>& sources,
                                       const ClusterImportOptions& options) {
  ASSIGN_OR_RETURN(const ImportedTopology topology, import_topology(sources));
  const std::string file_preset = preset_of(topology);
  const std::string preset_name = options.preset.empty() ? file_preset : options.preset;
  if (preset_name.empty())
    return Error::at(sources.front().path,
                     "found no GPU that is known by its PCI id or compute capability, expected "
                     "--cluster with a preset that has them (tandem topology --help lists them)");
  ASSIGN_OR_RETURN(const ClusterSpec spec, load_preset(preset_name));
  if (const Status same = check_generation(file_preset, preset_name, spec.device); !same.ok())
    return Error::at(sources.front().path, same.error().message);
  if (topology.node && topology.node->states_nvlinks && options.sets.contains("cluster.intra_GBps"))
    return Error{"--set: found cluster.intra_GBps, expected none: the files say a node's NVLinks"};
  ASSIGN_OR_RETURN(const PresetNode preset,
                   node_with_sets(preset_node(preset_name, spec), options.sets));
  ComposeOptions wanted{.gpus = options.gpus};
  if (!options.hosts.empty()) {
    auto hosts = parse_hostlist(options.hosts);
    if (!hosts.ok()) return Error{"--hosts: " + hosts.error().message};
    wanted.hosts = *std::move(hosts);
  }
  auto composed = compose(topology, preset, wanted);
  if (!composed.ok()) return Error::at(sources.front().path, composed.error().message);
  RETURN_IF_ERROR(note_sets(topology, preset, options, wanted, &*composed));
  if (const Status joined = check_joined(&*composed, preset_name, spec); !joined.ok())
    return Error::at(sources.front().path, joined.error().message);
  const std::int64_t gpus = std::int64_t{composed->nodes} * composed->gpus_per_node;
  if (options.gpus > gpus)
    return Error::at(sources.front().path,
                     fmt::format("--gpus: found {}, expected at most the {} of its cluster",
                                 options.gpus, gpus));
  ImportedCluster imported;
  imported.plan.sources = topology.sources;
  imported.plan.assumed = topology.assumed;
  imported.plan.left_out = topology.left_out;
  imported.plan.not_expressed = topology.not_expressed;
  for (const auto& [from, to] : {std::pair(&composed->assumed, &imported.plan.assumed),
                                 std::pair(&composed->left_out, &imported.plan.left_out)})
    to->insert(to->end(), from->begin(), from->end());
  if (options.gpus > 0 && options.gpus < gpus)
    imported.plan.set("cluster.gpus", options.gpus, "--gpus");
  set_keys(*composed, preset, !options.preset.empty(), options.output, &imported.plan);
  RETURN_IF_ERROR(set_hosts(*composed, &imported.plan));
  std::vector<std::string> comments = {"Written by tandem import; GBps a direction."};
  comments.insert(comments.end(), topology.sources.begin(), topology.sources.end());
  imported.links = cables_csv(*composed, comments);
  return imported;
}

}  // namespace tandem
