// Who may join a run: messages out of bytes, secrets and their proof, interfaces, the listening
// end.
#include "launch/admission.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "exec/supervise/watchdog.h"
#include "launch/interfaces.h"
#include "launch/message.h"
#include "launch/secret.h"
#include "tests/folder.h"
#include "tests/seed.h"
#include "tests/waiting.h"

using namespace tandem;
using Catch::Contains;

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> message(std::uint32_t kind, std::uint64_t size, std::string_view body) {
  const MessageHead head{kind, 0, size};
  const auto first = std::as_bytes(std::span(&head, 1));
  std::vector<std::byte> all(first.begin(), first.end());
  const std::vector<std::byte> rest = bytes_of(body);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

Hmac the_hmac() {
  const auto hmac = Hmac::open();
  REQUIRE(hmac.ok());
  return *hmac;
}

// An environment of these names.
Environment environment(std::map<std::string, std::string> names) {
  return [names = std::move(names)](const char* name) {
    const auto at = names.find(name);
    return at == names.end() ? nullptr : at->second.c_str();
  };
}

const std::vector<std::byte> kKey = bytes_of("what only this job knows");

// A listening end, and somebody who keeps connecting to it while it is there.
class RunningListener {
 public:
  RunningListener() {
    auto listener = listen_on({});
    REQUIRE(listener.ok());
    address_ = "127.0.0.1:" + std::to_string(listener->port());
    thread_ =
        std::jthread([this, admission = AdmissionListener(std::move(*listener), Secret(kKey), hmac_,
                                                          4)](const std::stop_token& stop) mutable {
          while (!stop.stop_requested()) {
            std::vector<pollfd> events;
            admission.add_events(&events);
            poll(events.data(), events.size(), 20);
            for (ProvenCaller& caller : admission.take_proven()) {
              const std::lock_guard lock(mutex_);
              admission.admit(&admitted_.emplace_back(std::move(caller)), kMostMessage);
            }
          }
        });
  }

  Connection come() const {
    auto connection = connect(address_);
    REQUIRE(connection.ok());
    return std::move(*connection);
  }
  IntroductionResult introduce_with(std::span<const std::byte> key, std::string_view who) const {
    return introduce(come(), hmac_, key, std::as_bytes(std::span(who)), kMostMessage,
                     Clock::now() + std::chrono::seconds(10));
  }
  // Who has been let in, in the order of coming.
  std::vector<std::string> admitted() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const ProvenCaller& caller : admitted_)
      names.emplace_back(reinterpret_cast<const char*>(caller.who.data()), caller.who.size());
    return names;
  }
  const Hmac& hmac() const { return hmac_; }
  const std::string& address() const { return address_; }

 private:
  const Hmac hmac_ = the_hmac();
  std::string address_;
  std::mutex mutex_;
  std::vector<ProvenCaller> admitted_;
  std::jthread thread_;
};

// Waits for one; fails the test where none comes.
ControlMessage heard(Connection* connection) {
  std::optional<ControlMessage> one;
  comes_true([&] {
    one = connection->receive_one();
    return one || !connection->is_open();
  });
  if (!one) FAIL("nothing came");
  return *one;
}

bool is_put_out(Connection* connection) {
  return comes_true([&] {
    connection->receive();
    return !connection->is_open();
  });
}

void send_raw(const Connection& connection, const std::vector<std::byte>& bytes) {
  CHECK(write(connection.descriptor(), bytes.data(), bytes.size()) ==
        static_cast<ssize_t>(bytes.size()));
}

Digest challenge_of(Connection* connection) {
  const ControlMessage asked = heard(connection);
  Digest challenge;
  REQUIRE(asked.body.size() == challenge.size());
  std::memcpy(challenge.data(), asked.body.data(), challenge.size());
  return challenge;
}

}  // namespace

TEST_CASE("bytes are taken apart into whole messages, and what is cut short waits") {
  std::vector<std::byte> all = message(7, 3, "abc");
  const std::vector<std::byte> second = message(8, 0, ""), third = message(9, 5, "defg");
  all.insert(all.end(), second.begin(), second.end());
  all.insert(all.end(), third.begin(), third.end());
  const auto read = read_messages(all, 5);
  REQUIRE(read.ok());
  REQUIRE(read->messages.size() == 2);
  CHECK(read->messages[0].kind == 7);
  CHECK(read->messages[0].body == bytes_of("abc"));
  CHECK(read->messages[1].kind == 8);
  CHECK(read->used == 16 + 3 + 16);
  CHECK(read_messages(all, 5, 1)->used == 16 + 3);
}

TEST_CASE("a terabyte's length is refused before any of it has come") {
  CHECK(read_messages(message(7, std::uint64_t{1} << 40, ""), 512).error().text() ==
        "found a message of 1099511627776 bytes and the mark 0, expected at most 512 bytes and the "
        "mark 0");
  CHECK(!read_messages(message(7, ~std::uint64_t{0}, "x"), SIZE_MAX - 1).ok());
  std::vector<std::byte> marked = message(7, 0, "");
  marked[4] = std::byte{1};
  CHECK(!read_messages(marked, 512).ok());
}

TEST_CASE("whatever bytes come, no more is read than came") {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  INFO("seed " << seed);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 80);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    const auto read = read_messages(bytes, 40);
    if (!read.ok()) continue;
    std::size_t size = 0;
    for (const ControlMessage& one : read->messages) size += sizeof(MessageHead) + one.body.size();
    REQUIRE(size == read->used);
    REQUIRE(size <= bytes.size());
  }
}

TEST_CASE("the HMAC is RFC 4231's, and equal digests are told from others") {
  const Hmac hmac = the_hmac();
  // Its second test case.
  const Digest digest = hmac(bytes_of("Jefe"), bytes_of("what do ya want for nothing?"));
  CHECK(hexadecimal(digest) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  Digest other = digest;
  CHECK(hmac.same(digest, other));
  other.back() ^= std::byte{1};
  CHECK(!hmac.same(digest, other));
  CHECK(random_digest() != random_digest());
}

TEST_CASE("a job's secret is TANDEM_SECRET, which is long") {
  CHECK(job_secret(environment({{"TANDEM_SECRET", "sixteen letters!"}}))->text() ==
        std::string("sixteen letters!"));
  CHECK(job_secret(environment({{"TANDEM_SECRET", "fifteen letters"}})).error().text() ==
        "TANDEM_SECRET: found 15 characters, expected at least 16");
  CHECK(job_secret(environment({}))
            .error()
            .text()
            .starts_with("found no TANDEM_SECRET and no HOME, expected one of them"));
}

TEST_CASE("else it is the user's own, which only the user can read, and all ranks find the same") {
  const Folder folder;
  const Environment get = environment({{"HOME", folder.path().string()}});
  std::vector<std::string> secrets(8);
  {
    std::vector<std::jthread> ranks;
    for (std::string& secret : secrets)
      ranks.emplace_back([&] { secret = job_secret(get).ok() ? job_secret(get)->text() : "none"; });
  }
  CHECK(std::set<std::string>(secrets.begin(), secrets.end()).size() == 1);
  CHECK(secrets[0].size() == 64);
  const std::string path = folder / ".config/tandem/secret";
  struct stat found {};
  REQUIRE(stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  const std::filesystem::directory_iterator all(folder / ".config/tandem");
  CHECK(std::distance(begin(all), end(all)) == 1);  // nothing else is left

  REQUIRE(chmod(path.c_str(), 0644) == 0);
  CHECK(job_secret(get).error().text() ==
        path +
            ": found a file that others own or may read, expected a secret of this user there, "
            "or TANDEM_SECRET in the environment of all ranks");
  const auto elsewhere = environment({{"HOME", "/proc/none"}});
  CHECK_THAT(job_secret(elsewhere).error().text(), Contains("/proc/none/.config/tandem/secret: "));
}

TEST_CASE("interfaces are chosen as NCCL chooses them") {
  const auto takes = [](const std::string& list, const std::string& interface) {
    return chosen_interfaces(environment({{"NCCL_SOCKET_IFNAME", list}})).takes(interface);
  };
  CHECK(takes("", "eth0"));
  CHECK((takes("ib,eth", "eth0") && takes("ib,eth", "ib3") && !takes("ib,eth", "lo")));
  CHECK((takes("=eth1", "eth1") && !takes("=eth1", "eth10")));
  CHECK((!takes("^docker,lo", "docker0") && !takes("^docker,lo", "lo") && takes("^lo", "eth0")));
  CHECK((takes("^=eth1", "eth10") && !takes("^=eth1", "eth1")));
  const InterfaceChoice own = chosen_interfaces(
      environment({{"NCCL_SOCKET_IFNAME", "ib"}, {"TANDEM_SOCKET_IFNAME", "=lo"}}));
  CHECK((own.takes("lo") && !own.takes("ib0")));
}

TEST_CASE("who listens on loopback listens nowhere else, and what is not there is named") {
  const auto loopback = listen_on({.exact = true, .names = {"lo"}, .source = "lo"});
  REQUIRE(loopback.ok());
  CHECK(loopback->address.starts_with("127.0.0.1"));
  CHECK(connect(loopback->address).ok());
  const auto everywhere = own_addresses({});
  REQUIRE(everywhere.ok());
  for (const std::string& address : *everywhere) {
    if (loopback->address.find(address) == std::string::npos)
      CHECK(!connect(address + ":" + std::to_string(loopback->port())).ok());
  }
  CHECK_THAT(
      own_addresses({.names = {"nothere"}, .source = "NCCL_SOCKET_IFNAME=nothere"}).error().text(),
      Contains("NCCL_SOCKET_IFNAME=nothere: found none of these interfaces, expected some of "));
}

TEST_CASE("who knows the key is let in with its name, and who does not is told nothing") {
  RunningListener admission;
  CHECK(admission.introduce_with(kKey, "rank 1").connection);
  const IntroductionResult unproven =
      admission.introduce_with(bytes_of("what only this job knew"), "rank 2");
  CHECK(!unproven.connection);
  CHECK(unproven.refused.empty());
  CHECK(unproven.found == "somebody with another secret");
  CHECK(admission.admitted() == std::vector<std::string>{"rank 1"});
}

TEST_CASE("an introduction that was overheard opens no other connection") {
  RunningListener admission;
  const Digest nonce = random_digest();
  Connection first = admission.come();
  const std::vector<std::byte> said =
      introduction(admission.hmac(), kKey, challenge_of(&first), nonce, bytes_of("rank 1"));
  first.send(0x7a1de102, said);
  CHECK(heard(&first).kind == 0x7a1de103);  // admitted
  Connection second = admission.come();
  challenge_of(&second);
  second.send(0x7a1de102, said);
  CHECK(is_put_out(&second));
  // And another name cannot be put into it.
  Connection third = admission.come();
  std::vector<std::byte> renamed =
      introduction(admission.hmac(), kKey, challenge_of(&third), nonce, bytes_of("rank 1"));
  renamed.back() = std::byte{'2'};
  third.send(0x7a1de102, renamed);
  CHECK(is_put_out(&third));
  CHECK(admission.admitted() == std::vector<std::string>{"rank 1"});
}

TEST_CASE("half a message, a terabyte's length and another protocol change nothing") {
  RunningListener admission;
  Connection half = admission.come(), huge = admission.come(), browser = admission.come();
  send_raw(half, message(0x7a1de102, 70, "half"));
  send_raw(huge, message(0x7a1de102, std::uint64_t{1} << 40, "and more"));
  send_raw(browser, bytes_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  CHECK(admission.introduce_with(kKey, "rank 1").connection);
  CHECK(is_put_out(&huge));
  CHECK(is_put_out(&browser));
  CHECK(is_put_out(&half));  // after five seconds
  CHECK(admission.admitted() == std::vector<std::string>{"rank 1"});
}

TEST_CASE("who never speaks makes room for who comes later") {
  RunningListener admission;
  std::vector<Connection> mute;  // twice as many as the listening end keeps
  for (int i = 0; i < 128; ++i) mute.push_back(admission.come());
  CHECK(admission.introduce_with(kKey, "rank 1").connection);
  CHECK(is_put_out(&mute.front()));
  CHECK(admission.admitted() == std::vector<std::string>{"rank 1"});
}

TEST_CASE("ten thousand who say nothing keep nobody out") {
  RunningListener admission;
  std::deque<Connection> mute;
  for (int i = 0; i < 10'000; ++i) {
    auto connection = connect(admission.address());
    if (connection.ok()) mute.push_back(std::move(*connection));
    if (mute.size() > 200) mute.pop_front();
    if (i % 2500 == 0)
      CHECK(admission.introduce_with(kKey, "rank " + std::to_string(i / 2500)).connection);
  }
  CHECK(admission.introduce_with(kKey, "rank 4").connection);
  CHECK(admission.admitted() ==
        std::vector<std::string>{"rank 0", "rank 1", "rank 2", "rank 3", "rank 4"});
}

TEST_CASE("somebody who took rank 0's port is not taken for rank 0") {
  auto listener = listen_on({});
  REQUIRE(listener.ok());
  const std::string address = "127.0.0.1:" + std::to_string(listener->port());
  const Hmac hmac = the_hmac();
  // It asks as rank 0 does, and welcomes whoever comes.
  std::jthread impostor([&] {
    std::optional<Connection> caller;
    if (!comes_true([&] {
          caller = accept_connection(*listener, kMostMessage);
          return caller.has_value();
        }))
      return;
    caller->send(0x7a1de101, random_digest());
    comes_true([&] { return caller->receive_one().has_value(); });
    caller->send(0x7a1de103, random_digest());
    is_put_out(&*caller);  // stays until the other end is gone
  });
  auto connection = connect(address);
  REQUIRE(connection.ok());
  const IntroductionResult met = introduce(std::move(*connection), hmac, kKey, bytes_of("rank 1"),
                                           kMostMessage, Clock::now() + std::chrono::seconds(10));
  CHECK(!met.connection);
  CHECK(met.found == "somebody with another secret");
}
