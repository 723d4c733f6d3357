// Export: writes a Program as Chakra execution traces, one a rank, for ASTRA-sim and others.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "interop/chakra/chakra_trace.h"
#include "schedule/program/program.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"

namespace tandem {

// A Program as Chakra traces. Nodes are numbered by their start times in a replay (replay.h). Waits
// become data dependencies, and the previous op on a lane becomes a control dependency. A ring
// shift becomes a send and a receive. REQUIRES: `program` outlives this.
class ChakraExport {
 public:
  // Returns an Error if the Program cannot be played.
  static Result<ChakraExport> of(Program&& program) = delete;
  static Result<ChakraExport> of(const Program& program);

  // Returns the trace of a rank. Durations are whole microseconds. They are differences of rounded
  // start and end times, so that rounding errors do not add up along a chain of ops.
  ChakraTrace rank(Rank rank) const;

  // Returns the communicators of collectives, numbered from "1".
  ChakraGroups groups() const;

  // Returns the properties of this Program that ASTRA-sim cannot represent, one line each.
  std::vector<std::string> lost() const;

 private:
  struct NodeIds;
  struct RankPair {  // two ranks, and a communicator by which the first sends to the second
    std::int32_t from, to, communicator;
    auto operator<=>(const RankPair&) const = default;
  };

  explicit ChakraExport(const Program& program);
  void add_groups_and_edges();
  std::size_t first_event(Rank rank) const;
  std::int64_t tag(const RankPair& edge, std::int64_t sequence) const;
  ChakraNode node_of(const Op& op, std::uint64_t duration_us) const;
  void add_communication(const Op& op, Rank rank, std::int64_t sequence, ChakraNode node,
                         std::vector<ChakraNode>* nodes) const;

  const Program* program_;
  RankFolding folding_;
  Replay replay_;
  std::vector<std::int32_t> folded_rank_of_;  // by rank
  std::vector<std::int32_t> group_of_;        // by communicator; 0: no collective uses it
  std::vector<RankPair> edges_;               // sorted
};

}  // namespace tandem
