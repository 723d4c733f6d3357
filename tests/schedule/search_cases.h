// Pipelines at random to look for orders in: a chain of half stages, cut one or two a rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "schedule/search/search_problem.h"

namespace tandem {

// The same layers on the same ranks: a stage a rank, two in order, two in a V.
struct SearchCase {
  std::vector<SearchProblem> problems;
  bool uneven = false;
};

inline double between(double low, double high, std::mt19937_64* random) {
  return low + (high - low) * static_cast<double>((*random)() % 1001) / 1000;
}

// F, I and W of half stages, their transfers, bytes, and what a rank may hold.
struct SearchSizes {
  int pp = 2, microbatches = 4;
  std::vector<OrderCosts> halves;  // 2 pp
  std::vector<StageBytes> bytes;
  double limit = 0;  // of a rank
};

inline SearchProblem one_stage_a_rank(const SearchSizes& sizes) {
  SearchProblem problem{.microbatches = sizes.microbatches,
                        .rank_of_stage = stages_in_order(sizes.pp, 1),
                        .limit_bytes = std::vector<double>(sizes.pp, sizes.limit)};
  for (int s = 0; s < sizes.pp; ++s) {
    const OrderCosts &a = sizes.halves[2 * s], &b = sizes.halves[2 * s + 1];
    problem.costs.push_back(
        {a.forward + b.forward, a.input + b.input, a.weight + b.weight, a.transfer});
    problem.bytes.push_back({sizes.bytes[2 * s].live + sizes.bytes[2 * s + 1].live,
                             sizes.bytes[2 * s].stash + sizes.bytes[2 * s + 1].stash});
  }
  return problem;
}

inline SearchProblem two_stages_a_rank(const SearchSizes& sizes, std::vector<int> ranks) {
  return {.microbatches = sizes.microbatches,
          .rank_of_stage = std::move(ranks),
          .costs = sizes.halves,
          .bytes = sizes.bytes,
          .limit_bytes = std::vector<double>(sizes.pp, sizes.limit)};
}

inline SearchCase search_case(const SearchSizes& sizes) {
  return {{one_stage_a_rank(sizes), two_stages_a_rank(sizes, stages_in_order(sizes.pp, 2)),
           two_stages_a_rank(sizes, stages_in_a_v(sizes.pp, 2))}};
}

// 2 to 16 ranks, 4 to 128 microbatches; of every four cases one of equal stages, three of F, I and
// W each up to three times the least; transfers up to half an F; limits from V-Min's to ZB-2p's.
inline SearchCase random_search_case(std::mt19937_64* random) {
  SearchSizes sizes;
  sizes.pp = 2 + static_cast<int>((*random)() % 15);
  sizes.microbatches = 4 + static_cast<int>((*random)() % 125);
  const bool uneven = (*random)() % 4 != 0;
  const double transfer = (*random)() % 3 == 0 ? 0 : between(0, 0.5, random);
  const OrderCosts same = {1, between(0.8, 1.4, random), between(0.6, 1, random), transfer};
  for (int s = 0; s < 2 * sizes.pp; ++s) {
    const auto factor = [&] { return uneven ? between(1, 3, random) : 1.; };
    sizes.halves.push_back(
        {same.forward * factor(), same.input * factor(), same.weight * factor(), transfer});
    const double live = uneven ? between(0.8, 1.2, random) : 1;
    sizes.bytes.push_back({live, live * (uneven ? between(0.5, 1, random) : 1)});
  }
  const double least = 2 * std::ceil((sizes.pp + 2) / 3.);
  sizes.limit = between(1.2 * least, 4 * sizes.pp, random);
  SearchCase one = search_case(sizes);
  one.uneven = uneven;
  return one;
}

}  // namespace tandem
