// Kernel names: what the name of a GPU's kernel, or of a process group, says about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/comm_kind.h"
#include "traces/profile/profile.h"
#include "workload/model/pass.h"

namespace tandem {

// Returns Communication for kernels of NCCL and RCCL, DeepEP, NVSHMEM, userbuffers and PyTorch's
// symmetric memory.
Activity activity_of(std::string_view kernel);

// Returns the activity as Holistic Trace Analysis tells it: communication by ^nccl, ^hip, ^hccl or
// ncclKernel; memory by Memcpy, Memset or ^dma; compute for other names, but nothing for those with
// "Sync" or "dma" in them.
std::optional<Activity> hta_activity_of(std::string_view kernel);

// The name of a launch of a whole CUDA graph whose kernels were not recorded.
inline constexpr std::string_view kGraphName = "CUDA graph";

// Returns what a kernel computes, as far as names say: "GEMM", "attention", "norm", "elementwise",
// ...
std::string_view category_of(std::string_view kernel);

// Returns the name without types and arguments: "f" for "void f<int>(int)".
std::string short_name(std::string_view kernel);

// Returns what a collective does, by torch's word or NCCL's kernel name: "all-reduce", "send/recv",
// "all-to-all", "broadcast". A SendRecv kernel by itself may be either of two: "send/recv or
// all-to-all".
std::string collective_of(std::string_view torch_name, std::string_view kernel);
// Returns Tandem's kind of such a collective; nothing where it has none.
std::optional<CommKind> comm_kind_of(std::string_view collective);

// Returns what a process group is for: by its description (Megatron-LM's, DeviceMesh's), else by a
// kernel that only one kind of parallelism uses, else by a send, which is a pipeline's. Nothing:
// unknown.
std::optional<GroupKind> group_kind_of(std::string_view description, std::string_view collective,
                                       std::string_view kernel);
// Returns the description that Megatron-LM gives a group of that kind.
std::string_view description_of(GroupKind kind);

// Returns the bytes of an element by torch's word ("BFloat16"); 0: unknown.
int element_bytes(std::string_view dtype);

// Returns what an annotation says of the kernels in it: "PP:1F3" (PyTorch's pipelining), "Forward
// 3", "forward_step", "mlp(B)", "Optimizer.step#AdamW.step". Nothing: it names no pass, or is
// around both directions ("forward-backward").
std::optional<ProfileAction> action_of(std::string_view annotation);

}  // namespace tandem
