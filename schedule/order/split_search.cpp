// Local search over splits of layers: from each start it goes to the best split that one moved
// layer gives, until none is better. After a move, the passes on the current split's critical path
// still run one after another. So the change of that path's length is a lower bound of the change
// of the iteration's time. Moves are tried in the order of this bound, and not at all if it is not
// below 0.
#include "schedule/order/split_search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// A move gives stage `from` one layer less and stage `to` one more. Layers stay in order, so each
// stage between gets a layer from one neighbour and passes one to the other.
struct Move {
  std::size_t from = 0, to = 0;
  // A lower bound of the change of the iteration's time; -infinity: not known.
  double change = -std::numeric_limits<double>::infinity();
};

// Returns all moves, between neighbours first, since long moves shift the stages between.
std::vector<Move> all_moves(const LayerCosts& costs, const std::vector<int>& split) {
  std::vector<Move> moves;
  const auto add = [&](std::size_t from, std::size_t to) {
    if (can_give(costs, split, from) && can_take(costs, split, to)) moves.push_back({from, to});
  };
  for (std::size_t distance = 1; distance < split.size(); ++distance) {
    for (std::size_t low = 0; low + distance < split.size(); ++low) {
      add(low, low + distance);
      add(low + distance, low);
    }
  }
  return moves;
}

// Returns the time that a layer of the stage adds to a path with these passes of the stage.
double along(const PathPasses& passes, const OrderCosts& layer) {
  return passes.forward * layer.forward + passes.input * layer.input + passes.weight * layer.weight;
}

// Returns the moves that shorten the longest path, the largest gain first, at most kMost.
std::vector<Move> promising_moves(const LayerCosts& costs, const std::vector<int>& split,
                                  const std::vector<PathPasses>& way, double time) {
  constexpr std::size_t kMost = 2'000;
  constexpr double kNothing = 1e-12;
  const auto layers = static_cast<int>(costs.layers.size());
  // up[s]: the change of the path's time if each stage below s passes its last layer to the next
  // stage. down[s]: the change if each of them gets the next stage's first layer. These are running
  // sums: a move from stage 2 to 5 changes the path by up[5] - up[2].
  std::vector<double> up = {0}, down = {0};
  int begin = 0;
  for (std::size_t stage = 0; stage + 1 < split.size(); ++stage) {
    begin += split[stage];  // of the next stage
    const auto step = [&](const PathPasses& to, const PathPasses& from, int layer) {
      if (layer < 0 || layer >= layers) return 0.0;
      return along(to, costs.layers[layer]) - along(from, costs.layers[layer]);
    };
    up.push_back(up.back() + step(way[stage + 1], way[stage], begin - 1));
    down.push_back(down.back() + step(way[stage], way[stage + 1], begin));
  }
  std::vector<Move> moves = all_moves(costs, split);
  std::erase_if(moves, [&](Move& move) {
    move.change =
        move.from < move.to ? up[move.to] - up[move.from] : down[move.from] - down[move.to];
    return move.change > -kNothing * time;
  });
  const auto middle = moves.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, moves.size()));
  std::partial_sort(moves.begin(), middle, moves.end(), [](const Move& a, const Move& b) {
    return std::tie(a.change, a.from, a.to) < std::tie(b.change, b.from, b.to);
  });
  moves.erase(middle, moves.end());
  return moves;
}

class SplitSearch {
 public:
  SplitSearch(const LayerCosts& costs, const SplitQuestions& ask) : costs_(costs), ask_(ask) {}

  // Searches from `split` until `most` splits in all have been asked for.
  void from(std::vector<int> split, std::size_t most) {
    most_ = most;
    value_of(split);
    for (note_visited(split); improve(&split);) note_visited(split);
  }

  std::vector<std::vector<int>> best_first() {
    std::ranges::stable_sort(visited_, [&](const std::vector<int>& a, const std::vector<int>& b) {
      return known_.at(a).better_than(known_.at(b));
    });
    return std::move(visited_);
  }

 private:
  SplitValue value_of(const std::vector<int>& split) {
    const auto [at, is_new] = known_.try_emplace(split);
    if (is_new) at->second = ask_.value(split);
    return at->second;
  }

  // Notes a split that the search has moved to, for best_first().
  void note_visited(const std::vector<int>& split) {
    if (std::ranges::find(visited_, split) == visited_.end()) visited_.push_back(split);
  }

  std::vector<Move> moves_of(const std::vector<int>& split, const SplitValue& value) const {
    if (!value.fits || !ask_.longest_way) return all_moves(costs_, split);
    const std::vector<PathPasses> way = ask_.longest_way(split);
    return way.empty() ? all_moves(costs_, split) : promising_moves(costs_, split, way, value.time);
  }

  // Takes the best of the moves. Returns whether it is better than the split itself. Where moves
  // come sorted by their bounds, it stops once it has a better split and either has tried kAtLeast
  // moves or no later one can beat that split.
  bool improve(std::vector<int>* split) {
    constexpr int kAtLeast = 32;
    const SplitValue now = value_of(*split);
    SplitValue best_value = now;
    std::vector<int> best = *split;
    int tried = 0;
    for (const Move& move : moves_of(*split, now)) {
      if (known_.size() >= most_) break;
      const bool has_bound = move.change > -std::numeric_limits<double>::infinity();
      const bool is_enough = tried >= kAtLeast || now.time + move.change >= best_value.time;
      if (has_bound && is_enough && best_value.better_than(now)) break;
      std::vector<int> next = with_layer_moved(*split, move.from, move.to);
      const SplitValue value = value_of(next);
      ++tried;
      if (!value.better_than(best_value)) continue;
      best_value = value;
      best = std::move(next);
    }
    const bool better = best != *split;
    *split = std::move(best);
    return better;
  }

  const LayerCosts& costs_;
  const SplitQuestions& ask_;
  std::size_t most_ = 0;
  std::map<std::vector<int>, SplitValue> known_;
  std::vector<std::vector<int>> visited_;
};

}  // namespace

std::vector<std::vector<int>> refined_splits(const LayerCosts& costs,
                                             const std::vector<std::vector<int>>& starts, int most,
                                             const SplitQuestions& ask) {
  CHECK(!starts.empty());
  SplitSearch search(costs, ask);
  // Each start may use what earlier ones left of their shares.
  for (std::size_t i = 0; i < starts.size(); ++i)
    search.from(starts[i], static_cast<std::size_t>(most) * (i + 1) / starts.size());
  return search.best_first();
}

}  // namespace tandem
