// Control over TCP, among processes of this machine.
#include "launch/tcp_control.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <new>
#include <optional>

#include "exec/supervise/watchdog.h"
#include "launch/connection.h"
#include "tests/exec/free_port.h"
#include "tests/exec/mpi_run.h"
#include "tests/text.h"
#include "tests/waiting.h"

using namespace tandem;

namespace {

constexpr Nanoseconds kSecond_ns = 1'000'000'000;

Rendezvous here(int port) {
  return {"localhost", port, "a run", Secret("what only this job knows"), {}};
}
LaunchedRank rank_of(int rank, int ranks) { return {rank, ranks, rank, "by hand"}; }

// What a rank does with its Control; its exit status, 0 where all is as it should be.
using Part = std::function<int(Control*)>;

bool ends(ChildProcess* process) {
  return comes_true([&] {
    process->update();
    return process->is_gone();
  });
}

// Ranks from 1 on, each a process that joins and does its part.
class Others {
 public:
  Others(const Rendezvous& rendezvous, int ranks, const Part& part, int come = 1 << 30) {
    for (int rank = 1; rank < std::min(ranks, come); ++rank) {
      processes_.emplace_back([=] {
        const auto control = join_tcp(rank_of(rank, ranks), rendezvous, 10 * kSecond_ns);
        return control.ok() ? part(control->get()) : 99;
      });
    }
  }
  // The greatest of their exit statuses.
  int wait() {
    int worst = 0;
    for (ChildProcess& process : processes_) {
      worst = std::max(worst, ends(&process) ? process.exit_status() : 98);
    }
    return worst;
  }

 private:
  std::list<ChildProcess> processes_;
};

// One number that forked processes share.
class Shared {
 public:
  Shared()
      : number_(new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0)) {}
  std::atomic<int>& operator*() const { return *number_; }

 private:
  std::atomic<int>* number_;
};

// Three ranks join, and all do their part as they should.
void check_three(const Part& part) {
  const Rendezvous rendezvous = here(free_port());
  Others others(rendezvous, 3, part);
  const auto control = join_tcp(rank_of(0, 3), rendezvous, 10 * kSecond_ns);
  REQUIRE(control.ok());
  CHECK((*control)->ranks() == 3);
  CHECK(part(control->get()) == 0);
  CHECK(others.wait() == 0);
}

// How many have connected to a port of this host, as /proc/net/tcp has it.
int connections_to(int port) {
  int found = 0;
  for (const std::string& line : lines_of(text_of("/proc/net/tcp") + text_of("/proc/net/tcp6"))) {
    std::istringstream words(line);
    std::string number, own, other, state;
    words >> number >> own >> other >> state;
    found += state == "01" && own.ends_with(fmt::format(":{:04X}", port)) ? 1 : 0;
  }
  return found;
}

std::string why_rank_fails(int rank, int ranks, const Rendezvous& rendezvous,
                           Nanoseconds timeout_ns) {
  const auto begin = std::chrono::steady_clock::now();
  const auto control = join_tcp(rank_of(rank, ranks), rendezvous, timeout_ns);
  Status status = control.ok() ? (*control)->barrier() : control.error();
  const auto time = std::chrono::steady_clock::now() - begin;
  CHECK(time < std::chrono::nanoseconds(timeout_ns) + std::chrono::seconds(4));
  return status.ok() ? "" : status.error().text();
}

}  // namespace

TEST_CASE("what rank 0 broadcasts all have, the late ones too") {
  const Shared has_it;  // rank 1: rank 2 asks for it later
  const auto part = [&](Control* control) {
    if (control->rank() == 2 && !comes_true([&] { return *has_it == 1; })) return 4;
    long long value = control->rank() == 0 ? 4711 : 0;
    char none = 0;
    if (!control->broadcast(std::as_writable_bytes(std::span(&value, 1))).ok()) return 1;
    if (control->rank() == 1) *has_it = 1;
    if (!control->broadcast(std::as_writable_bytes(std::span(&none, 0))).ok()) return 2;
    return value == 4711 ? 0 : 3;
  };
  check_three(part);
}

TEST_CASE("nobody leaves a barrier before all have come to it") {
  const Shared came;
  const auto part = [&](Control* control) {
    for (int i = 1; i <= 3; ++i) {
      usleep(20'000 * control->rank());
      ++*came;
      if (!control->barrier().ok()) return 1;
      if (*came < 3 * i) return 2;
    }
    return 0;
  };
  check_three(part);
}

TEST_CASE("what is so on one rank all know") {
  const auto part = [](Control* control) {
    for (int which = -1; which < 3; ++which) {
      const auto any = control->any(control->rank() == which);
      if (!any.ok() || *any != (which >= 0)) return 1;
    }
    return 0;
  };
  check_three(part);
}

TEST_CASE("the clock of one machine is the same on all of its ranks") {
  const auto part = [](Control* control) {
    const auto reading = control->compare_clocks();
    if (!reading.ok()) return 1;
    if (reading->ahead_ns != 0) return 2;
    return control->rank() == 0 || reading->round_trip_ns > 0 ? 0 : 3;
  };
  check_three(part);
}

TEST_CASE("one rank meets nobody") {
  const auto control = join_tcp(rank_of(0, 1), {}, kSecond_ns);
  REQUIRE(control.ok());
  CHECK((*control)->barrier().ok());
  CHECK((*control)->compare_clocks().ok());
}

TEST_CASE("ranks that never come are named after the time-out") {
  const Rendezvous rendezvous = here(free_port());
  Others others(
      rendezvous, 4, [](Control* control) { return control->barrier().ok() ? 1 : 0; }, 2);
  CHECK(why_rank_fails(0, 4, rendezvous, kSecond_ns / 2) ==
        "found no rank 2, 3 within 0.5 s, expected all 4 to come");
  CHECK(others.wait() == 0);
}

TEST_CASE("where rank 0 never comes it is missed with its address") {
  const int port = free_port();
  const std::string begin = "localhost:" + std::to_string(port) + ": found ";
  CHECK(why_rank_fails(1, 2, here(port), kSecond_ns / 5) ==
        begin + "nobody within 0.2 s, expected rank 0 of 2 of the run 'a run'");
  const auto listener = listen_on({}, port);  // somebody, who says nothing
  REQUIRE(listener.ok());
  CHECK(why_rank_fails(1, 2, here(port), kSecond_ns / 5) ==
        begin +
            "somebody who does not answer within 0.2 s, expected rank 0 of 2 of the run 'a "
            "run'");
}

TEST_CASE("a port that another job has taken is no error: the ranks meet at one of the next") {
  const Rendezvous rendezvous = here(free_port());
  Rendezvous other = rendezvous;
  other.secret = Secret("what only another job knows");
  const auto first = join_tcp(rank_of(0, 2), other, 10 * kSecond_ns);
  REQUIRE(first.ok());
  const auto control = join_tcp(rank_of(0, 2), rendezvous, 10 * kSecond_ns);
  REQUIRE(control.ok());
  const auto part = [](Control* own) { return own->barrier().ok() ? 0 : 1; };
  ChildProcess others_rank_0([&] { return part(first->get()); });
  Others theirs(other, 2, part), ours(rendezvous, 2, part);
  CHECK(part(control->get()) == 0);
  CHECK(ours.wait() == 0);
  CHECK(theirs.wait() == 0);
}

TEST_CASE("where all ports are taken the first one is named") {
  const int port = free_port();
  std::vector<Listener> listeners;
  for (int i = 0; i < kPortsTried; ++i) {
    auto listener = listen_on({}, port + i);
    if (listener.ok()) listeners.push_back(std::move(*listener));
  }
  CHECK(why_rank_fails(0, 2, here(port), kSecond_ns) ==
        "port " + std::to_string(port) +
            " and the 7 after it: bind: Address already in use, expected a free one here: "
            "TANDEM_PORT chooses another");
}

TEST_CASE("ranks meet over IPv6") {
  Rendezvous rendezvous = here(free_port());
  rendezvous.host = "::1";
  const auto part = [](Control* own) { return own->barrier().ok() ? 0 : 1; };
  Others others(rendezvous, 2, part);
  const auto control = join_tcp(rank_of(0, 2), rendezvous, 10 * kSecond_ns);
  REQUIRE(control.ok());
  if (!connect("::1:" + std::to_string(rendezvous.port)).ok()) {
    WARN("skipped: this machine has no IPv6");
    return;
  }
  CHECK(part(control->get()) == 0);
  CHECK(others.wait() == 0);
}

TEST_CASE("who has another secret neither joins nor is joined, on either side") {
  const Rendezvous rendezvous = here(free_port());
  Rendezvous other = rendezvous;
  other.secret = Secret("what only this job knew");
  ChildProcess outsider([&] {
    return why_rank_fails(1, 2, other, kSecond_ns) ==
                   "localhost:" + std::to_string(rendezvous.port) +
                       ": found somebody with another secret within 1 s, expected rank 0 of 2 of "
                       "the run 'a run'"
               ? 0
               : 1;
  });
  CHECK(why_rank_fails(0, 2, rendezvous, 2 * kSecond_ns) ==
        "found no rank 1 within 2 s, expected all 2 to come");
  CHECK(ends(&outsider));
  CHECK(outsider.exit_status() == 0);
}

TEST_CASE("who is none of the ranks is turned away, and the ranks meet") {
  const Rendezvous rendezvous = here(free_port());
  const auto control = join_tcp(rank_of(0, 2), rendezvous, 10 * kSecond_ns);
  REQUIRE(control.ok());
  const std::string address = "127.0.0.1:" + std::to_string(rendezvous.port);
  auto mute = connect(address), strange = connect(address), browser = connect(address);
  REQUIRE((mute.ok() && strange.ok() && browser.ok()));
  const std::vector<std::byte> made_up(184);  // as long as an introduction
  strange->send(0x7a1de102, made_up);
  const std::string get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CHECK(write(browser->descriptor(), get.data(), get.size()) > 0);
  Rendezvous other = rendezvous;
  other.run = "another";
  Others astray(other, 2, [](Control*) { return 1; });
  CHECK(comes_true([&] { return connections_to(rendezvous.port) == 4; }));
  Others others(rendezvous, 2, [](Control* own) { return own->barrier().ok() ? 0 : 1; });
  CHECK((*control)->barrier().ok());
  CHECK(others.wait() == 0);
  CHECK(strange->receive().size() == 1);  // it was asked who it is
  CHECK(!strange->is_open());
}

TEST_CASE("ranks that count differently are refused on both sides") {
  const Rendezvous rendezvous = here(free_port());
  ChildProcess third([&] {
    return why_rank_fails(2, 3, rendezvous, 5 * kSecond_ns) ==
                   "localhost:" + std::to_string(rendezvous.port) +
                       ": found rank 0 of 2, expected rank 0 of 3 of the run 'a run'"
               ? 0
               : 1;
  });
  CHECK(why_rank_fails(0, 2, rendezvous, 5 * kSecond_ns) ==
        "found rank 2 of 3 and rank 0 of 2 in one run, expected equally many ranks everywhere");
  CHECK(ends(&third));
  CHECK(third.exit_status() == 0);
}

TEST_CASE("who waits for a rank that is lost gets an Error, a while later") {
  const Rendezvous rendezvous = here(free_port());
  Others others(rendezvous, 2, [](Control*) { return 0; });  // goes at once
  const auto control = join_tcp(rank_of(0, 2), rendezvous, 10 * kSecond_ns);
  REQUIRE(control.ok());
  const Status status = (*control)->barrier();
  REQUIRE(!status.ok());
  CHECK(status.error().text() == "rank 1 is gone, expected it to go on");
}
