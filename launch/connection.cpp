#include "launch/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

namespace tandem {
namespace {

struct Head {
  std::uint32_t kind = 0;
  std::uint32_t unused = 0;
  std::uint64_t size = 0;
};

Error failed(const char* what) {
  return Error{fmt::format("{}: {}", what, std::strerror(errno)), Error::Failed};
}

// Waits for the socket to take `events`; false: it did not within a second.
bool ready(int socket, short events) {
  constexpr int kPatience_ms = 1000;
  pollfd event{socket, events, 0};
  int found = 0;
  do {
    found = poll(&event, 1, kPatience_ms);
  } while (found < 0 && errno == EINTR);
  return found == 1 && (event.revents & events) != 0;
}

bool connect_to(int socket, const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return false;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return true;
  if (errno != EINPROGRESS || !ready(socket, POLLOUT)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// Messages are short, and the other end waits for them: each is sent at once.
void send_at_once(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

// The IPv4 addresses of this host's interfaces that are up, loopback last.
std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses, loopback;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {"127.0.0.1"};
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(),
              text.size());
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : addresses).emplace_back(text.data());
  }
  freeifaddrs(all);
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
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

void Connection::send(std::uint32_t kind, std::span<const std::byte> body) {
  const Head head{kind, 0, body.size()};
  for (std::span<const std::byte> part : {std::as_bytes(std::span(&head, 1)), body}) {
    while (is_open() && !part.empty()) {
      const ssize_t sent = ::send(socket_.number(), part.data(), part.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        part = part.subspan(static_cast<std::size_t>(sent));
      } else if (errno == EINTR) {
        continue;
      } else if (errno != EAGAIN || !ready(socket_.number(), POLLOUT)) {
        socket_ = {};
      }
    }
  }
}

std::vector<ControlMessage> Connection::receive() {
  std::array<std::byte, 1 << 16> block;
  while (is_open()) {
    const ssize_t got = recv(socket_.number(), block.data(), block.size(), 0);
    if (got > 0) {
      pending_.insert(pending_.end(), block.begin(), block.begin() + got);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      break;
    } else {
      socket_ = {};
    }
  }
  std::vector<ControlMessage> messages;
  std::size_t at = 0;
  Head head;
  while (pending_.size() - at >= sizeof head) {
    std::memcpy(&head, pending_.data() + at, sizeof head);
    if (pending_.size() - at - sizeof head < head.size) break;
    const auto body = pending_.begin() + static_cast<std::ptrdiff_t>(at + sizeof head);
    messages.push_back({head.kind, {body, body + static_cast<std::ptrdiff_t>(head.size)}});
    at += sizeof head + head.size;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(at));
  return messages;
}

Result<Listener> listen_anywhere(int port) {
  constexpr int kWaiting = 4096;
  Listener listener{Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), ""};
  if (!listener.socket) return failed("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const int yes = 1;  // a port that a run before this one left is free at once
  setsockopt(listener.socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.socket.number(), any, size) != 0) return failed("bind");
  if (listen(listener.socket.number(), kWaiting) != 0) return failed("listen");
  if (getsockname(listener.socket.number(), any, &size) != 0) return failed("getsockname");
  listener.address = fmt::format("{}:{}", fmt::join(own_addresses(), ","), ntohs(address.sin_port));
  return listener;
}

std::optional<Connection> accept_connection(const Listener& listener) {
  Descriptor socket(
      accept4(listener.socket.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return std::nullopt;
  send_at_once(socket.number());
  return Connection(std::move(socket));
}

Result<Connection> connect(const std::string& address) {
  const std::size_t colon = address.find(':');
  std::istringstream hosts(address.substr(0, colon));
  const int port = std::atoi(address.c_str() + colon + 1);
  for (std::string host; std::getline(hosts, host, ',');) {
    Descriptor own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!own) return failed("socket");
    if (!connect_to(own.number(), host, port)) continue;
    send_at_once(own.number());
    return Connection(std::move(own));
  }
  return Error{fmt::format("found no way to {}, expected rank 0 there", address), Error::Failed};
}

}  // namespace tandem
