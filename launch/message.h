// Messages: what the processes of a run say to each other, and how bytes that have come are taken
// apart into them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace tandem {

// A message of one of the kinds that its reader knows.
struct ControlMessage {
  std::uint32_t kind = 0;
  std::vector<std::byte> body;
};

// What stands before a body: kind, 0, and the body's size, in this machine's byte order.
struct MessageHead {
  std::uint32_t kind = 0;
  std::uint32_t zero = 0;
  std::uint64_t size = 0;
};

// The whole messages that some bytes begin with, and how many bytes those are.
struct MessagesRead {
  std::vector<ControlMessage> messages;
  std::size_t used = 0;
};

// The first `most_messages` of them; the rest is not looked at. An Error::Failed where a head is
// none, or says a body of more than `most_bytes`: what follows cannot be told apart. Reads any
// bytes, and nothing but them; no memory is taken for a body that has not come.
Result<MessagesRead> read_messages(std::span<const std::byte> bytes, std::size_t most_bytes,
                                   std::size_t most_messages = SIZE_MAX);

}  // namespace tandem
