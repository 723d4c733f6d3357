// train.activation_offload_*: what is refused, and what they do to memory and time.
#include "planning/simulate/simulate.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

// Four sequences of 4096 a microbatch: no array is too small to be offloaded.
const std::string kLong = R"([model]
layers = 8
hidden = 2048
heads = 16
seq = 4096
vocab = 32000
[parallel]
pp = 2
micro_batch = 4
global_batch = 32
[train]
flash_attention = true
[cluster]
preset = "dgx-h100"
gpus = 2
)";

RunResult played(const Names& set) {
  auto result = simulate(load(kLong, set).front(), Engine::Ideal);
  REQUIRE(result.ok());
  return *std::move(result);
}

std::string refused(const std::string& text, const Names& set) {
  const Folder folder;
  const auto scenarios = try_load(folder, text, set);
  REQUIRE(!scenarios.ok());
  return scenarios.error().text();
}

const std::string kModules = "train.activation_offload_modules=\"core_attn, attn_proj\"";
const std::string kLayers = "train.activation_offload_layers=2";

}  // namespace

TEST_CASE("offloaded activations want a host link, layers with kernels, and known modules") {
  for (const std::string& key : {kModules, kLayers}) {
    const std::string name = key.substr(0, key.find('='));
    CHECK(refused(kLong, {key, "cluster.gpu=\"mi300x-192gb\""})
              .find("found " + name + ", expected cluster.host_link_GBps with it") !=
          std::string::npos);
    CHECK(refused(kUniform, {key}).find("found " + name + " with costs.source = uniform") !=
          std::string::npos);
  }
  CHECK(refused(kLong, {"train.activation_offload_modules=mlp"}).find("some of attn_norm") !=
        std::string::npos);
}

TEST_CASE("offloaded activations are not on the GPU, and cost time where the link is slow") {
  const RunResult kept = played({});
  for (const std::string& key : {kModules, kLayers}) {
    INFO(key);
    const RunResult fast = played({key, "cluster.host_link_GBps=100000"});
    const RunResult slow = played({key, "cluster.host_link_GBps=1"});
    CHECK(fast.training->memory.activations < kept.training->memory.activations);
    CHECK(slow.training->memory.activations == fast.training->memory.activations);
    CHECK(fast.iteration_s == kept.iteration_s);
    CHECK(slow.iteration_s > kept.iteration_s);
  }
}

TEST_CASE("what selective recompute repeats is not copied to the host") {
  const auto copying_s = [](const char* recompute) {
    return played({"train.flash_attention=false", kLayers, "cluster.host_link_GBps=1",
                   std::string("train.recompute=") + recompute})
        .iteration_s;
  };
  CHECK(copying_s("selective") < 0.9 * copying_s("none"));
}
