// Reads the file of a sizing: each of its runs is a job on an offer. Declared in
// planning/size/size.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/split.h"
#include "planning/size/size.h"
#include "planning/tune/rules.h"

namespace tandem {
namespace {

// The keys of a plan that make_scenario needs; the search replaces all of them.
const std::vector<std::pair<const char*, std::int64_t>> kPlaceholderKeys = {
    {"parallel.tp", 1}, {"parallel.pp", 1}, {"parallel.dp", 1}, {"cluster.gpus", 1}};

// Whether the key describes an offer's hardware. --set refuses such keys: it would change the
// hardware of all offers, but not their names and prices.
bool is_bought(std::string_view key) {
  static const std::vector<std::string> kBought = split_words(
      "preset name gpus_per_node intra_GBps nics_per_node nic_Gbitps fabric nodes_per_leaf "
      "oversubscription nics_on_switch nvlinks in_network_reduction gpus_of_node links_file hosts "
      "hostfile from gpu gpu_name memory_GiB memory_GBps host_link_GBps host_memory_GBps sms "
      "tflops");
  constexpr std::string_view kCluster = "cluster.";
  return key.starts_with(kCluster) &&
         std::ranges::find(kBought, key.substr(kCluster.size())) != kBought.end();
}

Status check_sets(const std::vector<std::pair<std::string, Setting>>& sets) {
  for (const auto& [key, setting] : sets) {
    if (key == "cluster.gpus") return setting.error(key, "size.gpus: a list of GPUs to try");
    if (is_bought(key))
      return setting.error(key,
                           "it in a candidate's own lines, beside its price: here it would change "
                           "all candidates, and neither their names nor their prices; "
                           "variability.background takes bandwidth between nodes from all");
  }
  return Done{};
}

}  // namespace

Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  return load_size_cases(file, sets, only);
}

Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  const std::string& path = file.path;
  RETURN_IF_ERROR(check_sets(sets));
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, only));
  std::vector<SizeCase> cases;
  for (RunSettings& run : runs) {
    std::vector<Assumption> assumptions;
    for (const auto& [key, value] : defaults_taken(run.settings))
      assumptions.push_back({key, value});
    ASSIGN_OR_RETURN(SizeInputs inputs, take_size_inputs(path, &run.settings));
    for (const std::string& key : Space::own_keys()) run.settings.erase(key);
    for (const auto& [key, value] : kPlaceholderKeys) run.settings[key] = {value, path};
    ASSIGN_OR_RETURN(Scenario scenario, make_scenario(file, run));
    if (scenario.costs.uniform)
      return Error::at(path, "found costs.source = uniform, expected a model");
    if (scenario.cluster.spec.cables)
      return Error::at(
          path,
          "found cluster.links_file, expected a cluster of any size: what its NICs and "
          "its fabric are");
    if (inputs.ramp_from >= scenario.job.plan.global_batch)
      return Error::at(
          path, fmt::format("found size.ramp_from = {:.0f}, expected less than the whole batch, "
                            "parallel.global_batch = {}",
                            inputs.ramp_from, scenario.job.plan.global_batch));
    inputs.failures.checkpoint_bytes = checkpoint_bytes(parameters(scenario.job.model));
    inputs.failures.host_link_bytes_per_s = scenario.cluster.spec.device.host_link_bytes_per_s;
    const std::vector<std::string>& points = run.points;
    const std::string job = points.size() > 1 ? points.front() : scenario.job.model_name;
    const std::string offer =
        points.size() > 1 ? fmt::format("{}", fmt::join(points.begin() + 1, points.end(), ", "))
                          : run.name;
    for (const SizeCase& before : cases) {
      if (before.offer == offer &&
          (before.inputs.price != inputs.price || before.inputs.gpus != inputs.gpus))
        return Error::at(path, fmt::format("found size.gpus or prices of '{}' that differ from job "
                                           "to job, expected one machine for all jobs",
                                           offer));
    }
    cases.push_back({job, offer, std::move(scenario), inputs, std::move(assumptions)});
  }
  return cases;
}

std::vector<std::string> usual_space(const Scenario& scenario, bool any_numerics) {
  std::vector<std::string> among = {"schedule.order=none,1f1b,interleaved",
                                    "parallel.micro_batch=1,2,4",
                                    "parallel.scatter_gather=false",
                                    "parallel.tp=1,2,4,8,16",
                                    "parallel.vpp=1,2,3,4,5,6,7,8",
                                    "overlap.tensor=off,ring",
                                    "train.zero=0,1,3"};
  among.emplace_back(scenario.job.model.seq < kLongSequence ? "parallel.cp=1"
                                                            : "parallel.cp=1,2,4,8");
  if (!any_numerics) return among;
  const DeviceSpec& gpu = scenario.cluster.spec.device;
  const std::string stated = scenario.job.plan.precision;
  if (gpu.flops_per_s.contains("fp8")) {
    among.push_back("train.precision=bf16,fp8" +
                    (stated == "bf16" || stated == "fp8" ? "" : "," + stated));
    // Transformer Engine's recipes: mxfp8 if tensor cores have it (Blackwell), else scales that
    // software computes.
    among.emplace_back(gpu.flops_per_s.contains("mxfp8") ? "train.fp8_recipe=mxfp8"
                                                         : "train.fp8_recipe=current,blockwise");
  }
  // DeepEP runs on GPUs of NVIDIA from Hopper on, for which its copies are measured.
  if (scenario.job.model.is_moe() && gpu.deepep_sm_bytes_per_s > 0)
    among.emplace_back("parallel.dispatcher=alltoall,deepep");
  return among;
}

}  // namespace tandem
