// Plans of ZeRO 2 and 3 as Megatron-FSDP's settings, and back.
#include <catch2/catch.hpp>

#include "tests/interop/emit/emitted.h"
#include "tests/interop/imported.h"

using namespace tandem;

namespace {

PlanSettings sharded(const std::string& zero, const std::string& gradients) {
  return {{"parallel.tp", "2"},
          {"parallel.micro_batch", "1"},
          {"parallel.global_batch", "64"},
          {"train.precision", "bf16"},
          {"train.gradient_dtype", gradients},
          {"train.zero", zero},
          {"overlap.grad_reduce", "true"},
          {"overlap.param_gather", zero == "3" ? "true" : "false"},
          {"cluster.gpus", "32"}};
}

// The keys that a plan's file imports as.
Keys back(const std::string& format, const PlanSettings& settings) {
  const std::string text = emitted(format, settings);
  INFO(format << "\n" << text);
  const std::string name = format == "nemo" ? "run_config.yaml" : "plan.sh";
  const ImportedPlan read = imported(name, text, 32);
  CHECK(read.not_understood.empty());
  return keys_of(read);
}

}  // namespace

TEST_CASE("ZeRO 2 and 3 are Megatron-FSDP's, with gradients as the plan has them") {
  for (const char* format : {"megatron", "nemo"}) {
    for (const char* zero : {"2", "3"}) {
      INFO(format << ", ZeRO " << zero);
      const Keys wide = back(format, sharded(zero, "fp32"));
      CHECK(wide.at("train.zero") == zero);
      CHECK(wide.count("train.gradient_dtype") == 0);  // fp32 is the default
      const Keys narrow = back(format, sharded(zero, "bf16"));
      CHECK(narrow.at("train.gradient_dtype") == "\"bf16\"");
    }
  }
  CHECK(has(emitted("megatron", sharded("2", "fp32")),
            "    --megatron-fsdp-main-grads-dtype fp32\n"));
  CHECK(has(emitted("nemo", sharded("3", "fp32")),
            "  megatron_fsdp_main_grads_dtype: {_target_: torch.float32, _call_: false}\n"));
  CHECK_FALSE(has(emitted("megatron", sharded("1", "fp32")), "main-grads-dtype"));
}

TEST_CASE("Megatron-FSDP overlaps what it shards, which a plan that does not is told") {
  const std::string reduces = "# not expressed: overlap.grad_reduce = false: Megatron-FSDP",
                    gathers = "# not expressed: overlap.param_gather = false: Megatron-FSDP";
  for (const char* format : {"megatron", "nemo"}) {
    for (const char* zero : {"1", "2", "3"}) {
      INFO(format << ", ZeRO " << zero);
      PlanSettings plan = sharded(zero, "fp32");
      CHECK_FALSE(has(emitted(format, plan), " = false: "));
      plan["overlap.grad_reduce"] = plan["overlap.param_gather"] = "false";
      CHECK(has(emitted(format, plan), reduces) == (zero[0] != '1'));
      CHECK(has(emitted(format, plan), gathers) == (zero[0] == '3'));
    }
  }
}

TEST_CASE(
    "Megatron-FSDP's buckets are layers where it shards, those of 40 M parameters elsewhere") {
  for (const char* format : {"megatron", "nemo"}) {
    for (const char* zero : {"2", "3"}) {
      PlanSettings plan = sharded(zero, "fp32");
      CHECK_FALSE(has(emitted(format, plan), "not expressed"));
      CHECK(back(format, plan).count("overlap.bucket_MB") == 0);
      plan["overlap.bucket_MB"] = "160";
      CHECK(has(emitted(format, plan), "# not expressed: overlap.bucket_MB = 160: "));
    }
  }
  const auto buckets = [](const std::string& strategy) {
    return keys_of(imported("train.sh",
                            "python pretrain_gpt.py --bf16 --overlap-grad-reduce "
                            "--use-megatron-fsdp --data-parallel-sharding-strategy " +
                                strategy))
        .count("overlap.bucket_MB");
  };
  CHECK(buckets("no_shard") == 1);
  for (const char* strategy : {"optim", "optim_grads", "optim_grads_params"})
    CHECK(buckets(strategy) == 0);
}
