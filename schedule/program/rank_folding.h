// RankFolding: decides which ranks are played. Folded, one rank stands for each class of equal
// ranks and one communicator for each class of equal communicators. Unfolded, every rank stands for
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
  int multiplicity = 1;  // the ranks that it stands for
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
  std::vector<std::int32_t> communicators;  // those that it stands for, which run in lock step
};

struct RankFolding {
  std::vector<FoldedRank> folded_ranks;
  std::vector<CommunicatorClass> comm_classes;
  bool folded = false;
};

// Folds equal ranks. Equal ranks have the same body, and in each of its slots communicators of
// equal ranks. A body has several folded ranks if its ranks meet unlike ones. `colours`, one for
// each communicator, keep communicators of different colours apart.
RankFolding fold(const Program& program, std::span<const std::int32_t> colours = {});
RankFolding unfold(const Program& program);

}  // namespace tandem
