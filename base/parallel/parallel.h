// Runs independent jobs side by side, in forked child processes or on threads. In processes a crash
// costs only its own result, and a library that works once a process (SimGrid) can be used many
// times.
//
// In builds without processes and threads (CMake's TANDEM_IN_PLACE), in_place.cpp runs the same
// jobs one after another in this process. So a job must not change shared state: changes in a child
// process are forgotten, changes in place are not.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// Runs job(i) for each i that `next` returns, until it returns nothing, at most `jobs` at once,
// each in a forked child. As soon as a job ends, on_done(i, result) is called in the parent. The
// result of a child that dies is an Error that says how. on_wait is called after each half second
// without output of any child. The first Error of `next` or on_done stops all jobs and is returned.
// Children die with this process, however it ends. REQUIRES: jobs >= 1.
using NextJob = std::function<Result<std::optional<int>>()>;
using OnJobDone = std::function<Status(int, const Result<std::string>&)>;
Status fork_each(int jobs, const NextJob& next, const std::function<Result<std::string>(int)>& job,
                 const OnJobDone& on_done, const std::function<void()>& on_wait = {});

// Runs job(i) for i in [0, count), at most `jobs` at once, each in a forked child. Returns the
// results in order of i. Calls on_done(i) in the parent as each one ends. A child that dies gives
// an Error that says how. REQUIRES: jobs >= 1.
std::vector<Result<std::string>> fork_map(
    int count, int jobs, const std::function<Result<std::string>(int)>& job,
    const std::function<void(int)>& on_done = [](int) {},
    const std::function<void()>& on_wait = {});

// Runs job(thread, i) for each i in [0, count) on up to `threads` threads. The calling thread is
// number 0. Each thread takes the next i when it has ended one. Returns when all have ended, and
// rethrows what the first to fail threw (std::bad_alloc, say). REQUIRES: threads >= 1.
void share_among_threads(int threads, std::size_t count,
                         const std::function<void(int, std::size_t)>& job);

// Calls tick() once a second on a thread of its own, until the Ticker is destroyed. With
// TANDEM_IN_PLACE it never does. REQUIRES: the process does not fork meanwhile.
class Ticker {
 public:
  explicit Ticker(std::function<void()> tick);
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker();

 private:
  struct Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace tandem
