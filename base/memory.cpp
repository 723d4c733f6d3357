#include "base/memory.h"

#include <fmt/format.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace tandem {
namespace {

// Returns the most address space that this process had at once, or 0 if it is not known. Allocates
// next to nothing itself.
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
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc's largest
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

void use_large_pages() {
#ifdef __GLIBC__
  // Grows the heap once by kHeap: with M_TOP_PAD, malloc() takes so much more from the system than
  // it needs. Then asks for large pages there, except in the first kSmall bytes.
  constexpr std::uintptr_t kPage = 2 << 20, kSmall = 8 << 20;
  constexpr int kHeap = 64 << 20, kGrowth = 1 << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(sbrk(0));
  mallopt(M_TOP_PAD, kHeap);
  void* volatile block = std::malloc(kPage);
  std::free(block);
  mallopt(M_TOP_PAD, kGrowth);
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0));
  const std::uintptr_t from = (begin + kSmall) / kPage * kPage;
  if (from < end) madvise(reinterpret_cast<void*>(from), end - from, MADV_HUGEPAGE);
#endif
}

}  // namespace tandem
