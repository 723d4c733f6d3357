// Finds factors one after the other: each is the median of the ops' ratios (measured over
// simulated), divided by the factors before it.
#include "validation/explain/run_factors.h"

#include <algorithm>

#include "base/quantile.h"

namespace tandem {
namespace {

using Ratios = std::map<int, std::vector<double>>;
using RankRatios = std::map<int, Ratios>;  // by key, then rank

template <class Key>
std::map<Key, Factor> medians(std::map<Key, std::vector<double>> ratios) {
  std::map<Key, Factor> factors;
  for (auto& [key, values] : ratios) {
    const auto count = static_cast<std::int64_t>(values.size());
    factors[key] = {lower_median(std::move(values)), count};
  }
  return factors;
}

// Returns the median of the ranks' medians (of an even number the lower middle one). So a factor is
// shared by most ranks: if half of the ranks are slow, that is no slow kind.
Factors shared_medians(const RankRatios& ratios) {
  Factors factors;
  for (const auto& [key, by_rank] : ratios) {
    std::vector<double> of_ranks;
    for (const auto& [rank, factor] : medians(by_rank)) {
      of_ranks.push_back(factor.value);
      factors[key].ops += factor.ops;
    }
    factors[key].value = lower_median(std::move(of_ranks));
  }
  return factors;
}

std::vector<int> places_of(const Program& program) {
  std::vector<int> places(program.ranks.size(), -1);
  for (const Communicator& comm : program.communicators) {
    if (comm.group_kind != GroupKind::Expert || comm.members.size() < 2) continue;
    for (std::size_t i = 0; i < comm.members.size(); ++i)
      places[index(comm.members[i])] = static_cast<int>(i);
  }
  return places;
}

Factors kinds_of(const RunFactors& found) {
  RankRatios ratios;
  found.compared.for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
    if (!found.is_of_experts(rank, op)) ratios[static_cast<int>(op.kind)][rank].push_back(ratio);
  });
  return shared_medians(ratios);
}

// A stage that one rank has alone cannot be told from its rank.
Factors stages_of(const RunFactors& found) {
  std::map<int, int> ranks_of_stage;
  for (const RankRow& row : found.compared.program.ranks) {
    std::map<int, bool> own;
    for (const Op& op : found.compared.program.bodies[row.body].ops)
      own[op.stage] |= is_compute(op.kind);
    for (const auto& [stage, computes] : own) ranks_of_stage[stage] += computes ? 1 : 0;
  }
  RankRatios ratios;
  found.compared.for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
    const bool is_shared = op.stage >= 0 && ranks_of_stage[op.stage] > 1;
    if (is_shared && !found.is_of_experts(rank, op))
      ratios[op.stage][rank].push_back(ratio / factor_at(found.kinds, static_cast<int>(op.kind)));
  });
  return ratios.size() > 1 ? shared_medians(ratios) : Factors();
}

Factors ranks_of(const RunFactors& found) {
  Ratios ratios;
  found.compared.for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
    if (found.is_of_experts(rank, op)) return;
    ratios[rank].push_back(ratio / factor_at(found.kinds, static_cast<int>(op.kind)) /
                           factor_at(found.stages, op.stage));
  });
  return ratios.size() > 1 ? medians(std::move(ratios)) : Factors();
}

// Returns the factors of experts by key(place, op).
template <class Key>
Factors experts_of(const RunFactors& found, const Key& key) {
  RankRatios ratios;
  found.compared.for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
    if (found.is_of_experts(rank, op))
      ratios[key(found.places[rank], op)][rank].push_back(ratio / found.usual_ratio(rank, op));
  });
  return shared_medians(ratios);
}

std::vector<SlowestExperts> slowest_of(const RunFactors& found) {
  const std::vector<Communicator>& communicators = found.compared.program.communicators;
  std::vector<SlowestExperts> slowest(communicators.size());
  for (std::size_t c = 0; c < slowest.size(); ++c) {
    if (communicators[c].group_kind != GroupKind::Expert) continue;
    for (const Rank member : communicators[c].members) {
      const int place = found.places[index(member)];
      slowest[c] = std::max(slowest[c], {factor_at(found.experts, place), place});
    }
  }
  return slowest;
}

std::map<CommLink, Factor> links_of(const RunFactors& found) {
  std::map<CommLink, std::vector<double>> ratios;
  found.compared.for_comm([&](std::size_t c, std::size_t, double ratio) {
    ratios[found.link_of(c)].push_back(ratio / found.part_of_experts(c, ratio));
  });
  return medians(std::move(ratios));
}

}  // namespace

bool RunFactors::is_of_experts(int rank, const Op& op) const {
  if (op.kernel < 0 || places[rank] < 0) return false;
  return compared.program.kernels[op.kernel].name.starts_with("experts ");
}

double RunFactors::usual_ratio(int rank, const Op& op) const {
  const double dense = factor_at(kinds, static_cast<int>(op.kind)) * factor_at(stages, op.stage) *
                       factor_at(ranks, rank);
  if (!is_of_experts(rank, op)) return dense;
  return dense * factor_at(expert_kinds, static_cast<int>(op.kind)) *
         factor_at(experts, places[rank]);
}

double RunFactors::part_of_experts(std::size_t communicator, double ratio) const {
  return std::clamp(ratio, 1.0, slowest[communicator].factor);
}

double RunFactors::own_ratio(std::size_t communicator, double ratio) const {
  return ratio / part_of_experts(communicator, ratio) / factor_at(links, link_of(communicator));
}

CommLink RunFactors::link_of(std::size_t communicator) const {
  const Communicator& comm = compared.program.communicators[communicator];
  return {comm.group_kind, comm.between_nodes};
}

RunFactors factors_of(const ComparedRun& run) {
  RunFactors found{.compared = run};
  found.places = places_of(run.program);
  found.kinds = kinds_of(found);
  found.stages = stages_of(found);
  found.ranks = ranks_of(found);
  found.expert_kinds =
      experts_of(found, [](int, const Op& op) { return static_cast<int>(op.kind); });
  found.experts = experts_of(found, [](int place, const Op&) { return place; });
  found.slowest = slowest_of(found);
  found.links = links_of(found);
  return found;
}

}  // namespace tandem
