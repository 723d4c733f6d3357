#include "schedule/order/dualpipe.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// Makes one rank's actions, in the eight steps of DeepSeek's code
// (github.com/deepseek-ai/DualPipe). The rank holds a stage of each direction. Microbatches of
// direction 0 reach it first. `to_end` is the number of ranks from this one to the end where they
// enter, both included. `to_turn` is the number of ranks after this one, up to where the directions
// meet. Of 8 ranks, rank 1 has to_end 2 (ranks 1, 0) and to_turn 2 (ranks 2, 3). F0 is a forward of
// direction 0.
class RankActions {
 public:
  RankActions(std::array<int, 2> stages, int to_end, int to_turn, int microbatches)
      : stages_(stages), to_end_(to_end), to_turn_(to_turn), microbatches_(microbatches) {}

  std::vector<Action> make() {
    // Step 1: F0.
    for (int i = 0; i < 2 * to_turn_; ++i) forward(0);
    // Step 2: F0 F1.
    for (int i = 0; i < to_end_; ++i) {
      forward(0);
      forward(1);
    }
    // Step 3: I1 W1 F1.
    for (int i = 0; i < to_turn_; ++i) {
      input(1);
      weight();
      forward(1);
    }
    // Step 4, the steady state: F0 together with B1, and F1 together with B0.
    for (int i = microbatches_ - 2 * to_turn_ - to_end_; i > 0; --i) {
      forward(0);
      // The first backward at the ranks where the directions meet follows its own forward too
      // closely to pair with it.
      if (to_turn_ > 0 || backwards_[1] > 0) run_together();
      backward(1);
      forward(1);
      run_together();
      backward(0);
    }
    // Step 5: B1, then F1 together with B0.
    for (int i = 0; i < to_turn_; ++i) {
      backward(1);
      forward(1);
      run_together();
      backward(0);
    }
    // Step 6: B1 B0. The second half postpones weight gradients, so that other ranks wait less.
    for (int i = 0; i < 2 * to_end_; ++i) {
      const int direction = i % 2 == 0 ? 1 : 0;
      i < to_end_ ? backward(direction) : input(direction);
    }
    // Step 7: W I0, and step 8: W.
    for (int i = 0; i < to_turn_; ++i) {
      weight();
      input(0);
    }
    for (int i = 0; i < to_end_; ++i) weight();
    CHECK(weights_put_off_.size() == weights_done_);
    return std::move(actions_);
  }

 private:
  void add(ActionKind kind, int stage, int microbatch) {
    actions_.push_back({Stage{stage}, kind, Microbatch{microbatch}});
  }
  void forward(int direction) {
    add(ActionKind::Forward, stages_[direction], forwards_[direction]++);
  }
  void backward(int direction) {
    add(ActionKind::Backward, stages_[direction], backwards_[direction]++);
  }
  void input(int direction) {
    weights_put_off_.push_back({stages_[direction], backwards_[direction]});
    add(ActionKind::BackwardInput, stages_[direction], backwards_[direction]++);
  }
  void weight() {
    const auto& [stage, microbatch] = weights_put_off_[weights_done_++];
    add(ActionKind::BackwardWeight, stage, microbatch);
  }
  void run_together() { actions_.back().with_next = true; }

  std::array<int, 2> stages_;
  int to_end_, to_turn_, microbatches_;
  std::array<int, 2> forwards_{}, backwards_{};       // done, by direction
  std::vector<std::pair<int, int>> weights_put_off_;  // stage and microbatch
  std::size_t weights_done_ = 0;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<std::vector<Action>> dualpipe(int pp, int microbatches) {
  CHECK(pp % 2 == 0 && microbatches >= pp);
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < pp; ++rank) {
    const int mirrored = pp - 1 - rank;
    std::array<int, 2> stages = {rank, pp + mirrored};
    if (rank > mirrored) std::swap(stages[0], stages[1]);
    const int to_end = std::min(rank, mirrored) + 1;
    ranks.push_back(RankActions(stages, to_end, pp / 2 - to_end, microbatches).make());
  }
  return ranks;
}

std::vector<std::vector<Action>> dualpipe_v(int pp, int microbatches) {
  CHECK(microbatches >= 2 * pp);
  std::vector<std::vector<Action>> ranks;
  for (int rank = 0; rank < pp; ++rank)
    ranks.push_back(
        RankActions({rank, 2 * pp - 1 - rank}, rank + 1, pp - 1 - rank, microbatches).make());
  return ranks;
}

}  // namespace tandem
