// Bytes of the buffers that a GPU holds for communication, one function for each kind.
#include "workload/memory/buffers.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/check.h"
#include "workload/memory/activations.h"
#include "workload/memory/trainer.h"
#include "workload/model/blocks.h"
#include "workload/model/moe.h"
#include "workload/model/recipe.h"
#include "workload/model/routing.h"

namespace tandem {
namespace {

// Returns two buffers for a transfer: one is sent while the next is received.
double pipeline_buffers(const Model& model, const Plan& plan) {
  if (plan.pp == 1) return 0;
  const bool cut = plan.sequence_parallel || plan.scatter_gather;
  const int arrays = plan.mtp_before_loss ? 1 + model.mtp_layers : 1;
  return 2.0 * arrays * static_cast<double>(tensor_group(model, plan).bytes) / (cut ? plan.tp : 1);
}

// Returns the buffers in which the pipeline's ranks send each other four arrays of vocabulary
// parallelism: the looked-up embedding, the last stage's output, and both gradients.
double vocabulary_buffers(const Model& model, const Plan& plan) {
  if (plan.vocabulary == 0) return 0;
  return 4.0 * static_cast<double>(tensor_group(model, plan).bytes) /
         (plan.sequence_parallel ? plan.tp : 1);
}

// Returns sequence parallelism's whole array, and one more for each GEMM that overlaps, if the
// trainer allocates these (Transformer Engine's userbuffers).
double tensor_buffers(const Model& model, const Plan& plan) {
  const TensorGroup group = tensor_group(model, plan);
  if (!group.sequence_parallel) return 0;
  const bool has_own = memory_of(trainer_of(plan)).userbuffers;
  const auto overlapped =
      std::ranges::count_if(plan.tensor_overlap, [has_own](const GemmOverlap& overlap) {
        return has_own && overlap.userbuffers && overlap.method != TensorMethod::Off;
      });
  return static_cast<double>(group.bytes) * static_cast<double>(1 + overlapped);
}

// Returns the buffers of the backward, which moves keys and values with their gradients. Ring: the
// part in use and the next one. AllGather: both arrays gathered. AllToAll: the arrays that an
// exchange sends and those that it receives.
double context_buffers(const Model& model, const Plan& plan) {
  const ContextGroup group = context_group(model, plan);
  switch (group.comm) {
    case ContextComm::Ring:
      return 2.0 * 2 * static_cast<double>(group.key_value_bytes);
    case ContextComm::AllGather:
      return 2.0 * group.size * static_cast<double>(group.key_value_bytes);
    case ContextComm::AllToAll:
      return 2.0 * static_cast<double>(std::max(group.input_bytes, group.output_bytes));
  }
  CHECK(false);
  return 0;
}

// Returns the bytes of the tokens that experts get and of those that they return, on the busiest
// rank.
double expert_buffers(const Model& model, const Plan& plan) {
  if (plan.ep == 1) return 0;
  double most = 0;
  for (const auto& [kind, count] : kinds_of(model)) {
    const ExpertGroup group = expert_group(*kind, plan);
    most = std::max(most, static_cast<double>(group.sent_bytes + group.returned_bytes) *
                              group.peak_load / group.load);
  }
  return most;
}

// Bytes of a gathered parameter in ZeRO 3's buffers: of a linear layer's, with its quantized
// copies, and of another.
struct GatheredBytes {
  double linear = 0, other = 0;
};

// If a whole stage stays gathered (reshard_after_forward is off), parameter_bytes() counts it, and
// only the copies that a layer makes for its pass count here.
GatheredBytes gathered_bytes(const Plan& plan) {
  if (!plan.gathers_each_microbatch()) return {};
  const double in_16_bits = plan.gathers_each_pass() ? stored_bytes(plan) : 0;
  const std::optional<Recipe> recipe = recipe_of(plan);
  if (!recipe) return {in_16_bits, in_16_bits};
  const double copies = recipe->copies_bytes();
  if (!plan.fp8_param_gather) return {in_16_bits + copies, in_16_bits};
  return {plan.gathers_each_pass() ? copies : 0, in_16_bits};
}

// Returns ZeRO's buffers. A unit is a layer, or the embedding. ZeRO 1 has none: it gathers into the
// parameters. ZeRO 2 has the largest unit's gradients, laid out anew to be scattered. ZeRO 3 also
// has the layer in use and the largest unit as the next one, gathered.
double zero_buffers(const Model& model, const Plan& plan) {
  const GatheredBytes bytes = gathered_bytes(plan);
  const auto parameters = [&](const Model& kind) {
    return share_of_equal_layers(kind, plan, 1).total();
  };
  const double layer = most_of_layers(model, parameters);
  const double gathered_layer = most_of_layers(model, [&](const Model& kind) {
    const double routers = router_parameters(kind);
    return bytes.linear * (parameters(kind) - routers) + bytes.other * routers;
  });
  const double ends =
      position_parameters(model) +
      (plan.vocabulary > 0 ? vocabulary_share(model, plan) : embedding_share(model, plan));
  const double gradients =
      plan.zero >= 2 ? std::max(layer, ends) * bytes_of(plan.gradient_dtype) : 0;
  return gradients + gathered_layer + std::max(gathered_layer, bytes.other * ends);
}

// Returns the bytes of the dummy arrays that Transformer Engine returns in place of weight
// gradients that it has already accumulated: one for each shape of a weight. Weights of equal size
// are taken to have the same shape.
double dummy_gradients(const Model& model, const Plan& plan) {
  if (!memory_of(trainer_of(plan)).dummy_gradients) return 0;
  std::vector<double> sizes;
  const auto add = [&](double size) {
    if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  };
  for (const auto& [kind, count] : kinds_of(model)) {
    add(attention_parameters(*kind) / plan.tp);
    if (!kind->is_moe()) {
      add(mlp_parameters(*kind) / plan.tp);
      continue;
    }
    const double rest =
        mlp_parameters(*kind) - router_parameters(*kind) - kind->experts * expert_parameters(*kind);
    add(expert_parameters(*kind) / plan.expert_tensor());
    add(rest / plan.tp);  // the shared expert
  }
  return stored_bytes(plan) * std::reduce(sizes.begin(), sizes.end());
}

constexpr BufferKind kBuffers[] = {
    {"buffers of pipeline transfers", pipeline_buffers},
    {"buffers of vocabulary parallelism", vocabulary_buffers},
    {"buffers of sequence parallelism", tensor_buffers},
    {"buffers of context parallelism",
     [](const Model& model, const Plan& plan) {
       if (plan.cp == 1) return 0.0;
       return most_of_layers(model, [&](const Model& kind) { return context_buffers(kind, plan); });
     }},
    {"buffers of the experts' exchange", expert_buffers},
    {"ZeRO's gradients and gathered layers", zero_buffers},
    {"Transformer Engine's dummy gradients", dummy_gradients}};

}  // namespace

std::span<const BufferKind> buffer_kinds() { return kBuffers; }

}  // namespace tandem
