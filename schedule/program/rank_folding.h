// RankFolding: which ranks are played. Folded, one rank stands for each class of equal ranks and
// one communicator for each class of equal communicators; unfolded, every rank stands for itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"

namespace tandem {

// A rank that is played, and its communicator class per slot of its body.
struct FoldedRank {
  Rank rank{};
  int body = 0;
  int multiplicity = 1;  // ranks it stands for
  std::vector<std::int32_t> comm_classes;
};

// Where a folded rank belongs to a communicator class: the slot of its body that leads there.
struct ClassMember {
  std::int32_t folded_rank = 0;  // into RankFolding::folded_ranks
  std::int32_t slot = 0;
};

// A communicator that is played. All of `members` must arrive before an op of it starts.
struct CommunicatorClass {
  GroupKind group_kind = GroupKind::Pipeline;
  std::vector<ClassMember> members;
  std::vector<std::int32_t> communicators;  // those it stands for, in lock step
};

struct RankFolding {
  std::vector<FoldedRank> folded_ranks;
  std::vector<CommunicatorClass> comm_classes;
  bool folded = false;
};

// Equal ranks have one body, and communicators of equal ranks in each of its slots: several folded
// ranks of one body where its ranks meet unlike ones. Communicators of unlike `colours`, one each,
// differ.
RankFolding fold(const Program& program, std::span<const std::int32_t> colours = {});
RankFolding unfold(const Program& program);

}  // namespace tandem
