// Connection: messages between the processes of a run, over TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "launch/interfaces.h"
#include "launch/message.h"

namespace tandem {

constexpr std::size_t kMostMessage = std::size_t{1} << 20;  // bytes; a rank's state may have more

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

// One end of a connection. Sending waits, receiving does not. An end that says what is no message,
// or more than it may, is put off: the connection closes.
class Connection {
 public:
  // `most_bytes`: of a message's body that the other end may send.
  explicit Connection(Descriptor socket, std::size_t most_bytes = kMostMessage)
      : socket_(std::move(socket)), most_bytes_(most_bytes) {}

  int descriptor() const { return socket_.number(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  void expect_at_most(std::size_t most_bytes) { most_bytes_ = most_bytes; }
  // A connection that fails is closed.
  void send(std::uint32_t kind, std::span<const std::byte> body = {});
  // The messages that have come by now, of the first mebibyte or so; what is left comes next time.
  // Closes the connection where the other end has closed it.
  std::vector<ControlMessage> receive() { return receive(SIZE_MAX); }
  // The first of them.
  std::optional<ControlMessage> receive_one();
  // Sends nothing more. The other end sees the connection close when this process ends.
  void leave_open() { (void)socket_.release(); }

 private:
  std::vector<ControlMessage> receive(std::size_t most_messages);
  bool take_in();

  Descriptor socket_;
  std::vector<std::byte> pending_;
  std::size_t most_bytes_;
};

// A port of this host, and where others can reach it: "10.0.0.1,fd00::2,127.0.0.1:4242".
struct Listener {
  std::vector<Descriptor> sockets;
  std::string address;

  int port() const;
};

// Listens on the interfaces that are chosen, IPv4 and IPv6. `port` 0: a free one. Of `address` no
// more than fits into kMostAddress, the best first.
Result<Listener> listen_on(const InterfaceChoice& choice, int port = 0);
// At the first port from `port` on that nobody has taken, of kPortsTried.
Result<Listener> listen_near(const InterfaceChoice& choice, int port);
constexpr int kPortsTried = 8;
constexpr int kMostPort = 65535;
constexpr std::size_t kMostAddress = 500;

// A connection whose end is waiting to be accepted; nothing, and errno, where there is none.
std::optional<Connection> accept_connection(const Listener& listener, std::size_t most_bytes);

// Tries the addresses one after the other, each for a second at most.
Result<Connection> connect(const std::string& address);

}  // namespace tandem
