// Lock step: folding where flows contend.
//
// The ranks of a folding stay together where all of a class meet the same: every rank
// of a class has, slot by slot, communicators of one class; every communicator of a class has as
// many flows of each class; every flow of a class crosses the same classes of links; and every link
// of a class has the same bandwidth and carries as many flows of each class. Such a partition is
// called equitable (Godsil and Royle 2001, "Algebraic Graph Theory", 9.3). Max-min fair shares are
// unique, and equal shares within classes fulfil their condition, so all of a class get the same
// share and end at one time, as often as they start at one.
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

// A folding, and the network that it is played on.
struct LockStep {
  RankFolding folding;
  // One link for each class of links: LinkId is its place here. It has the bandwidth of so many of
  // them that a whole number of flows of each class goes over it.
  std::vector<double> link_bytes_per_s;
  // By communicator class and use, over those links.
  std::map<std::pair<std::int32_t, CommUse>, Traffic> traffic;
};

// The coarsest that is exact; nothing where it would play half of the ranks or more.
std::optional<LockStep> lock_step(const Program& program, const Cluster& cluster,
                                  const Placement& placement);

}  // namespace tandem
