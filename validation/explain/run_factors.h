// RunFactors: splits each op's ratio (measured over simulated time) into factors that multiply. For
// an op of compute: one each for its kind, its stage and its rank, and the rest is its own.
// Example: a forward that takes 1.3 times as long = 1.1 (forwards) x 1.0 (stage) x 1.15 (rank)
// x 1.03 (its own). Ops of experts have two factors more; communication has the factor of its link.
#pragma once

#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

#include "schedule/program/program.h"
#include "validation/explain/op_durations.h"
#include "validation/explain/profiled_run.h"

namespace tandem {

// A median of measured over simulated, and the number of ops behind it.
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

// A profiled run beside its simulation. The three referents must outlive it.
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
        if (!is_compute(body.ops[i].kind) || !rank.knows(i) || simulated <= 0) continue;
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
  ComparedRun compared;
  // By rank, its number in the group that exchanges tokens. Ranks of one place hold the same
  // experts. -1: the rank exchanges no tokens.
  std::vector<int> places;
  Factors kinds, expert_kinds;          // by OpKind
  Factors stages;                       // by stage
  Factors ranks;                        // by rank
  Factors experts;                      // by place
  std::vector<SlowestExperts> slowest;  // by communicator
  std::map<CommLink, Factor> links;

  // Says whether the op's time depends on the tokens that the experts of the rank's place get.
  bool is_of_experts(int rank, const Op& op) const;
  // Returns the product of all factors of the op: the ratio that is usual for it.
  double usual_ratio(int rank, const Op& op) const;
  // Returns the part of an exchange's ratio that its experts explain: from 1 to the slowest's
  // factor.
  double part_of_experts(std::size_t communicator, double ratio) const;
  // Returns the part of the ratio that neither its experts nor its link explain.
  double own_ratio(std::size_t communicator, double ratio) const;
  CommLink link_of(std::size_t communicator) const;
};

RunFactors factors_of(const ComparedRun& run);

}  // namespace tandem
