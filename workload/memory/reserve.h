// MemoryReserve: what a GPU's memory holds beside tensors; and the verdict on a plan.
#pragma once

#include <optional>
#include <string_view>

#include "topology/cluster.h"
#include "workload/model/model.h"

namespace tandem {

struct MemoryReserve {
  // Bytes outside the tensors' allocator: CUDA's context, libraries, NCCL's buffers.
  double outside = 0;
  // The most that the allocator may hold without giving it out, as a share of the tensors' bytes.
  double fragmentation = 0;
};

// Returns the reserve of a plan on the GPU. If cluster.memory_reserve_GiB is set it is `outside`,
// and there is no fragmentation. Otherwise docs/memory.md has the numbers and their sources.
MemoryReserve memory_reserve(const DeviceSpec& device, const Model& model, const OrderedPlan& plan);

// Whether a plan fits. IfUnfragmented: only if the allocator wastes less than it may.
enum class Verdict { Yes, IfUnfragmented, No };
std::string_view verdict_text(Verdict verdict);  // yes, if unfragmented, no
// Returns the verdict with this text, or nullopt.
std::optional<Verdict> verdict_named(std::string_view text);

// Returns the bytes that neither tensors nor `outside` take. Below 0: so many are missing.
double spare_bytes(const DeviceSpec& device, const MemoryReserve& reserve, double tensors);

Verdict verdict_of(const DeviceSpec& device, const MemoryReserve& reserve, double tensors);

// Returns the most bytes of tensors that fit, if none are wasted.
double usable_bytes(const DeviceSpec& device, const Model& model, const OrderedPlan& plan);

// Says whether so many bytes of tensors fit, if none are wasted.
bool fits_memory(const DeviceSpec& device, const Model& model, const OrderedPlan& plan,
                 double tensors);

}  // namespace tandem
