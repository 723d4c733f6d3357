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
#include "scenarios/evidence.h"
#include "scenarios/found_order.h"
#include "scenarios/variability.h"
#include "schedule/order/lower_bound.h"
#include "schedule/program/program.h"

namespace tandem {

// The sizes of a parallel plan.
struct ParallelSizes {
  int tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1, dp = 1, microbatches = 1;
};

// A run's saving against its baseline, a run that differs in one axis's point.
struct Saving {
  std::string baseline;
  double seconds = 0;
  double of_iteration = 0;
  std::string kind;
  double communication_s = 0;
  std::optional<double> of_communication;  // nothing if the baseline does not communicate
};

// The cost of unequal loads of experts, as shares of the iteration.
struct RoutingCost {
  bool equal_loads = true;  // all ranks have equal loads in each exchange: the cost is 0
  // The whole cost; and its part that is waiting for the busiest rank's experts. The rest of the
  // cost is longer exchanges.
  double of_iteration = 0, waiting = 0;
};

// The replica and rank for which the iteration waited, as they reached a gradient reduction last.
struct LastReplica {
  int replica = 0;
  int rank = 0;
  std::vector<int> slow_nodes;  // straggling nodes that the replica has ranks on
};

struct RepeatedRun {
  std::uint64_t seed = 0;
  double iteration_s = 0;
  std::optional<LastReplica> last;  // nothing if replicas were not played one by one
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

// A change of the plan, as `--set` takes it, with the run's memory and time after it.
struct MemoryFix {
  std::vector<std::string> changes;   // "recompute mlp"; two if one is not enough
  std::vector<std::string> settings;  // "train.recompute=selective"
  Verdict verdict = Verdict::No;
  double spare_bytes = 0;
  // An iteration on the ideal engine, and how much longer it takes than that of the run itself
  // there, as a share. Nothing if the plan does not fit with the change either.
  std::optional<double> ideal_iteration_s, of_iteration;
};

// A run's results. The table in run_result.cpp says what each field means, and gives its unit.
struct RunResult {
  std::string name;
  std::vector<std::string> axes, points;
  std::string cluster;
  std::string engine;
  std::string costs;
  int gpus = 0;

  std::optional<ParallelSizes> plan;
  std::string layout;  // empty: even
  std::optional<OrderFinding> found_order;

  double iteration_s = 0;
  std::optional<std::pair<double, double>> interval_s;
  std::optional<bool> calibrated;  // false: the figures are a guess
  std::string cost_model;          // empty if there is no interval
  // The best MFU that was measured on such GPUs, counted as the run's; nothing if none was.
  std::optional<BestMfu> best_published_mfu;
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

  std::optional<Training> training;  // nothing for uniform costs and Programs
  // Changes that make the plan fit if it does not: at most three, the fastest first. If no change
  // is enough, the one that misses least memory, with the verdict No. Empty: nothing was tried.
  // Nothing: the plan fits, or nobody asks (planning/what_if/memory_fixes.h).
  std::optional<std::vector<MemoryFix>> memory_fixes;

  std::optional<RoutingCost> routing;  // nothing: no mixture of experts, or uniform costs

  std::optional<Saving> saving;  // nothing without a baseline, and for the baseline itself
  std::optional<double> published_tflops_per_gpu;
  std::optional<double> least_internode_Gbitps;  // nothing: not asked for, or none is enough
  bool looked_for_bandwidth = false;
  std::optional<LowerBound> lower_bound;

  std::optional<Repeats> repeats;  // set if the run was repeated; then this result is the median
  std::vector<Sensitivity> sensitivity;  // empty: not asked for
  std::int64_t ranks_simulated = 0;
  std::int64_t ops = 0;
  double engine_wall_s = 0;
  std::vector<std::string> warnings;

  std::string detail;  // data for a page (run_detail.h); empty: not asked for
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
