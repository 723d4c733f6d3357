// What anybody would expect of predictions, whatever was fitted.
#include <catch2/catch.hpp>
#include <string>

#include "planning/simulate/simulate.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/preset.h"
#include "workload/cost/kernel.h"

namespace tandem {
namespace {

// GPT of 30B, as in Megatron-LM's tables, in bf16 on 256 GPUs of a node of eight with an H100's
// links.
const std::string kThirtyB = R"([model]
layers = 48
hidden = 7168
heads = 56
seq = 2048
vocab = 51200
[parallel]
tp = 8
micro_batch = 4
global_batch = 512
[train]
precision = "bf16"
zero = 1
flash_attention = true
sequence_parallel = true
[overlap]
grad_reduce = true
param_gather = true
[cluster]
preset = "dgx-h100"
gpus = 256
)";

RunResult run() {
  const auto result = simulate(load(kThirtyB)[0], Engine::Ideal);
  INFO((result.ok() ? "" : result.error().text()));
  REQUIRE(result.ok());
  return *result;
}

TEST_CASE("a 30B model on 256 H100 in bf16 has an MFU of 35 to 55 %") {
  const RunResult result = run();
  REQUIRE(result.training);
  CHECK(result.training->mfu >= 0.35);
  CHECK(result.training->mfu <= 0.55);
}

TEST_CASE("no GPU computes above its peak, no link carries more than its line") {
  for (const std::string& name : device_names()) {
    INFO(name);
    const auto device = load_device(name);
    REQUIRE(device.ok());
    CHECK(device->training_clock <= 1);
    CHECK(device->attention_efficiency <= 1);
    for (const auto& [precision, peak] : device->flops_per_s) {
      if (bytes_of(precision) == 0) continue;  // as fp8
      const CostModel model = {.device = *device, .precision = precision};
      for (const std::int64_t size : {1024, 4096, 16384}) {
        const Gemm gemm = {.m = size, .n = size, .k = size};
        CHECK(gemm.flops() / gemm_s(model, gemm) <= peak);
      }
      if (bytes_of(precision) != 2) continue;  // attention runs in 16 bits
      const double flops = 1e13;
      const Kernel attention = {.attention_flops = flops,
                                .attention = {.keys = 1 << 20, .head_size = 256}};
      CHECK(flops / to_seconds(kernel_ns(model, attention)) <= peak);
    }
  }
  // A profile may have a link slower than NCCL has it alone, or faster by what NCCL leaves of it.
  for (const std::string& name : framework_profile_names()) {
    INFO(name);
    const auto profile = load_framework_profile(name);
    REQUIRE(profile.ok());
    for (const double slowdown :
         {profile->tensor_stretch, profile->pipeline_stretch, profile->data_stretch})
      CHECK(slowdown >= 0.85);
    CHECK(profile->forward_launch_s >= 0);
    CHECK(profile->attention_share > 0);
  }
}

}  // namespace
}  // namespace tandem
