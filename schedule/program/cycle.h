// Finds a cycle of places that wait for each other, for the Errors that name it.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace tandem {

// Returns the cycle into which next() leads from `first`. next(place) is a place that `place` waits
// for.
template <class Place, class Next>
std::vector<Place> cycle_from(const Place& first, const Next& next) {
  std::vector<Place> path = {first};
  std::map<Place, std::size_t> index_of = {{first, 0}};  // in `path`
  for (;;) {
    const Place place = next(path.back());
    const auto [found, is_new] = index_of.try_emplace(place, path.size());
    if (!is_new) return {path.begin() + static_cast<std::ptrdiff_t>(found->second), path.end()};
    path.push_back(place);
  }
}

// Returns "a waits for b waits for a". Of many places it names the first and the last few.
template <class Place, class Text>
std::string cycle_text(const std::vector<Place>& cycle, const Text& text) {
  constexpr std::size_t kEnd = 8;
  std::string line;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > 2 * kEnd && i == kEnd) {
      line += fmt::format("{} others, one for another, wait for ", cycle.size() - 2 * kEnd);
      i = cycle.size() - kEnd;
    }
    line += text(cycle[i]) + " waits for ";
  }
  return line + text(cycle.front());
}

}  // namespace tandem
