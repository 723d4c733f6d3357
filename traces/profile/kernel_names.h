// Kernel names: what the name of a GPU's kernel tells of it, and a process group's of its ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/comm_kind.h"
#include "traces/profile/profile.h"
#include "workload/model/pass.h"

namespace tandem {

// NCCL and RCCL, DeepEP, NVSHMEM, userbuffers and PyTorch's symmetric memory communicate.
Activity activity_of(std::string_view kernel);

// As Holistic Trace Analysis tells them apart: by ^nccl, ^hip, ^hccl or ncclKernel; Memcpy, Memset
// or ^dma; and the rest, without those that have "Sync" or "dma" in the name. Nothing: none of
// them.
std::optional<Activity> hta_activity_of(std::string_view kernel);

// What a kernel computes, as far as names tell: "GEMM", "attention", "norm", "elementwise", ...
std::string_view category_of(std::string_view kernel);

// Without a function's types and arguments: "void f<int>(int)" is "f".
std::string short_name(std::string_view kernel);

// What a collective does, by torch's word or NCCL's kernel name: "all-reduce", "send/recv",
// "all-to-all", "broadcast". A SendRecv kernel by itself may be either: "send/recv or all-to-all".
std::string collective_of(std::string_view torch_name, std::string_view kernel);
// Of those that Tandem has.
std::optional<CommKind> comm_kind_of(std::string_view collective);

// What a process group is for, by its description (Megatron-LM's, DeviceMesh's), else by a kernel
// that only one kind of parallelism uses, else by a send, which is a pipeline's. Nothing: unknown.
std::optional<GroupKind> group_kind_of(std::string_view description, std::string_view collective,
                                       std::string_view kernel);
// The description that Megatron-LM gives a group of that kind.
std::string_view description_of(GroupKind kind);

// Bytes of an element by torch's word ("BFloat16"); 0: unknown.
int element_bytes(std::string_view dtype);

// What an annotation says of the kernels in it: "PP:1F3" (PyTorch's pipelining), "Forward 3",
// "forward_step", "mlp(B)", "Optimizer.step#AdamW.step". Nothing: nothing of this kind.
std::optional<ProfileAction> action_of(std::string_view annotation);

}  // namespace tandem
