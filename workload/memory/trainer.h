// Trainer: the framework whose buffers and losses count for memory.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "workload/model/plan.h"

namespace tandem {

struct TrainerMemory {
  Trainer trainer;
  std::string_view name;  // of train.framework
  CrossEntropy usual;
  // Most bytes of a logit from the head's forward to its backward, by CrossEntropy.
  std::array<double, 4> logit_bytes;
  // Transformer Engine returns a 16-bit array for each shape of a weight whose gradient it has
  // already added up (get_dummy_wgrad), and keeps these.
  bool dummy_gradients;
  // Layers are Transformers' modules, an operation a kernel. Against fused ones RMSNorm keeps its
  // input in fp32 too, and a gated MLP the activation of its gate.
  bool eager_layers;
  // Tensor overlap takes an array for each product (Transformer Engine's userbuffers).
  bool userbuffers;
};

// Returns the plan's trainer. If nobody names one it is the one that holds the most of those that
// run such plans: DeepSpeed for ZeRO 2 and 3 in 16 or 32 bits without tensor and pipeline
// parallelism, else Megatron-LM.
Trainer trainer_of(const Plan& plan);

const TrainerMemory& memory_of(Trainer trainer);

// Returns the trainer of this name. Nothing: there is none.
std::optional<Trainer> trainer_named(std::string_view name);

// Returns the bytes of a logit, with the loss that the plan has.
double logit_bytes(const Plan& plan);

// Returns DeepSpeed's buckets, which are no larger than what they carry; 0: another trainer's plan.
double deepspeed_buckets(const Plan& plan, double parameters);

// Returns the bytes of the gradients of `cut` parameters that DeepSpeed's step holds in fp32. A
// CPU that updates them holds them, too.
double deepspeed_step(const Plan& plan, double cut);

}  // namespace tandem
