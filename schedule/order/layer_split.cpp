// Dynamic programming over stages and layers finds the split with the shortest longest stage. Then
// a steepest descent moves layers off the busiest rank, one at a time, as long as that helps.
#include "schedule/order/layer_split.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

OrderCosts operator+(const OrderCosts& a, const OrderCosts& b) {
  return {a.forward + b.forward, a.input + b.input, a.weight + b.weight, a.transfer};
}

// Returns the time of the first n layers, by n.
std::vector<double> sums_of(const LayerCosts& costs) {
  std::vector<double> sums = {0};
  for (const OrderCosts& layer : costs.layers) sums.push_back(sums.back() + layer.work());
  return sums;
}

// A stage needs a layer unless it has something else: the embedding (first stage), the head (last),
// or multi-token prediction (if on the stage before the last). The last stage must then have none.
bool may_be_empty(const LayerCosts& costs, int stage, int stages) {
  return stage == 0 || stage == stages - 1 || (costs.prediction && stage == stages - 2);
}
bool may_have_layers(const LayerCosts& costs, int stage, int stages) {
  return !costs.prediction || stage != stages - 1;
}

// Returns the time of the stage without its layers and without costs.each.
double work_besides_layers(const LayerCosts& costs, int stage, int stages) {
  return (stage == 0 ? costs.embedding.work() : 0) + (stage + 1 == stages ? costs.head.work() : 0) +
         (costs.prediction && stage + 2 == stages ? costs.prediction->work() : 0);
}

// Returns the time of the longest stage, without costs.each, in a split into equal numbers of
// layers. The best split's longest stage takes no longer, so the search can skip longer stages.
double longest_of_even_split(const LayerCosts& costs, int stages) {
  std::vector<int> split(stages);
  auto left = static_cast<int>(costs.layers.size());
  // First gives one layer to each stage that needs one.
  for (int stage = 0; stage < stages; ++stage) {
    if (may_be_empty(costs, stage, stages)) continue;
    split[stage] = 1;
    --left;
  }
  CHECK(left >= 0);
  while (left > 0) {
    const int fewest = *std::ranges::min_element(
        split.begin(), split.end() - (may_have_layers(costs, stages - 1, stages) ? 0 : 1));
    for (int stage = 0; stage < stages && left > 0; ++stage) {
      if (split[stage] != fewest || !may_have_layers(costs, stage, stages)) continue;
      ++split[stage];
      --left;
    }
  }
  double longest = 0;
  for (const OrderCosts& stage : costs_of_split(costs, split))
    longest = std::max(longest, stage.work());
  constexpr double kRounding = 1 + 1e-9;
  return kRounding * (longest - costs.each.work());
}

// Minimises the longest stage, then the sum of squares. best[s][n] is the best split of the first n
// layers over the first s stages, and `own` the layers of the last of these stages. It follows from
// best[s - 1][n - own], for each `own`.
std::vector<int> even_stages(const LayerCosts& costs, int stages) {
  struct Best {
    double longest = std::numeric_limits<double>::infinity(), squares = 0;
    int own = -1;  // -1: no split found

    auto key() const { return std::tie(longest, squares); }
  };
  const auto layers = static_cast<int>(costs.layers.size());
  const std::vector<double> sums = sums_of(costs);
  const double most = longest_of_even_split(costs, stages);
  std::vector<std::vector<Best>> best(stages + 1, std::vector<Best>(layers + 1));
  best[0][0] = {.longest = 0, .squares = 0, .own = 0};
  for (int stage = 0; stage < stages; ++stage) {
    const double besides = work_besides_layers(costs, stage, stages);
    const bool may_have = may_have_layers(costs, stage, stages);
    for (int before = 0; before <= layers; ++before) {
      const Best& from = best[stage][before];
      if (from.own < 0) continue;
      const int end = may_have ? layers : before;
      for (int own = may_be_empty(costs, stage, stages) ? 0 : 1; before + own <= end; ++own) {
        const double time = besides + sums[before + own] - sums[before];
        if (time > most && own > 0) break;
        const Best next{std::max(from.longest, time), from.squares + time * time, own};
        Best& at = best[stage + 1][before + own];
        if (at.own < 0 || next.key() < at.key()) at = next;
      }
    }
  }
  CHECK(best[stages][layers].own >= 0);
  std::vector<int> split(stages);
  for (int stage = stages, left = layers; stage > 0; --stage) {
    split[stage - 1] = best[stage][left].own;
    left -= split[stage - 1];
  }
  return split;
}

std::vector<double> times_of_ranks(const LayerCosts& costs, const std::vector<int>& split,
                                   std::span<const int> rank_of_stage) {
  std::vector<double> ranks(*std::ranges::max_element(rank_of_stage) + 1);
  const std::vector<OrderCosts> stages = costs_of_split(costs, split);
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    ranks[rank_of_stage[stage]] += stages[stage].work();
  return ranks;
}

int busiest_rank(const LayerCosts& costs, const std::vector<int>& split,
                 std::span<const int> rank_of_stage) {
  const std::vector<double> ranks = times_of_ranks(costs, split, rank_of_stage);
  return static_cast<int>(std::ranges::max_element(ranks) - ranks.begin());
}

// The value that the descent minimises, compared in this order.
struct SplitLoad {
  double busiest = 0;       // time of the busiest rank
  double rank_squares = 0;  // sum of squares of the ranks' times: how uneven ranks are
  int stage_squares = 0;    // sum of squares of the stages' layers: how uneven stages are

  auto operator<=>(const SplitLoad&) const = default;
};

SplitLoad load_of(const LayerCosts& costs, const std::vector<int>& split,
                  std::span<const int> rank_of_stage) {
  SplitLoad load;
  for (const double time : times_of_ranks(costs, split, rank_of_stage)) {
    load.busiest = std::max(load.busiest, time);
    load.rank_squares += time * time;
  }
  for (const int layers : split) load.stage_squares += layers * layers;
  return load;
}

}  // namespace

bool can_give(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage) {
  const bool may_empty =
      may_be_empty(costs, static_cast<int>(stage), static_cast<int>(split.size()));
  return split[stage] > (may_empty ? 0 : 1);
}

bool can_take(const LayerCosts& costs, const std::vector<int>& split, std::size_t stage) {
  return may_have_layers(costs, static_cast<int>(stage), static_cast<int>(split.size()));
}

std::vector<int> with_layer_moved(std::vector<int> split, std::size_t from, std::size_t to) {
  --split[from];
  ++split[to];
  return split;
}

std::vector<OrderCosts> costs_of_split(const LayerCosts& costs, const std::vector<int>& split) {
  std::vector<OrderCosts> stages;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    OrderCosts own = costs.each;
    if (stage == 0) own = own + costs.embedding;
    if (stage + 1 == split.size()) own = own + costs.head;
    if (costs.prediction && stage + 2 == split.size()) own = own + *costs.prediction;
    if (costs.prediction && stage + 2 >= split.size()) own.transfer = costs.prediction->transfer;
    for (int i = 0; i < split[stage]; ++i) own = own + costs.layers[layer++];
    stages.push_back(own);
  }
  return stages;
}

std::vector<int> balanced_split(const LayerCosts& costs, std::span<const int> rank_of_stage) {
  const auto stages = static_cast<int>(rank_of_stage.size());
  std::vector<int> split = even_stages(costs, stages);
  SplitLoad load = load_of(costs, split, rank_of_stage);
  for (bool better = true; better;) {
    const int busiest = busiest_rank(costs, split, rank_of_stage);
    std::vector<int> best;
    for (std::size_t from = 0; from < split.size(); ++from) {
      if (rank_of_stage[from] != busiest || !can_give(costs, split, from)) continue;
      for (std::size_t to = 0; to < split.size(); ++to) {
        if (to == from || !can_take(costs, split, to)) continue;
        std::vector<int> next = with_layer_moved(split, from, to);
        const SplitLoad next_load = load_of(costs, next, rank_of_stage);
        if (next_load >= load) continue;
        load = next_load;
        best = std::move(next);
      }
    }
    better = !best.empty();
    if (better) split = std::move(best);
  }
  return split;
}

}  // namespace tandem
