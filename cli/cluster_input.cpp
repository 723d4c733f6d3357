#include "cli/cluster_input.h"

#include <algorithm>
#include <vector>

#include "planning/simulate/simulate.h"
#include "topology/listed_cables.h"
#include "topology/preset.h"

namespace tandem {
namespace {

// Loads the scenario's first run. A file that has [cluster] alone gets costs of 1, so that the run
// is complete, and if it names no GPUs the slots of its hostfile or two nodes.
Result<Scenario> load_first(const std::string& path) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  ASSIGN_OR_RETURN(const std::vector<RunSettings> runs, runs_of(file));
  RunSettings run = runs.front();
  const bool is_cluster_alone = std::ranges::all_of(
      run.settings, [](const auto& setting) { return setting.first.starts_with("cluster."); });
  for (const char* key : {"costs.forward_s", "costs.backward_s", "costs.p2p_MB"}) {
    if (is_cluster_alone) run.settings[key] = {1.0, path};
  }
  ASSIGN_OR_RETURN(Scenario scenario, make_scenario(file, run));
  if (!is_cluster_alone || run.settings.contains("cluster.gpus")) return scenario;
  if (scenario.cluster.slots > 0) {
    scenario.cluster.gpus = scenario.cluster.slots;
    return scenario;
  }
  std::size_t nodes = 2;
  if (scenario.cluster.spec.cables) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     node_names(*scenario.cluster.spec.cables));
    nodes = std::min(nodes, names.size());
  }
  scenario.cluster.gpus = static_cast<int>(nodes) * scenario.cluster.spec.gpus_per_node;
  return scenario;
}

}  // namespace

Result<Scenario> load_cluster(const std::string& input) {
  Scenario scenario;
  const bool is_preset = std::ranges::count(preset_names(), input) > 0;
  if (!is_preset && scenario_path(input).ends_with(".toml")) {
    ASSIGN_OR_RETURN(scenario, load_first(input));
    if (!scenario.costs.need_cluster()) {
      const bool has_cluster = std::ranges::any_of(scenario.settings, [](const auto& setting) {
        return setting.first.starts_with("cluster.");
      });
      return Error::at(
          input, has_cluster ? "found uniform costs without costs.p2p_MB, which send nothing "
                               "over [cluster]; expected costs.p2p_MB, or [cluster] alone"
                             : "found uniform costs, which know no cluster; expected [cluster]");
    }
    return scenario;
  }
  ASSIGN_OR_RETURN(scenario.cluster.spec, load_preset(input));
  scenario.cluster.preset = scenario.path = input;
  scenario.cluster.gpus = 2 * scenario.cluster.spec.gpus_per_node;
  return scenario;
}

}  // namespace tandem
