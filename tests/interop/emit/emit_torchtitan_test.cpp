// Plans as torchtitan's options.
#include <catch2/catch.hpp>

#include "tests/interop/emit/emitted.h"
#include "tests/text.h"

using namespace tandem;

// 56 layers on 8 ranks with 7 stages each: a layer a stage, and none fewer at the ends.
TEST_CASE("torchtitan is told a plan in tokens, shards and layers a stage") {
  PlanSettings plan = {{"parallel.pp", "8"},
                       {"parallel.vpp", "7"},
                       {"parallel.micro_batch", "2"},
                       {"parallel.global_batch", "256"},
                       {"model.layers", "56"},
                       {"model.seq", "4096"},
                       {"schedule.order", "interleaved"},
                       {"train.zero", "3"},
                       {"train.reshard_after_forward", "false"},
                       {"train.recompute", "full"},
                       {"train.flash_attention", "true"},
                       {"overlap.grad_reduce", "true"},
                       {"parallel.hsdp_shard", "4"},
                       {"cluster.gpus", "128"}};
  const std::string text = emitted("torchtitan", plan);
  INFO(text);
  const auto has = [&](const std::string& line) {
    return text.find(line + "\n") != std::string::npos;
  };
  CHECK(has("    --training.num_tokens_per_microbatch_per_dp_rank 8192"));
  CHECK(has("    --training.num_tokens_per_train_step 1048576"));
  CHECK(has("    --parallelism.num_pp_microbatches 8"));
  CHECK(has("    --parallelism.data_parallel_replicate_degree 4"));
  CHECK(has("    --parallelism.data_parallel_shard_degree 4"));
  CHECK(has("    --parallelism.fsdp_reshard_after_forward never"));
  CHECK(has("    --parallelism.pipeline_parallel_schedule Interleaved1F1B"));
  CHECK(has("    --parallelism.pipeline_parallel_layers_per_stage 1"));
  CHECK(has("    --parallelism.pipeline_parallel_first_stage_less_layers 0"));
  CHECK(has("    --compile.enable"));
  CHECK(has("    activation-checkpoint:full\n)"));
  CHECK(text.find("not expressed") == std::string::npos);
  // 110 layers, and the ends count as one each.
  plan["model.layers"] = "110";
  CHECK(emitted("torchtitan", plan).find("layers_per_stage 2\n") != std::string::npos);
  plan["train.zero"] = "1";
  CHECK(emitted("torchtitan", plan).find("# not expressed: train.zero = 1: ") != std::string::npos);
  plan["train.zero"] = "2";  // in a pipeline the same as 3
  CHECK(emitted("torchtitan", plan).find("not expressed: ZeRO 2") == std::string::npos);
  const PlanSettings alone = {
      {"train.zero", "2"}, {"train.recompute", "selective"}, {"cluster.gpus", "8"}};
  CHECK(emitted("torchtitan", alone).find("not expressed: train.recompute = ") !=
        std::string::npos);
  CHECK(emitted("torchtitan", alone).find("# not expressed: ZeRO 2: ") != std::string::npos);
  plan["schedule.order"] = "interleaved-zb";
  CHECK(emitted("torchtitan", plan).find("--compile.enable") == std::string::npos);
}

TEST_CASE("torchtitan switches CUDA graphs off, and lists them only if the plan has them") {
  const std::string off = "    --training.disable_cuda_graphs\n";
  const std::string lost = "# not expressed: train.cuda_graphs = ";
  const auto text = [](const char* graphs, const char* pp) {
    return emitted("torchtitan", {{"train.cuda_graphs", graphs}, {"parallel.pp", pp}});
  };
  CHECK_FALSE(has(text("true", "1"), off));
  CHECK_FALSE(has(text("true", "1"), lost));
  CHECK(has(text("true", "2"), off));
  CHECK(has(text("true", "2"), lost));
  CHECK(has(text("false", "2"), off));
  CHECK_FALSE(has(text("false", "2"), lost));
}
