// RunFactors: how many times as long as simulated the ops of a profiled run take, in factors that
// multiply. An op of compute has those of its kind, its stage and its rank, and what is left is its
// own. Experts have two more, and communication that of its link.
#pragma once

#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

#include "schedule/program/program.h"
#include "validation/explain/op_durations.h"
#include "validation/explain/profiled_run.h"

namespace tandem {

// Measured over simulated, and of how many ops.
struct Factor {
  double value = 1;
  std::int64_t ops = 0;
};
using Factors = std::map<int, Factor>;

// Returns a key's factor, 1 if it has none.
template <class Key>
double factor_at(const std::map<Key, Factor>& factors, const std::type_identity_t<Key>& key) {
  const auto at = factors.find(key);
  return at == factors.end() ? 1 : at->second.value;
}

// The links that communicators of a kind use.
struct CommLink {
  GroupKind group_kind = GroupKind::Tensor;
  bool between_nodes = false;

  auto operator<=>(const CommLink&) const = default;
};

// The slowest experts among a communicator's members. -1: none exchanges tokens.
struct SlowestExperts {
  double factor = 1;
  int place = -1;

  auto operator<=>(const SlowestExperts&) const = default;
};

// A profiled run beside its simulation. All three must stay.
struct ComparedRun {
  const Program& program;
  const OpDurations& base;
  const ProfiledRun& run;

  // Calls each(rank, op's number, op, measured over simulated) for measured ops of compute.
  template <class Each>
  void for_compute(const Each& each) const {
    for (const RankOfRun& rank : run.ranks) {
      const Body& body = program.body_of(Rank{rank.rank});
      for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
        const auto simulated = static_cast<double>(base.compute[rank.rank][i]);
        if (!is_compute(body.ops[i].kind) || rank.busy_ns[i] < 0 || simulated <= 0) continue;
        each(rank.rank, i, body.ops[i], rank.busy_ns[i] / simulated);
      }
    }
  }

  // Calls each(communicator, number of its operation, measured over simulated).
  template <class Each>
  void for_comm(const Each& each) const {
    for (std::size_t c = 0; c < base.comm.size(); ++c) {
      for (std::size_t i = 0; i < base.comm[c].size(); ++i) {
        const auto simulated = static_cast<double>(base.comm[c][i]);
        if (simulated > 0 && run.comm_ns[c][i] >= 0) each(c, i, run.comm_ns[c][i] / simulated);
      }
    }
  }
};

struct RunFactors {
  ComparedRun of;
  // By rank, its number in the group that exchanges tokens. Ranks of one place hold the same
  // experts. -1: the rank exchanges no tokens.
  std::vector<int> places;
  Factors kinds, expert_kinds;          // by OpKind
  Factors stages;                       // by stage
  Factors ranks;                        // by rank
  Factors experts;                      // by place
  std::vector<SlowestExperts> slowest;  // by communicator
  std::map<CommLink, Factor> links;

  // Returns the rank's place, of an op whose time follows from the tokens that its experts get;
  // else -1.
  int place_of(int rank, const Op& op) const;
  // Returns what all factors make of the op.
  double usual(int rank, const Op& op) const;
  // Returns what of an exchange's ratio is laid to its experts: at most the slowest's factor.
  double by_experts(std::size_t communicator, double ratio) const;
  // Returns what neither its experts nor its link explain.
  double own_ratio(std::size_t communicator, double ratio) const;
  CommLink link_of(std::size_t communicator) const;
};

RunFactors factors_of(const ComparedRun& run);

}  // namespace tandem
