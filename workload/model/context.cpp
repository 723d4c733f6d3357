// Puts attention's core and its communication into a pass, in the order that context.h draws.
#include "workload/model/context.h"

#include <algorithm>

#include "base/check.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// Bytes of a sum in fp32, read and written, for each number that is added to it.
constexpr double kSumBytes = 8;

// Adds the core's parts, with a shift of `bytes` before each but the first, and a merge after each
// but the first. `ready`: what the next shift waits for; `arrived`: the shift that the next part
// waits for.
void ring(PricedPass* pass, const Kernel& core, Bytes bytes, double merge_bytes,
          const ContextGroup& group) {
  const Kernel merging = merge(core.name, {core, {.name = "merge", .memory_bytes = merge_bytes}});
  Waits ready = pass->after_last(), arrived;
  for (int i = 0; i < group.size; ++i) {
    const auto shift = [&](Waits waits) {
      return pass->beside(GroupKind::Context, CommKind::RingShift, bytes,
                          {.part = static_cast<std::int16_t>(i),
                           .parts = static_cast<std::int16_t>(group.size - 1),
                           .sms = group.sms},
                          std::move(waits));
    };
    const bool shifts = i + 1 < group.size;
    if (shifts && group.overlap) ready = {shift(ready)};
    pass->run(i == 0 ? core : merging, arrived);
    if (shifts && !group.overlap) ready = {shift(pass->after_last())};
    arrived = ready;
  }
}

void exchange(PricedPass* pass, CommKind kind, Bytes bytes, const ContextGroup& group) {
  pass->communicate(GroupKind::Context, kind, bytes, {.sms = group.sms});
}

// Adds the core with its communication. The backward moves gradients, too.
void run_core(PricedPass* pass, const Kernel& core, const ContextGroup& group, bool backward) {
  const Bytes gathered = group.size * group.key_value_bytes;
  switch (group.comm) {
    case ContextComm::Ring:
      return ring(pass, core, (backward ? 2 : 1) * group.key_value_bytes,
                  backward ? group.merge_gradient_bytes : group.merge_bytes, group);
    case ContextComm::AllGather:
      exchange(pass, CommKind::AllGather, gathered, group);
      pass->run(core);
      if (backward) exchange(pass, CommKind::ReduceScatter, gathered, group);
      return;
    case ContextComm::AllToAll:
      exchange(pass, CommKind::AllToAll, backward ? group.output_bytes : group.input_bytes, group);
      pass->run(core);
      exchange(pass, CommKind::AllToAll, backward ? group.input_bytes : group.output_bytes, group);
      return;
  }
}

// Returns the numbers of a token that an all-to-all brings to the heads. Mamba's B and C go to each
// rank that has some of their group's heads.
std::int64_t input_columns(const Model& model, const Plan& plan) {
  const std::int64_t queries = query_columns(model, plan);
  const std::int64_t keys = key_value_columns(model, plan);
  switch (model.mixer) {
    case Mixer::Heads:
    case Mixer::Latent:
      return queries + keys;
    case Mixer::Mamba:
      return 2 * queries + std::max(keys, std::int64_t{2} * model.mamba_state * plan.cp) +
             model.mamba_heads / plan.tp;
    case Mixer::Linear:
      return queries + keys + output_columns(model, plan) + 2 * model.linear_value_heads / plan.tp;
    case Mixer::None:
      return 0;
  }
  CHECK(false);
  return 0;
}

}  // namespace

ContextGroup context_group(const Model& model, const Plan& plan) {
  const Bytes number = tokens_of(model, plan) * stored_bytes(plan);
  const double merged =
      (kSumBytes + stored_bytes(plan)) * static_cast<double>(tokens_of(model, plan));
  const auto queries = static_cast<double>(query_columns(model, plan));
  const auto keys = static_cast<double>(key_value_columns(model, plan));
  return {.size = plan.cp,
          .comm = plan.context_comm,
          .overlap = plan.overlap_context,
          .sms = static_cast<std::int16_t>(plan.context_sms),
          .key_value_bytes = number * key_value_columns(model, plan),
          .input_bytes = number * input_columns(model, plan),
          .output_bytes = number * output_columns(model, plan),
          .merge_bytes = merged * static_cast<double>(output_columns(model, plan)),
          .merge_gradient_bytes = merged * (queries + keys)};
}

void attend(PricedPass* pass, const Kernel& before, const Kernel& core, const ContextGroup& group) {
  if (group.size == 1) {
    pass->run(merge(core.name, {before, core}));
    return;
  }
  pass->run(before);
  run_core(pass, core, group, /*backward=*/false);
}

void attend_backward(PricedPass* pass, const Kernel& after, const Kernel& core,
                     const ContextGroup& group) {
  if (group.size == 1) {
    pass->run(merge(core.name, {core, after}));
    return;
  }
  run_core(pass, core, group, /*backward=*/true);
  pass->run(after);
}

}  // namespace tandem
