// Sorting what is nearly sorted, and what is not.
#include "schedule/program/nearly_sorted.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

using namespace tandem;

namespace {

// 0 to 999, each up to `most` places from its own.
std::vector<int> scattered(int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<int, int>> places;
  for (int i = 0; i < 1000; ++i)
    places.emplace_back(i + static_cast<int>(random() % (most + 1)), i);
  std::ranges::sort(places);
  std::vector<int> items;
  for (const auto& [place, item] : places) items.push_back(item);
  return items;
}

TEST_CASE("what is nearly sorted, or not at all, is sorted") {
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  for (const int most : {0, 3, 20, 100, 1000}) {
    const unsigned seed = 7;
    INFO("seed " << seed << ", up to " << most << " places away");
    std::vector<int> items = scattered(most, seed);
    CHECK(std::ranges::is_sorted(items) == (most == 0));
    sort_nearly_sorted(&items);
    CHECK(items == expected);
  }
  std::vector<std::pair<int, int>> pairs = {{3, 1}, {2, 2}, {1, 3}};
  sort_nearly_sorted(&pairs, &std::pair<int, int>::second);
  CHECK(pairs.front() == std::pair(3, 1));
  sort_nearly_sorted(&pairs, &std::pair<int, int>::first);
  CHECK(pairs.front() == std::pair(1, 3));
  std::vector<int> none;
  sort_nearly_sorted(&none);
  CHECK(none.empty());
}

}  // namespace
