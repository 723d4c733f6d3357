// Trainer: the framework whose buffers and losses count for memory.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "workload/model/plan.h"

namespace tandem {

struct TrainerMemory {
  Trainer trainer;
  std::string_view name;  // the word of train.framework
  CrossEntropy usual;     // the loss if the plan names none
  // Most bytes of a logit from the head's forward to its backward, by CrossEntropy: unfused,
  // native, Transformer Engine, chunked.
  std::array<double, 4> logit_bytes;
  // Transformer Engine returns a 16-bit array for each shape of a weight whose gradient it has
  // already added up (get_dummy_wgrad), and keeps these.
  bool dummy_gradients = false;
  // Layers are modules of Hugging Face's Transformers, with a kernel for each operation. Unlike
  // fused kernels, RMSNorm keeps its input in fp32, and a gated MLP keeps its gate's activation.
  bool eager_layers = false;
  // Tensor overlap takes an array for each product (Transformer Engine's userbuffers).
  bool userbuffers = false;
  // ZeRO 3 is PyTorch's FSDP, which shards the fp32 originals: 16-bit parameters are only gathered.
  bool shards_originals = false;
};

// Returns the plan's trainer. If the plan names none: of the trainers that run such plans, the one
// that needs the most memory. This is DeepSpeed for ZeRO 2 and 3 in 16 or 32 bits without tensor
// and pipeline parallelism, and Megatron-LM otherwise.
Trainer trainer_of(const Plan& plan);

const TrainerMemory& memory_of(Trainer trainer);

// Returns the trainer of this name, or nullopt.
std::optional<Trainer> trainer_named(std::string_view name);

// Returns the bytes of a logit, with the loss that the plan has.
double logit_bytes(const Plan& plan);

// Returns the bytes of DeepSpeed's buckets, which are no larger than the parameters in them. 0: the
// plan has another trainer.
double deepspeed_buckets(const Plan& plan, double parameters);

// Returns the bytes of the fp32 gradients that DeepSpeed's step holds on the GPU. `cut`: the number
// of parameters in the rank's share under ZeRO. A CPU that updates parameters holds their
// gradients.
double deepspeed_step(const Plan& plan, double cut);

}  // namespace tandem
