// A module for LD_PRELOAD: counts a program's allocations, its children's too, in the file of eight
// bytes that TANDEM_ALLOCATIONS names. For glibc, whose own functions it calls.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
}

namespace {

std::atomic<std::uint64_t>* counter = nullptr;

// Shared by all processes, as they are forked.
__attribute__((constructor)) void open_counter() {
  const char* const path = std::getenv("TANDEM_ALLOCATIONS");
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const at = mmap(nullptr, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at != MAP_FAILED) counter = static_cast<std::atomic<std::uint64_t>*>(at);
}

void count() {
  if (counter != nullptr) counter->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" void* malloc(std::size_t size) {
  count();
  return __libc_malloc(size);
}

extern "C" void* calloc(std::size_t items, std::size_t size) {
  count();
  return __libc_calloc(items, size);
}

extern "C" void* realloc(void* memory, std::size_t size) {
  count();
  return __libc_realloc(memory, size);
}
