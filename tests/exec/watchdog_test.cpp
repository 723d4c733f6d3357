// Watchdogs and coordinator, with ranks that only pretend: no MPI.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "exec/supervise/watchdog.h"
#include "tests/made_program.h"
#include "tests/waiting.h"

using namespace tandem;

namespace {

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(const ControlMessage& word) {
  return {reinterpret_cast<const char*>(word.body.data()), word.body.size()};
}

std::pair<Descriptor, Descriptor> socket_pair() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// All words until so many have come.
std::vector<ControlMessage> words(Connection* connection, std::size_t count) {
  std::vector<ControlMessage> all;
  CHECK(comes_true([&] {
    for (ControlMessage& word : connection->receive()) all.push_back(std::move(word));
    return all.size() >= count;
  }));
  return all;
}

bool ends_as(ChildProcess* child, const std::string& exit_reason) {
  return comes_true([&] {
    child->update();
    return child->exit_reason() == exit_reason;
  });
}

// What a rank that pretends does once all have joined.
using Part = std::function<int(RunState*)>;

int plays(RunState* state) {
  state->header().phase = Phase::Ended;
  return 0;
}
int hangs(RunState* state) {
  state->begun()[1] = 1;  // in the first op of its edge
  for (;;) pause();
}

// One number that forked processes share.
std::atomic<int>* shared_number() {
  return new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
}

// Three stages, a microbatch handed on.
Program three_stages() {
  return made_program(R"(
    rank 0: send0 0>1
    rank 1: recv0 0>1, send0 1>2 after recv0
    rank 2: recv0 1>2
  )");
}

Hmac the_hmac() {
  const auto hmac = Hmac::open();
  REQUIRE(hmac.ok());
  return *hmac;
}

// A run of ranks that pretend; rank 0 and the coordinator are in this process.
class Crew {
 public:
  // `outsider`: what somebody else does meanwhile, who knows the coordinator's address.
  explicit Crew(std::function<void(const std::string& address)> outsider = nullptr,
                Nanoseconds timeout_ns = 500'000'000)
      : outsider_(std::move(outsider)) {
    options_.iterations = 1;
    options_.timeout_ns = timeout_ns;
  }
  ~Crew() {
    for (const pid_t watch : guards_) {
      kill(watch, SIGKILL);
      waitpid(watch, nullptr, 0);
    }
  }

  // An empty part: the rank never comes. `strange`: whose Program is another; -1: nobody's.
  RunEnd run(const std::vector<Part>& parts, int strange = -1) {
    auto listener = listen_on({});
    REQUIRE(listener.ok());
    const std::string address = listener->address;
    const Hmac hmac = the_hmac();
    for (int rank = 1; rank < static_cast<int>(parts.size()); ++rank) {
      const pid_t watch = parts[rank] ? fork() : -1;
      if (watch == 0)
        _exit(guarded({rank, 0, rank == strange ? 8u : 9u}, "", address, parts[rank]));
      if (watch > 0) guards_.push_back(watch);
    }
    RunState state(program_, 0, 1);
    ChildProcess child([&] { return pretended(&state, address, parts[0]); });
    const ExternalStop external_stop(false);
    RunEnd run_end;
    const HelloMessage hello{0, 0, 9};
    std::thread coordinator([&] {
      AdmissionListener admission(std::move(*listener), Secret(kRun), hmac, parts.size());
      run_end = coordinate(program_, options_, hello, std::move(admission), external_stop, "MPI");
    });
    std::thread outsider([&] {
      if (outsider_) outsider_(address);
    });
    CHECK(watch(hello, options_, address, kRun, hmac, external_stop, &state, &child).ok());
    outsider.join();
    coordinator.join();
    return run_end;
  }

 private:
  static constexpr Digest kRun{std::byte{77}};

  static int pretended(RunState* state, const std::string& address, const Part& part) {
    RunState::Header& header = state->header();
    std::strncpy(header.coordinator, address.c_str(), sizeof header.coordinator - 1);
    header.run = kRun;
    header.phase = Phase::Joined;
    while (header.go == 0) usleep(1000);
    header.phase = Phase::Playing;
    return part(state);
  }

  int guarded(const HelloMessage& hello, const std::string& known, const std::string& address,
              const Part& part) {
    RunState state(program_, hello.rank, 1);
    ChildProcess child([&] { return pretended(&state, address, part); });
    const ExternalStop external_stop(true);
    return watch(hello, options_, known, {}, the_hmac(), external_stop, &state, &child).ok() ? 0
                                                                                             : 1;
  }

  const Program program_ = three_stages();
  ExecOptions options_;
  std::vector<pid_t> guards_;
  std::function<void(const std::string& address)> outsider_;
};

}  // namespace

TEST_CASE("words come as they were said, large ones too, and a closed end is seen") {
  auto [one, other] = socket_pair();
  Connection speaker(std::move(one));
  const std::string large(8'000'000, 'x');
  Connection hearer(std::move(other), large.size());
  std::thread speaks([&] {
    speaker.send(1, as_bytes_of("one"));
    speaker.send(2);
    speaker.send(3, as_bytes_of(large));
    speaker = Connection(Descriptor());
  });
  const std::vector<ControlMessage> all = words(&hearer, 3);
  speaks.join();
  REQUIRE(all.size() == 3);
  CHECK(all[0].kind == 1);
  CHECK(text_of(all[0]) == "one");
  CHECK(all[1].kind == 2);
  CHECK(all[1].body.empty());
  CHECK(text_of(all[2]) == large);
  CHECK(comes_true([&] { return hearer.receive().empty() && !hearer.is_open(); }));
  hearer.send(4);  // to nobody
}

TEST_CASE("a message that comes in pieces is received once it is whole, and one cut short never") {
  auto [raw, other] = socket_pair();
  Connection hearer(std::move(other));
  const std::string head("\5\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 16);
  const std::string sent = head + "abc" + head + "a";
  for (std::size_t i = 0; i < sent.size(); ++i) {
    REQUIRE(write(raw.number(), &sent[i], 1) == 1);
    const std::vector<ControlMessage> heard = hearer.receive();
    REQUIRE(heard.size() == (i == head.size() + 2 ? 1 : 0));
    if (!heard.empty()) CHECK(text_of(heard[0]) == "abc");
  }
  raw = {};
  CHECK(hearer.receive().empty());
  CHECK(!hearer.is_open());
}

TEST_CASE("saying something to an end that is closed closes the line, without a signal") {
  auto [one, other] = socket_pair();
  Connection speaker(std::move(one));
  other = {};
  speaker.send(1, as_bytes_of("one"));
  CHECK(!speaker.is_open());
}

TEST_CASE("a listener is reached at its address, and nobody where none listens") {
  auto listener = listen_on({});
  REQUIRE(listener.ok());
  CHECK(!accept_connection(*listener, kMostMessage));
  auto connection = connect(listener->address);
  REQUIRE(connection.ok());
  std::optional<Connection> accepted;
  REQUIRE(comes_true([&] {
    accepted = accept_connection(*listener, kMostMessage);
    return accepted.has_value();
  }));
  connection->send(1, as_bytes_of("hello"));
  CHECK(text_of(words(&*accepted, 1).at(0)) == "hello");
  const std::string port = ":" + std::to_string(listener->port());
  listener->sockets.clear();
  CHECK(!connect("127.0.0.1" + port).ok());
  CHECK(!connect("nowhere").ok());
}

TEST_CASE("a child's exit reason is known, whether it ends, throws or is killed") {
  ChildProcess well([] { return 0; });
  CHECK(comes_true([&] {
    well.update();
    return well.is_gone();
  }));
  CHECK(well.exit_reason().empty());
  ChildProcess badly([] { return 3; });
  CHECK(ends_as(&badly, "exited with 3"));
  CHECK(badly.exit_status() == 3);
  ChildProcess throws([]() -> int { throw std::runtime_error("no"); });
  CHECK(ends_as(&throws, "exited with 1"));
  ChildProcess killed([] { return kill(getpid(), SIGKILL); });
  CHECK(ends_as(&killed, "was killed by signal 9 (Killed)"));
  CHECK(killed.is_gone());
  ChildProcess deaf([] {  // to what a launcher sends to all
    for (const int signal : {SIGTERM, SIGINT}) raise(signal);
    return 4;
  });
  CHECK(ends_as(&deaf, "exited with 4"));
}

TEST_CASE("a child that stopped and goes on has no exit reason any more") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  ChildProcess child([&] {
    const pid_t own = getpid();
    if (write(ends[1], &own, sizeof own) < 0) return 1;
    for (;;) pause();
  });
  pid_t process = 0;
  REQUIRE(read(ends[0], &process, sizeof process) == sizeof process);
  kill(process, SIGSTOP);
  CHECK(ends_as(&child, "is stopped by signal 19 (Stopped (signal))"));
  CHECK(!child.is_gone());
  kill(process, SIGCONT);
  CHECK(ends_as(&child, ""));
  child.kill();
  CHECK(child.is_gone());
  CHECK(kill(process, 0) != 0);
  for (const int end : ends) close(end);
}

TEST_CASE("ranks that all play end a run well, and the coordinator has their states") {
  Crew crew;
  RunEnd run_end = crew.run({plays, plays, [](RunState* state) {
                               state->times(0)[0] = {5, 6};
                               return plays(state);
                             }});
  CHECK(run_end.failure.empty());
  REQUIRE(run_end.states.size() == 3);
  for (const auto& state : run_end.states) CHECK(state.has_value());
  CHECK(run_end.states[2]->times(0)[0].end_ns == 6);
}

TEST_CASE("strangers at the coordinator's door change nothing of a run") {
  std::atomic<int>* const gone = shared_number();
  const auto outsiders = [gone](const std::string& address) {
    const Hmac hmac = the_hmac();
    const HelloMessage rank_1{1, 0, 8};  // the place of a rank, with another Program
    const auto who = std::as_bytes(std::span(&rank_1, 1));
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    std::vector<Connection> kept;
    for (int i = 0; i < 400; ++i) {
      auto connection = connect(address);
      if (!connection.ok()) continue;
      const MessageHead huge{2, 0, std::uint64_t{1} << 40}, half{2, 0, 70};
      if (i % 4 == 1 && write(connection->descriptor(), &huge, sizeof huge) < 0) continue;
      if (i % 4 == 2 && write(connection->descriptor(), &half, sizeof half) < 0) continue;
      if (i % 4 == 3) {
        CHECK(
            !introduce(std::move(*connection), hmac, Digest{std::byte{78}}, who, kMostMessage, soon)
                 .connection);
      } else if (kept.size() < 200) {
        kept.push_back(std::move(*connection));
      }
    }
    *gone = 1;
  };
  Crew crew(outsiders, 60'000'000'000);
  const Part waits = [gone](RunState* state) {
    while (*gone == 0) usleep(1000);
    return plays(state);
  };
  const RunEnd run_end = crew.run({waits, waits, waits});
  CHECK(*gone == 1);
  CHECK(run_end.failure.empty());
  for (const auto& state : run_end.states) CHECK(state.has_value());
}

TEST_CASE("a rank that never comes is missing after the time-out") {
  Crew crew;
  CHECK(crew.run({plays, plays, nullptr}).failure ==
        "found no rank 2 within 0.5 s, expected all 3 to join");
}

TEST_CASE("a rank with another Program is refused") {
  Crew crew;
  CHECK(
      crew.run({plays, plays, plays}, 1).failure ==
      "found the Program 0000000000000008 on rank 1 and 0000000000000009 on rank 0, expected one");
}

TEST_CASE("a rank that is killed is named, and who waits for it") {
  Crew crew;
  const RunEnd run_end = crew.run({plays,
                                   [](RunState* state) {
                                     usleep(100'000);
                                     state->begun()[2] = state->done()[1] = 1;
                                     return kill(getpid(), SIGKILL);
                                   },
                                   hangs});
  CHECK(run_end.failure ==
        "rank 1 was killed by signal 9 (Killed) in send 0 of stage 1 (lane 1>2); rank 2 waits for "
        "it in recv 0 of stage 2 (lane 1>2)");
  CHECK(run_end.exit_reasons[1] == "was killed by signal 9 (Killed)");
}

TEST_CASE("a rank whose watchdog is killed is gone, and who waits for it is known") {
  Crew crew;
  const RunEnd run_end = crew.run({plays,
                                   [](RunState*) {
                                     usleep(100'000);
                                     kill(getppid(), SIGKILL);
                                     return 0;
                                   },
                                   hangs});
  CHECK(run_end.failure ==
        "rank 1 is gone, and so is its watchdog; rank 2 waits for it in recv 0 of stage 2 (lane "
        "1>2)");
  CHECK(!run_end.states[1]);
}

TEST_CASE("a rank that gives up says why in its own words, though others fail with it") {
  Crew crew;
  const RunEnd run_end = crew.run({plays,
                                   [](RunState* state) {
                                     state->fail({"found no OpenBLAS", Error::Missing});
                                     return 3;
                                   },
                                   [](RunState*) { return 1; }});
  CHECK(run_end.failure == "rank 1: found no OpenBLAS");
  CHECK(run_end.kind == Error::Missing);
}

TEST_CASE("of ranks that give up the first one says why, by rank 0's clock") {
  std::atomic<int>* const failed = shared_number();
  const auto fails = [=](Nanoseconds ahead_ns, const char* why) {
    return [=](RunState* state) {
      state->header().before = {1, ahead_ns, 1};
      state->fail({why, Error::Failed});
      state->header().failed_ns = 1000 + ahead_ns + (why[0] == 'g' ? 0 : 5);
      for (++*failed; *failed < 3;) usleep(1000);  // so that all states tell
      return 1;
    };
  };
  Crew crew;
  const RunEnd run_end =
      crew.run({fails(0, "lost rank 2"), fails(-700, "lost rank 2"), fails(900, "gave up")});
  CHECK(run_end.failure == "rank 2: gave up");
}

TEST_CASE("ranks that go on and on without an op's end are stuck, and their ops are named") {
  Crew crew;
  CHECK(crew.run({plays, hangs, hangs}).failure ==
        "no op ended within 0.5 s: rank 0 has not begun send 0 of stage 0 (lane 0>1); rank 1 waits "
        "for it in recv 0 of stage 1 (lane 0>1)");
}
