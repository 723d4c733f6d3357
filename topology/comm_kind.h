// CommKind: the kinds of communication, named and measured as nccl-tests does.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class CommKind : std::uint8_t {
  SendRecv,       // devices: from, to
  AllReduce,      // bytes: of the array
  ReduceScatter,  // bytes: of the whole array, as nccl-tests counts
  AllGather,      // bytes: of the whole array
  AllToAll,       // bytes: what one rank holds for all the others and itself
  RingShift,      // bytes: what each rank sends to the next one of the ring, all at once
};
constexpr int kCommKinds = 6;

// Returns nccl-tests' name. Its "sendrecv" is a RingShift. It has no SendRecv, which is "p2p" here.
std::string_view comm_kind_name(CommKind kind);
// Returns nothing if the word names no kind.
std::optional<CommKind> comm_kind_named(std::string_view word);

// Returns the ratio of bus bandwidth to bytes a second: what the busiest rank of a ring sends for
// each byte.
double bus_factor(CommKind kind, int ranks);

}  // namespace tandem
