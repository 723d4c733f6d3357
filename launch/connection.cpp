// Sends and receives whole messages over TCP sockets that never block. A connection closes itself
// if the other end takes no byte for a second, or sends bytes that are no message. An address lists
// a host's addresses, the best first, and a port: "10.0.0.1,fd00::1:29500".
#include "launch/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/csv.h"

namespace tandem {
namespace {

Error call_failed(const char* function) {
  return Error{fmt::format("{}: {}", function, std::strerror(errno)), Error::Failed};
}

// Waits for at most a second. Returns whether the socket is ready for `events`.
bool wait_until_ready(int socket, short events) {
  constexpr int kPatience_ms = 1000;
  pollfd event{socket, events, 0};
  int found = 0;
  do {
    found = poll(&event, 1, kPatience_ms);
  } while (found < 0 && errno == EINTR);
  return found == 1 && (event.revents & events) != 0;
}

// An IPv4 or IPv6 address and a port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

std::optional<SocketAddress> socket_address(const std::string& host, int port) {
  SocketAddress address;
  auto* const four = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof *four;
    return address;
  }
  address = {};
  if (inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(static_cast<std::uint16_t>(port));
  address.size = sizeof *six;
  return address;
}

bool connect_to(int socket, SocketAddress address) {
  if (connect(socket, address.get(), address.size) == 0) return true;
  if (errno != EINPROGRESS || !wait_until_ready(socket, POLLOUT)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// Turns Nagle's algorithm off: messages are short, and the other end waits for them.
void send_at_once(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

int bound_port(int socket) {
  SocketAddress own;
  own.size = sizeof own.storage;
  if (getsockname(socket, own.get(), &own.size) != 0) return 0;
  return ntohs(own.family() == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(own.get())->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(own.get())->sin_port);
}

// Listens at an address; port 0 means a free one. `dual_stack`: an IPv6 socket accepts IPv4, too.
Result<Descriptor> listen_at(SocketAddress address, bool dual_stack) {
  constexpr int kBacklog = 4096;  // connections that wait to be accepted
  Descriptor own(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!own) return call_failed("socket");
  const int yes = 1;  // lets a port be reused at once after an earlier run
  setsockopt(own.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.family() == AF_INET6) {
    const int ipv6_only = dual_stack ? 0 : 1;
    setsockopt(own.number(), IPPROTO_IPV6, IPV6_V6ONLY, &ipv6_only, sizeof ipv6_only);
  }
  if (bind(own.number(), address.get(), address.size) != 0) return call_failed("bind");
  if (listen(own.number(), kBacklog) != 0) return call_failed("listen");
  return own;
}

// Listens on every interface: by IPv6 and IPv4, or by IPv4 alone where there is no IPv6.
Result<Descriptor> listen_on_all(int port) {
  auto both = listen_at(*socket_address("::", port), /*dual_stack=*/true);
  if (both.ok()) return both;
  return listen_at(*socket_address("0.0.0.0", port), /*dual_stack=*/true);
}

// Listens at each of the addresses on one port. With port 0 the first socket chooses it.
Result<std::vector<Descriptor>> listen_at_all(const std::vector<std::string>& addresses, int port) {
  std::vector<Descriptor> sockets;
  for (const std::string& address : addresses) {
    const int own = sockets.empty() ? port : bound_port(sockets.front().number());
    auto socket = listen_at(*socket_address(address, own), /*dual_stack=*/false);
    if (!socket.ok())
      return Error{fmt::format("{}:{}: {}", address, own, socket.error().text()), Error::Failed};
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

// Joins as many addresses as fit into kMostAddress, the best first.
std::string joined_addresses(const std::vector<std::string>& addresses, int port) {
  std::string text;
  for (const std::string& address : addresses) {
    if (text.size() + address.size() > kMostAddress - std::size(":65535")) break;
    text += (text.empty() ? "" : ",") + address;
  }
  return fmt::format("{}:{}", text, port);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (number_ >= 0) close(number_);
    number_ = other.release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

int Descriptor::release() { return std::exchange(number_, -1); }

int Listener::port() const { return sockets.empty() ? 0 : bound_port(sockets.front().number()); }

void Connection::send(std::uint32_t kind, std::span<const std::byte> body) {
  const MessageHead head{kind, 0, body.size()};
  for (std::span<const std::byte> part : {std::as_bytes(std::span(&head, 1)), body}) {
    while (is_open() && !part.empty()) {
      const ssize_t sent = ::send(socket_.number(), part.data(), part.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        part = part.subspan(static_cast<std::size_t>(sent));
        continue;
      }
      if (errno == EINTR) continue;
      const bool can_go_on = errno == EAGAIN && wait_until_ready(socket_.number(), POLLOUT);
      if (!can_go_on) socket_ = {};
    }
  }
}

std::optional<ControlMessage> Connection::receive_one() {
  std::vector<ControlMessage> messages = receive(1);
  if (messages.empty()) return std::nullopt;
  return std::move(messages.front());
}

std::vector<ControlMessage> Connection::receive(std::size_t most_messages) {
  constexpr int kMostBlocks = 16;
  for (int i = 0; i < kMostBlocks && read_block(); ++i) {
  }
  auto read = read_messages(pending_, most_bytes_, most_messages);
  if (!read.ok()) {
    socket_ = {};
    pending_.clear();
    return {};
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(read->used));
  return std::move(read->messages);
}

// Reads one block. Returns false if no more bytes have come, or if those that are pending must hold
// a whole message, which is to be taken first.
bool Connection::read_block() {
  std::array<std::byte, 1 << 16> block;
  while (is_open() && pending_.size() <= most_bytes_ + sizeof(MessageHead)) {
    const ssize_t got = recv(socket_.number(), block.data(), block.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return false;
    if (got <= 0) {
      socket_ = {};
      return false;
    }
    pending_.insert(pending_.end(), block.begin(), block.begin() + got);
    received_bytes_ += static_cast<std::size_t>(got);
    return true;
  }
  return false;
}

Result<Listener> listen_on(const InterfaceChoice& choice, int port) {
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, own_addresses(choice));
  Listener listener;
  if (choice.names.empty()) {
    ASSIGN_OR_RETURN(listener.sockets.emplace_back(), listen_on_all(port));
  } else {
    // A port that is free at the first address may be taken at another.
    const int tries = port == 0 ? kPortsTried : 1;
    auto sockets = listen_at_all(addresses, port);
    for (int i = 1; i < tries && !sockets.ok(); ++i) sockets = listen_at_all(addresses, port);
    if (!sockets.ok()) return sockets.error();
    listener.sockets = std::move(*sockets);
  }
  listener.address = joined_addresses(addresses, listener.port());
  return listener;
}

Result<Listener> listen_near(const InterfaceChoice& choice, int port) {
  auto listener = listen_on(choice, port);
  for (int i = 1; i < kPortsTried && !listener.ok() && port + i <= kMostPort; ++i)
    listener = listen_on(choice, port + i);
  return listener;
}

std::optional<Connection> accept_connection(const Listener& listener, std::size_t most_bytes) {
  for (const Descriptor& from : listener.sockets) {
    Descriptor socket(accept4(from.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && errno == EAGAIN) continue;
    if (!socket) return std::nullopt;
    send_at_once(socket.number());
    return Connection(std::move(socket), most_bytes);
  }
  return std::nullopt;
}

Result<Connection> connect(const std::string& address) {
  const std::size_t colon = std::min(address.rfind(':'), address.size());
  std::istringstream hosts(address.substr(0, colon));
  const auto port =
      parse_integer(std::string_view(address).substr(std::min(colon + 1, address.size())));
  for (std::string host; port.ok() && std::getline(hosts, host, ',');) {
    const auto other = socket_address(host, static_cast<int>(*port));
    if (!other) continue;
    Descriptor own(socket(other->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!own || !connect_to(own.number(), *other)) continue;
    send_at_once(own.number());
    return Connection(std::move(own));
  }
  return Error{fmt::format("found no way to {}, expected rank 0 there", address), Error::Failed};
}

}  // namespace tandem
