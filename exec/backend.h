// Backends: the one table of executors. A new one is one more row in backend.cpp.
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

// What a backend needs beside itself, as tandem doctor looks for it: a program in PATH, or a shared
// library.
struct BackendNeed {
  std::string_view thing;  // "NVIDIA driver"
  std::string_view file;   // "libcuda.so.1"
  bool is_program = false;
  std::string_view used_by;
};

// What tandem doctor says of a part of a backend.
struct BackendPart {
  std::string thing;  // "NCCL"
  std::string state;  // "built with 2.28.9, found 2.27.3"
};

// A way to play a Program for real.
struct Backend {
  std::string_view name;
  std::string_view ranks_are;  // as help texts say it: "a process a rank"
  // Ranks are processes of their own: somebody starts them, and rank 0 alone has results.
  bool own_processes = false;
  // Kernels run on GPUs: it takes the options of GPUs, and multiplies in their precisions.
  bool on_gpus = false;
  std::span<const BackendNeed> needs = {};
  // "ready", with what it has found; or why it cannot be had.
  std::string (*state)() = nullptr;
  // What it is made of; null: nothing that is worth a line.
  std::vector<BackendPart> (*parts)() = nullptr;
  // Nothing on ranks that have no results to tell.
  Result<std::optional<Execution>> (*execute)(const Program&, const ExecOptions&) = nullptr;
  // Starts one process a rank where nobody has: this process's place is taken, or true when they
  // have played. Null: it needs none.
  Result<bool> (*start)(int ranks, const ExecOptions&) = nullptr;
};

// The first is the one that needs nothing.
std::span<const Backend> backends();
// Null: none has that name.
const Backend* backend_named(std::string_view name);
std::vector<std::string> backend_names();
// "mpi: a process a rank; cuda: ...": those with processes of their own, as help texts have them.
std::string backends_with_own_processes();

// Plays the Program for real. Nothing on ranks that have no results to tell (mpi, cuda).
Result<std::optional<Execution>> execute(const Program& program, const Backend& backend,
                                         const ExecOptions& options);

// Where the backend wants a process a rank and nobody has started them: mpi starts this process
// again under mpirun, which takes its place; cuda starts them on this machine's GPUs, and gives
// true when they have played: nothing is left to do then. Error::Missing where the backend cannot
// be had; an Error without words where the ranks have said them.
Result<bool> start_ranks(const Backend& backend, int ranks, const ExecOptions& options);

}  // namespace tandem
