// Cases: runs that others measured, a line each, and what the simulator makes of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run.h"

namespace tandem {

using Sets = std::vector<std::pair<std::string, Setting>>;

// A line of a cases file. 0 and "": not given, the scenario's default.
struct Case {
  std::string path;
  int line = 0;
  std::string id, family, source, system, gpu, model, schedule, precision, recompute;
  int layers = 0, hidden = 0, ffn_hidden = 0, heads = 0, kv_heads = 0, seq = 0, vocab = 0;
  int tp = 0, pp = 0, vpp = 0, cp = 0, ep = 0, dp = 0, micro_batch = 0, global_batch = 0;
  int gpus = 0, gpus_per_node = 0, zero_stage = 0;
  bool gated_mlp = false, sequence_parallel = false;
  // Profiled: seconds of an action and of a transfer, instead of a model's.
  std::optional<double> forward_s, input_s, weight_s, p2p_s;
  double measured_s = 0;
  double measured_memory_bytes = 0;  // the peak of the fullest GPU
  // What columns named as a scenario's keys say, then the column `set`: over all else of the row.
  Sets sets;

  // "file:line".
  std::string place() const;
};

// All lines. id, family, system, layers, hidden, heads, seq, vocab and iteration_s must be there,
// the other columns and cells need not. A column named as a scenario's key sets it, and `set` sets
// several, "KEY=VALUE;KEY=VALUE"; columns that are neither are passed over.
Result<std::vector<Case>> read_cases(const std::string& path);
// The same of lines that may lack any cell: 0 seconds where none were measured.
Result<std::vector<Case>> read_partial_cases(const std::string& path);

// The settings that a scenario file would have for it.
Result<Settings> settings_of(const Case& run);

// Its scenario, `sets` over its own settings. An Error says what cannot be expressed.
Result<Scenario> scenario_of(const Case& run, const Sets& sets = {});

// Layers a stage where they do not divide. One short at both ends where that comes out even: the
// embedding and the head stand for a layer each (BLOOM, the zero-bubble paper, Llama 3 405B). Else
// as many as needed on all but the last stage, which has the rest (Jean Zay's 78 on 12). Empty:
// neither is possible.
std::vector<std::int64_t> uneven_layers(int layers, int stages);

// A rank's mean; the three parts add up to predicted_s.
struct Prediction {
  double predicted_s = 0;
  double compute_s = 0, bubble_s = 0, exposed_s = 0;
  std::optional<std::pair<double, double>> interval_s;  // 90 %
  std::optional<bool> calibrated;                       // as RunResult has it
  double memory_bytes = 0;                              // of the fullest GPU
};

struct CaseRow {
  Case run;
  std::optional<Prediction> prediction;
  std::string reason;  // without a prediction: why

  // Predicted over measured, less 1. REQUIRES: prediction.
  double error() const { return prediction->predicted_s / run.measured_s - 1; }
  // The same of memory; 0 without a prediction. REQUIRES: it was measured.
  double memory_error() const {
    return prediction ? prediction->memory_bytes / run.measured_memory_bytes - 1 : 0;
  }
};

// Simulates all, `jobs` at once, ranks folded; rows in the cases' order.
Result<std::vector<CaseRow>> predict(const std::vector<Case>& cases, Engine engine, int jobs,
                                     const Sets& sets = {});

// How well the rows of a family are predicted. Errors are shares, of the rows with a prediction.
struct Accuracy {
  std::string family;
  int n = 0;
  int without = 0;  // rows that have no prediction
  double mape = 0;  // mean of the absolute errors
  double median = 0;
  double bias = 0;   // mean of the errors
  double worst = 0;  // the error that is farthest from 0
  std::string worst_id;
  // Of the rows whose memory was measured.
  int memory_n = 0;
  double memory_mape = 0, memory_median = 0, memory_bias = 0;
};

Accuracy accuracy_of(const std::vector<CaseRow>& rows, std::string_view family = "");

// In the order in which the families first appear.
std::vector<Accuracy> accuracy_by_family(const std::vector<CaseRow>& rows);

nlohmann::ordered_json to_json(const CaseRow& row);
nlohmann::ordered_json to_json(const Accuracy& accuracy);

// {rows, families, overall}.
nlohmann::ordered_json cases_json(const std::vector<CaseRow>& rows);

}  // namespace tandem
