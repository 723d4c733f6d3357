// Sorts items that are nearly sorted, such as the ops of a body by time.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace tandem {

// Sorts by `by` of the items. It is an insertion sort if each item goes back only a few places, and
// std::ranges::sort otherwise. Equal items may come in either order.
template <class Item, class By = std::identity>
void sort_nearly_sorted(std::vector<Item>* items, By by = {}) {
  std::vector<Item>& all = *items;
  const std::size_t most = 16 * all.size();
  std::size_t moves = 0;
  for (std::size_t i = 1; i < all.size() && moves <= most; ++i) {
    const Item item = all[i];
    std::size_t to = i;
    for (; to > 0 && std::invoke(by, item) < std::invoke(by, all[to - 1]); --to, ++moves)
      all[to] = all[to - 1];
    all[to] = item;
  }
  if (moves > most) std::ranges::sort(all, {}, by);
}

}  // namespace tandem
