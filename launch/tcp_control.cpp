// Control as a star: every other rank has one TCP connection, to rank 0. Rank 0 gathers the
// messages of all ranks and answers each. While ranks join, rank 0 uses a RankCollector, and each
// other rank a Rank0Connector, which retries until rank 0 admits it.
#include "launch/tcp_control.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/check.h"
#include "launch/admission.h"
#include "launch/compare_clocks.h"
#include "launch/connection.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTick_ms = 20;
constexpr int kRetry_ms = 100;
// The coordinator of the watchdogs (exec/supervise) knows better why a rank is missing, and should
// report first. So the code here waits one second longer than the coordinator for ranks to join,
// and 5 seconds before it reports a lost rank.
constexpr auto kCoordinatorFirst = std::chrono::seconds(1);
constexpr int kReportLostAfter_ms = 5000;

// The kinds of messages between ranks that have joined. A barrier is a Here from each rank to rank
// 0, then a Go to each.
enum class ControlKind : std::uint32_t { Bytes = 0x7a1dE004, Here, Go, Numbers };

// A rank and the run that it wants to join.
struct Hello {
  char run[112] = "";
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

Hello hello_of(const LaunchedRank& own, const Rendezvous& rendezvous) {
  Hello hello;
  rendezvous.run.copy(hello.run, sizeof hello.run - 1);
  hello.rank = own.rank;
  hello.ranks = own.ranks;
  return hello;
}

std::optional<Hello> hello_in(std::span<const std::byte> who) {
  Hello hello;
  if (who.size() != sizeof hello) return std::nullopt;
  std::memcpy(&hello, who.data(), sizeof hello);
  hello.run[sizeof hello.run - 1] = 0;
  return hello;
}

void send_message(Connection* connection, ControlKind kind, std::span<const std::byte> body = {}) {
  connection->send(static_cast<std::uint32_t>(kind), body);
}

// A connection, and the messages that have arrived there and that next_message() has not returned.
struct Peer {
  Connection connection;
  std::deque<ControlMessage> received;

  // Takes what has arrived, without waiting.
  void listen() {
    for (ControlMessage& message : connection.receive()) received.push_back(std::move(message));
  }
};

// Waits for the next message, which must be of this kind. If the rank is lost, returns an Error
// after 5 seconds.
Result<ControlMessage> next_message(Peer* peer, int rank, ControlKind kind) {
  for (;;) {
    peer->listen();
    if (!peer->received.empty() || !peer->connection.is_open()) break;
    pollfd event{peer->connection.descriptor(), POLLIN, 0};
    poll(&event, 1, -1);
  }
  if (peer->received.empty()) {
    poll(nullptr, 0, kReportLostAfter_ms);
    return Error{fmt::format("rank {} is gone, expected it to go on", rank), Error::Failed};
  }
  ControlMessage message = std::move(peer->received.front());
  peer->received.pop_front();
  if (static_cast<ControlKind>(message.kind) == kind) return message;
  return Error{fmt::format("found the message {:x} from rank {}, expected {:x}", message.kind, rank,
                           static_cast<std::uint32_t>(kind)),
               Error::Failed};
}

Status receive_into(Peer* peer, int rank, ControlKind kind, std::span<std::byte> bytes) {
  ASSIGN_OR_RETURN(const ControlMessage message, next_message(peer, rank, kind));
  if (message.body.size() != bytes.size())
    return Error{fmt::format("found {} bytes from rank {}, expected {}", message.body.size(), rank,
                             bytes.size()),
                 Error::Failed};
  std::ranges::copy(message.body, bytes.begin());
  return Done{};
}

// Rank 0's side of the rendezvous: admits the other ranks as they come.
class RankCollector {
 public:
  RankCollector(AdmissionListener admission, const Hello& own, Nanoseconds timeout_ns)
      : admission_(std::move(admission)),
        own_(own),
        timeout_ns_(timeout_ns),
        until_(Clock::now() + std::chrono::nanoseconds(timeout_ns) + kCoordinatorFirst) {}

  // Waits until all ranks have joined. Calls on_join() once for each that joins.
  Status wait(std::vector<std::optional<Peer>>* peers,
              const std::function<void(Connection*)>& on_join) {
    while (std::ranges::any_of(*peers, [](const auto& peer) { return !peer; })) {
      if (Clock::now() > until_) return missing_ranks(*peers);
      std::vector<pollfd> events;
      admission_.add_events(&events);
      poll(events.data(), events.size(), kTick_ms);
      for (ProvenCaller& caller : admission_.take_proven())
        RETURN_IF_ERROR(admit_rank(&caller, peers, on_join));
    }
    return Done{};
  }

 private:
  // Admits a rank of this run. Refuses any other end that knows the secret, such as a rank of
  // another run. A lost rank may be replaced. Error: a rank counts the ranks differently.
  Status admit_rank(ProvenCaller* caller, std::vector<std::optional<Peer>>* peers,
                    const std::function<void(Connection*)>& on_join) {
    const auto hello = hello_in(caller->who);
    if (!hello) {
      admission_.refuse(caller, "another version of this program");
      return Done{};
    }
    if (std::strcmp(hello->run, own_.run) != 0) {
      admission_.refuse(caller, fmt::format("the run '{}'", own_.run));
      return Done{};
    }
    if (hello->ranks != own_.ranks || hello->rank < 1 || hello->rank >= own_.ranks) {
      admission_.refuse(caller, fmt::format("rank 0 of {}", own_.ranks));
      return Error{
          fmt::format("found rank {} of {} and rank 0 of {} in one run, expected "
                      "equally many ranks everywhere",
                      hello->rank, hello->ranks, own_.ranks)};
    }
    std::optional<Peer>& peer = (*peers)[hello->rank];
    if (peer) peer->listen();
    if (peer && peer->connection.is_open()) {
      admission_.refuse(caller, fmt::format("another rank {}", hello->rank));
      return Done{};
    }
    admission_.admit(caller, kMostMessage);
    peer.emplace(Peer{std::move(caller->connection), {}});
    on_join(&peer->connection);
    return Done{};
  }

  Error missing_ranks(const std::vector<std::optional<Peer>>& peers) const {
    std::vector<std::size_t> missing;
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      if (!peers[rank]) missing.push_back(rank);
    }
    return Error{fmt::format("found no rank {} within {:g} s, expected all {} to come",
                             named_ranks(missing), to_seconds(timeout_ns_), peers.size()),
                 Error::Failed};
  }

  AdmissionListener admission_;
  const Hello own_;
  const Nanoseconds timeout_ns_;
  const Clock::time_point until_;
};

class TcpControl final : public Control {
 public:
  // Rank 0's side. Without a collector it is the only rank.
  TcpControl(int ranks, std::optional<RankCollector> collector)
      : ranks_(ranks), peers_(ranks), collector_(std::move(collector)) {
    peers_[0].emplace(Peer{Connection(Descriptor()), {}});  // itself: no messages go there
  }
  // The side of any other rank.
  TcpControl(const LaunchedRank& own, Peer rank_0) : rank_(own.rank), ranks_(own.ranks), peers_(1) {
    peers_[0] = std::move(rank_0);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Status broadcast(std::span<std::byte> bytes) override {
    CHECK(bytes.size() <= kMostMessage);
    if (rank_ != 0) return receive_into(&*peers_[0], 0, ControlKind::Bytes, bytes);
    const auto send_bytes = [&](Connection* connection) {
      send_message(connection, ControlKind::Bytes, bytes);
    };
    // Sends to the ranks that have joined. The others get the bytes as they join.
    for (std::optional<Peer>& peer : peers_) {
      if (peer) send_bytes(&peer->connection);
    }
    return collect_ranks(send_bytes);
  }

  Status barrier() override { return meet(ControlKind::Here, ControlKind::Go, {}); }

  Result<bool> any(bool own) override {
    std::byte any{static_cast<unsigned char>(own ? 1 : 0)};
    RETURN_IF_ERROR(meet(ControlKind::Bytes, ControlKind::Bytes, {&any, 1}));
    return any != std::byte{0};
  }

  Result<ClockReading> compare_clocks() override {
    if (rank_ == 0) RETURN_IF_ERROR(collect_ranks());
    const auto send = [this](int peer, std::span<const Nanoseconds> numbers) -> Status {
      send_message(&peers_[peer]->connection, ControlKind::Numbers, std::as_bytes(numbers));
      return Done{};
    };
    const auto receive = [this](int peer, std::span<Nanoseconds> numbers) {
      return receive_into(&*peers_[peer], peer, ControlKind::Numbers,
                          std::as_writable_bytes(numbers));
    };
    return tandem::compare_clocks(rank_, ranks_, {send, receive});
  }

 private:
  // Sends a message from each rank to rank 0, and then one from rank 0 to each. The bytes become
  // the bitwise OR of all ranks' bytes.
  Status meet(ControlKind coming, ControlKind going, std::span<std::byte> bytes) {
    if (rank_ != 0) {
      send_message(&peers_[0]->connection, coming, bytes);
      return receive_into(&*peers_[0], 0, going, bytes);
    }
    RETURN_IF_ERROR(collect_ranks());
    std::vector<std::byte> others(bytes.size());
    for (int other = 1; other < ranks_; ++other) {
      RETURN_IF_ERROR(receive_into(&*peers_[other], other, coming, others));
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] |= others[i];
    }
    for (int other = 1; other < ranks_; ++other)
      send_message(&peers_[other]->connection, going, bytes);
    return Done{};
  }

  // Waits until all ranks have joined. Does nothing if they have.
  Status collect_ranks(const std::function<void(Connection*)>& on_join = [](Connection*) {}) {
    if (!collector_) return Done{};
    const Status joined = collector_->wait(&peers_, on_join);
    if (joined.ok()) collector_.reset();
    return joined;
  }

  int rank_ = 0;
  int ranks_ = 1;
  std::vector<std::optional<Peer>> peers_;  // rank 0: by rank; any other rank: rank 0 alone
  std::optional<RankCollector> collector_;  // on rank 0, until all have joined
};

// Looks a host's addresses up and joins them with commas. Returns "" if it has none.
std::string addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &all) != 0) return "";
  std::vector<std::string> found;
  for (const addrinfo* address = all; address != nullptr; address = address->ai_next) {
    std::array<char, INET6_ADDRSTRLEN> name{};
    if (getnameinfo(address->ai_addr, address->ai_addrlen, name.data(), name.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      found.emplace_back(name.data());
  }
  freeaddrinfo(all);
  return fmt::format("{}", fmt::join(found, ","));
}

// The side of ranks other than 0: tries to reach rank 0 until it is admitted or time is up.
class Rank0Connector {
 public:
  Rank0Connector(const LaunchedRank& own, const Rendezvous& rendezvous, const Hmac& hmac,
                 Nanoseconds timeout_ns)
      : own_(own),
        rendezvous_(rendezvous),
        hmac_(hmac),
        timeout_ns_(timeout_ns),
        until_(Clock::now() + std::chrono::nanoseconds(timeout_ns)) {}

  // Tries two ports in each round: that of the rendezvous and, in turn, one of the ports after it,
  // where rank 0 listens if another program holds the first.
  Result<std::unique_ptr<Control>> run() {
    std::string found = "nobody";
    for (int i = 0; Clock::now() < until_; ++i, poll(nullptr, 0, kRetry_ms)) {
      const int offset = 1 + i % (kPortsTried - 1);
      for (const int port : {rendezvous_.port, std::min(rendezvous_.port + offset, kMostPort)}) {
        IntroductionResult result = try_port(port);
        if (result.connection)
          return std::unique_ptr<Control>(
              new TcpControl(own_, Peer{std::move(*result.connection), {}}));
        if (!result.refused.empty()) {
          found = result.refused;
          // This run's rank 0 refuses a wrong number of ranks, and will not change its mind.
          // Another job that refuses may end soon.
          if (found.starts_with("rank 0 of")) return not_reached(found, "");
        } else if (port == rendezvous_.port) {
          // Findings at the ports after the rendezvous' own are not reported.
          found = result.found;
        }
      }
    }
    return not_reached(found, fmt::format(" within {:g} s", to_seconds(timeout_ns_)));
  }

 private:
  IntroductionResult try_port(int port) const {
    const std::string addresses = addresses_of(rendezvous_.host);
    auto connection = connect(fmt::format("{}:{}", addresses, port));
    if (!connection.ok()) return {.found = addresses.empty() ? "no address of it" : "nobody"};
    const Hello own = hello_of(own_, rendezvous_);
    return introduce(std::move(*connection), hmac_, rendezvous_.secret.bytes(),
                     std::as_bytes(std::span(&own, 1)), kMostMessage, until_);
  }

  Error not_reached(const std::string& found, const std::string& when) const {
    return Error{
        fmt::format("{}:{}: found {}{}, expected rank 0 of {}{}", rendezvous_.host,
                    rendezvous_.port, found, when, own_.ranks,
                    rendezvous_.run.empty() ? "" : " of the run '" + rendezvous_.run + "'"),
        Error::Failed};
  }

  const LaunchedRank& own_;
  const Rendezvous& rendezvous_;
  const Hmac& hmac_;
  const Nanoseconds timeout_ns_;
  const Clock::time_point until_;
};

}  // namespace

Result<std::unique_ptr<Control>> join_tcp(const LaunchedRank& own, const Rendezvous& rendezvous,
                                          Nanoseconds timeout_ns) {
  if (own.ranks == 1) return std::unique_ptr<Control>(new TcpControl(1, std::nullopt));
  ASSIGN_OR_RETURN(const Hmac hmac, Hmac::open());
  if (own.rank != 0) return Rank0Connector(own, rendezvous, hmac, timeout_ns).run();
  auto listener = listen_near(rendezvous.interfaces, rendezvous.port);
  if (!listener.ok())
    return Error{fmt::format("port {} and the {} after it: {}, expected a free one here: "
                             "TANDEM_PORT chooses another",
                             rendezvous.port, kPortsTried - 1, listener.error().text()),
                 Error::Failed};
  AdmissionListener admission(std::move(*listener), rendezvous.secret, hmac,
                              static_cast<std::size_t>(own.ranks));
  return std::unique_ptr<Control>(new TcpControl(
      own.ranks, RankCollector(std::move(admission), hello_of(own, rendezvous), timeout_ns)));
}

}  // namespace tandem
