// Independent jobs beside one another: in child processes, where one that crashes costs its own
// result only, and a library that allows one use a process (SimGrid) can be used many times; or on
// threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace tandem {

// job(i) for each i that `next` gives, at most `jobs` at once, each in a forked child, until `next`
// gives nothing; on_done has a job's result in the parent as soon as it ends. A child that dies
// gives an Error that says how. on_wait is called twice a second meanwhile. The first Error of
// `next` or on_done ends all. Children end with this process, however it ends. REQUIRES: jobs >= 1.
using NextJob = std::function<Result<std::optional<int>>()>;
using OnJobDone = std::function<Status(int, const Result<std::string>&)>;
Status fork_each(int jobs, const NextJob& next, const std::function<Result<std::string>(int)>& job,
                 const OnJobDone& on_done, const std::function<void()>& on_wait = {});

// job(i) for i in [0, count), at most `jobs` at once, each in a forked child; results in order of
// i. on_done(i) is called in the parent as each one ends. A child that dies gives an Error that
// says how. REQUIRES: jobs >= 1.
std::vector<Result<std::string>> fork_map(
    int count, int jobs, const std::function<Result<std::string>(int)>& job,
    const std::function<void(int)>& on_done = [](int) {},
    const std::function<void()>& on_wait = {});

// job(thread, i) for each i in [0, count): each of so many threads, of which this is number 0,
// takes the next i as it ends one. Returns when all have ended; what the first to fail threw (no
// memory, say) is thrown then. REQUIRES: threads >= 1.
template <class Job>
void share_among_threads(int threads, std::size_t count, const Job& job) {
  std::atomic<std::size_t> next = 0;
  std::mutex one_at_a_time;
  std::exception_ptr failure;
  const auto work = [&](int thread) {
    try {
      for (std::size_t i = next++; i < count; i = next++) job(thread, i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(one_at_a_time);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const int used = static_cast<int>(std::min<std::size_t>(threads, count));
    for (int thread = 1; thread < used; ++thread) others.emplace_back(work, thread);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tandem
