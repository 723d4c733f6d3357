// RunResult: what one run gives, in the units of `simulate --json`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "scenarios/config/found_order.h"
#include "scenarios/config/variability.h"
#include "scenarios/run/training.h"
#include "schedule/order/lower_bound.h"
#include "schedule/program/program.h"

namespace tandem {

// How a job is cut.
struct ParallelSizes {
  int tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1, dp = 1, microbatches = 1;
};

// What a run saves against the baseline: the run that differs from it in one point.
struct Saving {
  std::string baseline;  // the point of it
  double seconds = 0;    // below 0: it takes longer
  double of_iteration = 0;
  // "data" or the like, or "all": of the baseline's communication of that kind, what is saved.
  // Nothing where it has none.
  std::string kind;
  double communication_s = 0;
  std::optional<double> of_communication;
};

// Where the last of all arrivals at gradient reductions was: the iteration waited for it.
struct LastReplica {
  int replica = 0;
  int rank = 0;
  std::vector<int> slow_nodes;  // that it has ranks on: stragglers
};

struct RepeatedRun {
  std::uint64_t seed = 0;
  double iteration_s = 0;
  std::optional<LastReplica> last;  // nothing where replicas were not played one by one
};

// A run played again and again, each time with the next seed.
struct Repeats {
  int runs = 0;
  std::uint64_t first_seed = 0;
  Spread iteration_s;
  std::vector<RepeatedRun> each;
};

// What an iteration takes more (below 0: less) when one part is 10 % slower.
struct Sensitivity {
  std::string part;  // "stage 3", "pipeline communication", "links between nodes"
  double seconds = 0;
  double of_iteration = 0;
};

// A run's results.
struct RunResult {
  std::string name;
  std::vector<std::string> axes;    // of the scenario file
  std::vector<std::string> points;  // one an axis
  std::string cluster;
  std::string engine;
  std::string costs;  // "analytic", "uniform", "table FILE", "as priced", "op times of FILE"
  int gpus = 0;

  std::optional<ParallelSizes> plan;        // nothing for a Program by itself
  std::string layout;                       // of its stages, in Megatron-LM's letters; empty: even
  std::optional<OrderFinding> found_order;  // nothing where the order was given

  double iteration_s = 0;
  // Of 100 runs like those that the cost model was fitted to, 90 lie between. Nothing for what was
  // measured, and for costs that are not the model's.
  std::optional<std::pair<double, double>> interval_s;
  // Whether measured runs stand behind `cost_model`, "nemo-h100 on H100-SXM5-80GB in fp8"; if not,
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

  std::optional<Saving> saving;  // nothing without a baseline, and for it
  std::optional<double> published_tflops_per_gpu;
  // Gbit/s a node at which exposed communication between nodes is 5 % of the iteration; 0: even the
  // slowest that was tried (1 Gbit/s) is enough; nothing: not looked for, or no bandwidth is.
  std::optional<double> least_internode_Gbitps;
  bool looked_for_bandwidth = false;
  // Seconds that no order of the same stages on the same ranks, within their memory, can beat.
  // Nothing where ops may take less than their prices, and for a Program by itself.
  std::optional<LowerBound> lower_bound;

  std::optional<Repeats> repeats;  // nothing where it was played once; else this is the median
  std::vector<Sensitivity> sensitivity;  // none where not asked for
  std::int64_t ranks_simulated = 0;
  std::int64_t ops = 0;  // played
  double engine_wall_s = 0;
  std::vector<std::string> warnings;

  std::string detail;  // what a page draws of the run (run_detail.h); empty: not asked for
};

// By what share of the bound the iteration may be above the best possible; nothing without one.
std::optional<double> above_bound(const RunResult& result);

// All but the detail.
nlohmann::ordered_json to_json(const RunResult& result);
nlohmann::ordered_json to_json(const RepeatedRun& run);
// The inverses, for results that come from a child process.
RunResult run_result_from_json(const nlohmann::ordered_json& json);
RepeatedRun repeated_run_from_json(const nlohmann::ordered_json& json);

}  // namespace tandem
