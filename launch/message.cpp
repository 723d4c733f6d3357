#include "launch/message.h"

#include <fmt/format.h>

#include <cstring>

namespace tandem {

Result<MessagesRead> read_messages(std::span<const std::byte> bytes, std::size_t most_bytes,
                                   std::size_t most_messages) {
  MessagesRead read;
  MessageHead head;
  while (read.messages.size() < most_messages && bytes.size() - read.used >= sizeof head) {
    const std::span<const std::byte> rest = bytes.subspan(read.used);
    std::memcpy(&head, rest.data(), sizeof head);
    if (head.zero != 0 || head.size > most_bytes)
      return Error{fmt::format("found a message of {} bytes and the mark {:x}, expected at most {} "
                               "bytes and the mark 0",
                               head.size, head.zero, most_bytes),
                   Error::Failed};
    if (rest.size() - sizeof head < head.size) break;
    const std::span<const std::byte> body = rest.subspan(sizeof head, head.size);
    read.messages.push_back({head.kind, {body.begin(), body.end()}});
    read.used += sizeof head + head.size;
  }
  return read;
}

}  // namespace tandem
