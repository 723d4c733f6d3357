// A table of trainers, with the bytes that each keeps of a logit, and DeepSpeed's buffers.
#include "workload/memory/trainer.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "workload/model/blocks.h"

namespace tandem {
namespace {

// The parts of a chunked loss: 8 in torchtitan (components/loss.py). Liger has it, too.
constexpr double kChunks = 8;

// The following constants are bytes of a logit.
//
// Megatron-LM, unfused: 16-bit logits and their fp32 copy, which becomes the softmax
// (core/tensor_parallel/cross_entropy.py). Natively fused: fitted to the peak memory of 7 of its
// functional tests, of which 4 are then within 5 %
// (gpt3_mcore_te_tp2_pp2_cross_entropy_loss_fusion).
constexpr double kMegatron = 6, kNative = 10.1;
// Transformer Engine: 16-bit logits and a copy that the gradient replaces
// (pytorch/triton/cross_entropy.py); 2 bytes more from July 2026 on, when the copy became fp32.
constexpr double kTe = 4;
// torchtitan's benchmarks of 2024.
constexpr double kTorchtitan = 13;
// Transformers, below DeepSpeed and FSDP (modeling_llama.py until 4.45): 16-bit logits, their fp32
// copy, the shifted copy, the logarithm of the softmax, and gradients: 18 to 22 bytes.
constexpr double kTransformers = 20;

// In the order of Trainer. logit_bytes: unfused, native, Transformer Engine, chunked.
constexpr TrainerMemory kTrainers[] = {
    {.trainer = Trainer::Megatron,
     .name = "megatron",
     .usual = CrossEntropy::TransformerEngine,
     .logit_bytes = {kMegatron, kNative, kTe, kMegatron / kChunks},
     .dummy_gradients = true,
     .userbuffers = true},
    {.trainer = Trainer::Torchtitan,
     .name = "torchtitan",
     .usual = CrossEntropy::Native,
     .logit_bytes = {kTorchtitan, kTorchtitan, kTe, kTorchtitan / kChunks},
     .shards_originals = true},
    {.trainer = Trainer::DeepSpeed,
     .name = "deepspeed",
     .usual = CrossEntropy::Unfused,
     .logit_bytes = {kTransformers, kTransformers, kTe, kTransformers / kChunks},
     .eager_layers = true,
     .userbuffers = true},
    // LLM-Foundry's usual loss is fused (FlashAttention's), as Transformer Engine's is.
    {.trainer = Trainer::Fsdp,
     .name = "fsdp",
     .usual = CrossEntropy::TransformerEngine,
     .logit_bytes = {kTransformers, kTransformers, kTe, kTransformers / kChunks},
     .eager_layers = true,
     .shards_originals = true}};

// DeepSpeed's defaults (runtime/zero/config.py): two buckets of 5e8 elements are filled in turn;
// ZeRO 3 holds up to 1e9 gathered parameters, and converts gradients to fp32 in groups of 1e9
// (runtime/zero/stage3.py).
constexpr double kBucketElements = 5e8, kMostLiveParameters = 1e9, kSubGroupElements = 1e9;

}  // namespace

Trainer trainer_of(const Plan& plan) {
  const bool runs_in_deepspeed =
      plan.zero >= 2 && plan.tp == 1 && plan.pp == 1 && !is_quantized(plan.precision);
  return plan.trainer.value_or(runs_in_deepspeed ? Trainer::DeepSpeed : Trainer::Megatron);
}

const TrainerMemory& memory_of(Trainer trainer) {
  return kTrainers[static_cast<std::size_t>(trainer)];
}

std::optional<Trainer> trainer_named(std::string_view name) {
  const auto* const found = std::ranges::find(kTrainers, name, &TrainerMemory::name);
  return found == std::end(kTrainers) ? std::nullopt : std::optional(found->trainer);
}

double logit_bytes(const Plan& plan) {
  const TrainerMemory& memory = memory_of(trainer_of(plan));
  return memory.logit_bytes[static_cast<std::size_t>(plan.cross_entropy.value_or(memory.usual))];
}

double deepspeed_buckets(const Plan& plan, double parameters) {
  if (trainer_of(plan) != Trainer::DeepSpeed || plan.zero == 0) return 0;
  const double live =
      plan.gathers_each_pass() ? std::min(kMostLiveParameters, parameters) * stored_bytes(plan) : 0;
  return 2 * std::min(kBucketElements, parameters) * stored_bytes(plan) + live;
}

double deepspeed_step(const Plan& plan, double cut) {
  if (trainer_of(plan) != Trainer::DeepSpeed || plan.zero == 0 || bytes_of(plan.precision) == 4)
    return 0;
  return 4 * (plan.zero == 3 ? std::min(cut, kSubGroupElements) : cut) *
         (1 - plan.optimizer_offload);
}

}  // namespace tandem
