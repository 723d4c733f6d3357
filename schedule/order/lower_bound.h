// LowerBound: the time that no order of the same stages on the same ranks can beat. docs/bounds.md
// derives it.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/order/named_orders.h"
#include "schedule/order/order.h"

namespace tandem {

// The least times of a pass that sends an output to another stage. Part of the pass may still
// compute after the output is ready.
struct PassFloor {
  double lead = 0;         // from the input's arrival to the first computation
  double computed = 0;     // from the input's arrival until all is computed that the output needs
  double rest = 0;         // from then to the output
  double lane_before = 0;  // time on the compute lane within `computed`
  double lane_after = 0;   // time on the compute lane after it

  double length() const { return computed + rest; }
  double lane() const { return lane_before + lane_after; }
};

// The least times of one stage, for one microbatch unless noted. Times are in any one unit.
struct StageFloor {
  PassFloor forward;
  PassFloor input;      // the shorter of a whole backward and an input gradient, part by part
  double backward = 0;  // time on the compute lane: the lesser of B and of I + W
  // From the gradient's arrival until all is computed, the lesser of B and of I + W. It counts only
  // where passes interleave: there B may hide communication that I waits for, beside its weights'
  // gradients.
  double backward_alone = std::numeric_limits<double>::infinity();
  double to_next = 0;  // a transfer to the next stage on its own lane; 0: same rank
  double to_previous = 0;
  double after_next = 0, after_previous = 0;  // from a transfer's end to its use
  double ready = 0;       // from the iteration's begin until its parameters are gathered
  double reduced = 0;     // from its last gradient to the end of its last gradient reduction
  double activation = 0;  // memory of a microbatch, in the unit of RankFloor::memory
};

// The least times of a rank, and its memory limit.
struct RankFloor {
  double finish = 0;      // from its last action and reduction to the iteration's end
  double reductions = 0;  // all its stages' gradient reductions, one after another on one lane
  double lane = 0;        // a microbatch's time on its busiest communication lane
  double vocabulary = 0;  // compute time of a microbatch's vocabulary passes
  double memory = std::numeric_limits<double>::infinity();
};

struct BoundProblem {
  std::vector<StageFloor> stages;  // of all chains
  std::vector<RankFloor> ranks;
  std::vector<int> rank_of_stage;
  int chains = 1;
  int microbatches = 1;  // of each chain
  // Whether a pass may compute while another pass of the rank communicates. If so, a pass occupies
  // the compute lane only while it computes.
  bool interleaves = false;
};

// The kind of the largest bound.
enum class BoundKind { Path, Work, Memory, Transfers, Communication, Reductions };

// Names: "path", "work", "memory", "transfers", "communication", "reductions".
std::string_view bound_kind_name(BoundKind kind);
std::optional<BoundKind> bound_kind(std::string_view name);

struct LowerBound {
  double makespan = 0;  // no order ends earlier
  BoundKind kind = BoundKind::Path;
  int rank = -1;  // the rank that the bound is about; for Transfers the sender; Path: -1
};

// Returns the largest of the bounds. It holds for every order of these stages on these ranks: with
// backwards whole or split, alone or beside forwards, in any sequence within RankFloor::memory.
// REQUIRES: an entry for each stage and rank; microbatches >= 1.
LowerBound lower_bound(const BoundProblem& problem);

// Returns the bound in words, for example "the memory of rank 3".
std::string words_of(const LowerBound& bound);

// Returns the problem of an order whose stages take these times, as in replay_queued(). Each rank
// may hold as many activations as it does in the order, or any number without `memory`.
BoundProblem bound_problem(const Order& order, std::span<const OrderCosts> stages,
                           bool memory = true);

}  // namespace tandem
