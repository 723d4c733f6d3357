// The best makespan of all orders of a small problem, by brute force.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "schedule/order/lower_bound.h"

namespace tandem {

// Every way to go on from every state: of states with the same actions done, those are dropped that
// are nowhere ahead of another. Microbatches are alike, so each stage takes them in order. Passes
// are those of bound_problem(): no lead, no rest. A backward is split; a whole one is no shorter
// than its halves one behind the other. REQUIRES: one chain.
class AllOrders {
 public:
  explicit AllOrders(const BoundProblem& problem)
      : problem_(problem), stages_(static_cast<int>(problem.stages.size())) {}

  double best() {
    std::map<Done, std::vector<Times>> level = {
        {Done(3 * stages_, 0),
         {{std::vector<double>(problem_.ranks.size()), std::vector<double>(2 * stages_),
           std::vector<std::vector<double>>(2 * stages_)}}}};
    for (int action = 0; action < 3 * stages_ * problem_.microbatches; ++action) {
      std::map<Done, std::vector<Times>> next;
      for (const auto& [done, fronts] : level) {
        for (const Times& times : fronts) extend(done, times, &next);
      }
      level = std::move(next);
    }
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [done, fronts] : level) {
      for (const Times& times : fronts)
        least = std::min(least, *std::ranges::max_element(times.clock));
    }
    return least;
  }

 private:
  enum Kind { F, I, W };
  using Done = std::vector<int>;  // by stage and kind
  struct Times {
    std::vector<double> clock;  // by rank
    std::vector<double> edges;  // by stage and kind: the end of the edge's last transfer
    // By stage and kind: when outputs are where they are used.
    std::vector<std::vector<double>> given;

    bool ahead_of(const Times& other) const {
      for (std::size_t r = 0; r < clock.size(); ++r) {
        if (clock[r] > other.clock[r]) return false;
      }
      for (std::size_t s = 0; s < given.size(); ++s) {
        if (edges[s] > other.edges[s]) return false;
        for (std::size_t i = 0; i < given[s].size(); ++i) {
          if (given[s][i] > other.given[s][i]) return false;
        }
      }
      return true;
    }
  };

  void extend(const Done& done, const Times& times, std::map<Done, std::vector<Times>>* next) {
    for (int s = 0; s < stages_; ++s) {
      for (const Kind kind : {F, I, W}) {
        const int mb = done[3 * s + kind];
        if (mb == problem_.microbatches) continue;
        double ready = 0;
        if (kind == F && !can_forward(done, times, s, mb, &ready)) continue;
        if (kind == I && !can_go_back(done, times, s, mb, &ready)) continue;
        if (kind == W && mb >= done[3 * s + I]) continue;
        add(done, times, s, kind, ready, next);
      }
    }
  }

  bool can_forward(const Done& done, const Times& times, int s, int mb, double* ready) const {
    double held = problem_.stages[s].activation;
    for (int other = 0; other < stages_; ++other) {
      if (problem_.rank_of_stage[other] == problem_.rank_of_stage[s])
        held += (done[3 * other + F] - done[3 * other + I]) * problem_.stages[other].activation;
    }
    if (held > problem_.ranks[problem_.rank_of_stage[s]].memory) return false;
    if (s == 0) return true;
    if (mb >= done[3 * (s - 1) + F]) return false;
    *ready = times.given[2 * (s - 1)][mb];
    return true;
  }

  bool can_go_back(const Done& done, const Times& times, int s, int mb, double* ready) const {
    if (mb >= done[3 * s + F]) return false;
    if (s + 1 == stages_) return true;
    if (mb >= done[3 * (s + 1) + I]) return false;
    *ready = times.given[2 * (s + 1) + 1][mb];
    return true;
  }

  void add(Done done, Times times, int s, Kind kind, double ready,
           std::map<Done, std::vector<Times>>* next) const {
    const StageFloor& stage = problem_.stages[s];
    double& clock = times.clock[problem_.rank_of_stage[s]];
    const double cost = kind == F   ? stage.forward.lane_before
                        : kind == I ? stage.input.lane_before
                                    : stage.backward - stage.input.lane_before;
    clock = std::max(clock, ready) + cost;
    if (kind != W) {
      double& edge = times.edges[2 * s + kind];
      edge = std::max(edge, clock) + (kind == F ? stage.to_next : stage.to_previous);
      times.given[2 * s + kind].push_back(edge);
    }
    ++done[3 * s + kind];
    // What has arrived and been used is of no more interest.
    if (kind == F && s > 0) times.given[2 * (s - 1)][done[3 * s + F] - 1] = 0;
    if (kind == I && s + 1 < stages_) times.given[2 * (s + 1) + 1][done[3 * s + I] - 1] = 0;
    std::vector<Times>& fronts = (*next)[std::move(done)];
    if (std::ranges::any_of(fronts, [&](const Times& known) { return known.ahead_of(times); }))
      return;
    std::erase_if(fronts, [&](const Times& known) { return times.ahead_of(known); });
    fronts.push_back(std::move(times));
  }

  const BoundProblem& problem_;
  const int stages_;
};

inline double best_makespan(const BoundProblem& problem) { return AllOrders(problem).best(); }

}  // namespace tandem
