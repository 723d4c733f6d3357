// Imported models as scenarios: what they hold, and that they run.
#include <catch2/catch.hpp>
#include <filesystem>

#include "interop/import.h"
#include "planning/simulate/simulate.h"
#include "scenarios/scenario.h"
#include "tests/interop/imported.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

// The keys that a scenario has, on dgx-h100.
Scenario scenario_of_text(const std::string& config, const Names& set) {
  auto plan = imported("config.json", config);
  leave_out_future_keys(&plan);
  plan.set("cluster.preset", "dgx-h100", "");
  return load(scenario_text(plan), set)[0];
}

Scenario scenario_of(const std::string& name, const Names& set) {
  return scenario_of_text(sample("hf/" + name + ".json"), set);
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

TEST_CASE("families without a sample have their cards' parameters too") {
  struct Row {
    const char* fields;  // model_type first
    double parameters;   // published
  };
  const Row rows[] = {
      // Every head shares one key and value head; learned positions are all there.
      {R"("gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40,
          "n_positions": 8192, "vocab_size": 49152, "multi_query": true)",
       15517456384},
      // Tied where the file is silent.
      {R"("falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
          "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": true)",
       41303293952},
      // Biases of queries, keys and values, and none of the projection.
      {R"("chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28,
          "num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128,
          "padded_vocab_size": 65024, "add_qkv_bias": true)",
       6243584000},
      {R"("glm4_moe", "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 46,
          "moe_intermediate_size": 1408, "num_attention_heads": 96, "num_key_value_heads": 8,
          "head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "attention_bias": true,
          "num_experts_per_tok": 8, "first_k_dense_replace": 1, "vocab_size": 151552)",
       106852251264},
      {R"("seed_oss", "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64,
          "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128,
          "vocab_size": 155136, "attention_bias": true, "attention_out_bias": false)",
       36151104512},
      // Experts from layer 1 on, whose router has a bias.
      {R"("ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288,
          "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4,
          "vocab_size": 103424, "moe_intermediate_size": 1536, "moe_num_experts": 64,
          "moe_num_shared_experts": 2, "moe_k": 6, "moe_layer_start_index": 1,
          "moe_layer_interval": 1, "moe_layer_end_index": -1, "moe_use_aux_free": true)",
       21825437888},
      // Lists with one value for each layer.
      {R"("hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "vocab_size": 128167, "num_experts": 64, "moe_topk": [8, 8],
          "num_shared_expert": [1, 1], "moe_intermediate_size": [3072, 3072],
          "use_qk_norm": true, "tie_word_embeddings": true)",
       80393183232},
      {R"("dots1", "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 62,
          "moe_intermediate_size": 1408, "num_attention_heads": 32, "num_key_value_heads": 32,
          "n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6,
          "first_k_dense_replace": 1, "vocab_size": 152064, "topk_method": "noaux_tc")",
       142774381696},
      // Mamba's layers and attention's, experts and a shared MLP in each.
      {R"("granitemoehybrid", "hidden_size": 1536, "intermediate_size": 512,
          "shared_intermediate_size": 1024, "num_hidden_layers": 10, "num_attention_heads": 12,
          "num_key_value_heads": 4, "vocab_size": 100352, "num_local_experts": 64,
          "num_experts_per_tok": 6, "layer_types": ["mamba", "mamba", "mamba", "mamba", "mamba",
          "attention", "mamba", "mamba", "mamba", "mamba"], "mamba_n_heads": 48,
          "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4,
          "tie_word_embeddings": true)",
       // Of Granite 4.0 H Tiny, 6,939,037,248, a quarter of the layers: less embedding and norm.
       (6939037248 - 1536.0 * 100353) / 4 + 1536.0 * 100353},
      // A null is no default of the class: queries are not compressed.
      {R"("deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
          "num_hidden_layers": 27, "moe_intermediate_size": 1408, "num_attention_heads": 16,
          "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
          "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
          "vocab_size": 102400)",
       15706484224},
  };
  for (const Row& row : rows) {
    INFO(row.fields);
    const std::string config = std::string("{\"model_type\": ") + row.fields + "}";
    CHECK(card_parameters(scenario_of_text(config, {"cluster.gpus=8"}).job.model) ==
          row.parameters);
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
    CHECK(result->training->memory.total > 18 * parameters(alone) / 512);
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

TEST_CASE("the SMs of a flex dispatcher count, by the backend's own name ahead of the other's") {
  const auto plan = [](const std::string& backend, const std::string& more = "") {
    return keys_of(imported("a.yaml",
                            "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 256\n"
                            "  --num-attention-heads: 4\n  --num-experts: 8\n"
                            "  --expert-model-parallel-size: 8\n"
                            "  --moe-token-dispatcher-type: flex\n  --moe-deepep-num-sms: 24\n"
                            "  --moe-flex-dispatcher-backend: " +
                                backend + "\n" + more));
  };
  CHECK(plan("deepep").at("parallel.dispatcher") == "\"deepep\"");
  CHECK(plan("deepep").at("overlap.expert_sms") == "24");
  CHECK(plan("hybridep").at("overlap.expert_sms") == "24");
  const std::string both = "  --moe-hybridep-num-sms: 16\n";
  CHECK(plan("hybridep", both).at("overlap.expert_sms") == "16");
  CHECK(plan("deepep", both).at("overlap.expert_sms") == "24");
}

}  // namespace
}  // namespace tandem
