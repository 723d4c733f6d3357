// Jobs in child processes and on threads: their results, and what becomes of those that fail.
#include "base/parallel/parallel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <set>

#include "tests/folder.h"

using namespace tandem;

TEST_CASE("fork_map gives every job's result in the jobs' order, whichever ends first") {
  // Job 0 ends last: it waits for the file that the last job leaves.
  const Folder folder;
  const std::string last = folder / "last";
  std::vector<int> done;
  const auto results = fork_map(
      5, 5,
      [&](int i) -> Result<std::string> {
        if (i == 4) std::ofstream(last) << "x";
        while (i == 0 && !std::filesystem::exists(last)) ::usleep(1000);
        return fmt::format("{} squared is {}", i, i * i);
      },
      [&](int i) { done.push_back(i); });
  REQUIRE(results.size() == 5);
  for (int i = 0; i < 5; ++i)
    CHECK(results[i].value() == fmt::format("{} squared is {}", i, i * i));
  std::sort(done.begin(), done.end());
  CHECK(done == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("fork_map's jobs run in processes of their own, with more slots than work or fewer") {
  for (const int slots : {1, 3, 100}) {
    int here = 0;
    const auto results = fork_map(7, slots, [&](int) -> Result<std::string> {
      ++here;  // in the child only
      return fmt::format("{} {}", ::getpid(), here);
    });
    std::set<std::string> processes;
    for (const auto& result : results) {
      REQUIRE(result.ok());
      CHECK(result->ends_with(" 1"));
      processes.insert(*result);
    }
    CHECK(processes.size() == 7);
    CHECK(processes.count(fmt::format("{} 1", ::getpid())) == 0);
    CHECK(here == 0);
  }
  CHECK(fork_map(0, 2, [](int) -> Result<std::string> { return std::string(); }).empty());
}

TEST_CASE("fork_map carries results of any bytes and of any size") {
  const auto results = fork_map(2, 2, [](int i) -> Result<std::string> {
    return i == 0 ? std::string() : std::string(3'000'000, '\0') + "end";  // beyond a pipe's buffer
  });
  CHECK(results[0].value().empty());
  CHECK(results[1].value() == std::string(3'000'000, '\0') + "end");
}

TEST_CASE("a job that dies costs its own result only, and the Error says how it died") {
  const auto results = fork_map(5, 2, [](int i) -> Result<std::string> {
    if (i == 1) {
      std::signal(SIGABRT, SIG_DFL);  // Catch2 catches it
      std::abort();
    }
    if (i == 2) _exit(3);
    if (i == 3) {
      std::signal(SIGABRT, SIG_DFL);
      std::set_terminate(std::abort);  // not the message on stderr
      throw 1;
    }
    return fmt::format("{}", i);
  });
  CHECK(results[0].value() == "0");
  CHECK(results[4].value() == "4");
  for (const int i : {1, 3}) {
    REQUIRE(!results[i].ok());
    CHECK(results[i].error().kind == Error::Failed);
    CHECK(results[i].error().text() == "the run's process was ended by signal 6 (Aborted)");
  }
  REQUIRE(!results[2].ok());
  CHECK(results[2].error().kind == Error::Failed);
  CHECK(results[2].error().text() == "the run's process ended with status 3 and no result");
}

TEST_CASE("an Error keeps its kind, place, keys and message on the way out of a child") {
  constexpr Error::Kind kKinds[] = {Error::Failed, Error::BadInput, Error::Missing};
  const auto results = fork_map(3, 2, [&](int i) -> Result<std::string> {
    return Error{fmt::format("why {}", i), kKinds[i], {.keys = {"a.b", "c"}, .source = "file:7"}};
  });
  for (int i = 0; i < 3; ++i) {
    REQUIRE(!results[i].ok());
    CHECK(results[i].error().kind == kKinds[i]);
    CHECK(results[i].error().place.source == "file:7");
    CHECK(results[i].error().place.keys == std::vector<std::string>{"a.b", "c"});
    CHECK(results[i].error().text() == fmt::format("file:7: why {}", i));
  }
}

TEST_CASE("threads share all jobs, each of which is done once") {
  for (const int threads : {1, 2, 5}) {
    std::vector<int> done(100);
    share_among_threads(threads, done.size(), [&](int thread, std::size_t i) {
      done[i] += thread >= 0 && thread < threads ? 1 : 2;
    });
    CHECK(done == std::vector<int>(100, 1));
  }
}

TEST_CASE(
    "what a thread's job throws comes out where the threads were started, and ends the rest") {
  for (const int threads : {1, 3}) {
    std::atomic<int> begun = 0;
    const auto share = [&] {
      share_among_threads(threads, 1'000'000, [&](int, std::size_t i) {
        ++begun;
        if (i == 7) throw std::bad_alloc();
      });
    };
    CHECK_THROWS_AS(share(), std::bad_alloc);
    CHECK(begun < 1'000'000);
  }
}
