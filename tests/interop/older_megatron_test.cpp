// Plans from arguments of Megatron-LM before 2023, and of Megatron-DeepSpeed.
#include <catch2/catch.hpp>

#include "tests/interop/imported.h"

using namespace tandem;

namespace {

// A model of 8 layers, and flags behind it.
ImportedPlan flags(const std::string& more) {
  return imported("train.sh",
                  "python pretrain_gpt.py --num-layers 8 --hidden-size 1024 --fp16 "
                  "--num-attention-heads 16 --seq-length 2048 --vocab-size 32000 " +
                      more + "\n");
}

}  // namespace

TEST_CASE("no flag of recompute that is unknown counts as one without effect") {
  for (const char* flag : {"--activations-checkpoint-kind all", "--checkpoint-every 2"}) {
    const ImportedPlan plan = flags(flag);
    CHECK(plan.not_understood == std::vector<std::string>{"train.sh:1: " + std::string(flag)});
  }
  CHECK(flags("--use-checkpoint-args --exit-on-missing-checkpoint").not_understood.empty());
}

TEST_CASE("flags that change time or memory are told, not counted as quiet") {
  for (const char* flag :
       {"--moe-extended-tp --num-experts 8 --moe-router-topk 2", "--disable-mamba-mem-eff-path",
        "--batch-invariant-mode", "--empty-unused-memory-level 2",
        "--nccl-communicator-config-path a.yaml", "--disable-tp-comm-split-ag",
        "--no-async-tensor-model-parallel-allreduce", "--offload-optimizer-states",
        "--encoder-pipeline-model-parallel-size 1", "--retro-add-retriever",
        "--export-kd-teacher-load a", "--logits-load-dir a", "--variable-seq-lengths",
        "--dataloader-inter-document-masking", "--checkpoint-in-cpu"}) {
    INFO(flag);
    const ImportedPlan plan = flags(flag);
    CHECK(plan.not_expressed.size() == 1);
    CHECK(plan.not_understood.empty());
  }
}

TEST_CASE("a flag that is unknown is told, also one that switches something off") {
  for (const char* flag :
       {"--data-efficiency-curriculum-learning", "--layernorm-tp-auto-sync", "--async-pipeline 3",
        "--no-scaled-masked-softmax-fusion", "--disable-mem-efficient-ln"}) {
    INFO(flag);
    CHECK(flags(flag).not_understood ==
          std::vector<std::string>{"train.sh:1: " + std::string(flag)});
  }
  CHECK(flags("--no-pipeline-parallel --no-query-key-layer-scaling").not_understood.empty());
}
