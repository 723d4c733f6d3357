// The table of backends. To add a backend, add a row in backends.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/backend.h"

namespace tandem {

// Returns all backends. The first needs no other software.
std::span<const Backend> backends();
// Returns null if no backend has that name.
const Backend* backend_named(std::string_view name);
std::vector<std::string> backend_names();
// Lists the backends with processes of their own for help texts: "mpi: a process a rank; cuda:
// ...".
std::string backends_with_own_processes();

}  // namespace tandem
