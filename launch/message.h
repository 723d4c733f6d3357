// Messages between the processes of a run, and how received bytes are split into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace tandem {

// A message. Its readers define the kinds.
struct ControlMessage {
  std::uint32_t kind = 0;
  std::vector<std::byte> body;
};

// The head that precedes a body: kind, 0, and the body's size, in this machine's byte order.
struct MessageHead {
  std::uint32_t kind = 0;
  std::uint32_t zero = 0;
  std::uint64_t size = 0;
};

// The whole messages at the beginning of some bytes, and how many bytes they take.
struct MessagesRead {
  std::vector<ControlMessage> messages;
  std::size_t used = 0;
};

// Reads at most the first `most_messages` messages. Error::Failed if a head is malformed or
// announces a body of more than `most_bytes`: the bytes after it cannot be split into messages. Any
// bytes are safe to read. No memory is taken for a body that has not come.
Result<MessagesRead> read_messages(std::span<const std::byte> bytes, std::size_t most_bytes,
                                   std::size_t most_messages = SIZE_MAX);

}  // namespace tandem
