// Connection: messages between the watchdogs of a run, over TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tandem {

// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  int release();

 private:
  int number_ = -1;
};

// A message of one of the kinds that the watchdogs know.
struct ControlMessage {
  std::uint32_t kind = 0;
  std::vector<std::byte> body;
};

// One end of a connection. Sending waits, receiving does not.
class Connection {
 public:
  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.number(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  // A connection that fails is closed.
  void send(std::uint32_t kind, std::span<const std::byte> body = {});
  // The messages that have come by now. Closes the connection where the other end has closed it.
  std::vector<ControlMessage> receive();
  // Sends nothing more. The other end sees the connection close when this process ends.
  void leave_open() { (void)socket_.release(); }

 private:
  Descriptor socket_;
  std::vector<std::byte> pending_;
};

// Where others can reach this host: "10.0.0.1,127.0.0.1:4242", with the port that it listens on.
// `port` 0: a free one.
struct Listener {
  Descriptor socket;
  std::string address;
};
Result<Listener> listen_anywhere(int port = 0);

// A connection whose end is waiting to be accepted, if any.
std::optional<Connection> accept_connection(const Listener& listener);

// Tries the addresses one after the other, each for a second at most.
Result<Connection> connect(const std::string& address);

}  // namespace tandem
