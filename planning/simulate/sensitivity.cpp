// Plays a scenario once as it is, and once with each part 10 % slower: each stage's compute, each
// kind of communication, each level of links. Returns by how much each slows the iteration.
#include "planning/simulate/sensitivity.h"

#include <fmt/format.h>

#include "planning/choose/resolve.h"
#include "planning/simulate/repeat.h"

namespace tandem {
namespace {

constexpr double kSlower = 1.1;

struct SensitivityPart {
  std::string name;
  Scenario slower;  // with this part slower
};

void add_stages(const Scenario& scenario, std::vector<SensitivityPart>* parts) {
  for (int stage = 0; stage < scenario.job.plan.stages(); ++stage) {
    parts->push_back({fmt::format("stage {}", stage), scenario});
    parts->back().slower.variability.perturbation = Perturbation{stage, std::nullopt, kSlower};
  }
}

void add_kinds(const Scenario& scenario, const RunResult& result,
               std::vector<SensitivityPart>* parts) {
  for (int i = 0; i < kGroupKinds; ++i) {
    if (result.comm_s[i] == 0) continue;
    const auto kind = static_cast<GroupKind>(i);
    parts->push_back({fmt::format("{} communication", group_kind_name(kind)), scenario});
    Scenario& slower = parts->back().slower;
    slower.variability.perturbation = Perturbation{std::nullopt, kind, kSlower};
    slower.costs.p2p_s *= kSlower;  // uniform costs have no other communication
  }
}

// Slows the links of each level. Listed links have bandwidths of their own, so that the efficiency
// of their level is lowered instead.
void add_levels(const Scenario& scenario, std::vector<SensitivityPart>* parts) {
  if (!scenario.costs.need_cluster()) return;
  const ClusterSpec& spec = scenario.cluster.spec;
  const auto add = [&](const char* name) -> ClusterSpec& {
    return parts->emplace_back(SensitivityPart{name, scenario}).slower.cluster.spec;
  };
  if (spec.cables) {
    if (spec.gpus_per_node > 1) add("links in a node").intra_efficiency /= kSlower;
    if (scenario.cluster.gpus > spec.gpus_per_node)
      add("links between nodes").inter_efficiency /= kSlower;
    return;
  }
  if (spec.gpus_per_node > 1) add("links in a node").intra_bytes_per_s /= kSlower;
  if (scenario.cluster.gpus <= spec.gpus_per_node) return;
  add("links between nodes").nic_bytes_per_s /= kSlower;
  if (spec.fabric.kind != Fabric::Star) add("uplinks of leaves").fabric.oversubscription *= kSlower;
}

}  // namespace

Result<std::vector<Sensitivity>> sensitivity(const Scenario& given, Engine engine,
                                             const RunResult& result, bool progress, int jobs) {
  // All plays have the order and the layout of the run itself.
  ASSIGN_OR_RETURN(const Scenario scenario, resolved(given));
  std::vector<SensitivityPart> parts = {{"", scenario}};  // first the scenario as it is
  add_stages(scenario, &parts);
  add_kinds(scenario, result, &parts);
  add_levels(scenario, &parts);
  std::vector<Scenario> scenarios;
  for (const SensitivityPart& part : parts) scenarios.push_back(part.slower);
  ASSIGN_OR_RETURN(const std::vector<double> seconds,
                   iterations_s(scenarios, engine, progress, jobs));
  std::vector<Sensitivity> all;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const double longer_s = seconds[i] - seconds[0];
    all.push_back({parts[i].name, longer_s, longer_s / seconds[0]});
  }
  return all;
}

}  // namespace tandem
