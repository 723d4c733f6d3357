// Estimates the memory that CUDA, NCCL's buffers and the allocator's fragmentation take.
#include "workload/memory/reserve.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/units.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// CUDA's context, and the kernels of cuBLAS, cuDNN and PyTorch.
constexpr double kContextBytes = 0.6 * GiB;

// NCCL's buffers of a channel's connection, by its three protocols (nccl, src/include/device.h:
// NCCL_STEPS 8, LL 8 x 512 x 8 x 16 bytes, LL128 120 x 640 x 8 x 8 bytes, Simple 4 MiB).
constexpr double kConnectionBytes = 524'288 + 4'915'200 + 4'194'304;
// NCCL's channels over NVLink, and the connections of each: one of a ring and two of a tree.
// Together 0.65 GiB a communicator; users report 0.5 to 0.7 (NVIDIA/nccl issues 864 and 964).
// Transfers between two ranks have one connection.
constexpr double kChannels = 24;
constexpr double kCollectiveConnections = 3, kTransferConnections = 1;

// The memory that PyTorch reserves beyond what it has given out, as a share of the latter: 3 to 9 %
// in 43 runs. Two reports have more: an interleaved 70B model in fp8 that runs out of 80 GB
// with 58.8 GB given out (NVIDIA-NeMo/Megatron-Bridge issue 3107), and experts in fp8 with 61 of
// 269 GB idle (issue 4587). So interleaving, fp8 and experts, which make arrays of many sizes, add
// a tenth each. This is a guess.
constexpr double kFragmentation = 0.09, kFragmentationMore = 0.10;
// With PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
constexpr double kFragmentationExpandable = 0.01;

// By Verdict.
constexpr std::array<std::string_view, 3> kVerdicts = {"yes", "if unfragmented", "no"};

double nccl_bytes(const Model& model, const OrderedPlan& plan) {
  double connections = plan.pp > 1 ? kTransferConnections : 0;
  const auto add = [&](bool has) { connections += has ? kCollectiveConnections : 0; };
  add(plan.tp > 1);
  add(plan.cp > 1);
  add(plan.dp * plan.cp > 1);
  add(plan.hsdp_shard > 0 && plan.hsdp_shard < plan.data_ranks());
  add(plan.ep > 1);
  add(plan.ep > 1 && plan.expert_data_ranks() > 1);
  add(plan.pp > 1 && model.tied_embeddings);
  return connections * kChannels * kConnectionBytes;
}

double fragmentation(const Model& model, const Plan& plan) {
  if (plan.expandable_segments) return kFragmentationExpandable;
  const int kinds =
      (plan.vpp > 1 ? 1 : 0) + (model.is_moe() ? 1 : 0) + (is_quantized(plan.precision) ? 1 : 0);
  return kFragmentation + kinds * kFragmentationMore;
}

}  // namespace

MemoryReserve memory_reserve(const DeviceSpec& device, const Model& model,
                             const OrderedPlan& plan) {
  if (device.own_memory_reserve_bytes) return {*device.own_memory_reserve_bytes, 0};
  return {kContextBytes + nccl_bytes(model, plan), fragmentation(model, plan)};
}

std::string_view verdict_text(Verdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}

std::optional<Verdict> verdict_named(std::string_view text) {
  const auto* const found = std::ranges::find(kVerdicts, text);
  if (found == kVerdicts.end()) return std::nullopt;
  return static_cast<Verdict>(found - kVerdicts.begin());
}

double spare_bytes(const DeviceSpec& device, const MemoryReserve& reserve, double tensors) {
  return device.memory_bytes - reserve.outside - tensors;
}

Verdict verdict_of(const DeviceSpec& device, const MemoryReserve& reserve, double tensors) {
  const double spare = spare_bytes(device, reserve, tensors);
  if (spare < 0) return Verdict::No;
  return spare < reserve.fragmentation * tensors ? Verdict::IfUnfragmented : Verdict::Yes;
}

double usable_bytes(const DeviceSpec& device, const Model& model, const OrderedPlan& plan) {
  return device.memory_bytes - memory_reserve(device, model, plan).outside;
}

bool fits_memory(const DeviceSpec& device, const Model& model, const OrderedPlan& plan,
                 double tensors) {
  return tensors <= usable_bytes(device, model, plan);
}

}  // namespace tandem
