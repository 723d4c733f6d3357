// Runs independent jobs side by side, in forked child processes or on threads. In processes a crash
// costs only its own result, and a library that works once a process (SimGrid) can be used many
// times.
//
// Where there are neither processes nor threads, in_place.cpp runs the same jobs one after another
// (CMake's TANDEM_IN_PLACE). So a job must leave shared state as it found it: what it changes in a
// child process is forgotten, what it changes in place is not.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// Runs job(i) for each i that `next` gives, until it gives nothing, at most `jobs` at once, each in
// a forked child. As soon as a job ends, on_done gets its result in the parent. A child that dies
// gives an Error that says how. on_wait is called each half second in which no child has anything
// to read. The first Error of `next` or on_done ends everything. Children end with this process,
// however it ends. REQUIRES: jobs >= 1.
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

// Calls tick() once a second on a thread of its own, from the first second on until it is
// destroyed. In place, it never does. REQUIRES: nobody forks during its life.
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
