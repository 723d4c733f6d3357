// Backend: what an executor says of itself, and how it is called. exec/backends/ has the table.
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

// Something that a backend needs beside itself, as tandem doctor looks for it: a program in PATH,
// or a shared library.
struct BackendNeed {
  std::string_view thing;  // "NVIDIA driver"
  std::string_view file;   // "libcuda.so.1"
  bool is_program = false;
  std::string_view used_by;
};

// A line that tandem doctor prints about a part of a backend.
struct BackendPart {
  std::string thing;  // "NCCL"
  std::string state;  // "built with 2.28.9, found 2.27.3"
};

// A way to play a Program for real.
struct Backend {
  std::string_view name;
  std::string_view ranks_are;  // as help texts say it: "a process a rank"
  // True: each rank is a process of its own, which somebody starts, and only rank 0 has results.
  bool own_processes = false;
  // True: kernels run on GPUs. The backend takes the options of GPUs and multiplies in their
  // precisions.
  bool on_gpus = false;
  std::span<const BackendNeed> needs = {};
  // Returns "ready" with what it has found, or why the backend cannot be had.
  std::string (*state)() = nullptr;
  // Returns the parts that it is made of; null: it has none worth a line.
  std::vector<BackendPart> (*parts)() = nullptr;
  // Plays the Program. Returns nothing on ranks that have no results to tell.
  Result<std::optional<Execution>> (*execute)(const Program&, const ExecOptions&) = nullptr;
  // Starts one process a rank where nobody has. Never returns where another program takes this
  // process's place. Returns true once the ranks have played, false if this process is to play
  // itself. Null: the backend starts nothing.
  Result<bool> (*start)(int ranks, const ExecOptions&) = nullptr;
};

// Plays the Program for real. Returns nothing on ranks that have no results to tell (mpi, cuda).
Result<std::optional<Execution>> execute(const Program& program, const Backend& backend,
                                         const ExecOptions& options);

// Starts one process a rank if the backend needs that and nobody has done it. mpi starts this
// process again under mpirun, which takes its place. cuda starts the ranks on this machine's GPUs
// and returns true when they have played: nothing is left to do then. Returns false if this process
// is to play. Error::Missing if the backend cannot be had; an Error without words if the ranks have
// printed the reason.
Result<bool> start_ranks(const Backend& backend, int ranks, const ExecOptions& options);

}  // namespace tandem
