#include "schedule/program/replicas.h"

#include <numeric>

namespace tandem {
namespace {

// Disjoint sets of ranks (union-find). The root of a set is its least rank.
class Sets {
 public:
  explicit Sets(std::size_t ranks) : parent_(ranks) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  std::int32_t of(std::int32_t rank) {
    while (parent_[rank] != rank) rank = parent_[rank] = parent_[parent_[rank]];
    return rank;
  }

  void join(std::int32_t a, std::int32_t b) {
    a = of(a), b = of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::int32_t> parent_;
};

}  // namespace

Replicas part(const Program& program) {
  Sets sets(program.ranks.size());
  for (const Communicator& communicator : program.communicators) {
    if (communicator.group_kind == GroupKind::Data) continue;
    for (const Rank member : communicator.members)
      sets.join(index(communicator.members.front()), index(member));
  }
  Replicas replicas;
  std::vector<std::int32_t> number(program.ranks.size());
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(number.size()); ++rank) {
    const std::int32_t first = sets.of(rank);
    if (first == rank) {
      number[rank] = static_cast<std::int32_t>(replicas.ranks.size());
      replicas.ranks.emplace_back();
    }
    number[rank] = number[first];
    replicas.ranks[number[rank]].push_back(rank);
  }
  for (const Communicator& communicator : program.communicators) {
    bool between = false;
    for (const Rank member : communicator.members)
      between |= number[index(member)] != number[index(communicator.members.front())];
    replicas.between.push_back(between);
  }
  return replicas;
}

}  // namespace tandem
