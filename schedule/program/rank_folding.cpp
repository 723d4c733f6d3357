// Rank folding by colour refinement (1-dimensional Weisfeiler-Leman). Ranks begin in classes by
// body. Communicators are then classed by the (class, slot) of their members, and ranks by the
// classes of their communicators, until no class of ranks splits any more.
#include "schedule/program/rank_folding.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/random.h"

namespace tandem {
namespace {

// Numbers keys in the order in which they first occur.
class Numbers {
 public:
  std::int32_t of(std::uint64_t key) {
    return numbers_.try_emplace(key, static_cast<std::int32_t>(numbers_.size())).first->second;
  }
  std::size_t count() const { return numbers_.size(); }

 private:
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;
};

std::uint64_t mixed(std::uint64_t state, std::int64_t value) {
  return scatter(state ^ scatter(static_cast<std::uint64_t>(value)));
}

// The coarsest classes of equal ranks and of equal communicators. Classes are compared by hashes of
// 64 bits.
class Classes {
 public:
  Classes(const Program& program, std::span<const std::int32_t> colours)
      : program_(program), colours_(colours) {
    Numbers bodies;
    for (const RankRow& rank : program.ranks) of_rank_.push_back(bodies.of(rank.body));
    ranks_ = bodies.count();
    do class_communicators();
    while (split_ranks());
  }

  std::size_t ranks() const { return ranks_; }
  std::size_t communicators() const { return communicators_; }
  std::int32_t of_rank(std::size_t rank) const { return of_rank_[rank]; }
  std::int32_t of_communicator(std::size_t c) const { return of_communicator_[c]; }

 private:
  // Puts communicators into classes by the (class, slot) of each member. The members' hashes are
  // added up, so that their order does not matter.
  void class_communicators() {
    std::vector<std::uint64_t> ends(program_.communicators.size());
    for (std::size_t rank = 0; rank < of_rank_.size(); ++rank) {
      const RankRow& row = program_.ranks[rank];
      for (std::size_t slot = 0; slot < row.communicators.size(); ++slot)
        ends[row.communicators[slot]] +=
            mixed(mixed(0, of_rank_[rank]), static_cast<std::int64_t>(slot));
    }
    Numbers classes;
    of_communicator_.resize(ends.size());
    for (std::size_t c = 0; c < ends.size(); ++c)
      of_communicator_[c] =
          classes.of(mixed(mixed(ends[c], static_cast<int>(program_.communicators[c].group_kind)),
                           colours_.empty() ? 0 : colours_[c]));
    communicators_ = classes.count();
  }

  // Splits ranks by the classes of their communicators. Returns whether any class was split.
  bool split_ranks() {
    Numbers classes;
    for (std::size_t rank = 0; rank < of_rank_.size(); ++rank) {
      std::uint64_t key = mixed(0, of_rank_[rank]);
      for (const std::int32_t c : program_.ranks[rank].communicators)
        key = mixed(key, of_communicator_[c]);
      of_rank_[rank] = classes.of(key);
    }
    return std::exchange(ranks_, classes.count()) != classes.count();
  }

  const Program& program_;
  const std::span<const std::int32_t> colours_;
  std::vector<std::int32_t> of_rank_, of_communicator_;
  std::size_t ranks_ = 0, communicators_ = 0;
};

// The uses of a communicator by its members: (body, folded rank, slot), sorted, each once.
using CommEnds = std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>;

CommEnds ends_of(const Program& program, const Classes& classes, std::int32_t communicator) {
  CommEnds ends;
  for (const Rank member : program.communicators[communicator].members) {
    const RankRow& rank = program.ranks[index(member)];
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot) {
      if (rank.communicators[slot] == communicator)
        ends.emplace_back(rank.body, classes.of_rank(index(member)),
                          static_cast<std::int32_t>(slot));
    }
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace

RankFolding fold(const Program& program, std::span<const std::int32_t> colours) {
  const Classes classes(program, colours);
  RankFolding folding;
  folding.folded = true;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const auto folded_rank = static_cast<std::size_t>(classes.of_rank(r));
    if (folded_rank < folding.folded_ranks.size()) {
      ++folding.folded_ranks[folded_rank].multiplicity;
      continue;
    }
    folding.folded_ranks.push_back({static_cast<Rank>(r), program.ranks[r].body, 1, {}});
    for (const std::int32_t c : program.ranks[r].communicators)
      folding.folded_ranks.back().comm_classes.push_back(classes.of_communicator(c));
  }
  folding.comm_classes.reserve(classes.communicators());
  for (std::size_t c = 0; c < program.communicators.size(); ++c) {
    const auto comm_class = static_cast<std::size_t>(classes.of_communicator(c));
    if (comm_class == folding.comm_classes.size()) {
      folding.comm_classes.push_back({program.communicators[c].group_kind, {}, {}});
      for (const auto& [body, folded_rank, slot] :
           ends_of(program, classes, static_cast<std::int32_t>(c)))
        folding.comm_classes.back().members.push_back({folded_rank, slot});
    }
    folding.comm_classes[comm_class].communicators.push_back(static_cast<std::int32_t>(c));
  }
  return folding;
}

RankFolding unfold(const Program& program) {
  RankFolding folding;
  folding.folded_ranks.reserve(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankRow& row = program.ranks[r];
    folding.folded_ranks.push_back({static_cast<Rank>(r), row.body, 1, row.communicators});
  }
  for (std::size_t c = 0; c < program.communicators.size(); ++c)
    folding.comm_classes.push_back(
        {program.communicators[c].group_kind, {}, {static_cast<std::int32_t>(c)}});
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(folding.folded_ranks.size()); ++p) {
    const std::vector<std::int32_t>& comm_classes = folding.folded_ranks[p].comm_classes;
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(comm_classes.size()); ++slot)
      folding.comm_classes[comm_classes[slot]].members.push_back({p, slot});
  }
  return folding;
}

}  // namespace tandem
