// Runs jobs one after another in this process and on this thread, where there are no others: in a
// browser. It takes the place of processes.cpp and threads.cpp (TANDEM_IN_PLACE). Declared in
// base/parallel/parallel.h.
#include <new>

#include "base/check.h"
#include "base/memory.h"
#include "base/parallel/parallel.h"

namespace tandem {

Status fork_each(int jobs, const NextJob& next, const std::function<Result<std::string>(int)>& job,
                 const OnJobDone& on_done, const std::function<void()>& /*on_wait*/) {
  CHECK(jobs >= 1);
  const auto run = [&](int number) -> Result<std::string> {
    try {
      return job(number);
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  };
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<int> number, next());
    if (!number) return Done{};
    RETURN_IF_ERROR(on_done(*number, run(*number)));
  }
}

void share_among_threads(int /*threads*/, std::size_t count,
                         const std::function<void(int, std::size_t)>& job) {
  for (std::size_t i = 0; i < count; ++i) job(0, i);
}

struct Ticker::Thread {};
Ticker::Ticker(std::function<void()> /*tick*/) {}
Ticker::~Ticker() = default;

}  // namespace tandem
