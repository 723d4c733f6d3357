// Plans from arguments of Megatron-LM before 2023, of Megatron-DeepSpeed, and that have no effect.
#include <catch2/catch.hpp>

#include <fmt/format.h>

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

// A log of that model in two stages of two GPUs each, and lines of its arguments.
ImportedPlan log(const std::string& more) {
  std::string text = "------------------------ arguments ------------------------\n";
  for (const char* line :
       {"num_layers 8", "hidden_size 1024", "num_attention_heads 16", "seq_length 2048",
        "padded_vocab_size 32000", "fp16 True", "tensor_model_parallel_size 2",
        "pipeline_model_parallel_size 2", "params_dtype torch.float16"})
    text += fmt::format("  {}\n", line);
  return imported("train.log",
                  text + more + "-------------------- end of arguments ---------------------\n");
}

bool has_flash(const ImportedPlan& plan) { return plan.flag_of("train.flash_attention"); }

}  // namespace

TEST_CASE("Megatron-LM of 2021 recomputes whole layers by a method alone") {
  const Keys uniform = keys_of(flags("--activations-checkpoint-method uniform"));
  CHECK(uniform.at("train.recompute") == "\"full\"");
  CHECK_FALSE(uniform.contains("train.recompute_layers"));
  const Keys block =
      keys_of(flags("--activations-checkpoint-method block --activations-checkpoint-num-layers 3"));
  CHECK(block.at("train.recompute") == "\"full\"");
  CHECK(block.at("train.recompute_layers") == "3");
  CHECK(keys_of(flags("--activations-checkpoint-method block")).at("train.recompute_layers") ==
        "1");
  const ImportedPlan chunks =
      flags("--activations-checkpoint-method uniform --activations-checkpoint-num-layers 4");
  CHECK(mentions(chunks.not_expressed, "--activations-checkpoint-num-layers 4: with uniform"));
  CHECK(mentions(flags("--checkpoint-activations --checkpoint-num-layers 2").not_expressed,
                 "--checkpoint-num-layers 2: with uniform"));
  CHECK(mentions(
      flags("--checkpoint-activations --distribute-checkpointed-activations").not_expressed,
      "--distribute-checkpointed-activations: saved activations are not cut"));
  // The number of layers alone switches nothing on, as a log prints it in any case.
  CHECK_FALSE(keys_of(flags("--activations-checkpoint-num-layers 4")).contains("train.recompute"));
  const ImportedPlan logged =
      log("  activations_checkpoint_method uniform\n  activations_checkpoint_num_layers 1\n");
  CHECK(keys_of(logged).at("train.recompute") == "\"full\"");
  const ImportedPlan without =
      log("  activations_checkpoint_method None\n  activations_checkpoint_num_layers 1\n");
  CHECK_FALSE(keys_of(without).contains("train.recompute"));
}

TEST_CASE("no flag of recompute that is unknown counts as one without effect") {
  for (const char* flag : {"--activations-checkpoint-kind all", "--checkpoint-every 2"}) {
    const ImportedPlan plan = flags(flag);
    CHECK(plan.not_understood == std::vector<std::string>{"train.sh:1: " + std::string(flag)});
  }
  CHECK(flags("--use-checkpoint-args --exit-on-missing-checkpoint").not_understood.empty());
}

TEST_CASE("programs before Transformer Engine have no flash attention unless a flag asks for it") {
  CHECK(has_flash(flags("")));
  for (const char* flag :
       {"--DDP-impl local", "--checkpoint-activations", "--activations-checkpoint-method uniform",
        "--no-contiguous-buffers-in-local-ddp", "--deepspeed"}) {
    INFO(flag);
    const ImportedPlan plan = flags(flag);
    CHECK_FALSE(has_flash(plan));
    CHECK(mentions(plan.assumed, "train.flash_attention = false: "));
    CHECK(has_flash(flags(std::string(flag) + " --use-flash-attn")));
    CHECK(has_flash(flags(std::string(flag) + " --attention-backend flash")));
  }
  for (const char* flag : {"-v1", "-v2", "-triton", "-builder"}) {
    const ImportedPlan plan = flags("--deepspeed --use-flash-attn" + std::string(flag));
    CHECK(has_flash(plan));
    CHECK(plan.not_understood.empty());
  }
  CHECK_FALSE(has_flash(log("  DDP_impl local\n")));
  CHECK_FALSE(has_flash(log("  DDP_impl local\n  transformer_impl local\n")));
  CHECK(has_flash(log("  DDP_impl local\n  transformer_impl transformer_engine\n")));
  CHECK(has_flash(log("  DDP_impl local\n  use_flash_attn True\n  transformer_impl local\n")));
}

TEST_CASE("stages of Megatron-LM before 2023 send a part of each tensor rank") {
  const std::string older =
      "--DDP-impl local --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ";
  const auto cuts = [](const ImportedPlan& plan) {
    CHECK(plan.not_understood.empty());
    return keys_of(plan).contains("parallel.scatter_gather");
  };
  CHECK(cuts(flags(older)));
  CHECK(cuts(log("  DDP_impl local\n  scatter_gather_tensors_in_pipeline True\n")));
  CHECK_FALSE(cuts(flags(older + "--no-scatter-gather-tensors-in-pipeline")));
  CHECK_FALSE(cuts(flags(older + "--sequence-parallel")));
  CHECK_FALSE(cuts(flags(older + "--deepspeed")));  // DeepSpeed has an engine of its own
  CHECK_FALSE(cuts(flags("--DDP-impl local --pipeline-model-parallel-size 2")));
  // Later releases print the flag, and do not use it.
  CHECK_FALSE(cuts(log("  transformer_impl local\n  scatter_gather_tensors_in_pipeline True\n")));
}

TEST_CASE("PyTorch's DDP reduces gradients beside the backward, in buckets of 25 MiB") {
  const Keys keys = keys_of(flags("--DDP-impl torch"));
  CHECK(keys.at("overlap.grad_reduce") == "true");
  CHECK(keys.at("overlap.bucket_MB") == "26.2144");
  CHECK_FALSE(keys_of(flags("--DDP-impl local")).contains("overlap.grad_reduce"));
}

TEST_CASE("Megatron-DeepSpeed has experts in every second layer, and one of them a token") {
  const std::string experts = "--deepspeed --num-experts 16 --moe-expert-parallel-size 8 ";
  const ImportedPlan plan = flags(experts + "--moe-train-capacity-factor 1.5");
  const Keys keys = keys_of(plan);
  CHECK(keys.at("model.pattern") == "\"(dense + moe)*4\"");
  CHECK(keys.at("model.kinds.moe.experts") == "16");
  CHECK(keys.at("model.kinds.moe.top_k") == "1");
  CHECK(keys.at("parallel.ep") == "8");
  CHECK(keys.at("model.capacity_factor") == "1.5");
  CHECK(keys.at("model.pad_to_capacity") == "true");
  CHECK(keys.at("parallel.dispatcher") == "\"alltoall\"");
  CHECK(plan.not_understood.empty());
  CHECK(mentions(plan.not_expressed, "DeepSpeed packs tokens"));
  for (const char* flag : {"--expert-interval", "--topk"})
    CHECK(mentions(plan.assumed, "Megatron-DeepSpeed's, there is no " + std::string(flag)));
  const ImportedPlan stated = flags(experts +
                                    "--expert-interval 1 --topk 2 --use-tutel "
                                    "--moe-train-capacity-factor 2 --moe-loss-coeff 0.01");
  CHECK(keys_of(stated).at("model.experts") == "16");
  CHECK(keys_of(stated).at("model.top_k") == "2");
  CHECK(stated.not_expressed.empty());
  CHECK_FALSE(mentions(stated.assumed, "Megatron-DeepSpeed's, there is no --topk"));
  CHECK_FALSE(
      keys_of(flags(experts + "--disable-moe-token-dropping")).contains("model.capacity_factor"));
}

TEST_CASE("Megatron-DeepSpeed's experts are whole, may differ, and may stand beside an MLP") {
  const std::string tensor = "--deepspeed --num-experts 16 --tensor-model-parallel-size 2 ";
  CHECK(keys_of(flags(tensor)).at("parallel.expert_tp") == "1");
  CHECK_FALSE(
      keys_of(flags(tensor + "--enable-expert-tensor-parallelism")).contains("parallel.expert_tp"));
  const Keys pyramid = keys_of(flags("--deepspeed --num-experts 16 16 16 32 --mlp-type residual"));
  CHECK(pyramid.at("model.pattern") == "\"dense + (moe + dense)*3 + moe2\"");
  CHECK(pyramid.at("model.kinds.moe2.experts") == "32");
  CHECK(pyramid.at("model.kinds.moe.shared_expert_ffn") == "4096");
  CHECK(has(refusal("a.sh",
                    "python pretrain_gpt.py --num-layers 8 --hidden-size 64 --deepspeed "
                    "--num-attention-heads 4 --num-experts 8 16\n"),
            "expected one number, or 4 numbers"));
  // A log writes a list.
  CHECK(keys_of(log("  deepspeed True\n  num_experts [16]\n  expert_interval 4\n  topk 1\n"))
            .at("model.pattern") == "\"(dense*3 + moe)*2\"");
}

TEST_CASE("one expert of Megatron-DeepSpeed is an MLP") {
  const ImportedPlan plan = flags(
      "--deepspeed --num-experts 1 --moe-expert-parallel-size 1 --moe-train-capacity-factor 1.0");
  CHECK_FALSE(keys_of(plan).contains("model.experts"));
  CHECK_FALSE(keys_of(plan).contains("model.capacity_factor"));
  CHECK(keys_of(plan).at("model.ffn_hidden") == "4096");
  CHECK(plan.not_understood.empty());
  CHECK(plan.not_expressed.empty());
}

TEST_CASE("DeepSpeed's sequence parallelism changes heads for positions") {
  const Keys keys = keys_of(flags("--deepspeed --ds-sequence-parallel-size 4"));
  CHECK(keys.at("parallel.cp") == "4");
  CHECK(keys.at("parallel.cp_comm") == "\"all_to_all\"");
}

TEST_CASE("flags that change time or memory are told, not counted as quiet") {
  for (const char* flag :
       {"--moe-extended-tp --num-experts 8 --moe-router-topk 2", "--disable-mamba-mem-eff-path",
        "--batch-invariant-mode", "--empty-unused-memory-level 2",
        "--nccl-communicator-config-path a.yaml", "--disable-tp-comm-split-ag",
        "--no-async-tensor-model-parallel-allreduce", "--offload-optimizer-states",
        "--encoder-pipeline-model-parallel-size 1", "--retro-add-retriever",
        "--export-kd-teacher-load a", "--logits-load-dir a", "--variable-seq-lengths",
        "--dataloader-inter-document-masking", "--deepspeed --checkpoint-in-cpu"}) {
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

TEST_CASE("latent attention switches the overlap of tensor communication off, in a line") {
  const std::string overlap =
      "--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap";
  CHECK(keys_of(flags(overlap)).at("overlap.tensor") == "\"ring\"");
  const ImportedPlan latent =
      flags(overlap +
            " --multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 "
            "--qk-pos-emb-head-dim 64 --v-head-dim 128");
  CHECK_FALSE(keys_of(latent).contains("overlap.tensor"));
  CHECK(mentions(latent.assumed, "--tp-comm-overlap has no effect"));
}

// Megatron-LM refuses lists of other lengths (core/transformer/transformer_config.py).
TEST_CASE("a list of how layers exchange contexts is one word where all are alike") {
  const auto cut = [](const std::string& words, const std::string& model = "--num-layers 3") {
    return "python pretrain_gpt.py " + model +
           " --hidden-size 1024 --num-attention-heads 16 --context-parallel-size 2 "
           "--cp-comm-type " +
           words + "\n";
  };
  const ImportedPlan alike = imported("a.sh", cut("a2a a2a a2a"));
  CHECK(keys_of(alike).at("parallel.cp_comm") == "\"all_to_all\"");
  CHECK(alike.not_expressed.empty());
  const ImportedPlan mixed = imported("a.sh", cut("a2a p2p p2p"));
  CHECK(keys_of(mixed).at("parallel.cp_comm") == "\"all_to_all\"");
  CHECK(mentions(mixed.not_expressed,
                 "--cp-comm-type: layers differ: all are taken as the first, a2a"));
  CHECK(refusal("a.sh", cut("p2p a2a")) ==
        "a.sh:1: found --cp-comm-type p2p a2a, expected one word, or one for each of 3 layers");
  CHECK(mentions({refusal("a.sh", cut("p2p p2p ring"))}, "expected p2p, a2a, allgather"));
  const std::string yaml =
      "model:\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n"
      "  tensor_model_parallel_size: 1\n  context_parallel_size: 2\n  cp_comm_type: ";
  const std::string rest = "\ntrain:\n  global_batch_size: 8\n";
  CHECK(keys_of(imported("run_config.yaml", yaml + "[allgather, allgather]" + rest))
            .at("parallel.cp_comm") == "\"all_gather\"");
  CHECK(mentions({refusal("run_config.yaml", yaml + "[p2p, a2a, p2p]" + rest)},
                 "expected one word, or one for each of 2 layers"));
}
