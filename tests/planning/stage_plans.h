// What tests hold the search to: trying every plan, and its own bounds on plans drawn at random.
#pragma once

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "job/site.h"
#include "planning/tune/search.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {

// Mixtral 8x7B: of one sequence an expert has 4546.56 rows, of two 9093.12. What rounds them down
// to an odd number makes weight gradients' products slow.
inline const std::string kMixtral = R"([model]
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
ffn_hidden = 14336
gated_mlp = true
seq = 4096
vocab = 32000
experts = 8
top_k = 2
expert_imbalance = 1.11
[parallel]
dp = 64
ep = 8
global_batch = 1920
[train]
flash_attention = true
[cluster]
preset = "dgx-h100"
gpus = 64
)";

inline StageLevel level_of(const Scenario& scenario) {
  auto cluster = make_cluster(scenario);
  REQUIRE(cluster.ok());
  return {scenario, *std::move(cluster)};
}

inline std::vector<Candidate> all_of(const Scenario& base, const Space& space) {
  std::vector<Candidate> all;
  for (const Layout& cut : space.cuts(base)) {
    for (const Layout& layout : space.layouts(base, cut)) {
      for (const Playing& playing : space.playings(base, layout))
        for (const Sharing& sharing : space.sharings(base, layout, playing))
          all.push_back({layout, playing, sharing});
    }
  }
  return all;
}

// So many of all plans, drawn by the seed.
inline std::vector<Candidate> drawn_of(const Scenario& base, const Space& space, unsigned seed,
                                       std::size_t plans) {
  std::vector<Candidate> drawn = all_of(base, space);
  REQUIRE(drawn.size() > plans);
  std::mt19937 random(seed);
  std::shuffle(drawn.begin(), drawn.end(), random);
  drawn.resize(plans);
  return drawn;
}

// Finds the same as Search::best() without bounds: plays every plan that fits.
inline SearchResult search_all(const Scenario& base, const Space& space, StageLevel* level,
                               std::size_t keep) {
  SearchResult all;
  for (const Candidate& plan : all_of(base, space)) {
    ++all.counts.enumerated;
    const auto order = level->order_of(plan);
    if (order.ok() && !level->fits(plan, level->memory(plan, *order))) {
      ++all.counts.memory;
      continue;
    }
    const auto played = order.ok() ? level->play(plan, *order) : Result<Nanoseconds>(order.error());
    ++(played.ok() ? all.counts.scheduled : all.counts.unplayable);
    if (played.ok()) all.best.push_back({plan, *played});
  }
  std::ranges::stable_sort(all.best, {}, &Found::iteration_ns);
  const auto kind_of = [](const Found& found) {
    const Layout& l = found.candidate.layout;
    return std::tuple(l.tp, l.cp, l.ep, l.pp, l.vpp, l.dp, found.candidate.playing.order);
  };
  std::vector<Found> best;  // one of each kind
  for (const Found& found : all.best) {
    const auto is_alike = [&](const Found& other) { return kind_of(other) == kind_of(found); };
    if (best.size() < keep && std::ranges::none_of(best, is_alike)) best.push_back(found);
  }
  all.best = std::move(best);
  return all;
}

// The best four, which both ways of looking find.
inline std::vector<Found> check_against_all(const Scenario& base, const Space& space) {
  StageLevel level = level_of(base);
  const SearchResult all = search_all(base, space, &level, 4);
  SearchResult found = Search(base, space, {&level, 1}).best({.keep = 4});
  REQUIRE(all.best.size() == found.best.size());
  REQUIRE(!all.best.empty());
  for (std::size_t i = 0; i < all.best.size(); ++i) {
    INFO(i << ": " << plan_text(all.best[i].candidate) << " | "
           << plan_text(found.best[i].candidate));
    CHECK(found.best[i].iteration_ns == all.best[i].iteration_ns);
  }
  const SearchCounts& counts = found.counts;
  CHECK(counts.enumerated <= all.counts.enumerated);
  CHECK(counts.cuts_memory + counts.cuts_work < counts.cuts);
  CHECK((counts.cuts_memory + counts.cuts_work > 0 || counts.enumerated == all.counts.enumerated));
  CHECK(counts.memory <= all.counts.memory);  // those that a bound cut first are not asked
  CHECK(counts.memory + counts.work + counts.pipeline + counts.data + counts.scheduled +
            counts.unplayable ==
        counts.enumerated);
  CHECK(counts.scheduled < all.counts.scheduled);
  return std::move(found.best);
}

inline void check_bounds(const Scenario& base, const std::vector<Candidate>& plans) {
  StageLevel level = level_of(base);
  for (const Candidate& plan : plans) {
    INFO(plan_text(plan));
    const auto order = level.order_of(plan);
    REQUIRE(order.ok());
    const auto played = level.play(plan, *order);
    REQUIRE(played.ok());
    CHECK(level.work_bound(plan.layout) <= *played);
    CHECK(level.uncontended_bound(plan.layout) <= level.work_bound(plan.layout));
    CHECK(level.exposed_bound(plan.layout) <= level.uncontended_bound(plan.layout));
    CHECK(level.least_exposed_bound(plan.layout) <= level.exposed_bound(plan.layout));
    Layout cut = plan.layout;
    cut.vpp = 1;
    CHECK(level.state_floor(cut) <= level.memory_floor(plan));
    const RankEnds least = level.ends_bound(plan.layout, plan.playing);
    CHECK(level.data_bound(plan, least) <= *played);
    CHECK(level.memory_floor(plan) <= level.memory(plan, *order));
    const auto ends = level.play_ranks(plan, *order);
    REQUIRE(ends.ok());
    CHECK(level.data_bound(plan, *ends) <= *played);
    for (std::size_t rank = 0; rank < least.size(); ++rank) CHECK(least[rank] <= (*ends)[rank]);
  }
}

}  // namespace tandem
