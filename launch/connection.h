// Connection: messages between the processes of a run, over TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launch/interfaces.h"
#include "launch/message.h"

namespace tandem {

constexpr std::size_t kMostMessage = std::size_t{1} << 20;  // bytes; a rank's state may be larger

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

// One end of a connection. Sending waits, receiving does not. The connection closes if the other
// end sends bytes that are no message, or a message that is too large.
class Connection {
 public:
  // `most_bytes`: the largest message body that the other end may send.
  explicit Connection(Descriptor socket, std::size_t most_bytes = kMostMessage)
      : socket_(std::move(socket)), most_bytes_(most_bytes) {}

  int descriptor() const { return socket_.number(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  // Returns the bytes received so far, also of messages that are not yet whole.
  std::size_t received_bytes() const { return received_bytes_; }
  void expect_at_most(std::size_t most_bytes) { most_bytes_ = most_bytes; }
  // Closes the connection if sending fails.
  void send(std::uint32_t kind, std::span<const std::byte> body = {});
  // Returns the messages that have come by now, up to about a mebibyte; the rest comes with the
  // next call. Closes the connection if the other end has closed it.
  std::vector<ControlMessage> receive() { return receive(SIZE_MAX); }
  // Returns the first message that has come by now, if any.
  std::optional<ControlMessage> receive_one();
  // Gives the socket up without closing it. The other end sees it close when this process ends.
  void leave_open() { (void)socket_.release(); }

 private:
  std::vector<ControlMessage> receive(std::size_t most_messages);
  bool read_block();

  Descriptor socket_;
  std::vector<std::byte> pending_;
  std::size_t most_bytes_;
  std::size_t received_bytes_ = 0;
};

// A port of this host, and the addresses where others can reach it, as text:
// "10.0.0.1,fd00::2,127.0.0.1:4242".
struct Listener {
  std::vector<Descriptor> sockets;
  std::string address;

  int port() const;
};

// Listens on the chosen interfaces, IPv4 and IPv6. `port` 0: any free port. `address` lists the
// best addresses first, as many as fit into kMostAddress.
Result<Listener> listen_on(const InterfaceChoice& choice, int port = 0);
constexpr std::size_t kMostAddress = 500;  // characters
// Listens at the first free port of `port` and the kPortsTried - 1 after it.
Result<Listener> listen_near(const InterfaceChoice& choice, int port);
constexpr int kPortsTried = 8;
constexpr int kMostPort = 65535;

// Accepts a waiting connection. Returns nothing, with errno set, if there is none.
std::optional<Connection> accept_connection(const Listener& listener, std::size_t most_bytes);

// Tries the addresses one after another, each for at most a second.
Result<Connection> connect(const std::string& address);

}  // namespace tandem
