#include "launch/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace tandem {
namespace {

// The stream that keeps the former standard output, or null. The process has one, as it has one
// file descriptor 1.
std::FILE*& kept() {
  static std::FILE* file = nullptr;
  return file;
}

}  // namespace

std::FILE* standard_output() { return kept() != nullptr ? kept() : stdout; }

void fill_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number, which is this one.
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
}

bool standard_output_is_closed() {
  const int flags = fcntl(STDOUT_FILENO, F_GETFL);
  return flags < 0 || (flags & O_ACCMODE) == O_RDONLY;
}

void keep_standard_output() {
  if (kept() != nullptr) return;
  std::fflush(stdout);
  constexpr int kAboveStandardError = 3;
  const int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, kAboveStandardError);
  if (own < 0) return;
  std::FILE* file = fdopen(own, "w");
  if (file == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    file != nullptr ? std::fclose(file) : close(own);
    return;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);  // a rank's process may end without flushing
  kept() = file;
}

void give_back_standard_output() {
  if (kept() == nullptr) return;
  std::fflush(kept());
  std::fflush(stdout);
  dup2(fileno(kept()), STDOUT_FILENO);
}

}  // namespace tandem
