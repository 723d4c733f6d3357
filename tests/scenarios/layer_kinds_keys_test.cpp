// [model.kinds]: layers of several kinds, as a scenario says them.
#include <fmt/format.h>

#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

std::string small_with(const std::string& model, const std::string& kinds) {
  return "[model]\n" + model + kSmallModel.substr(kSmallModel.find('\n') + 1) +
         kSmall.substr(kSmallModel.size()) + kinds;
}

const std::string kTwoKinds =
    small_with("pattern = \"dense*2 + moe*6\"\nexperts = 4\ntop_k = 2\n",
               "[train]\nsequence_parallel = true\n[model.kinds.dense]\nexperts = 0\n");

TEST_CASE("a kind is the model's layer but for its own keys") {
  const Model model = load(kTwoKinds)[0].job.model;
  REQUIRE(model.kinds.size() == 2);
  CHECK(model.layers == 8);
  CHECK(model.layer(0).kind == "dense");
  CHECK_FALSE(model.layer(1).is_moe());
  CHECK(model.layer(2).kind == "moe");
  CHECK(model.layer(7).experts == 4);
  CHECK(model.layer(7).heads == 16);
  CHECK(model.is_moe());
}

TEST_CASE("layers of two kinds are simulated, and take between all dense and all experts") {
  const auto iteration_s = [](const std::string& text, const Names& set) {
    return simulated(load(text, set)[0]).iteration_s;
  };
  const double both = iteration_s(kTwoKinds, {});
  const double dense = iteration_s(kSmall, {"train.sequence_parallel=true"});
  const double experts =
      iteration_s(kSmall, {"train.sequence_parallel=true", "model.experts=4", "model.top_k=2"});
  CHECK(dense < both);
  CHECK(both < experts);
}

TEST_CASE(
    "DualPipe that hides expert communication trains DeepSeek-V3 within 15 % of as published") {
  const auto scenarios = load_scenarios(TANDEM_SOURCE_DIR "/scenarios/deepseek-v3.toml");
  REQUIRE(scenarios.ok());
  REQUIRE(scenarios->size() == 3);
  const auto tokens_per_s = [&](std::size_t i) {
    return simulated((*scenarios)[i]).training->tokens_per_s_per_gpu;
  };
  // DeepSeek-AI 2024 (arXiv 2412.19437), table 1: 10^12 tokens in 180,000 hours of an H800.
  constexpr double kPublished = 1e12 / (180'000 * 3600.0);
  const double overlapped = tokens_per_s(2);
  CHECK(overlapped == Approx(kPublished).epsilon(0.15));
  CHECK(tokens_per_s(0) < tokens_per_s(1));
  CHECK(tokens_per_s(1) < overlapped);
}

std::string refusal(const std::string& text, const Names& set = {}) {
  const Folder folder;
  const auto scenarios = try_load(folder, text, set);
  REQUIRE_FALSE(scenarios.ok());
  const std::string message = scenarios.error().text();
  const std::string path = folder.path().string() + '/';
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

TEST_CASE("wrong kinds of layers are refused where they stand") {
  const auto small = [](const char* pattern, const char* kinds) {
    const std::string key = pattern[0] == 0 ? "" : fmt::format("pattern = \"{}\"\n", pattern);
    return refusal(small_with(key, kinds));
  };
  CHECK(refusal(kTwoKinds, {"model.kinds.dense.expert=3"}) ==
        "--set: found unknown key 'model.kinds.dense.expert', expected a layer's; the nearest is "
        "'experts'");
  CHECK(small("", "[model.kinds.dense]\nexperts = 0\n") ==
        "small.toml:17: found [model.kinds] without model.pattern, expected the layers' kinds in "
        "order, as in 'dense*3 + moe*58'");
  CHECK(small("a*8", "[model.kinds.b]\nheads = 8\n") ==
        "small.toml:18: found [model.kinds.b], expected it in model.pattern");
  CHECK(small("a*9", "[model.kinds.a]\nheads = 8\n") ==
        "small.toml:3: found model.layers = 8, expected 9, as model.pattern has");
  CHECK(small("a*8", "[model.kinds.a]\nheads = 7\n") ==
        "small.toml:4: kind a: model.hidden: found 1024, expected a multiple of model.heads = 7");
  CHECK(small("a*", "[model.kinds.a]\nheads = 8\n") ==
        "small.toml:2: model.pattern: found '', expected a number from 1 on, and at most a million "
        "layers, as in 'dense*3 + moe*58'");
  CHECK(refusal(kSmall, {"model.mixer=latent"}) ==
        "small.toml:2: model.kv_lora_rank: found 0, expected a positive number");
}

}  // namespace
}  // namespace tandem
