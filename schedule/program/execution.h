// Execution: how a Program is played for real, as far as a scenario says it and an executor reads
// it. It knows no executor.
#pragma once

#include <array>
#include <string_view>

namespace tandem {

// The backends that a Program can be played by, as exec's table of backends has them. The first
// needs nothing.
inline constexpr std::array<std::string_view, 3> kBackendNames = {"host", "mpi", "cuda"};

// Timed: a compute op takes the time that it is priced at. Gemm: it multiplies matrices.
enum class Compute { Timed, Gemm };

// How a transfer is carried out when both of its ends share a GPU. Nccl: by NCCL's send and receive
// to oneself. Copy: by the copy engine. Priced: not at all, it only takes its priced time.
enum class GpuTransfers { Nccl, Copy, Priced };
constexpr std::array<const char*, 3> kGpuTransferNames = {"nccl", "copy", "priced"};

}  // namespace tandem
