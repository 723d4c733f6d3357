#include "topology/comm_kind.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

constexpr std::array<std::string_view, kCommKinds> kNames = {
    "p2p", "all_reduce", "reduce_scatter", "all_gather", "alltoall", "sendrecv"};

}  // namespace

std::string_view comm_kind_name(CommKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<CommKind> comm_kind_named(std::string_view word) {
  const auto at = std::ranges::find(kNames, word);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<CommKind>(at - kNames.begin());
}

double bus_factor(CommKind kind, int ranks) {
  if (kind == CommKind::SendRecv || kind == CommKind::RingShift) return 1;
  const double passes = kind == CommKind::AllReduce ? 2 : 1;
  return passes * (ranks - 1) / ranks;
}

}  // namespace tandem
