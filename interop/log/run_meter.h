// RunMeter: takes the times and the memory of a run out of its log's lines, by the words of
// Megatron-LM, torchtitan, NeMo, DeepSpeed and MLPerf.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interop/plan/imported_plan.h"

namespace tandem {

// Holds what one line of a log measures.
struct LineFigures {
  std::optional<double> seconds, tflops, tokens_per_gpu_s, samples_per_s, allocated_bytes;
  std::optional<double> batch;  // the global batch that the line states
};

// Returns the global batch that an MLPerf log states, in a line of its own, for the steps behind
// it.
std::optional<double> mlperf_batch(std::string_view line);

// Returns nothing if the line measures nothing, or if its iteration's time is no number.
std::optional<LineFigures> figures_in(std::string_view line);

class RunMeter {
 public:
  void take(const LineFigures& line) { lines_.push_back(line); }

  // Returns medians over the iterations of this global batch, and over those that state none. The
  // first iterations, which compile and allocate, do not count. Without a batch, that of the last
  // iteration counts, as a ramp-up ends with the largest.
  MeasuredRun run(std::optional<double> batch) const;
  // Returns the iterations of another global batch in words: how many, and a batch; empty: none.
  std::string other_batches(std::optional<double> batch) const;

  static constexpr int kWarmup = 3;  // iterations at the beginning that do not count

 private:
  std::optional<double> batch_or_last(std::optional<double> batch) const;
  std::vector<LineFigures> lines_;
};

// A part of a log: its text, and the number of its first line.
struct LogPart {
  std::string_view text;
  int line = 1;
};

// Returns the last of a log's runs that measured an iteration: a job that is started again appends
// to its log. A run begins with Megatron-LM's world size or its arguments, or with MLPerf's batch,
// init_start or run_start.
LogPart last_run(std::string_view text);

// Returns whether a text has a line that a RunMeter takes.
bool has_measurement(std::string_view text);

// Turns tokens or samples a second into the time of an iteration of the plan's batch, where batch,
// sequence and GPUs are known. A step of the log may have several such batches.
void complete_measured(ImportedPlan* plan);

}  // namespace tandem
