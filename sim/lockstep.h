// Lock step: folds ranks where flows contend.
//
// Ranks of one class stay together in time if everything that they meet is alike within its class:
//
// - every rank of a class has, slot by slot, communicators of one class;
// - every communicator of a class has equally many flows of each class;
// - every flow of a class crosses the same classes of links;
// - every link of a class has the same bandwidth and carries equally many flows of each class.
//
// Such a partition is called equitable (Godsil and Royle 2001, "Algebraic Graph Theory", 9.3).
// Max-min fair shares are unique, and equal shares within each class fulfil their condition. So all
// flows of a class get the same share, and whenever they start together they end together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/lowering/price.h"
#include "schedule/program/rank_folding.h"
#include "topology/cluster.h"
#include "topology/traffic.h"

namespace tandem {

// A folding, and the smaller network that it is played on.
struct LockStep {
  RankFolding folding;
  // By LinkId: one link stands for each class of links. If the class has n links, and u is the unit
  // by which its flows are divided, this link has n/u times the bandwidth of one of them, and a
  // flow of the class of f flows has multiplicity f/u. Example: 8 links of 50 GB/s that carry 16
  // flows, u = 16: one link of 25 GB/s with one flow.
  std::vector<double> link_bytes_per_s;
  // By communicator class and use: the traffic on those links.
  std::map<std::pair<std::int32_t, CommUse>, Traffic> traffic;
};

// Returns the coarsest folding that is exact, or nothing where splitting classes leaves half of the
// ranks or more to be played.
std::optional<LockStep> lock_step(const Program& program, const Cluster& cluster,
                                  const Placement& placement);

}  // namespace tandem
