// A job's secret: in no log, command line, environment or core dump of who knows it. An
// introduction that was overheard is refused. For ranks_test.
#include "launch/secret.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "exec/supervise/watchdog.h"
#include "launch/connection.h"
#include "launch/rendezvous.h"
#include "launch/tcp_control.h"
#include "tests/exec/free_port.h"
#include "tests/exec/mpi_run.h"
#include "tests/text.h"
#include "tests/variable.h"

using namespace tandem;

namespace {

const std::string kJob = TANDEM_RANKS_JOB;
constexpr Nanoseconds kSecond_ns = 1'000'000'000;

// What a core dump of a process has of its memory, and what it leaves out (madvise).
struct Memory {
  std::string dumped, left_out;
};

Memory memory_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  const Descriptor memory(open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(memory);
  Memory found;
  std::istringstream lines(text_of(folder + "/smaps"));
  unsigned long begin = 0, end = 0;
  for (std::string line; std::getline(lines, line);) {
    unsigned long first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) {
      begin = first;
      end = last;
    }
    if (!line.starts_with("VmFlags:") || !has(line, " rd")) continue;
    std::string bytes(end - begin, 0);
    const ssize_t got =
        pread(memory.number(), bytes.data(), bytes.size(), static_cast<off_t>(begin));
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));  // the kernel's own: none
    (has(line, " dd") ? found.left_out : found.dumped) += bytes;
  }
  return found;
}

// 64 hexadecimal digits and a zero; empty: there are none.
std::string drawn_in(const std::string& bytes) {
  constexpr std::size_t kSize = 64;
  for (std::size_t at = 0; at + kSize < bytes.size(); ++at) {
    const std::size_t other =
        std::min(bytes.find_first_not_of("0123456789abcdef", at), bytes.size());
    if (other == at + kSize && bytes[other] == 0) return bytes.substr(at, kSize);
    at = other;
  }
  return "";
}

// Where somebody might read it, of a process that knows it.
void check_hides(pid_t process, const std::string& secret) {
  const std::string folder = "/proc/" + std::to_string(process);
  INFO(text_of(folder + "/comm"));
  const Memory memory = memory_of(process);
  CHECK(!memory.dumped.empty());
  CHECK(has(memory.left_out, secret));
  CHECK(!has(memory.dumped, secret));
  CHECK(!has(text_of(folder + "/cmdline"), secret));
  CHECK(!has(text_of(folder + "/environ"), secret));
}

void end(MpiRun* run, const std::string& secret) {
  kill(run->launcher(), SIGTERM);
  CHECK(run->wait() != 0);
  CHECK(!has(run->out() + run->err(), secret));
}

// A launcher like torchrun's words to rank `rank` of `ranks`.
Rendezvous torchrun(int rank, int ranks, int port) {
  const std::map<std::string, std::string> names = {
      {"RANK", std::to_string(rank)},        {"WORLD_SIZE", std::to_string(ranks)},
      {"LOCAL_RANK", std::to_string(rank)},  {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)}, {"TORCHELASTIC_RUN_ID", "job 5"},
      {"TANDEM_SOCKET_IFNAME", "=lo"},       {"TANDEM_SECRET", "what only this job knows"}};
  const Environment get = [&](const char* name) {
    const auto at = names.find(name);
    return at == names.end() ? nullptr : at->second.c_str();
  };
  auto rendezvous = rendezvous_of(get);
  REQUIRE(rendezvous.ok());
  rendezvous->secret = *job_secret(get);
  return *rendezvous;
}

// Rank 0, until it gives up.
class RankZero {
 public:
  RankZero(int ranks, int port)
      : rendezvous_(torchrun(0, ranks, port)), thread_([this, ranks] {
          const auto control = join_tcp({0, ranks, 0, "torchrun"}, rendezvous_, 3 * kSecond_ns);
          const Status status = control.ok() ? (*control)->barrier() : control.error();
          said_ = status.ok() ? "" : status.error().text();
        }) {}
  RankZero(const RankZero&) = delete;
  RankZero& operator=(const RankZero&) = delete;
  ~RankZero() {
    if (thread_.joinable()) thread_.join();
  }
  std::string says() {
    thread_.join();
    return said_;
  }

 private:
  Rendezvous rendezvous_;
  std::string said_;
  std::thread thread_;
};

// Bytes that have come, while the other end is there.
std::optional<std::string> received(int socket) {
  char block[4096];
  const ssize_t got = recv(socket, block, sizeof block, MSG_DONTWAIT);
  if (got > 0) return std::string(block, static_cast<std::size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return "";
  return std::nullopt;
}

Connection connected(int port) {
  Connection found{Descriptor()};
  const bool listens = comes_true([&] {
    auto connection = connect("127.0.0.1:" + std::to_string(port));
    if (connection.ok()) found = std::move(*connection);
    return connection.ok();
  });
  if (!listens) FAIL("nobody listens");
  return found;
}

// Sits between rank 1 and rank 0, passes on what they say, and gives rank 1's words.
std::string overheard(const Listener& listener, int port, std::size_t bytes) {
  pollfd event{listener.sockets.front().number(), POLLIN, 0};
  REQUIRE(poll(&event, 1, 10'000) == 1);
  const Descriptor rank_1(accept4(event.fd, nullptr, nullptr, SOCK_CLOEXEC));
  const Connection rank_0 = connected(port);
  std::string heard;
  comes_true([&] {
    const auto asked = received(rank_0.descriptor());
    if (asked) send(rank_1.number(), asked->data(), asked->size(), MSG_NOSIGNAL);
    const auto said = received(rank_1.number());
    if (!said) return true;
    heard += *said;
    send(rank_0.descriptor(), said->data(), said->size(), MSG_NOSIGNAL);
    return heard.size() >= bytes;
  });
  return heard;
}

// All that rank 0 answers to these bytes, until it puts off who sent them.
std::string answer_to(const std::string& bytes, int port) {
  const Connection rank_0 = connected(port);
  send(rank_0.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string answer;
  const bool is_put_off = comes_true([&] {
    const auto more = received(rank_0.descriptor());
    if (more) answer += *more;
    return !more;
  });
  if (!is_put_off) FAIL("it was not put off");
  return answer;
}

}  // namespace

TEST_CASE("the secret of ranks started here is drawn anew, and nobody else can read it") {
  const Folder folder;
  std::vector<std::string> secrets;
  for (int i = 0; i < 2; ++i) {
    MpiRun run(folder, kJob + " 2 heeds", "RANK");
    REQUIRE(run.plays(2));
    const std::string secret = drawn_in(memory_of(run.local_rank(1)).left_out);
    REQUIRE(!secret.empty());
    secrets.push_back(secret);
    for (const int rank : {0, 1}) {
      check_hides(run.local_rank(rank), secret);
      check_hides(run.watch(rank), secret);
    }
    for (const pid_t process : run.processes()) CHECK(!has(memory_of(process).dumped, secret));
    end(&run, secret);
  }
  CHECK(secrets[0] != secrets[1]);
}

TEST_CASE("nor the secret that a launcher like torchrun hands on in the environment") {
  const Folder folder;
  const std::string secret = "what only torchrun's job knows";
  const Variable given("TANDEM_SECRET", secret);
  const std::string names = " LOCAL_RANK=$R WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                            std::to_string(free_port()) + " RANK=$R " + kJob + " 2 heeds";
  MpiRun run(folder, "sh -c 'for R in 1 0; do env" + names + " & done; wait'", "RANK");
  REQUIRE(run.plays(2));
  for (const int rank : {0, 1}) {
    check_hides(run.local_rank(rank), secret);
    check_hides(run.watch(rank), secret);
  }
  for (const int rank : {0, 1}) kill(run.watch(rank), SIGTERM);
  run.wait();
  CHECK(!has(run.out() + run.err(), secret));
}

TEST_CASE("an introduction that was overheard is refused, by its own start and by the next one") {
  const std::size_t challenge = sizeof(MessageHead) + sizeof(Digest);
  const std::size_t least = sizeof(MessageHead) + 2 * sizeof(Digest);
  const int port = free_port();
  std::string heard;
  {
    const auto listener = listen_on(loopback_alone());
    REQUIRE(listener.ok());
    ChildProcess rank_1([&] {
      const auto joined =
          join_tcp({1, 3, 1, "torchrun"}, torchrun(1, 3, listener->port()), 10 * kSecond_ns);
      return joined.ok() && (*joined)->barrier().ok() ? 0 : 1;
    });
    RankZero rank_0(3, port);
    heard = overheard(*listener, port, least + 1);
    CHECK(heard.size() > least);
    CHECK(answer_to(heard, port).size() == challenge);
    CHECK(rank_0.says() == "found no rank 2 within 3 s, expected all 3 to come");
  }
  RankZero rank_0(3, port);
  CHECK(answer_to(heard, port).size() == challenge);
  CHECK(rank_0.says() == "found no rank 1, 2 within 3 s, expected all 3 to come");
}
