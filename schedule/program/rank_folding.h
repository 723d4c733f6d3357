// RankFolding: decides which ranks are played. Folded, one rank represents each class of equal
// ranks, and one communicator each class of equal communicators. Unfolded, every rank represents
// itself. Of 8 replicas of 4 pipeline ranks, for example, folding leaves 4 ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"

namespace tandem {

// A rank that is played, and the communicator class of each slot of its body.
struct FoldedRank {
  Rank rank{};
  int body = 0;
  int multiplicity = 1;  // the number of ranks that it represents
  std::vector<std::int32_t> comm_classes;
};

// The membership of a folded rank in a communicator class, by a slot of its body.
struct ClassMember {
  std::int32_t folded_rank = 0;  // into RankFolding::folded_ranks
  std::int32_t slot = 0;
};

// A communicator that is played. All of `members` must arrive before an op of it starts.
struct CommunicatorClass {
  GroupKind group_kind = GroupKind::Pipeline;
  std::vector<ClassMember> members;
  std::vector<std::int32_t> communicators;  // represented; they run in lock step
};

struct RankFolding {
  std::vector<FoldedRank> folded_ranks;
  std::vector<CommunicatorClass> comm_classes;
  bool folded = false;
};

// Folds equal ranks. Two ranks are equal if they have the same body and, in each slot, equal
// communicators. Two communicators are equal if their members are. A body has several folded ranks
// if its ranks communicate with different kinds of ranks. `colours`, one for each communicator:
// those of different colours are never equal.
RankFolding fold(const Program& program, std::span<const std::int32_t> colours = {});
RankFolding unfold(const Program& program);

}  // namespace tandem
