// RunResult: all figures that one run gives, in the units of `simulate --json`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "results/training.h"
#include "scenarios/found_order.h"
#include "scenarios/variability.h"
#include "schedule/order/lower_bound.h"
#include "schedule/program/program.h"

namespace tandem {

// The sizes of a parallel plan.
struct ParallelSizes {
  int tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1, dp = 1, microbatches = 1;
};

// A run's saving against the baseline: the run that has another point on one axis.
struct Saving {
  std::string baseline;  // the point that differs
  double seconds = 0;    // negative: the run takes longer
  double of_iteration = 0;
  // "data" or another kind of communication, or "all"; how long it takes in the baseline; and the
  // saving as a share of that, or nothing where the baseline has none.
  std::string kind;
  double communication_s = 0;
  std::optional<double> of_communication;
};

// The replica and rank that reached a gradient reduction last of all: the iteration waited for it.
struct LastReplica {
  int replica = 0;
  int rank = 0;
  std::vector<int> slow_nodes;  // straggling nodes that the replica has ranks on
};

struct RepeatedRun {
  std::uint64_t seed = 0;
  double iteration_s = 0;
  std::optional<LastReplica> last;  // nothing where replicas were not played one by one
};

// The repetitions of a run, each with the next seed.
struct Repeats {
  int runs = 0;
  std::uint64_t first_seed = 0;
  Spread iteration_s;
  std::vector<RepeatedRun> each;
};

// How much longer (negative: shorter) an iteration is when one part is 10 % slower.
struct Sensitivity {
  std::string part;  // "stage 3", "pipeline communication", "links between nodes"
  double seconds = 0;
  double of_iteration = 0;
};

// A run's results.
struct RunResult {
  std::string name;
  std::vector<std::string> axes;    // of the scenario file
  std::vector<std::string> points;  // its point on each axis
  std::string cluster;
  std::string engine;
  std::string costs;  // "analytic", "uniform", "table FILE", "as priced", "op times of FILE"
  int gpus = 0;

  std::optional<ParallelSizes> plan;  // nothing for a Program by itself
  std::string layout;                 // the stages' layers in Megatron-LM's letters; empty: even
  std::optional<OrderFinding> found_order;  // nothing where the order was given

  double iteration_s = 0;
  // 90 of 100 runs like those that the cost model was fitted to lie in this interval. Nothing for
  // measured runs, and where the costs do not come from the model.
  std::optional<std::pair<double, double>> interval_s;
  // Whether measured runs support `cost_model`, as "nemo-h100 on H100-SXM5-80GB in fp8"; if not,
  // the figures are a guess. Nothing, and empty, where there is no interval either.
  std::optional<bool> calibrated;
  std::string cost_model;
  double compute_s = 0;
  double bubble_ratio = 0;
  double bubble_fraction = 0;
  double bubble_window_fraction = 0;
  double bubble_window_fraction_max = 0;
  std::array<double, kGroupKinds> exposed_s{};
  std::array<double, kGroupKinds> comm_s{};
  std::array<std::optional<double>, kGroupKinds> overlap_fraction;
  std::array<double, kGroupKinds> sent_bytes{};
  double exposed_between_nodes_s = 0;

  std::optional<Training> training;  // nothing for uniform costs

  std::optional<Saving> saving;  // nothing without a baseline, and for the baseline itself
  std::optional<double> published_tflops_per_gpu;
  // Gbit/s of a node at which exposed communication between nodes is 5 % of the iteration. 0: even
  // the slowest that was tried (1 Gbit/s) is enough. Nothing: not looked for, or no bandwidth is
  // enough.
  std::optional<double> least_internode_Gbitps;
  bool looked_for_bandwidth = false;
  // Seconds that no order of the same stages on the same ranks can beat, within their memory.
  // Nothing where ops may take less than their prices, and for a Program by itself.
  std::optional<LowerBound> lower_bound;

  std::optional<Repeats> repeats;  // set if the run was repeated; then this result is the median
  std::vector<Sensitivity> sensitivity;  // empty: not asked for
  std::int64_t ranks_simulated = 0;
  std::int64_t ops = 0;  // ops that were played
  double engine_wall_s = 0;
  std::vector<std::string> warnings;

  std::string detail;  // what a page draws of the run (run_detail.h); empty: not asked for
};

// Returns how far the iteration may be above the best possible, as a share of the bound; nothing
// without a bound.
std::optional<double> above_bound(const RunResult& result);

// All fields but the detail.
nlohmann::ordered_json to_json(const RunResult& result);
nlohmann::ordered_json to_json(const RepeatedRun& run);
// The inverses, for results from a child process.
RunResult run_result_from_json(const nlohmann::ordered_json& json);
RepeatedRun repeated_run_from_json(const nlohmann::ordered_json& json);

}  // namespace tandem
