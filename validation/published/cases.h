// Cases: runs that others measured, one in a line, and their predictions by the simulator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "planning/simulate/simulate.h"
#include "scenarios/scenario.h"
#include "workload/memory/reserve.h"

namespace tandem {

using Sets = std::vector<std::pair<std::string, Setting>>;

// A line of a cases file. 0 and "": not given, so that the scenario's default holds.
struct Case {
  std::string path;
  int line = 0;
  std::string id, family, source, system, gpu, model, schedule, precision, recompute;
  int layers = 0, hidden = 0, ffn_hidden = 0, heads = 0, kv_heads = 0, seq = 0, vocab = 0;
  int tp = 0, pp = 0, vpp = 0, cp = 0, ep = 0, dp = 0, micro_batch = 0, global_batch = 0;
  int gpus = 0, gpus_per_node = 0, zero_stage = 0;
  bool gated_mlp = false, sequence_parallel = false;
  // Profiled runs: seconds of an action and of a transfer, in place of a model's.
  std::optional<double> forward_s, input_s, weight_s, p2p_s;
  double measured_s = 0;
  double measured_memory_bytes = 0;  // peak of the fullest GPU
  // Settings of columns that are named as a scenario's keys, then those of the column `set`. They
  // override all other columns of the row.
  Sets sets;

  // Returns "file:line".
  std::string place() const;
};

// Reads all lines. The columns id, family, system, layers, hidden, heads, seq, vocab and
// iteration_s must be there and not empty; the others may be missing. A column that is named as a
// scenario's key sets it. The column `set` sets several: "KEY=VALUE;KEY=VALUE". Any other column is
// ignored.
Result<std::vector<Case>> read_cases(const std::string& path);
// Reads lines in which any cell may be missing. Without a measured time measured_s is 0.
Result<std::vector<Case>> read_partial_cases(const std::string& path);

// Returns the settings that a scenario file for the run would have.
Result<Settings> settings_of(const Case& run);

// Returns the run's scenario, with `sets` on top of its own settings. Error: it cannot be
// expressed.
Result<Scenario> scenario_of(const Case& run, const Sets& sets = {});

// Returns the layers of each stage where the stages do not divide them. If it comes out even, the
// first and last stage have one layer less, because the embedding and the head count as a layer
// each (BLOOM, the zero-bubble paper, Llama 3 405B). Else all stages but the last have as many as
// needed, and the last has the rest (Jean Zay's 78 on 12). Empty: neither is possible.
std::vector<std::int64_t> uneven_layers(int layers, int stages);

// Means over ranks. The three parts add up to predicted_s.
struct Prediction {
  double predicted_s = 0;
  double compute_s = 0, bubble_s = 0, exposed_s = 0;
  std::optional<std::pair<double, double>> interval_s;  // 90 % of runs lie in it
  std::optional<bool> calibrated;                       // as in RunResult
  double memory_bytes = 0;                              // of the fullest GPU
  std::optional<Verdict> verdict;                       // as in Training, with the spare bytes
  double spare_bytes = 0;
};

struct CaseRow {
  Case run;
  std::optional<Prediction> prediction;
  std::string reason;  // why there is no prediction

  // Returns predicted over measured, minus 1. REQUIRES: prediction.
  double error() const { return prediction->predicted_s / run.measured_s - 1; }
  // Returns the same for memory; 0 without a prediction. REQUIRES: memory was measured.
  double memory_error() const {
    return prediction ? prediction->memory_bytes / run.measured_memory_bytes - 1 : 0;
  }
};

// Simulates all cases with folded ranks, `jobs` at once. Rows are in the order of the cases.
Result<std::vector<CaseRow>> predict(const std::vector<Case>& cases, Engine engine, int jobs,
                                     const Sets& sets = {});

// How well rows are predicted. Errors are shares: predicted over measured, minus 1.
struct Errors {
  int n = 0;
  double mape = 0;    // mean of the absolute errors
  double median = 0;  // of the absolute errors
  double bias = 0;    // mean of the errors
  double worst = 0;   // the error farthest from 0
};
Errors error_statistics(const std::vector<double>& errors);

// How well the rows of a family with a prediction are predicted.
struct Accuracy : Errors {
  std::string family, worst_id;
  int without = 0;  // rows without a prediction
  Errors memory;    // over the rows whose memory was measured
};

Accuracy accuracy_of(const std::vector<CaseRow>& rows, std::string_view family = "");

// Returns an Accuracy for each family, in the order in which they first appear.
std::vector<Accuracy> accuracy_by_family(const std::vector<CaseRow>& rows);

nlohmann::ordered_json to_json(const CaseRow& row);
nlohmann::ordered_json to_json(const Accuracy& accuracy);

// Returns {rows, families, overall}.
nlohmann::ordered_json cases_json(const std::vector<CaseRow>& rows);

}  // namespace tandem
