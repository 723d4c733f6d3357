// Outcome: what one run gives, in the units of `simulate --json`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "schedule/program.h"

namespace tandem {

// How a job is cut.
struct Cut {
  int tp = 1, pp = 1, vpp = 1, dp = 1, microbatches = 1;
};

// What a model on a cluster reaches, and what it needs of the fullest GPU's memory.
struct Training {
  double tokens_per_s = 0;
  double model_tflops_per_gpu = 0;
  double hardware_tflops_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;  // bytes
  double total = 0, capacity = 0;                                     // bytes
  bool fits = false;
};

// A run's results.
struct Outcome {
  std::string name;
  std::vector<std::string> axes;    // of the scenario file
  std::vector<std::string> points;  // one an axis
  std::string cluster;
  std::string engine;
  int gpus = 0;

  std::optional<Cut> plan;  // nothing for a Program by itself

  double iteration_s = 0;
  double compute_s = 0;
  double bubble_ratio = 0;
  double bubble_fraction = 0;
  double bubble_window_fraction = 0;
  double bubble_window_fraction_max = 0;
  std::array<double, kScopes> exposed_s{};
  std::array<double, kScopes> comm_s{};
  std::array<std::optional<double>, kScopes> overlap_fraction;
  double exposed_between_nodes_s = 0;

  std::optional<Training> training;  // nothing for uniform costs

  std::optional<double> published_tflops_per_gpu;
  // Gbit/s a node at which exposed communication between nodes is 5 % of the iteration; 0: even the
  // slowest that was tried (1 Gbit/s) is enough; nothing: not looked for, or no bandwidth is.
  std::optional<double> least_internode_Gbitps;
  bool looked_for_bandwidth = false;

  std::int64_t ranks_simulated = 0;
  std::int64_t ops = 0;  // played
  double engine_wall_s = 0;
  std::vector<std::string> warnings;
};

nlohmann::ordered_json to_json(const Outcome& outcome);
// The inverse, for outcomes that come from a child process.
Outcome outcome_from_json(const nlohmann::ordered_json& json);

}  // namespace tandem
