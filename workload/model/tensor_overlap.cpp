// Cuts GEMMs and collectives into parts and puts them into a pass so that they overlap, as
// tensor_overlap.h draws. "The chain" is what the compute lane runs in order; beside() adds a
// communication that the chain does not wait for.
#include "workload/model/tensor_overlap.h"

#include <cmath>
#include <optional>

#include "workload/model/blocks.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

CommKind reduction(const TensorGroup& group) {
  return group.sequence_parallel ? CommKind::ReduceScatter : CommKind::AllReduce;
}

// Returns the settings of part `part` of `parts` of a collective.
CommSettings settings(const GemmOverlap& overlap, int part = 0, int parts = 1) {
  return {.part = static_cast<std::int16_t>(part),
          .parts = static_cast<std::int16_t>(parts),
          .sms = static_cast<std::int16_t>(overlap.sms)};
}

// Returns the bytes of part `part`; all parts add up to `bytes`.
Bytes part_of(Bytes bytes, int part, int parts) {
  return bytes * (part + 1) / parts - bytes * part / parts;
}

Bytes share_of(Bytes bytes, double share) {
  return std::llround(share * static_cast<double>(bytes));
}

// Returns whether the product runs in pieces, beside the pieces of its collective.
bool is_in_pieces(const GemmOverlap& overlap) {
  return overlap.method == TensorMethod::Pipelined || overlap.method == TensorMethod::Ring;
}

// Adds a step of the ring, in which each rank passes one rank's share of the `bytes` on.
int shift(PricedPass* pass, const TensorGroup& group, Bytes bytes, const GemmOverlap& overlap,
          int step, Waits waits) {
  return pass->beside(GroupKind::Tensor, CommKind::RingShift,
                      share_of(bytes, group.ring_hidden) / group.size,
                      settings(overlap, step, group.size - 1), std::move(waits));
}

// Adds the part of a ring's bytes that it does not hide.
void expose(PricedPass* pass, CommKind kind, const TensorGroup& group, Bytes bytes) {
  const Bytes exposed = share_of(bytes, 1 - group.ring_hidden);
  if (exposed > 0) pass->communicate(GroupKind::Tensor, kind, exposed);
}

// Adds the all-reduce of an array's largest number, for the scale that all its parts share.
void reduce_amax(PassBuilder* pass, const TensorGroup& group) {
  if (group.sequence_parallel && group.amax_bytes > 0)
    pass->communicate(GroupKind::Tensor, CommKind::AllReduce, group.amax_bytes);
}

}  // namespace

Bytes TensorGroup::of_inputs() const { return share_of(bytes, input_share); }
Bytes TensorGroup::of_gradients() const { return share_of(bytes, gradient_share); }

TensorGroup tensor_group(const Model& model, const Plan& plan) {
  return {.size = plan.tp,
          .sequence_parallel = plan.sequence_parallel && plan.tp > 1,
          .bytes = tokens_of(model, plan) * model.hidden * stored_bytes(plan)};
}

// Transformer Engine gathers an input's rows alone. Of an output's gradient it gathers rows and
// columns, unless one scale holds for both (module/linear.py and layernorm_linear.py).
TensorGroup quantized_group(const Model& model, const Plan& plan, const FrameworkProfile& profile) {
  TensorGroup group = tensor_group(model, plan);
  group.ring_hidden = profile.ring_hidden;
  const std::optional<Recipe> recipe = recipe_of(plan);
  if (!recipe || !recipe->gathers_quantized) return group;
  if (recipe->reduces_gathered) group.amax_bytes = kAmaxBytes;
  group.input_share = recipe->number_bytes / kSixteenBits;
  group.gradient_share = (recipe->scales_tensor ? 1 : 2) * group.input_share;
  return group;
}

void gather(PassBuilder* pass, const TensorGroup& group, Bytes bytes) {
  reduce_amax(pass, group);
  if (group.sequence_parallel) pass->communicate(GroupKind::Tensor, CommKind::AllGather, bytes);
}

void reduce(PassBuilder* pass, const TensorGroup& group) {
  if (group.size > 1) pass->communicate(GroupKind::Tensor, reduction(group), group.bytes);
}

void gather_and_multiply(PricedPass* pass, const Kernel& product, const TensorGroup& group,
                         Bytes bytes, const GemmOverlap& overlap) {
  if (!is_in_pieces(overlap)) {
    gather(pass, group, bytes);
    pass->run(product);
    return;
  }
  reduce_amax(pass, group);
  if (overlap.method == TensorMethod::Pipelined) {
    const Waits start = pass->after_last();
    const int parts = overlap.splits;
    for (int i = 0; i < parts; ++i) {
      const int gathered =
          pass->beside(GroupKind::Tensor, CommKind::AllGather, part_of(bytes, i, parts),
                       settings(overlap, i, parts), start);
      pass->run(cut_rows(product, i, parts), {gathered});
    }
  } else {
    expose(pass, CommKind::AllGather, group, bytes);
    // The next shift waits for `ready`, and the next piece for the shift `arrived`.
    Waits ready = pass->after_last(), arrived;
    for (int i = 0; i < group.size; ++i) {
      if (i + 1 < group.size) ready = {shift(pass, group, bytes, overlap, i, ready)};
      pass->run(cut_rows(product, i, group.size), arrived);
      arrived = ready;
    }
  }
}

void multiply_and_reduce(PricedPass* pass, const Kernel& product, const TensorGroup& group,
                         const GemmOverlap& overlap) {
  if (!is_in_pieces(overlap)) {
    pass->run(product);
    reduce(pass, group);
    return;
  }
  if (overlap.method == TensorMethod::Pipelined) {
    const int parts = overlap.splits;
    int reduced = -1;
    for (int i = 0; i < parts; ++i) {
      const int piece = pass->run(cut_rows(product, i, parts));
      reduced = pass->beside(GroupKind::Tensor, reduction(group), part_of(group.bytes, i, parts),
                             settings(overlap, i, parts), {piece});
    }
    pass->follow(reduced);
  } else {
    int passed = -1;
    for (int i = 0; i < group.size; ++i) {
      const int piece = pass->run(cut_rows(product, i, group.size));
      if (i + 1 < group.size) passed = shift(pass, group, group.bytes, overlap, i, {piece});
    }
    pass->follow(passed);
    expose(pass, reduction(group), group, group.bytes);
  }
}

void multiply_gradients(PricedPass* pass, const Kernel& dgrad, const Kernel* wgrad,
                        const TensorGroup& group, const GemmOverlap& at_dgrad,
                        const GemmOverlap& at_wgrad) {
  if (is_in_pieces(at_dgrad)) {
    multiply_and_reduce(pass, dgrad, group, at_dgrad);
    if (wgrad) pass->run(*wgrad);
    return;
  }
  Waits saved_input;
  if (at_dgrad.method == TensorMethod::Bulk)
    saved_input = {pass->beside(GroupKind::Tensor, CommKind::AllGather, group.of_inputs(),
                                settings(at_dgrad), pass->after_last())};
  const int gradient = pass->run(dgrad);
  if (wgrad && at_wgrad.method == TensorMethod::Bulk) {
    const int reduced = pass->beside(GroupKind::Tensor, reduction(group), group.bytes,
                                     settings(at_wgrad), {gradient});
    pass->run(*wgrad, saved_input);
    pass->follow(reduced);
    return;
  }
  reduce(pass, group);
  if (wgrad) pass->run(*wgrad, saved_input);
}

}  // namespace tandem
