// Validates an order. It first checks that every action is there once and in its rank's right
// order. Then a replay finds ranks that wait for each other; a walk of the wait-for graph finds the
// cycle. Declared in schedule/order/order.h and order_fault.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "schedule/order/order_fault.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"
#include "schedule/order/vocabulary.h"

namespace tandem {
namespace {

using Fault = std::optional<OrderFault>;
using Step = OrderFault::Step;

const Action& action_at(const Order& order, const Step& step) {
  return order.ranks[step.rank][step.position];
}

Fault fault_at(const Step& step, std::string message) {
  return OrderFault{fmt::format("rank {}: {}", step.rank, message), step.rank, {step}};
}

Action with_kind(Action action, ActionKind kind) {
  action.kind = kind;
  return action;
}

Fault check_sizes(const Order& order) {
  if (order.pp() < 1) return OrderFault{"found no ranks, expected at least one"};
  if (order.stages < 1 || order.microbatches < 1)
    return OrderFault{fmt::format("found {} stages and {} microbatches, expected at least 1 each",
                                  order.stages, order.microbatches)};
  if (order.chains < 1 || order.chains > 2)
    return OrderFault{fmt::format("found {} chains, expected 1 or 2", order.chains)};
  if (order.vocabulary > 0 && order.chains > 1)
    return OrderFault{
        fmt::format("found vocabulary passes with {} chains, expected one", order.chains)};
  if (order.stages % order.chains != 0)
    return OrderFault{fmt::format("found {} stages in {} chains, expected chains of equal length",
                                  order.stages, order.chains)};
  return {};
}

// Checks the action alone: its numbers, and what it runs together with.
Fault check_step(const Order& order, const Step& step) {
  const std::vector<Action>& actions = order.ranks[step.rank];
  const Action& action = actions[step.position];
  const int stage = index(action.stage), microbatch = index(action.microbatch);
  if (stage < 0 || stage >= order.stages)
    return fault_at(
        step, fmt::format("found {}, expected a stage below {}", to_text(action), order.stages));
  if (microbatch < 0 || microbatch >= order.microbatches)
    return fault_at(step, fmt::format("found {}, expected a microbatch below {}", to_text(action),
                                      order.microbatches));
  if (!action.with_next) return {};
  const auto next = static_cast<std::size_t>(step.position) + 1;
  const auto runs = [](const Action& a) { return is_compute(a.kind) && !is_vocabulary(a.kind); };
  if (next >= actions.size() || !runs(action) || !runs(actions[next]))
    return fault_at(
        step,
        fmt::format("found {} to run together with {}, expected two of F, B, I, W", to_text(action),
                    next < actions.size() ? to_text(actions[next]) : "nothing"));
  return {};
}

// Checks that every action fits the order's sizes, every rank has a stage, and every stage one
// rank.
Fault check_stages(const Order& order) {
  std::vector<int> rank_of_stage(order.stages, -1);
  for (int rank = 0; rank < order.pp(); ++rank) {
    bool computes = false;
    for (int i = 0; i < static_cast<int>(order.ranks[rank].size()); ++i) {
      if (Fault fault = check_step(order, {rank, i})) return fault;
      const Action& action = order.ranks[rank][i];
      if (!is_compute(action.kind) || is_vocabulary(action.kind)) continue;
      computes = true;
      int& owner = rank_of_stage[index(action.stage)];
      if (owner < 0) owner = rank;
      if (owner != rank)
        return fault_at({rank, i}, fmt::format("found {} of a stage that rank {} has, expected "
                                               "each stage on one rank",
                                               to_text(action), owner));
    }
    if (!computes)
      return OrderFault{
          fmt::format("rank {}: found no F, B, I or W, expected a stage on every rank", rank),
          rank};
  }
  const auto missing = std::find(rank_of_stage.begin(), rank_of_stage.end(), -1);
  if (missing == rank_of_stage.end()) return {};
  return OrderFault{fmt::format("found no actions of stage {}, expected stages 0 to {}",
                                missing - rank_of_stage.begin(), order.stages - 1)};
}

// Refuses a garbled file that speaks of microbatch 999999, before tables for all of them are
// allocated. A valid order has two or three actions for each stage and microbatch. Orders that lack
// only some are left to later checks, which name the action.
Fault check_counts(const Order& order) {
  std::size_t found = 0;
  for (const std::vector<Action>& actions : order.ranks) found += actions.size();
  if (found >= order.slots() / 4) return {};
  return OrderFault{
      fmt::format("found {} actions for {} stages and {} microbatches, expected a forward and a "
                  "backward of each",
                  found, order.stages, order.microbatches)};
}

// A set of the kinds of F, B, I, W that a stage has done for a microbatch.
using Kinds = std::uint8_t;
constexpr Kinds set_of(ActionKind kind) {
  return static_cast<Kinds>(1U << static_cast<unsigned>(kind));
}
constexpr Kinds kForward = set_of(ActionKind::Forward);
constexpr Kinds kBackward = set_of(ActionKind::Backward);
constexpr Kinds kInput = set_of(ActionKind::BackwardInput);
constexpr Kinds kWeight = set_of(ActionKind::BackwardWeight);

// Checks the step against what its rank did before for the same stage and microbatch.
Fault check_after(const Order& order, const Step& step, Kinds before) {
  const Action& action = action_at(order, step);
  if (before & set_of(action.kind))
    return fault_at(step, fmt::format("found {} a second time, expected it once", to_text(action)));
  if (action.kind == ActionKind::Forward) return {};
  if (!(before & kForward))
    return fault_at(step,
                    fmt::format("found {} before {}, expected the forward first", to_text(action),
                                to_text(with_kind(action, ActionKind::Forward))));
  const bool whole = action.kind == ActionKind::Backward;
  if (before & (whole ? kInput | kWeight : kBackward))
    return fault_at(
        step, fmt::format("found {} as well as {}, expected one B, or one I and one W (older "
                          "PyTorch files write B for today's I)",
                          to_text(action),
                          to_text(with_kind(
                              action, whole ? ActionKind::BackwardInput : ActionKind::Backward))));
  if (action.kind == ActionKind::BackwardWeight && !(before & kInput))
    return fault_at(
        step, fmt::format("found {} before {}, expected the input gradient first", to_text(action),
                          to_text(with_kind(action, ActionKind::BackwardInput))));
  return {};
}

// Returns the fault of a stage that has only the kinds `done` for a microbatch.
OrderFault missing_action(const Order& order, int stage, int microbatch, Kinds done) {
  const int rank = stage_to_rank(order)[stage];
  if (done == 0)
    return OrderFault{
        fmt::format("rank {0}: found no {1}F{2}, expected stage {1} to have a forward "
                    "of each of {3} microbatches",
                    rank, stage, microbatch, order.microbatches),
        rank};
  if (done & kInput)
    return OrderFault{fmt::format("rank {0}: found {1}I{2} and no {1}W{2}, expected both", rank,
                                  stage, microbatch),
                      rank};
  return OrderFault{
      fmt::format("rank {0}: found {1}F{2} and no backward of it, expected {1}B{2}, or {1}I{2} "
                  "and {1}W{2}",
                  rank, stage, microbatch),
      rank};
}

// Checks that each rank's actions are there once each, in an order that its own stages allow.
// REQUIRES: check_stages found nothing.
Fault check_sequence(const Order& order) {
  std::vector<Kinds> done(order.slots());
  for (int rank = 0; rank < order.pp(); ++rank) {
    for (int i = 0; i < static_cast<int>(order.ranks[rank].size()); ++i) {
      const Action& action = order.ranks[rank][i];
      if (!is_compute(action.kind) || is_vocabulary(action.kind)) continue;
      Kinds& kinds = done[order.slot(index(action.stage), action.microbatch)];
      if (Fault fault = check_after(order, {rank, i}, kinds)) return fault;
      kinds |= set_of(action.kind);
    }
  }
  const auto open = std::find_if(done.begin(), done.end(), [](Kinds kinds) {
    return kinds != (kForward | kBackward) && kinds != (kForward | kInput | kWeight);
  });
  if (open == done.end()) return {};
  const int stage = static_cast<int>((open - done.begin()) / order.microbatches);
  const int microbatch = static_cast<int>((open - done.begin()) % order.microbatches);
  return missing_action(order, stage, microbatch, *open);
}

// Returns the microbatches of the actions that give the input, in their order on their ranks.
std::vector<Microbatch> given_by(const Order& order, const VocabularyInput& input) {
  std::vector<Microbatch> microbatches;
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      if (gives(input, action)) microbatches.push_back(action.microbatch);
    }
  }
  return microbatches;
}

// Checks that a rank's vocabulary passes of one kind come once a microbatch, in the order of
// `expected`, and name `lowest`, the rank's lowest stage.
Fault check_passes(const Order& order, int rank, Stage lowest, ActionKind kind,
                   const std::vector<Microbatch>& expected) {
  std::size_t next = 0;
  for (int i = 0; i < static_cast<int>(order.ranks[rank].size()); ++i) {
    const Action& action = order.ranks[rank][i];
    if (action.kind != kind) continue;
    if (next >= expected.size() || action.microbatch != expected[next] || action.stage != lowest) {
      const std::string other =
          next < expected.size() ? to_text({lowest, kind, expected[next]}) : "no more";
      return fault_at({rank, i},
                      fmt::format("found {}, expected {}: vocabulary passes are of the rank's "
                                  "lowest stage, once a microbatch, as the chain's ends go",
                                  to_text(action), other));
    }
    ++next;
  }
  if (next == expected.size()) return {};
  return OrderFault{fmt::format("rank {}: found no {}, expected vocabulary passes of each of {} "
                                "microbatches on every rank",
                                rank, to_text({lowest, kind, expected[next]}), order.microbatches),
                    rank};
}

// Checks that every rank has each vocabulary pass (E, S, T, G; schedule/order/vocabulary.h) of each
// microbatch. E follows the order of the first stage's forwards, G that of its backwards, S and T
// that of the last stage's forwards. An order without vocabulary parallelism must have none.
// REQUIRES: check_sequence found nothing.
Fault check_vocabulary_passes(const Order& order) {
  const std::vector<Stage> lowest = lowest_stages(order);
  const int last = order.stages - 1;
  std::vector<Microbatch> in, head, back;
  if (order.vocabulary > 0) {
    in = given_by(order, {ActionKind::Forward, 0});
    head = given_by(order, {ActionKind::Forward, last});
    back = given_by(order, {ActionKind::Backward, 0});
  }
  for (int rank = 0; rank < order.pp(); ++rank) {
    for (const auto& [kind, expected] :
         {std::pair{ActionKind::EmbeddingForward, &in}, std::pair{ActionKind::OutputS, &head},
          std::pair{ActionKind::OutputT, &head}, std::pair{ActionKind::EmbeddingBackward, &back}})
      if (Fault fault = check_passes(order, rank, lowest[rank], kind, *expected)) return fault;
  }
  return {};
}

// Finds the F of (stage, microbatch) or, without `forward`, its B or I.
Step find_step(const Order& order, int rank, int stage, Microbatch microbatch, bool forward) {
  const std::vector<Action>& actions = order.ranks[rank];
  const auto found = std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
    if (index(action.stage) != stage || action.microbatch != microbatch) return false;
    if (forward) return action.kind == ActionKind::Forward;
    return produces_gradient(action.kind);
  });
  return {rank, static_cast<int>(found - actions.begin())};
}

// A step where a rank is stuck, and an unreached step that it waits for.
struct Wait {
  Step at;
  Step on;
};

// Returns an unreached step that gives the action's input from vocabulary parallelism, or nothing
// if all were reached.
std::optional<Step> missing_input(const Order& order, const OrderReplay& played,
                                  const Action& action) {
  const auto input = vocabulary_input(order, action);
  if (!input) return {};
  for (int rank = 0; rank < order.pp(); ++rank) {
    const std::vector<Action>& actions = order.ranks[rank];
    for (int i = played.reached[rank]; i < static_cast<int>(actions.size()); ++i) {
      if (actions[i].microbatch == action.microbatch && gives(*input, actions[i]))
        return Step{rank, i};
    }
  }
  return {};
}

// Returns what the rank waits for. REQUIRES: the rank is not finished.
Wait wait_of(const Order& order, const OrderReplay& played, int rank) {
  const std::vector<int> rank_of_stage = stage_to_rank(order);
  const std::vector<Action>& actions = order.ranks[rank];
  const int position = played.reached[rank];
  for (int i = position; i < end_of_cell(actions, position); ++i) {
    const Action& action = actions[i];
    if (const auto on = missing_input(order, played, action)) return {{rank, i}, *on};
    if (is_vocabulary(action.kind)) continue;
    const bool forward = action.kind == ActionKind::Forward;
    const int stage = index(action.stage), other = source(order, action);
    if (other >= 0) {
      const Step on = find_step(order, rank_of_stage[other], other, action.microbatch, forward);
      if (on.position >= played.reached[on.rank]) return {{rank, i}, on};
    }
    if (forward) continue;
    // B and I also wait for the stage's own F, and W for its I. These stand before them, so they
    // can be missing only inside the same cell.
    const bool waits_for_forward = action.kind != ActionKind::BackwardWeight;
    const Step own = find_step(order, rank, stage, action.microbatch, waits_for_forward);
    if (own.position >= position) return {{rank, i}, own};
  }
  return {{rank, position}, {rank, position}};  // not reached: a stuck rank waits for something
}

// Replays the order. If ranks are stuck, goes from the first one to the rank that it waits for, and
// on, until a rank comes a second time. Reports the ranks of that cycle.
Fault check_cycles(const Order& order) {
  constexpr int kShown = 8;
  const OrderReplay played = replay_order(order, {});
  int rank = 0;
  while (rank < order.pp() && played.finished(rank)) ++rank;
  if (rank == order.pp()) return {};
  std::vector<Wait> waits;  // from the first stuck rank to the first rank met twice
  const auto stuck_at = [&](int other) {
    return std::find_if(waits.begin(), waits.end(),
                        [&](const Wait& wait) { return wait.at.rank == other; });
  };
  while (stuck_at(rank) == waits.end()) {
    waits.push_back(wait_of(order, played, rank));
    rank = waits.back().on.rank;
  }
  waits.erase(waits.begin(), stuck_at(rank));
  OrderFault fault{"the order waits for itself: ", rank};
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const auto& [at, on] = waits[i];
    fault.steps.push_back(at);
    if (i == kShown) fault.message += fmt::format(", and so on round {} ranks", waits.size());
    if (i >= kShown) continue;
    fault.message += i == 0 ? fmt::format("rank {}", at.rank) : ", which";
    fault.message += fmt::format(" at {} waits for {} of rank {}", to_text(action_at(order, at)),
                                 to_text(action_at(order, on)), on.rank);
  }
  return fault;
}

}  // namespace

std::optional<OrderFault> find_fault(const Order& order) {
  for (const auto check : {check_sizes, check_stages, check_counts, check_sequence,
                           check_vocabulary_passes, check_cycles})
    if (Fault fault = check(order)) return fault;
  return {};
}

Status validate(const Order& order) {
  const Fault fault = find_fault(order);
  if (!fault) return Done{};
  return Error{order.name.empty() ? fault->message
                                  : fmt::format("order {}: {}", order.name, fault->message)};
}

}  // namespace tandem
