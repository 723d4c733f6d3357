#include "base/memory.h"

#include <fmt/format.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tandem {
namespace {

// The most that this process had at once, as address space; 0: not known. Needs no memory itself.
std::int64_t most_taken_bytes() {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return 0;
  char line[256];
  std::int64_t kilobytes = 0;
  while (std::fgets(line, sizeof line, status) != nullptr &&
         std::sscanf(line, "VmPeak: %" SCNd64, &kilobytes) != 1) {
  }
  std::fclose(status);
  return kilobytes * 1024;
}

}  // namespace

Error out_of_memory() {
  return Error{fmt::format("found no memory left beside {:.2f} GB, expected more than that: a "
                           "smaller run or a larger machine",
                           1e-9 * static_cast<double>(most_taken_bytes())),
               Error::Failed};
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace tandem
