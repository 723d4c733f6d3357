#include "exec/backends/backends.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/cuda/cuda.h"
#include "exec/host/host.h"
#include "exec/mpi/mpi.h"

namespace tandem {

std::span<const Backend> backends() {
  static const Backend kBackends[] = {host_backend(), mpi_backend(), cuda_backend()};
  return kBackends;
}

const Backend* backend_named(std::string_view name) {
  const auto found = std::ranges::find(backends(), name, &Backend::name);
  return found == backends().end() ? nullptr : &*found;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend& backend : backends()) names.emplace_back(backend.name);
  return names;
}

std::string backends_with_own_processes() {
  std::string text;
  for (const Backend& backend : backends()) {
    if (!backend.own_processes) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", backend.name, backend.ranks_are);
  }
  return text;
}

}  // namespace tandem
