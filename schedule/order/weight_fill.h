// WeightFill: keeps an order's forwards and input gradients, and puts W between them for given
// costs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "schedule/order/list_times.h"
#include "schedule/order/skeletons.h"

namespace tandem {

// The rule for a gap (idle time before the next F or I) that is shorter than a W. A gap in which a
// W fits is always filled.
enum class FillRule : std::uint8_t {
  Always,          // W fills it, and the next action starts late
  BeforeInputs,    // only if an input gradient comes next
  BeforeForwards,  // only if a forward comes next
  Never,           // the rank waits
  Evenly,          // only if the rank would otherwise become the one that has idled longest
  AsGiven,         // W stay where the skeleton has them, whatever the gaps
};

inline constexpr std::array kFillRules = {FillRule::Always,         FillRule::BeforeInputs,
                                          FillRule::BeforeForwards, FillRule::Never,
                                          FillRule::AsGiven,        FillRule::Evenly};

// Plays a skeleton action by action, each after its inputs. Before each action it decides, by the
// length of the gap, whether to put in a W. REQUIRES: the skeleton belongs to the times' problem,
// and has W for AsGiven; both outlive this.
class WeightFill {
 public:
  WeightFill(const ListTimes& times, const Skeleton& skeleton, FillRule rule);

  // Returns the whole order, or nothing if the limits keep a rank from going on. Ends this object.
  std::optional<ListState> run();
  // Returns the microbatches of the round that repeats, and the least number of microbatches with
  // which it does (`fill`). 0 microbatches: no round was found.
  OrderRounds find_rounds();

 private:
  struct RankState {
    std::size_t position = 0;    // in the skeleton
    Ticks idle = 0;              // since its first action
    std::deque<Action> weights;  // W of the input gradients that are done
  };
  enum class StepResult : std::uint8_t { Done, Waits, Fails };

  // Does one action of the skeleton on each rank that can go on.
  StepResult sweep();
  StepResult step(int rank);
  // Does W until a forward fits under the limits. Returns false if none helps.
  bool make_room(int rank);
  // Does W in the gap until `ready`, as the rule says.
  void fill_gap(int rank, ActionKind kind, Ticks ready);
  // Returns whether the rule fills a gap shorter than a W before an action of that kind.
  bool fills(const RankState& own, ActionKind kind, Ticks gap) const;
  void do_weight(int rank);
  void add_state(std::vector<Ticks>* state) const;

  const ListTimes& times_;
  const Skeleton& skeleton_;
  const FillRule rule_;
  ListState state_;
  std::vector<RankState> ranks_;
  Ticks most_idle_ = 0;  // of all ranks
};

}  // namespace tandem
