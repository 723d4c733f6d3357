// Two small scenarios as texts, and loading one from its text.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tests/folder.h"

namespace tandem {

using Names = std::vector<std::string>;

inline const std::string kSmallModel = R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 512
vocab = 32000
)";

// 8 layers on 8 GPUs of one node. Tests count its lines.
inline const std::string kSmall = kSmallModel + R"([parallel]
tp = 2
pp = 2
dp = 2
micro_batch = 1
global_batch = 16
[cluster]
preset = "selene"
gpus = 8
)";

// Two stages on two ranks, four microbatches, nothing but seconds.
inline const std::string kUniform = R"([parallel]
pp = 2
global_batch = 4
[costs]
source = "uniform"
forward_s = 1
backward_s = 2
)";

inline Result<std::vector<Scenario>> try_load(const Folder& folder, const std::string& text,
                                              const Names& set = {}) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(set));
  return load_scenarios(folder.with("small.toml", text), sets);
}

inline std::vector<Scenario> load(const std::string& text, const Names& set = {}) {
  const Folder folder;
  auto scenarios = try_load(folder, text, set);
  INFO((scenarios.ok() ? "" : scenarios.error().text()));
  REQUIRE(scenarios.ok());
  return *std::move(scenarios);
}

}  // namespace tandem
