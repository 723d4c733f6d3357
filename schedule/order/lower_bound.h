// LowerBound: what no order of the same stages on the same ranks can beat; derived in
// docs/bounds.md.
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

// A pass that gives something to another stage, at its best. It takes the compute lane from its
// first computation on: `before` until all is computed that the output needs, `after` behind that.
struct PassFloor {
  double lead = 0;      // from the input to the first computation
  double computed = 0;  // from the input until all is computed that the output needs
  double rest = 0;      // from there to the output
  double before = 0, after = 0;

  double length() const { return computed + rest; }
  double lane() const { return before + after; }
};

// One stage, for one microbatch where nothing else is said. Times are in any one unit.
struct StageFloor {
  PassFloor forward;
  PassFloor input;      // the shorter of a whole backward and of an input gradient, part by part
  double backward = 0;  // compute lane: the least of a whole backward, or of both its halves
  double to_next = 0;   // a transfer to the next stage, on a lane of its own; 0: on the same rank
  double to_previous = 0;
  double behind_next = 0, behind_previous = 0;  // from a transfer's end until it can be used
  double ready = 0;       // when its parameters are there, from the iteration's begin
  double reduced = 0;     // of the last reduction of its gradients, behind the last of them
  double activation = 0;  // memory that a microbatch takes, in the unit of RankFloor::memory
};

struct RankFloor {
  double finish = 0;      // behind its last action and reduction, to the end of the iteration
  double reductions = 0;  // of its stages' gradients, one after the other on one lane
  double lane = 0;        // per microbatch, of the communication lane that its passes use most
  double vocabulary = 0;  // per microbatch, compute of vocabulary passes behind its first forward
  double memory = std::numeric_limits<double>::infinity();
};

struct BoundProblem {
  std::vector<StageFloor> stages;  // of all chains
  std::vector<RankFloor> ranks;
  std::vector<int> rank_of_stage;
  int chains = 1;
  int microbatches = 1;  // of each chain
  // Passes may compute while others communicate: a pass then takes the compute lane only while it
  // computes.
  bool interleaves = false;
  bool transfers_queue = true;  // on an edge one goes behind the other
};

// Which of the bounds is the largest.
enum class BoundKind { Path, Work, Memory, Transfers, Communication, Reductions };

// "path", "work", "memory", "transfers", "communication", "reductions".
std::string_view name(BoundKind kind);
std::optional<BoundKind> bound_kind(std::string_view name);

struct LowerBound {
  double makespan = 0;  // no order ends before
  BoundKind kind = BoundKind::Path;
  int rank = -1;  // that it is of; of transfers the sender; Path: -1
};

// The largest of the bounds. It holds for every order of these stages on these ranks: backwards
// whole or split, alone or beside forwards, in any sequence that keeps RankFloor::memory.
// REQUIRES: an entry a stage and a rank; microbatches >= 1.
LowerBound lower_bound(const BoundProblem& problem);

// What bounds it, in words: "rank 3's work, its shortest way in and out".
std::string words_of(const LowerBound& bound);

// The problem of an order whose stages take these times: transfers are delays (replay_stages), and
// each rank may hold as many activations as the order does. `memory`: false: as many as it likes.
BoundProblem bound_problem(const Order& order, std::span<const OrderCosts> stages,
                           bool memory = true);

}  // namespace tandem
