// Models from config.json: the samples of 2024 to 2026, and forms that they do not have.
#include <catch2/catch.hpp>

#include "interop/document/document.h"
#include "interop/model/layers.h"
#include "tests/interop/imported.h"

using namespace tandem;

namespace {

Keys model_of(const std::string& name) {
  return keys_of(imported("config.json", sample("hf/" + name + ".json")), "model.");
}

// A small model's fields, with more behind them.
std::string config(const std::string& model_type, const std::string& more) {
  return R"({"model_type": ")" + model_type + R"(", "hidden_size": 64, "num_hidden_layers": 4,
"num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000)" +
         (more.empty() ? "" : ",\n" + more) + "}\n";
}

Keys small(const std::string& model_type, const std::string& more = "") {
  return keys_of(imported("config.json", config(model_type, more)), "model.");
}

}  // namespace

TEST_CASE("every sample of a config.json imports, and nothing of it is not understood") {
  int seen = 0;
  sample("hf/Qwen--Qwen3-32B.json");
  for (const auto& file :
       std::filesystem::directory_iterator(TANDEM_SOURCE_DIR "/../shared/samples/interop/hf")) {
    const std::string path = file.path().string();
    INFO(path);
    const auto plan = import_files({path});
    REQUIRE(plan.ok());
    CHECK(plan->not_understood.empty());
    CHECK(parse_toml(scenario_text(*plan), "written.toml").ok());
    CHECK(plan->whole_of("model.layers").value_or(0) >= 30);
    CHECK(plan->whole_of("model.vocab").value_or(0) >= 32000);
    ++seen;
  }
  CHECK(seen >= 19);
}

TEST_CASE("Llama 3.1 is its fields, and its sequence what rope scaling begins from") {
  CHECK(model_of("meta-llama--Meta-Llama-3.1-8B") == Keys{{"model.layers", "32"},
                                                          {"model.hidden", "4096"},
                                                          {"model.heads", "32"},
                                                          {"model.kv_heads", "8"},
                                                          {"model.ffn_hidden", "14336"},
                                                          {"model.gated_mlp", "true"},
                                                          {"model.vocab", "128256"},
                                                          {"model.seq", "8192"},
                                                          {"model.tied_embeddings", "false"}});
}

TEST_CASE("Mixtral's experts are as wide as intermediate_size, in every layer") {
  CHECK(model_of("mistralai--Mixtral-8x7B-v0.1") == Keys{{"model.layers", "32"},
                                                         {"model.hidden", "4096"},
                                                         {"model.heads", "32"},
                                                         {"model.kv_heads", "8"},
                                                         {"model.gated_mlp", "true"},
                                                         {"model.experts", "8"},
                                                         {"model.top_k", "2"},
                                                         {"model.expert_ffn_hidden", "14336"},
                                                         {"model.vocab", "32000"},
                                                         {"model.seq", "4096"},
                                                         {"model.tied_embeddings", "false"}});
}

TEST_CASE("Qwen3's heads are of 128, whatever hidden is, and have norms") {
  const Keys dense = model_of("Qwen--Qwen3-32B");
  CHECK(dense.at("model.head_dim") == "128");  // 64 heads x 128 = 8192, hidden 5120
  CHECK(dense.at("model.qk_norm") == "true");
  const Keys moe = model_of("Qwen--Qwen3-235B-A22B");
  CHECK(moe.at("model.experts") == "128");
  CHECK(moe.at("model.top_k") == "8");
  CHECK(moe.at("model.expert_ffn_hidden") == "1536");
  CHECK(moe.count("model.ffn_hidden") == 0);  // intermediate_size is of no layer
  CHECK(moe.count("model.pattern") == 0);
}

TEST_CASE("DeepSeek-V3 is three dense layers and 58 of experts, all with latent attention") {
  const Keys keys = model_of("deepseek-ai--DeepSeek-V3");
  CHECK(keys == Keys{{"model.layers", "61"},
                     {"model.pattern", "\"dense*3 + moe*58\""},
                     {"model.hidden", "7168"},
                     {"model.mixer", "\"latent\""},
                     {"model.heads", "128"},
                     {"model.q_lora_rank", "1536"},
                     {"model.kv_lora_rank", "512"},
                     {"model.qk_nope_head_dim", "128"},
                     {"model.qk_rope_head_dim", "64"},
                     {"model.v_head_dim", "128"},
                     {"model.ffn_hidden", "18432"},
                     {"model.gated_mlp", "true"},
                     {"model.vocab", "129280"},
                     {"model.seq", "4096"},
                     {"model.tied_embeddings", "false"},
                     {"model.mtp_layers", "1"},
                     {"model.kinds.moe.experts", "256"},
                     {"model.kinds.moe.top_k", "8"},
                     {"model.kinds.moe.router_groups", "8"},
                     {"model.kinds.moe.router_topk_groups", "4"},
                     {"model.kinds.moe.expert_ffn_hidden", "2048"},
                     {"model.kinds.moe.shared_expert_ffn", "2048"},
                     {"model.kinds.moe.router_bias", "true"}});
  CHECK(model_of("deepseek-ai--DeepSeek-V3.2").at("model.index_topk") == "2048");
  CHECK(model_of("moonshotai--Kimi-K2-Instruct").at("model.pattern") == "\"dense + moe*60\"");
  CHECK(model_of("zai-org--GLM-5.2").at("model.pattern") == "\"dense*3 + moe*75\"");
}

TEST_CASE("gpt-oss alternates a window of 128 with all positions, with biases and sinks") {
  const Keys keys = model_of("openai--gpt-oss-120b");
  CHECK(keys.at("model.pattern") == "\"(local + global)*18\"");
  CHECK(keys.at("model.kinds.local.window") == "128");
  CHECK(keys.count("model.kinds.global.window") == 0);
  for (const char* bias : {"attention_bias", "output_bias", "mlp_bias", "router_bias"})
    CHECK(keys.at(std::string("model.") + bias) == "true");
  CHECK(keys.at("model.attention_sinks") == "true");
  CHECK(keys.at("model.head_dim") == "64");  // 64 x 64 = 4096, hidden 2880
}

TEST_CASE("Gemma 4's global layers have larger heads, fewer of keys, and keys that are values") {
  const Keys keys = model_of("google--gemma-4-26B-A4B");
  CHECK(keys.at("model.pattern") == "\"(local*5 + global)*5\"");
  CHECK(keys.at("model.shared_expert_ffn") == "2112");  // its MLP beside the experts
  CHECK(keys.at("model.expert_ffn_hidden") == "704");
  CHECK(keys.at("model.kinds.local.kv_heads") == "8");
  CHECK(keys.at("model.kinds.local.head_dim") == "256");
  CHECK(keys.at("model.kinds.local.window") == "1024");
  CHECK(keys.at("model.kinds.global.kv_heads") == "2");
  CHECK(keys.at("model.kinds.global.head_dim") == "512");
  CHECK(keys.at("model.kinds.global.shared_kv") == "true");
  CHECK(keys.count("model.tied_embeddings") == 0);  // tied, as a scenario takes for granted
}

TEST_CASE("Llama 4 has experts in every second layer, and all positions in every fourth") {
  const Keys keys = model_of("meta-llama--Llama-4-Maverick-17B-128E-Instruct");
  CHECK(keys.at("model.pattern") == "\"(local_dense + local_moe + local_dense + global_moe)*12\"");
  CHECK(keys.at("model.ffn_hidden") == "16384");
  CHECK(keys.at("model.kinds.local_moe.expert_ffn_hidden") == "8192");
  CHECK(keys.at("model.kinds.local_moe.shared_expert_ffn") == "8192");
  CHECK(keys.at("model.kinds.local_dense.attention_chunk") == "8192");
  CHECK(keys.count("model.kinds.global_moe.attention_chunk") == 0);
}

TEST_CASE("Qwen 3.5 has three linear layers to one with heads") {
  const Keys keys = model_of("Qwen--Qwen3.5-397B-A17B");
  CHECK(keys.at("model.pattern") == "\"(linear*3 + global)*15\"");
  CHECK(keys.at("model.kinds.linear.mixer") == "\"linear\"");
  CHECK(keys.at("model.kinds.linear.linear_value_heads") == "64");
  CHECK(keys.at("model.experts") == "512");
  CHECK(keys.at("model.shared_expert_ffn") == "1024");
  CHECK(keys.at("model.mtp_layers") == "1");
}

TEST_CASE("Nemotron-H is one letter a layer: 40 Mamba, 40 of experts and 8 of attention") {
  const std::string text = sample("hf/nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8.json");
  REQUIRE(text.find("Infinity") != std::string::npos);  // no strict reader takes it
  const Keys keys = keys_of(imported("config.json", text), "model.");
  CHECK(keys.at("model.layers") == "88");
  CHECK(keys.at("model.kinds.mamba.mamba_heads") == "128");
  CHECK(keys.at("model.kinds.mamba.mamba_state") == "128");
  CHECK(keys.at("model.kinds.mamba.mlp") == "false");
  CHECK(keys.at("model.kinds.moe.mixer") == "\"none\"");
  CHECK(keys.at("model.kinds.moe.moe_latent") == "1024");
  CHECK(keys.at("model.kinds.moe.top_k") == "22");
  CHECK(keys.at("model.kinds.moe.shared_expert_ffn") == "5376");
  CHECK(keys.at("model.norm") == "\"rmsnorm\"");
  CHECK(keys.at("model.biases") == "false");
}

TEST_CASE("the language model may stand two levels deep") {
  CHECK(keys_of(imported("config.json", R"({"model_type": "qwen3_omni_moe", "thinker_config": {
"audio_config": {}, "text_config": )" + config("qwen3_moe", "") +
                                            "}}"))
            .at("model.hidden") == "64");
}

TEST_CASE("a config.json that leaves out fields has its class's defaults, and says so") {
  const ImportedPlan plan = imported("config.json", R"({"model_type": "gemma3", "text_config":
{"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
"num_hidden_layers": 6, "sliding_window": 1024}})");
  const Keys keys = keys_of(plan, "model.");
  CHECK(keys.at("model.heads") == "8");
  CHECK(keys.at("model.kv_heads") == "4");
  CHECK(keys.at("model.vocab") == "262208");
  CHECK(keys.at("model.pattern") == "\"local*5 + global\"");
  CHECK(plan.assumed.size() == 5);  // heads, vocabulary, tied embeddings, sequence, attention
}

TEST_CASE("GPT-2's and Falcon's old names are known, and their MLP is 4 hidden wide") {
  CHECK(keys_of(imported("config.json", R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12,
"n_head": 12, "n_positions": 1024, "n_inner": null, "vocab_size": 50257})"),
                "model.") == Keys{{"model.layers", "12"},
                                  {"model.hidden", "768"},
                                  {"model.heads", "12"},
                                  {"model.ffn_hidden", "3072"},
                                  {"model.vocab", "50257"},
                                  {"model.seq", "1024"}});
  const std::string falcon =
      R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
"num_attention_heads": 71, "vocab_size": 65024)";
  CHECK(keys_of(imported("config.json", falcon + "}")).at("model.kv_heads") == "1");
  CHECK(keys_of(imported("config.json", falcon + R"(, "new_decoder_architecture": true,
"num_kv_heads": 8})"))
            .at("model.kv_heads") == "8");
}

TEST_CASE("which layers have experts follows each family's rule") {
  const std::string experts = R"("num_experts": 8, "num_experts_per_tok": 2,
"moe_intermediate_size": 32)";
  CHECK(small("qwen3_moe", experts + R"(, "decoder_sparse_step": 2)").at("model.pattern") ==
        "\"(dense + moe)*2\"");
  CHECK(small("qwen3_moe", experts + R"(, "mlp_only_layers": [0, 3])").at("model.pattern") ==
        "\"dense + moe*2 + dense\"");
  CHECK(small("deepseek_v2", experts + R"(, "first_k_dense_replace": 1, "moe_layer_freq": 2)")
            .at("model.pattern") == "\"dense*2 + moe + dense\"");
  CHECK(small("minimax_m2", experts + R"(, "moe_layer_freq": [0, 1, 1, 1])").at("model.pattern") ==
        "\"dense + moe*3\"");
  const auto refused = [](const std::string& fields) {
    return refusal("config.json", config("qwen3_moe", "\"num_experts\": 8, " + fields));
  };
  CHECK(refused(R"("num_experts_per_tok": 20)").find("at most all 8 experts") != std::string::npos);
  CHECK(refused(R"("num_experts_per_tok": 2, "n_group": 3)").find("a divisor of the 8 experts") !=
        std::string::npos);
}

TEST_CASE("windows: with use_sliding_window from max_window_layers on, and never without") {
  const std::string window = R"("sliding_window": 128, "max_window_layers": 3)";
  CHECK(small("qwen2", window + R"(, "use_sliding_window": false)").count("model.pattern") == 0);
  const Keys keys = small("qwen2", window + R"(, "use_sliding_window": true)");
  CHECK(keys.at("model.pattern") == "\"global*3 + local\"");
  CHECK(keys.at("model.kinds.local.window") == "128");
  CHECK(keys.at("model.attention_bias") == "true");
  CHECK(keys.count("model.output_bias") == 0);
  CHECK(small("mistral", R"("sliding_window": 128)").at("model.window") == "128");
}

TEST_CASE("block_configs give every layer its own heads and width, or nothing") {
  const Keys keys = small("nemotron-nas", R"("block_configs": [
{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.0}},
{"attention": {"no_op": true}, "ffn": {"ffn_mult": 2.0}},
{"attention": {"n_heads_in_group": 4}, "ffn": {"no_op": true}},
{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.0}}])");
  CHECK(keys.at("model.pattern") == "\"layer + layer2 + layer3 + layer\"");
  CHECK(keys.at("model.kinds.layer.kv_heads") == "2");  // 4 heads, two to a group
  CHECK(keys.at("model.kinds.layer2.mixer") == "\"none\"");
  CHECK(keys.at("model.kinds.layer3.mlp") == "false");
  CHECK(keys.at("model.ffn_hidden") == "256");  // 2 x 2 x 64 / 3 = 85, up to 256
}

TEST_CASE("a block that states no width or heads has the model's, not those of the block before") {
  const Keys keys = small("nemotron-nas", R"("intermediate_size": 1024, "num_key_value_heads": 2,
"block_configs": [
{"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}},
{"attention": {}, "ffn": {}}, {"attention": {}, "ffn": {"intermediate_size": 512}},
{"attention": {"no_op": true}}])");
  CHECK(keys.at("model.pattern") == "\"layer + layer2 + layer3 + layer4\"");
  CHECK(keys.at("model.kinds.layer.ffn_hidden") == "256");
  CHECK(keys.at("model.kinds.layer2.ffn_hidden") == "1024");
  CHECK(keys.at("model.kinds.layer3.ffn_hidden") == "512");
  CHECK(keys.at("model.kinds.layer4.ffn_hidden") == "1024");
  CHECK(keys.at("model.kinds.layer.kv_heads") == "1");
  CHECK(keys.at("model.kinds.layer2.kv_heads") == "2");
}

TEST_CASE("layers of Mamba beside attention have an MLP too, and odd types are refused") {
  const std::string mamba = R"("mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32,
"mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_chunk_size": 64)";
  const Keys keys = small("granitemoehybrid", mamba + R"(, "shared_intermediate_size": 512,
"layer_types": ["mamba", "mamba", "attention", "mamba"])");
  CHECK(keys.at("model.pattern") == "\"mamba*2 + global + mamba\"");
  CHECK(keys.at("model.kinds.mamba.mamba_state") == "32");
  CHECK(keys.at("model.ffn_hidden") == "512");
  CHECK(refusal("config.json", config("lfm2", "")).find("without convolutions") !=
        std::string::npos);
  CHECK(refusal("config.json",
                config("llama", R"("layer_types": ["conv", "conv", "full_attention", "conv"])"))
            .find("expected no conv: layers of attention") != std::string::npos);
}

TEST_CASE("Jamba attends in each eighth layer, has experts in each second, and Mamba elsewhere") {
  const Keys keys = keys_of(imported("config.json", R"({"model_type": "jamba", "hidden_size": 256,
"num_hidden_layers": 8, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1000,
"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
"expert_layer_offset": 1, "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 16,
"mamba_expand": 2, "mamba_d_conv": 4})"),
                            "model.");
  CHECK(keys.at("model.pattern") ==
        "\"(mamba_dense + mamba_moe)*2 + global_dense + mamba_moe + mamba_dense + mamba_moe\"");
  CHECK(keys.at("model.kinds.mamba_moe.mamba_heads") == "8");  // 2 x 256 / 64
  CHECK(small("bamba", R"("attn_layer_indices": [1], "mamba_n_heads": 2, "mamba_d_head": "auto",
"mamba_d_state": 16)")
            .at("model.pattern") == "\"mamba + global + mamba*2\"");
}

TEST_CASE("MiniMax lists which layers are linear, Step where experts are, Ernie where they end") {
  const Keys keys = small("minimax_text_01", R"("attn_type_list": [0, 0, 0, 1])");
  CHECK(keys.at("model.pattern") == "\"linear*3 + global\"");
  CHECK(keys.at("model.kinds.linear.linear_value_heads") == "4");
  const std::string experts = R"("moe_num_experts": 8, "moe_top_k": 2, )";
  CHECK(small("step3_text", experts + R"("moe_layers_enum": "1,3")").at("model.pattern") ==
        "\"(dense + moe)*2\"");
  CHECK(small("ernie4_5_moe", experts + R"("moe_layer_start_index": 1, "moe_layer_end_index": 2)")
            .at("model.pattern") == "\"dense + moe*2 + dense\"");
}

TEST_CASE("EXAONE's windows are letters, and a model with an encoder is refused") {
  CHECK(small("exaone4", R"("sliding_window": 128, "sliding_window_pattern": "LLLG")")
            .at("model.pattern") == "\"local*3 + global\"");
  CHECK(refusal("config.json", config("llama", R"("is_encoder_decoder": true)")) ==
        "config.json:3: found is_encoder_decoder = true, expected a decoder alone");
}

TEST_CASE("LongCat's layer is two, and a third of its experts compute nothing") {
  const Keys keys = small("longcat_flash", R"("n_routed_experts": 512, "zero_expert_num": 256,
"moe_topk": 12, "expert_ffn_hidden_size": 32, "ffn_hidden_size": 128)");
  CHECK(keys.at("model.layers") == "8");
  CHECK(keys.at("model.pattern") == "\"(moe + dense)*4\"");
  CHECK(keys.at("model.kinds.moe.top_k") == "8");
  CHECK(keys.at("model.kinds.moe.shared_expert_ffn") == "256");  // its MLP, beside the experts
}

TEST_CASE("an attention_chunk_size or a window that is null is none, whatever the class has") {
  CHECK(small("llama4_text", R"("attention_chunk_size": null, "num_local_experts": 0)")
            .count("model.pattern") == 0);
  CHECK(small("mistral", R"("sliding_window": null)").count("model.window") == 0);
  CHECK(small("mistral").at("model.window") == "4096");
}

TEST_CASE("what a family does and no scenario says is told") {
  CHECK(imported("config.json", config("gemma2", "")).not_expressed.size() == 1);
  CHECK(imported("config.json", config("qwen3_next", "")).not_expressed.size() == 1);
  CHECK(imported("config.json", config("llama", "")).not_expressed.empty());
}

TEST_CASE(
    "a quote behind a backslash ends no text, and NaN counts as null outside of texts alone") {
  const Keys keys = small("llama", R"("note": "say \"NaN\" or \\", "rope_scaling": NaN)");
  CHECK(keys.at("model.layers") == "4");
  const ImportedPlan plan =
      imported("config.json", config("llama", R"("wormholes": "x\"NaN", "b": NaN)"));
  REQUIRE(plan.not_understood.size() == 1);
  CHECK(plan.not_understood[0] == "config.json:3: wormholes = x\"NaN");
}

TEST_CASE("unknown fields are listed") {
  const ImportedPlan plan = imported("config.json", config("llama", R"("wormholes": 3)"));
  REQUIRE(plan.not_understood.size() == 1);
  CHECK(plan.not_understood[0] == "config.json:3: wormholes = 3");
}

TEST_CASE("bad values of a config.json are refused with their line") {
  CHECK(refusal("config.json", config("llama", R"("head_dim": "wide")")) ==
        "config.json:3: found head_dim = wide, expected an integer from 0 to 1000000000");
  CHECK(refusal("config.json", config("llama", R"("layer_types": ["full_attention"])")) ==
        "config.json:3: found layer_types = [full_attention], expected 4 layers' types");
  CHECK(refusal("config.json", R"({"model_type": "glm5"})").find("num_hidden_layers") !=
        std::string::npos);
  CHECK(refusal("config.json", "{\"model_type\": \"llama\",\n\"hidden_size\": }")
            .starts_with("config.json:2: found text that is not JSON"));
  CHECK(refusal("config.json", config("llama", R"("block_configs": [1, 2, 3, 4])"))
            .find("found block_configs = [1, 2, 3, 4], expected") != std::string::npos);
  CHECK(refusal("config.json", config("llama", R"("moe_intermediate_size": [1, 2])")) ==
        "config.json:3: found moe_intermediate_size = [1, 2], expected one value for all layers");
  CHECK(refusal("config.json", config("deepseek_v2", R"("kv_lora_rank": 512)"))
            .find("expected it beside kv_lora_rank") != std::string::npos);
  CHECK(refusal("config.json", R"({"model_type": "llama", "num_hidden_layers": 900000000})")
            .find("at most 2000 layers") != std::string::npos);
}

TEST_CASE("files nested without end are refused, and of two fields of one name the last counts") {
  std::string deep = "1";
  for (int i = 0; i < 100000; ++i) deep.insert(0, "[").push_back(']');
  CHECK(refusal("config.json", config("llama", "\"x\": " + deep)).find("levels deep") !=
        std::string::npos);
  CHECK(refusal("a.yaml", "a: &a [*a]\n").find("or 200 levels") != std::string::npos);
  CHECK(small("llama", R"("hidden_size": 128)").at("model.hidden") == "128");
}

TEST_CASE("a pattern is the shortest text that gives the layers") {
  CHECK(pattern_of({"a"}) == "a");
  CHECK(pattern_of({"a", "a", "b", "b", "b"}) == "a*2 + b*3");
  CHECK(pattern_of({"a", "b", "a", "b"}) == "(a + b)*2");
  CHECK(pattern_of({"a", "a", "b", "a", "a", "b", "a"}) == "(a*2 + b)*2 + a");
  CHECK(pattern_of({"c", "a", "b", "a", "b", "c", "c"}) == "c + (a + b)*2 + c*2");
}
