// Sorts items that are nearly sorted, such as the ops of a body by time.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace tandem {

// Sorts by key(item). It is an insertion sort, or std::ranges::sort if items move back by more than
// 16 places on average. Equal items may come in either order.
template <class Item, class Key = std::identity>
void sort_nearly_sorted(std::vector<Item>* items, Key key = {}) {
  std::vector<Item>& all = *items;
  const std::size_t most_moves = 16 * all.size();
  std::size_t moves = 0;
  for (std::size_t i = 1; i < all.size() && moves <= most_moves; ++i) {
    const Item item = all[i];
    std::size_t to = i;
    for (; to > 0 && std::invoke(key, item) < std::invoke(key, all[to - 1]); --to, ++moves)
      all[to] = all[to - 1];
    all[to] = item;
  }
  if (moves > most_moves) std::ranges::sort(all, {}, key);
}

}  // namespace tandem
