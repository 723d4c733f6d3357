// Shares work among threads by one counter, from which each takes the next number. Declared in
// base/parallel/parallel.h.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/parallel/parallel.h"

namespace tandem {

void share_among_threads(int threads, std::size_t count,
                         const std::function<void(int, std::size_t)>& job) {
  std::atomic<std::size_t> next = 0;
  std::mutex failure_mutex;
  std::exception_ptr failure;
  const auto work = [&](int thread) {
    try {
      for (std::size_t i = next++; i < count; i = next++) job(thread, i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(failure_mutex);
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

struct Ticker::Thread {
  explicit Thread(std::function<void()> call) : tick(std::move(call)) {
    thread = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(mutex);
      while (!stopped.wait_for(lock, stop, std::chrono::seconds(1),
                               [&] { return stop.stop_requested(); }))
        tick();
    });
  }

  std::function<void()> tick;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::jthread thread;  // the last member, so that it ends before the others are destroyed
};

Ticker::Ticker(std::function<void()> tick) : thread_(std::make_unique<Thread>(std::move(tick))) {}

Ticker::~Ticker() = default;

}  // namespace tandem
