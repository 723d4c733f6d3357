// Backend: the description of an executor, and the functions that call it. exec/backends/ has the
// table of all backends.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// Software that a backend needs, for which tandem doctor looks: a program in PATH or a shared
// library.
struct BackendNeed {
  std::string_view thing;  // "NVIDIA driver"
  std::string_view file;   // "libcuda.so.1"
  bool is_program = false;
  std::string_view used_by;  // "backend cuda"
};

// A line that tandem doctor prints about a part of a backend.
struct BackendPart {
  std::string thing;  // "NCCL"
  std::string state;  // "built with 2.28.9, found 2.27.3"
};

// A way to play a Program in real time, on this machine or others.
struct Backend {
  std::string_view name;
  std::string_view ranks_are;  // as help texts say it: "a process a rank"
  // True: each rank is a process of its own, which a launcher such as mpirun starts, and only rank
  // 0 returns results.
  bool own_processes = false;
  // True: kernels run on GPUs. The backend takes GPU options, such as precision = fp8.
  bool on_gpus = false;
  std::span<const BackendNeed> needs = {};
  // Returns "ready", with details such as the number of GPUs, or why the backend is unavailable.
  std::string (*state)() = nullptr;
  // Returns lines about the libraries and GPUs that it uses. Null: there are none.
  std::vector<BackendPart> (*parts)() = nullptr;
  // Plays the Program. Returns nullopt on ranks other than 0 that are processes of their own.
  Result<std::optional<Execution>> (*execute)(const Program&, const ExecOptions&) = nullptr;
  // Starts one process a rank; start_ranks() calls it if no launcher has done so. May replace this
  // process by a launcher (exec) and not return. Returns true when the ranks have played, false if
  // this process is to play. Null: the backend starts no processes.
  Result<bool> (*start)(int ranks, const ExecOptions&) = nullptr;
};

// Plays the Program by the backend. With mpi and cuda returns nullopt on ranks other than 0.
Result<std::optional<Execution>> execute(const Program& program, const Backend& backend,
                                         const ExecOptions& options);

// Starts one process a rank if the backend needs that and no launcher has done so. mpi replaces
// this process by an mpirun that starts the same command. cuda starts the ranks on this machine's
// GPUs, and returns true when they have played: the caller has nothing left to do. Returns false if
// this process is to play. Returns Error::Missing if the backend is unavailable, and an Error
// without a message if the ranks have printed the reason.
Result<bool> start_ranks(const Backend& backend, int ranks, const ExecOptions& options);

}  // namespace tandem
