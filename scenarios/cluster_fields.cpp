// The keys of [cluster], [costs], [variability], [report], [limits] and [published].
#include <filesystem>

#include "scenarios/fields.h"
#include "scenarios/hostfile.h"
#include "topology/calibration.h"
#include "topology/cluster_keys.h"
#include "topology/listed_cables.h"
#include "topology/preset.h"

namespace tandem {
namespace {

Status set_costs_source(const Setting& setting, Scenario* scenario) {
  const auto* word = std::get_if<std::string>(&setting.value);
  if (word == nullptr || (*word != "analytic" && *word != "uniform" && *word != "table"))
    return setting.error("costs.source", "analytic, table or uniform");
  if (*word == "uniform") scenario->costs.uniform.emplace();
  scenario->costs.source = *word;
  return Done{};
}

std::string folder_of(const Scenario& scenario) {
  return std::filesystem::path(scenario.path).parent_path().string();
}

// The file's path is relative to the scenario.
Status set_costs_table(const Setting& setting, Scenario* scenario) {
  ASSIGN_OR_RETURN(const std::string path,
                   setting.file("costs.table", folder_of(*scenario),
                                "a file that tandem calibrate device wrote"));
  ASSIGN_OR_RETURN(scenario->costs.table, read_cost_table(path));
  return Done{};
}

// If the name is a file's, its path is relative to the scenario.
Status set_framework_profile(const Setting& setting, Scenario* scenario) {
  const auto* name = std::get_if<std::string>(&setting.value);
  if (name == nullptr) return setting.error("costs.software", "a software's name, or a file");
  const bool is_file = name->ends_with(".toml");
  std::string file = *name;
  if (is_file) {
    ASSIGN_OR_RETURN(file, setting.file("costs.software", folder_of(*scenario), "a file (TOML)"));
  }
  auto profile = load_framework_profile(file);
  if (!profile.ok()) return Error::at(setting.where, profile.error().text());
  scenario->costs.profile = *std::move(profile);
  return Done{};
}

// A key of an action's seconds. Setting it makes the costs uniform.
template <class Place>  // Place: double& of a UniformCosts&
Key<Scenario> seconds(const char* key, const char* help, Place place) {
  const auto costs = [=](Scenario& scenario) -> double& {
    if (!scenario.costs.uniform) scenario.costs.uniform.emplace();
    return place(*scenario.costs.uniform);
  };
  return keys::number(key, help, costs, 1, keys::kSeconds);
}

Status set_preset(const Setting& setting, Scenario* scenario) {
  const auto* name = std::get_if<std::string>(&setting.value);
  if (name == nullptr) return setting.error("cluster.preset", "a preset's name");
  auto spec = load_preset(*name);
  if (!spec.ok()) return Error::at(setting.where, spec.error().text());
  scenario->cluster.spec = *std::move(spec);
  scenario->cluster.preset = *name;
  return Done{};
}

Status set_gpu(const Setting& setting, Scenario* scenario) {
  const auto* name = std::get_if<std::string>(&setting.value);
  if (name == nullptr) return setting.error("cluster.gpu", "a GPU's name");
  auto device = load_device(*name);
  if (!device.ok()) return Error::at(setting.where, device.error().text());
  scenario->cluster.spec.device = *std::move(device);
  return Done{};
}

Status set_tflops(const Setting& setting, Scenario* scenario) {
  double flops = 0;
  const auto expected =
      keys::number(
          "", "", [&](Scenario&) -> double& { return flops; }, 1e12, keys::kPositive)
          .set(setting.value, scenario);
  if (expected) return setting.error("cluster.tflops", *expected);
  for (const char* precision : {"fp16", "bf16", "fp8", "fp32"})
    scenario->cluster.spec.device.flops_per_s[precision] = flops;
  return Done{};
}

// The file's path is relative to the scenario.
Status set_calibration(const Setting& setting, Scenario* scenario) {
  ASSIGN_OR_RETURN(const std::string path,
                   setting.file("cluster.calibration", folder_of(*scenario),
                                "a file that tandem bench comm --fit wrote"));
  ASSIGN_OR_RETURN(scenario->cluster.spec.calibration, read_calibration(path));
  return Done{};
}

// The file's path is relative to the scenario.
Status set_hostfile(const Setting& setting, Scenario* scenario) {
  ASSIGN_OR_RETURN(const std::string path,
                   setting.file("cluster.hostfile", folder_of(*scenario),
                                "a hostfile: a host a line, with slots=8 perhaps"));
  ASSIGN_OR_RETURN(scenario->cluster.hostfile, read_hostfile(path));
  return Done{};
}

// The file's path is relative to the scenario. gpus_per_node is the file's, unless it is set as
// well.
Status set_links_file(const Setting& setting, Scenario* scenario) {
  ASSIGN_OR_RETURN(const std::string path,
                   setting.file("cluster.links_file", folder_of(*scenario),
                                "a CSV with the columns from, to, GBps, latency_us"));
  ASSIGN_OR_RETURN(scenario->cluster.spec.cables, read_cables(path));
  ASSIGN_OR_RETURN(scenario->cluster.spec.gpus_per_node,
                   gpus_per_node(*scenario->cluster.spec.cables));
  scenario->cluster.spec.nvlinks.clear();  // a preset's: the file lists all links
  return Done{};
}

std::vector<Field> variability_fields() {
  return {
      keys::number(
          "variability.jitter",
          "number: each compute op takes its time times a log-normal factor of mean 1 with this "
          "sigma; default 0",
          AT(variability.jitter), 1, {.most = 1}),
      {"variability.seed", "integer: of the jitter and of drawn stragglers; default 1",
       [](const Setting& setting, Scenario* s) -> Status {
         const auto* value = std::get_if<std::int64_t>(&setting.value);
         if (value == nullptr || *value < 0)
           return setting.error("variability.seed", "an integer, not negative");
         s->variability.seed = static_cast<std::uint64_t>(*value);
         return Done{};
       }},
      keys::number("variability.straggler_factor",
                   "number: how many times as long stragglers' compute takes",
                   AT(variability.stragglers.factor), 1, {.least = 1, .most = 1000}),
      keys::numbers("variability.straggler_ranks", "list of integers: ranks that are stragglers",
                    AT(variability.stragglers.ranks)),
      keys::numbers("variability.straggler_nodes", "list of integers: nodes whose GPUs all are",
                    AT(variability.stragglers.nodes)),
      keys::numbers("variability.straggler_stages", "list of integers: stages whose compute all is",
                    AT(variability.stragglers.stages)),
      keys::number("variability.straggler_share",
                   "number: each node is one with this probability, drawn by the seed; default 0",
                   AT(variability.stragglers.node_share), 1, {.most = 1}),
      keys::number(
          "variability.background",
          "number: the share of the bandwidth between nodes that other traffic takes; default 0",
          AT(variability.background), 1, {.most = 0.99}),
      keys::text(
          "variability.slow_link",
          "text: links that are slow for a while, by a name (n0.nic0.up) or what names begin with "
          "(n0.nic0, n0); engine simgrid only, but for those that fail for good",
          AT(variability.slow_link.name)),
      keys::number(
          "variability.slow_link_rate",
          "number: the share of its bandwidth that a slow link has; 0: it has failed, for good "
          "without "
          "slow_link_to_s: routes go round it; needed with slow_link",
          AT(variability.slow_link.rate), 1, {.most = 1}),
      keys::number("variability.slow_link_from_s",
                   "number: seconds into the iteration from which on; default 0",
                   AT(variability.slow_link.from_s), 1, keys::kSeconds),
      keys::number(
          "variability.slow_link_to_s", "number: seconds until which; default to the end",
          [](Scenario& s) -> double& { return s.variability.slow_link.to_s.emplace(); }, 1,
          keys::kSeconds),
      keys::whole("variability.runs",
                  "integer: how often the run is played, with seed, seed + 1, ...; default 1",
                  AT(variability.repeats), 1, 1'000'000)};
}

// The keys of [report], [limits] and [published].
std::vector<Field> report_fields() {
  return {
      keys::flag("report.least_bandwidth",
                 "true or false: look for the least bandwidth between nodes at which exposed "
                 "communication between nodes is under 5 % of the iteration, on the ideal engine; "
                 "default false",
                 AT(report.least_bandwidth)),
      keys::name(
          "report.baseline",
          "text: a point's name on an axis; below the table stands what every other run saves "
          "against the one with that point instead of its own",
          AT(report.baseline)),
      keys::choice<std::optional<GroupKind>>(
          "report.kind",
          "text: tensor, pipeline, data, context, expert or all: the communication that a saving "
          "is compared with; default all",
          {{"tensor", GroupKind::Tensor},
           {"pipeline", GroupKind::Pipeline},
           {"data", GroupKind::Data},
           {"context", GroupKind::Context},
           {"expert", GroupKind::Expert},
           {"all", std::nullopt}},
          AT(report.kind)),
      keys::flag(
          "report.causal_flops",
          "true or false: FLOPs, of the model and of the hardware alike, count of attention's "
          "products the half that a causal mask leaves; default false: whole, as Megatron-LM and "
          "PaLM's appendix B count",
          AT(report.causal_flops)),
      keys::flag(
          "report.traffic",
          "true or false: columns of what a GPU sends and of the communication that is exposed; "
          "default false",
          AT(report.traffic)),
      keys::text("report.note", "text: printed below the table", AT(report.note)),
      keys::number("limits.runs",
                   "number: most runs of a file, the product of its axes; default 1e5",
                   AT(limits.runs), 1, keys::kCount),
      keys::number(
          "limits.ops",
          "number: most ops of a run, of all ranks that are played; default 5e7: 6 GB and a "
          "minute",
          AT(limits.ops), 1, keys::kCount),
      keys::number("published.tflops_per_gpu",
                   "number: what was measured, hardware FLOPs as report.causal_flops says",
                   AT(report.published.tflops_per_gpu)),
      keys::text("published.cluster", "text: the cluster's point that it was measured on",
                 AT(report.published.cluster))};
}

std::vector<Field> cost_fields() {
  return {
      {"costs.source",
       "text: analytic (from shapes), table (what costs.table measured), or uniform: seconds an "
       "action, and nothing else costs anything; default analytic",
       set_costs_source},
      {"costs.table",
       "text: a file that tandem calibrate device wrote, relative to the scenario; with "
       "costs.source = table it prices compute, and the cluster communication",
       set_costs_table},
      {"costs.software",
       "text: whose constants price the model, a file's name in "
       "workload/frameworks or a file of "
       "your own, relative to the scenario; default the GPU's, with costs.source = uniform none",
       set_framework_profile},
      seconds("costs.forward_s", "number: seconds of a stage's forward",
              [](UniformCosts& c) -> double& { return c.forward_s; }),
      seconds("costs.backward_s", "number: seconds of a full backward; default input_s + weight_s",
              [](UniformCosts& c) -> double& { return c.backward_s; }),
      seconds("costs.input_s", "number: seconds of an input gradient; default half of backward_s",
              [](UniformCosts& c) -> double& { return c.input_s; }),
      seconds("costs.weight_s", "number: seconds of a weight gradient; default half of backward_s",
              [](UniformCosts& c) -> double& { return c.weight_s; }),
      keys::number("costs.p2p_s", "number: seconds of a transfer between stages; default 0",
                   AT(costs.p2p_s), 1, keys::kTransferSeconds),
      keys::number(
          "costs.p2p_MB",
          "number: MB of a transfer between stages, instead of costs.p2p_s: [cluster] says what "
          "it takes, and transfers may contend",
          AT(costs.p2p_bytes), 1e6, keys::kPositive)};
}

// The keys of [cluster]. The preset comes first and then its GPU, so that keys of single numbers
// change what these two set.
std::vector<Field> own_cluster_fields() {
  std::vector<Field> fields = {
      {"cluster.preset", "text: a preset's name, see tandem topology", set_preset},
      keys::name("cluster.name", "text: shown in tables; default the preset's",
                 AT(cluster.spec.name)),
      keys::whole("cluster.gpus", "integer: GPUs of the job; default tp x pp x cp x dp",
                  AT(cluster.gpus), 1),
      keys::whole("cluster.gpus_of_node",
                  "integer: GPUs of each node that the job takes, with their part of the NICs; "
                  "default all, or equally many of each where the job fills no whole nodes",
                  AT(cluster.gpus_of_node), 1),
      {"cluster.links_file",
       "text: a CSV of all links, of any graph; in place of the links, NICs and fabric above",
       set_links_file},
      keys::text("cluster.hosts",
                 "text: a hostlist, n[1-8], of the hosts in order of their GPUs, where NVLink "
                 "joins several to a node; default the nodes' names in links_file",
                 AT(cluster.hosts)),
      {"cluster.hostfile",
       "text: a file with a host a line (host slots=8, or host:8) that the job runs on, with "
       "links_file; default all hosts in order",
       set_hostfile},
      {"cluster.from",
       "text: a file that tandem import wrote of a cluster: its [cluster] stands for what this "
       "one does not say",
       [](const Setting&, Scenario*) -> Status { return Done{}; }},
      {"cluster.calibration",
       "text: a file that tandem bench comm --fit wrote; what it has measured takes that long",
       set_calibration},
      keys::choice<bool>(
          "cluster.placement",
          "text: block (ranks fill node after node) or cyclic (ranks are dealt round over "
          "the nodes, as Slurm says it); default block",
          {{"block", false}, {"cyclic", true}}, AT(cluster.cyclic)),
      {"cluster.gpu", "text: a GPU that is known, such as a100-80gb; default the preset's",
       set_gpu},
      keys::text("cluster.gpu_name", "text: the name of a GPU of your own",
                 AT(cluster.spec.device.name))};
  for (const Key<ClusterSpec>& key : cluster_keys())
    fields.emplace_back("cluster.", key, AT(cluster.spec));
  for (const Key<DeviceSpec>& key : device_keys())
    fields.emplace_back("cluster.", key, AT(cluster.spec.device));
  fields.emplace_back("cluster.tflops",
                      "number: a GPU's dense peak TFLOP/s, taken for every precision", set_tflops);
  return fields;
}

}  // namespace

std::vector<Field> cluster_fields() {
  std::vector<Field> all;
  for (const auto& part :
       {own_cluster_fields(), cost_fields(), variability_fields(), report_fields()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tandem
