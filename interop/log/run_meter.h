// RunMeter: takes the times and the memory of a run out of its log's lines, by the words of
// Megatron-LM, torchtitan, NeMo, DeepSpeed and MLPerf.
#pragma once

#include <string_view>
#include <vector>

#include "interop/plan/imported_plan.h"

namespace tandem {

class RunMeter {
 public:
  // Takes what the line measures. Returns whether it measures anything.
  bool take(std::string_view line);

  // Returns medians, without the first iterations, which compile and allocate.
  MeasuredRun run() const;

  // Return the figures of each line that has one, in order: seconds of an iteration; where logs
  // state no seconds, tokens a second of a GPU, or samples a second of all.
  const std::vector<double>& seconds() const { return seconds_; }
  const std::vector<double>& tokens_per_gpu_s() const { return tokens_; }
  const std::vector<double>& samples_per_s() const { return samples_; }

  static constexpr int kWarmup = 3;  // iterations at the beginning that do not count

 private:
  std::vector<double> seconds_, tflops_, tokens_, samples_;
  double allocated_bytes_ = 0;
};

// Returns whether a text has a line that a RunMeter takes.
bool has_measurement(std::string_view text);

// Turns tokens or samples a second into the time of an iteration, where batch, sequence and GPUs
// are known.
void complete_measured(ImportedPlan* plan);

}  // namespace tandem
