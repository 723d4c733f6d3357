// The keys of [cluster], [costs], [variability], [report], [limits] and [published], each with the
// member of a Scenario that it sets. AT(member) finds the member. A number's factor turns the key's
// unit into the member's: cluster.tflops has 1e12. Declared in scenarios/fields.h.
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

// A key that names a file, relative to the scenario. `read` reads the file into the member.
template <class Read, class Place>
Field file_field(AnyKey key, const char* expected, Read read, Place place) {
  return {key, [=](const Setting& setting, Scenario* scenario) -> Status {
            ASSIGN_OR_RETURN(const std::string path,
                             setting.file(key.name(), folder_of(*scenario), expected));
            ASSIGN_OR_RETURN(place(*scenario), read(path));
            return Done{};
          }};
}

// Takes a built-in profile's name, or a .toml file whose path is relative to the scenario.
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

// A key of an action's seconds. Setting it makes the costs uniform. `place` finds the member in
// UniformCosts.
template <class Place>
BoundKey<Scenario> seconds(NumberKey key, Place place) {
  const auto costs = [=](Scenario& scenario) -> double& {
    if (!scenario.costs.uniform) scenario.costs.uniform.emplace();
    return place(*scenario.costs.uniform);
  };
  return keys::number(key, costs, 1, keys::kSeconds);
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

// Sets the peak of each precision. keys::number() checks the value, and sets `flops` alone.
Status set_tflops(const Setting& setting, Scenario* scenario) {
  double flops = 0;
  const auto expected =
      keys::number(
          "cluster.tflops", [&](Scenario&) -> double& { return flops; }, 1e12, keys::kPositive)
          .set(setting.value, scenario);
  if (expected) return setting.error("cluster.tflops", *expected);
  for (const char* precision : {"fp16", "bf16", "fp8", "fp32"})
    scenario->cluster.spec.device.flops_per_s[precision] = flops;
  return Done{};
}

// The file's path is relative to the scenario; cluster.hosts is set before. Sets gpus_per_node from
// the file; the key of that name is applied later. Also sets the rate inside a node, which prices
// DeepEP's copies over NVLink.
Status set_links_file(const Setting& setting, Scenario* scenario) {
  ASSIGN_OR_RETURN(const std::string path,
                   setting.file("cluster.links_file", folder_of(*scenario),
                                "a CSV with the columns from, to, GBps, latency_us"));
  scenario->cluster.spec.has_hosts = !scenario->cluster.hosts.empty();
  ASSIGN_OR_RETURN(scenario->cluster.spec.cables,
                   read_cables(path, scenario->cluster.spec.has_hosts));
  ASSIGN_OR_RETURN(scenario->cluster.spec.gpus_per_node,
                   gpus_per_node(*scenario->cluster.spec.cables));
  if (const double inside = fastest_inside(*scenario->cluster.spec.cables); inside > 0)
    scenario->cluster.spec.intra_bytes_per_s = inside;
  scenario->cluster.spec.nvlinks.clear();  // the preset's: the file lists all links
  return Done{};
}

std::vector<Field> variability_fields() {
  return {
      keys::number("variability.jitter", AT(variability.jitter), 1, {.most = 1}),
      {"variability.seed",
       [](const Setting& setting, Scenario* s) -> Status {
         const auto* value = std::get_if<std::int64_t>(&setting.value);
         if (value == nullptr || *value < 0)
           return setting.error("variability.seed", "an integer, not negative");
         s->variability.seed = static_cast<std::uint64_t>(*value);
         return Done{};
       }},
      keys::number("variability.straggler_factor", AT(variability.stragglers.factor), 1,
                   {.least = 1, .most = 1000}),
      keys::numbers("variability.straggler_ranks", AT(variability.stragglers.ranks)),
      keys::numbers("variability.straggler_nodes", AT(variability.stragglers.nodes)),
      keys::numbers("variability.straggler_stages", AT(variability.stragglers.stages)),
      keys::number("variability.straggler_share", AT(variability.stragglers.node_share), 1,
                   {.most = 1}),
      keys::number("variability.background", AT(variability.background), 1, {.most = 0.99}),
      keys::text("variability.slow_link", AT(variability.slow_link.name)),
      keys::number("variability.slow_link_rate", AT(variability.slow_link.rate), 1, {.most = 1}),
      keys::number("variability.slow_link_from_s", AT(variability.slow_link.from_s), 1,
                   keys::kSeconds),
      keys::number(
          "variability.slow_link_to_s",
          [](Scenario& s) -> double& { return s.variability.slow_link.to_s.emplace(); }, 1,
          keys::kSeconds),
      keys::whole("variability.runs", AT(variability.repeats), 1, 1'000'000)};
}

// The keys of [report], [limits] and [published].
std::vector<Field> report_fields() {
  return {keys::flag("report.least_bandwidth", AT(report.least_bandwidth)),
          keys::name("report.baseline", AT(report.baseline)),
          keys::choice<std::optional<GroupKind>>("report.kind",
                                                 {{"tensor", GroupKind::Tensor},
                                                  {"pipeline", GroupKind::Pipeline},
                                                  {"data", GroupKind::Data},
                                                  {"context", GroupKind::Context},
                                                  {"expert", GroupKind::Expert},
                                                  {"all", std::nullopt}},
                                                 AT(report.kind)),
          keys::flag("report.causal_flops", AT(report.causal_flops)),
          keys::flag("report.traffic", AT(report.traffic)),
          keys::text("report.note", AT(report.note)),
          keys::number("limits.runs", AT(limits.runs), 1, keys::kCount),
          keys::number("limits.ops", AT(limits.ops), 1, keys::kCount),
          keys::number("published.tflops_per_gpu", AT(report.published.tflops_per_gpu)),
          keys::text("published.cluster", AT(report.published.cluster))};
}

std::vector<Field> cost_fields() {
  return {{"costs.source", set_costs_source},
          file_field("costs.table", "a file that tandem calibrate device wrote", read_cost_table,
                     AT(costs.table)),
          {"costs.software", set_framework_profile},
          seconds("costs.forward_s", [](UniformCosts& c) -> double& { return c.forward_s; }),
          seconds("costs.backward_s", [](UniformCosts& c) -> double& { return c.backward_s; }),
          seconds("costs.input_s", [](UniformCosts& c) -> double& { return c.input_s; }),
          seconds("costs.weight_s", [](UniformCosts& c) -> double& { return c.weight_s; }),
          keys::number("costs.p2p_s", AT(costs.p2p_s), 1, keys::kTransferSeconds),
          keys::number("costs.p2p_MB", AT(costs.p2p_bytes), 1e6, keys::kPositive)};
}

// The keys of [cluster]. The preset comes first and then its GPU, so that keys of single numbers
// override theirs.
std::vector<Field> own_cluster_fields() {
  std::vector<Field> fields = {
      {"cluster.preset", set_preset},
      keys::name("cluster.name", AT(cluster.spec.name)),
      keys::whole("cluster.gpus", AT(cluster.gpus), 1),
      keys::whole("cluster.gpus_of_node", AT(cluster.gpus_of_node), 1),
      keys::text("cluster.hosts", AT(cluster.hosts)),
      {"cluster.links_file", set_links_file},
      file_field("cluster.hostfile", "a hostfile: a host a line, with slots=8 perhaps",
                 read_hostfile, AT(cluster.hostfile)),
      // The keys of that file were added to the run's settings before (imported_files.h).
      {"cluster.from", [](const Setting&, Scenario*) -> Status { return Done{}; }},
      file_field("cluster.calibration",
                 "a file that tandem bench comm --fit or calibrate comm wrote", read_calibration,
                 AT(cluster.spec.calibration)),
      keys::choice<bool>("cluster.placement", {{"block", false}, {"cyclic", true}},
                         AT(cluster.cyclic)),
      {"cluster.gpu", set_gpu},
      keys::text("cluster.gpu_name", AT(cluster.spec.device.name))};
  for (const BoundKey<ClusterSpec>& key : cluster_keys())
    fields.emplace_back(key, AT(cluster.spec));
  for (const BoundKey<DeviceSpec>& key : device_keys())
    fields.emplace_back(key, AT(cluster.spec.device));
  fields.push_back({"cluster.tflops", set_tflops});
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
