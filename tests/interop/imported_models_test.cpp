// Imported models as scenarios: what they hold, and that they run.
#include <catch2/catch.hpp>
#include <filesystem>

#include "interop/import.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run.h"
#include "tests/interop/imported.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

// The keys that a scenario has, on `gpus` of dgx-h100.
Scenario scenario_of(const std::string& name, const Names& set) {
  auto plan = imported("config.json", sample("hf/" + name + ".json"));
  std::erase_if(plan.keys, [](const ImportedKey& key) { return !is_scenario_key(key.key); });
  plan.set_text("cluster.preset", "dgx-h100", "");
  return load(scenario_text(plan), set)[0];
}

TEST_CASE("imported models have the parameters, all and active, of their cards") {
  struct Row {
    const char* name;
    double all, active;
  };
  // Worked out from the files by the rules of each model's code; Llama's, Mixtral 8x7B's and
  // DeepSeek-V3's are also the published counts.
  const Row rows[] = {
      {"meta-llama--Meta-Llama-3.1-8B", 8030261248, 8030261248},
      {"meta-llama--Meta-Llama-3.1-70B", 70553706496, 70553706496},
      {"meta-llama--Meta-Llama-3.1-405B", 405853388800, 405853388800},
      {"mistralai--Mixtral-8x7B-v0.1", 46702792704, 12879925248},
      {"mistralai--Mixtral-8x22B-v0.1", 140620634112, 39152031744},
      {"Qwen--Qwen3-32B", 32762123264, 32762123264},
      {"Qwen--Qwen3-30B-A3B", 30532122624, 3353032704},
      {"Qwen--Qwen3-235B-A22B", 235093634560, 22190763520},
      {"deepseek-ai--DeepSeek-V3", 671026419200, 37552297472},
      {"moonshotai--Kimi-K2-Instruct", 1026408232448, 32861500928},
      {"openai--gpt-oss-120b", 116829156672, 5711982912},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Model model = scenario_of(row.name, {"cluster.gpus=8"}).job.model;
    CHECK(card_parameters(model) == row.all);
    CHECK(active_parameters(model) == row.active);
  }
}

TEST_CASE("imported models train on 512 GPUs: the fullest holds its share at least") {
  const Names dense = {"cluster.gpus=512",          "parallel.tp=2", "parallel.pp=8",
                       "parallel.global_batch=512", "train.zero=1",  "train.sequence_parallel=true",
                       "train.recompute=full"};
  Names experts = dense;
  experts.insert(experts.end(), {"parallel.ep=8", "parallel.expert_tp=1"});
  sample("hf/Qwen--Qwen3-32B.json");
  for (const auto& file :
       std::filesystem::directory_iterator(TANDEM_SOURCE_DIR "/../shared/samples/interop/hf")) {
    const std::string name = file.path().stem().string();
    INFO(name);
    const Model alone = scenario_of(name, {"cluster.gpus=8"}).job.model;
    const Scenario scenario = scenario_of(name, alone.is_moe() ? experts : dense);
    const auto result = simulate(scenario, Engine::Ideal);
    INFO((result.ok() ? "" : result.error().text()));
    REQUIRE(result.ok());
    CHECK(result->iteration_s > 0);
    CHECK(result->training->mfu < 0.7);
    // 2 bytes of weights, 4 of gradients and Adam's 12 a parameter lie on some of the GPUs; the
    // fullest holds the mean at least.
    CHECK(result->training->total > 18 * parameters(alone) / 512);
  }
}

TEST_CASE("a scenario that names a config.json has the model that import writes of it") {
  sample("hf/Qwen--Qwen3-32B.json");
  for (const auto& file :
       std::filesystem::directory_iterator(TANDEM_SOURCE_DIR "/../shared/samples/interop/hf")) {
    const std::string name = file.path().stem().string();
    INFO(name);
    const Model written = scenario_of(name, {"cluster.gpus=8"}).job.model;
    const Folder folder;
    folder.with("config.json", sample("hf/" + name + ".json"));
    const auto from = try_load(folder,
                               "[model]\nfrom = \"config.json\"\n"
                               "[cluster]\npreset = \"dgx-h100\"\ngpus = 8\n");
    REQUIRE(from.ok());
    const Model& model = (*from)[0].job.model;
    CHECK(card_parameters(model) == card_parameters(written));
    CHECK(active_parameters(model) == active_parameters(written));
    CHECK(model.seq == written.seq);
    CHECK(model.mtp_layers == written.mtp_layers);
    CHECK(!(*from)[0].notes.empty());  // the length is assumed
  }
}

}  // namespace
}  // namespace tandem
