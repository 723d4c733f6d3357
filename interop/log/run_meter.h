// RunMeter: takes the times and the memory of a run out of its log's lines, by the words of
// Megatron-LM, torchtitan, NeMo, DeepSpeed and MLPerf; and tells the runs of one log apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interop/log/log_line.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// Holds what one line of a log measures.
struct LineFigures {
  std::optional<double> seconds, tflops, tokens_per_gpu_s, samples_per_s, allocated_bytes;
  std::optional<double> batch, seq;      // the global batch and the sequence that the line states
  std::optional<double> samples_so_far;  // of all iterations
  std::optional<double> step;            // the number of the iteration
  std::optional<double> next_step;       // of the next line with this label in the log
  int step_word = 0;                     // which of the words before such numbers
  bool was_skipped = false;              // without an optimizer step, as behind an overflow
  bool has_no_time = false;  // the iteration's time is no number above 0: nothing counts

  bool has_rate() const { return seconds || tflops || tokens_per_gpu_s || samples_per_s; }
};

// The global batch, sequence and number of GPUs of a job; nothing: not known.
struct StatedJob {
  std::optional<double> batch, seq, gpus;

  // Takes what a line states in words of its own for the iterations behind it: Megatron-LM's world
  // size, and what torchtitan, DeepSpeed and MLPerf write where a run begins.
  void take(std::string_view line);
};

// Returns nothing if the line measures nothing. Of an iteration whose time is no number above 0 it
// returns only that.
std::optional<LineFigures> figures_in(std::string_view line);

class RunMeter {
 public:
  void take(const LineFigures& line) { lines_.push_back(line); }

  // Returns medians over the iterations of this global batch and sequence, and over those that
  // state none. The first iterations, which compile and allocate, and skipped ones do not count.
  // What is not known of the job is that of the last iteration, as a ramp-up ends with the largest.
  MeasuredRun run(const StatedJob& job) const;
  // Returns the iterations that do not count in words: how many are of another batch or sequence,
  // with an example, how many were skipped, and how many lines have no time.
  std::vector<std::string> not_counted(const StatedJob& job) const;

  static constexpr int kWarmup = 3;  // iterations at the beginning that do not count

 private:
  StatedJob job_or_last(StatedJob job) const;
  std::vector<LineFigures> lines_;
};

// A line of a run, and what it measures.
struct RunLine {
  LogLine line;
  int number = 1;
  std::optional<LineFigures> figures;
};

// One of a log's runs.
struct LogRun {
  std::vector<RunLine> lines;
  int first = 1, last = 0, lines_of_log = 0;  // numbers of lines
  int most_later = 0;                         // iterations of the longest run behind it

  // Says in words which lines of the log are not of this run.
  std::vector<std::string> left_out(const std::string& path) const;
};

// Returns the last of a log's runs with so many iterations, or else the last that measured any: a
// job that is started again appends to its log. A run begins with Megatron-LM's world size or its
// arguments, with MLPerf's batch, init_start or run_start, where the numbers of iterations go back
// by more than one, or where another label goes on with them. Where several ranks tell of an
// iteration, the figures of the first rank count, and everyone's memory.
LogRun last_run(std::string_view text, int least_iterations = 1);

// Returns whether a text has a line that a RunMeter takes.
bool has_measurement(std::string_view text);

// Turns tokens or samples a second into the time of an iteration of the plan's batch, where batch,
// sequence and GPUs are known. A step of the log may have several such batches.
void complete_measured(ImportedPlan* plan);

}  // namespace tandem
