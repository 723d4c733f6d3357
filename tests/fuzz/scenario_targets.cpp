// What users write: scenarios, single settings, sizes, and the data files that name machines.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "planning/simulate/simulate.h"
#include "planning/size/size.h"
#include "scenarios/scenario.h"
#include "scenarios/setting.h"
#include "scenarios/tensor_settings.h"
#include "tests/fuzz/targets.h"
#include "topology/preset.h"
#include "workload/frameworks/framework_profile.h"

namespace tandem {
namespace {

// Whether it is played in a moment.
bool is_small(const Scenario& scenario) {
  const Plan& plan = scenario.job.plan;
  constexpr int kGpus = 64, kMicrobatches = 64;
  return plan.gpus() <= kGpus && plan.microbatches() <= kMicrobatches &&
         scenario.variability.repeats <= 4;
}

void play(const Scenario& scenario) {
  const auto played = simulate(scenario, Engine::Ideal);
  const RunResult* result = accepted(played);
  if (result == nullptr) return;
  promise(std::isfinite(result->iteration_s) && result->iteration_s >= 0,
          "an iteration takes its time");
  promise(!to_json(*result).dump().empty(), "a result is printed");  // throws where it is no UTF-8
}

// A model's, and one of uniform costs.
std::vector<std::string> small_scenarios() {
  return texts_of("tests/fuzz/seeds", ".scenario.toml");
}

std::vector<std::string> scenario_seeds() {
  std::vector<std::string> texts = texts_of("scenarios", ".toml");
  for (const char* more : {"[schedule]\norder = \"zbv\"\n", "[schedule]\norder = \"dualpipe\"\n",
                           "[variability]\njitter = 0.05\nrepeats = 3\n",
                           "[train]\nrecompute = \"full\"\nprecision = \"fp8\"\n",
                           "[overlap]\ngrad_reduce = true\n", "[limits]\nops = 1000\n"})
    for (const std::string& base : small_scenarios()) texts.push_back(base + more);
  return texts;
}
void run_scenario(const FuzzInput& input) {
  const auto loaded = load_scenarios(input.path, {{"limits.ops", {std::int64_t{20000}, "--set"}},
                                                  {"limits.runs", {std::int64_t{20}, "--set"}}});
  const auto* scenarios = accepted(loaded);
  if (scenarios == nullptr) return;
  for (const Scenario& scenario : *scenarios)
    if (is_small(scenario)) play(scenario);
}

std::vector<std::string> set_seeds() {
  return {"parallel.pp=4",
          "schedule.order='zbv'",
          "train.zero_stage=3",
          "parallel.pp=[1, 2, 4]",
          "cluster.inter.GBps=50.5",
          "model.pattern=dense*3 + moe*5",
          "parallel.layout=Et|(t*2|)*2tL"};
}
void run_set(const FuzzInput& input) {
  const auto set = parse_set(input.text);
  if (accepted(set) == nullptr) return;
  static const std::string path = written("model.toml", small_scenarios().front());
  const auto loaded = load_scenarios(path, {*set});
  const auto* scenarios = accepted(loaded);
  for (const Scenario& scenario : scenarios == nullptr ? std::vector<Scenario>() : *scenarios)
    if (is_small(scenario)) play(scenario);
}

// A file of many settings, and one that is one.
std::vector<std::string> userbuffer_seeds() {
  std::vector<std::string> texts = texts_of("scenarios", "userbuffers.json");
  texts.emplace_back(R"({"configs": {"one": {"qkv_dgrad": {"method": "bulk", "num_sm": 4}}}})");
  texts.emplace_back(
      R"({"fc1_fprop": {"method": "pipeline", "num_sm": 16, "num_splits": 4}, "fc2_dgrad": null})");
  return texts;
}
void run_userbuffers(const FuzzInput& input) {
  const std::filesystem::path path = input.path;
  for (const char* setting : {"", "one", "userbuffers_bf16_h100_h12288_tp4_mbs1_seqlen2048"}) {
    const TensorSettings settings{.file = path.filename(), .setting = setting};
    const auto read = tensor_overlap(settings, Model{}, path.parent_path());
    const TensorOverlap* overlap = accepted(read);
    for (const GemmOverlap& gemm : overlap == nullptr ? TensorOverlap{} : *overlap)
      promise(gemm.sms >= 0 && gemm.splits >= 0, "a GEMM overlaps with SMs, in parts");
  }
}

std::vector<std::string> size_seeds() { return texts_of("scenarios", "procurement.toml"); }
void run_size(const FuzzInput& input) { accepted(load_size_cases(input.path, {}, "")); }

// One of the program's data files in place of its own.
template <class Load>
void run_data(const FuzzInput& input, const std::string& path, const Load& load) {
  const std::string own = written("data/" + path, input.text);
  accepted(load());
  std::filesystem::remove(own);
}

std::vector<std::string> preset_seeds() {
  std::vector<std::string> texts = texts_of("topology/presets", ".toml");
  std::erase_if(texts, [](const std::string& text) { return text.find("device") == text.npos; });
  return texts;
}
void run_preset(const FuzzInput& input) {
  run_data(input, "topology/presets/fuzzed.toml", [] { return load_preset("fuzzed"); });
}
std::vector<std::string> device_seeds() { return texts_of("topology/presets/devices", ".toml"); }
void run_device(const FuzzInput& input) {
  run_data(input, "topology/presets/devices/fuzzed.toml", [] { return load_device("fuzzed"); });
}
std::vector<std::string> profile_seeds() { return texts_of("workload/frameworks", ".toml"); }
void run_profile(const FuzzInput& input) {
  run_data(input, "workload/frameworks/fuzzed.toml",
           [] { return load_framework_profile("fuzzed"); });
}

}  // namespace

std::vector<FuzzTarget> scenario_targets() {
  return {{"scenario", "scenario.toml", scenario_seeds, run_scenario},
          {"set", "set", set_seeds, run_set},
          {"userbuffers", "userbuffers.json", userbuffer_seeds, run_userbuffers},
          {"size", "size.toml", size_seeds, run_size},
          {"preset", "preset.toml", preset_seeds, run_preset},
          {"device", "device.toml", device_seeds, run_device},
          {"profile", "profile.toml", profile_seeds, run_profile}};
}

}  // namespace tandem
