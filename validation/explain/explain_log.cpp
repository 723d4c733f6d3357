// Reads the iterations of the log's last run, leaves out the warm-up and those of other jobs, takes
// their median as the usual one, and adds up what slow ones and a drift take beyond it.
#include "validation/explain/explain_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "base/quantile.h"
#include "base/split.h"
#include "interop/log/log_line.h"
#include "interop/log/run_meter.h"

namespace tandem {
namespace {

constexpr int kLeastIterations = 10 + RunMeter::kWarmup;
// An iteration is slow if it takes longer than the usual one by more than this share of it, and by
// more than so many times the median absolute deviation.
constexpr double kSlow = 0.05, kDeviations = 6;
constexpr const char* kMegatronTime = "elapsed time per iteration";
constexpr double kDrift = 0.02;  // of the usual iteration, from the first third to the last

enum class SlowKind { Checkpoint, Evaluation, Other };
struct SlowWords {
  const char *what, *advice;
};
constexpr std::array<SlowWords, 3> kSlowWords = {
    {{"iterations behind a checkpoint take longer",
      "save asynchronously, less often, or to local disks"},
     {"iterations behind an evaluation take longer", "evaluate less often, or fewer batches"},
     {"some iterations take longer than the usual one",
      "look at the nodes' logs at that time: restarts of links, garbage collection, data"}}};

// An iteration in a log (or the mean of those since the line before), and what the log says
// happened before it.
struct LogIteration {
  int line = 0;
  double seconds = 0;
  bool checkpoint = false, evaluation = false, skipped = false;
  std::optional<double> batch, gpus, seq;  // world size and the like, where the log states them
};

double median_seconds(const std::vector<LogIteration>& iterations) {
  std::vector<double> seconds;
  for (const LogIteration& each : iterations) seconds.push_back(each.seconds);
  return median(std::move(seconds));
}

// Names the lines of some iterations, the first three of many.
std::string lines_text(const std::vector<LogIteration>& iterations) {
  std::vector<int> lines;
  for (const LogIteration& each : iterations) {
    if (lines.size() < 3) lines.push_back(each.line);
  }
  return fmt::format("{} of them, in lines {}{}", iterations.size(), fmt::join(lines, ", "),
                     iterations.size() > lines.size() ? ", ..." : "");
}

// Notes what a line says happened before the next iteration.
void note_line(const std::string& text, LogIteration* next) {
  const std::string words = lower_case(text);
  const auto says = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  next->checkpoint |= says("sav") && says("checkpoint");
  next->evaluation |= says("validation") || says("evaluat");
}

// Returns the seconds of the iteration that a line tells of; 0: it tells of none. Once a log has
// told seconds, a line with a rate alone is no iteration of its own.
double seconds_of(const LineFigures& figures, bool log_tells_seconds,
                  const SimulatedIteration& simulated) {
  if (figures.seconds) return *figures.seconds;
  if (log_tells_seconds) return 0;
  if (figures.tokens_per_gpu_s) return simulated.tokens_per_gpu / *figures.tokens_per_gpu_s;
  if (figures.samples_per_s) return simulated.samples / *figures.samples_per_s;
  return 0;
}

// Reads the iterations of a run, the first ones included.
std::vector<LogIteration> log_iterations(const LogRun& run, const SimulatedIteration& simulated) {
  std::vector<LogIteration> iterations;
  LogIteration next;
  bool tells_seconds = false;
  StatedJob stated;  // by earlier lines
  for (const auto& [line, number, figures] : run.lines) {
    note_line(line.text, &next);
    stated.take(line.text);
    if (!figures) continue;
    tells_seconds |= figures->seconds.has_value();
    next.line = number;
    next.seconds = seconds_of(*figures, tells_seconds, simulated);
    if (!std::isfinite(next.seconds) || next.seconds <= 0) continue;
    next.batch = figures->batch ? figures->batch : stated.batch;
    next.seq = figures->seq ? figures->seq : stated.seq;
    next.gpus = stated.gpus;
    next.skipped = figures->was_skipped;
    iterations.push_back(next);
    next = {};
  }
  return iterations;
}

// The iterations that are slow, by what came before them, and the others.
struct SplitIterations {
  std::map<SlowKind, std::vector<LogIteration>> slow;
  std::vector<LogIteration> others;
};

SplitIterations split_iterations(const std::vector<LogIteration>& all, double usual) {
  std::vector<double> deviations;
  for (const LogIteration& each : all) deviations.push_back(std::abs(each.seconds - usual));
  const double slow = usual + std::max(kSlow * usual, kDeviations * median(std::move(deviations)));
  SplitIterations split;
  for (const LogIteration& each : all) {
    SlowKind kind = SlowKind::Other;
    if (each.evaluation) kind = SlowKind::Evaluation;
    if (each.checkpoint) kind = SlowKind::Checkpoint;
    (each.seconds > slow ? split.slow[kind] : split.others).push_back(each);
  }
  return split;
}

// The iterations of the simulated job after the warm-up, and what of the log is left out. A log may
// have some of other jobs too, as in a ramp-up of the batch.
struct CountedIterations {
  std::vector<LogIteration> all;
  double usual = 0;
  SplitIterations split;
  std::vector<std::string> left_out;
};

// Refuses a run whose arguments ("  num_layers ...... 32") are not those of the simulated job.
Status check_arguments(const std::string& path, const LogRun& run,
                       const SimulatedIteration& simulated) {
  for (const RunLine& line : run.lines) {
    std::istringstream words(line.line.text);
    std::string name, dots, value;
    words >> name >> dots >> value;
    if (!dots.starts_with("..")) continue;
    for (const auto& [argument, expected] : simulated.arguments) {
      if (name != argument || value == fmt::to_string(expected) || value == "None") continue;
      return Error::at(fmt::format("{}:{}", path, line.number),
                       fmt::format("found {} = {}, expected the scenario's {}: a log of another "
                                   "job",
                                   name, value, expected));
    }
  }
  return Done{};
}

// Returns what the log states of an iteration's job, if it differs from the simulated job's (0: not
// known); empty: nothing differs.
std::string other_job(const LogIteration& iteration, const SimulatedIteration& simulated) {
  const auto differs = [](std::optional<double> stated, double expected) {
    return stated && expected > 0 && *stated != expected;
  };
  if (differs(iteration.batch, simulated.samples))
    return fmt::format("'global batch size: {:g}', expected {:g}", *iteration.batch,
                       simulated.samples);
  if (differs(iteration.gpus, simulated.gpus))
    return fmt::format("'using world size: {:g}', expected {}", *iteration.gpus, simulated.gpus);
  if (differs(iteration.seq, simulated.seq))
    return fmt::format("'actual seqlen: {:g}', expected {}", *iteration.seq, simulated.seq);
  return "";
}

// Returns a note on a clock that may have stopped for the checkpoints and evaluations of a run;
// nothing: it has none, the clock is another, or it ran on, as iterations behind them are slow.
std::optional<std::string> stopped_clock(const LogRun& run, const CountedIterations& counted) {
  const bool has_pauses = std::ranges::any_of(
      counted.all, [](const LogIteration& each) { return each.checkpoint || each.evaluation; });
  const bool is_megatron = std::ranges::any_of(run.lines, [](const RunLine& line) {
    return line.line.text.find(kMegatronTime) != std::string::npos;
  });
  const bool ran_on = counted.split.slow.contains(SlowKind::Checkpoint) ||
                      counted.split.slow.contains(SlowKind::Evaluation);
  if (!has_pauses || !is_megatron || ran_on) return std::nullopt;
  return fmt::format(
      "Recent releases of Megatron-LM stop the clock of '{}' for checkpoints and evaluations, "
      "which this log has: what they take is then not in these seconds.",
      kMegatronTime);
}

// Refuses a log without an iteration of the simulated job.
Result<CountedIterations> counted_iterations(const std::string& path, std::string_view text,
                                             const SimulatedIteration& simulated) {
  const LogRun run = last_run(text, kLeastIterations);
  RETURN_IF_ERROR(check_arguments(path, run, simulated));
  ASSIGN_OR_RETURN(std::string unread, compare_arguments(path, text, run, simulated.job));
  CountedIterations counted;
  if (!unread.empty()) counted.left_out.push_back(std::move(unread));
  for (const std::string& lines : run.left_out(path))
    counted.left_out.push_back("left out: " + lines);
  int of_other_jobs = 0, skipped = 0;
  std::optional<Error> another;
  for (const LogIteration& each : log_iterations(run, simulated)) {
    if (each.skipped) {
      ++skipped;
      continue;
    }
    const std::string found = other_job(each, simulated);
    if (found.empty()) {
      counted.all.push_back(each);
      continue;
    }
    ++of_other_jobs;
    if (!another)
      another = Error::at(fmt::format("{}:{}", path, each.line),
                          fmt::format("found {}, the job's: a log of another job", found));
  }
  if (counted.all.empty() && another) return *another;
  if (counted.all.size() < std::size_t{kLeastIterations})
    return Error::at(path, fmt::format("found {} iterations{}, expected at least {}, of which the "
                                       "first {} do not count",
                                       counted.all.size(),
                                       of_other_jobs > 0 ? " of this job"
                                       : skipped > 0     ? " with an optimizer step"
                                                         : "",
                                       kLeastIterations, RunMeter::kWarmup));
  if (of_other_jobs > 0)
    counted.left_out.push_back(fmt::format(
        "{} iterations of the log with another global batch, sequence or world size do not count.",
        of_other_jobs));
  if (skipped > 0)
    counted.left_out.push_back(
        fmt::format("{} skipped iterations, without an optimizer step, do not count.", skipped));
  const auto without_time = std::ranges::count_if(
      run.lines, [](const RunLine& line) { return line.figures && line.figures->has_no_time; });
  if (without_time > 0)
    counted.left_out.push_back(fmt::format(
        "{} lines of iterations whose time is not above 0 do not count.", without_time));
  counted.all.erase(counted.all.begin(), counted.all.begin() + RunMeter::kWarmup);
  counted.usual = median_seconds(counted.all);
  counted.split = split_iterations(counted.all, counted.usual);
  if (const auto note = stopped_clock(run, counted)) counted.left_out.push_back(*note);
  return counted;
}

// How the usual iteration changes over a run, in seconds.
struct Drift {
  double first_s = 0, last_s = 0;  // medians of the first and the last third of the iterations
  double begin_s = 0;              // an iteration where the run begins
  double longer_s = 0;             // the mean iteration takes so much longer than that one
};

// Returns the drift of iterations that are not slow, if it is more than kDrift.
std::optional<Drift> drift_of(const std::vector<LogIteration>& iterations, double usual) {
  const auto third = static_cast<std::ptrdiff_t>(iterations.size() / 3);
  const double first = median_seconds({iterations.begin(), iterations.begin() + third});
  const double last = median_seconds({iterations.end() - third, iterations.end()});
  if (!(std::abs(last - first) > kDrift * usual)) return std::nullopt;
  // The drift is a line through the middles of both thirds, which are 2/3 of the run apart. The run
  // begins 1/6 of it before the first middle, so its begin is a quarter (1/6 over 2/3) of the
  // thirds' difference away from `first`: with 10 s and 12 s, 9.5 s. If times jump rather than
  // drift, this would be beyond all of them: clamp() prevents that.
  const auto [least, most] = std::minmax_element(
      iterations.begin(), iterations.end(),
      [](const LogIteration& a, const LogIteration& b) { return a.seconds < b.seconds; });
  const double begin = std::clamp(first - (last - first) / 4, least->seconds, most->seconds);
  double sum = 0;
  for (const LogIteration& each : iterations) sum += each.seconds;
  return Drift{first, last, begin, sum / static_cast<double>(iterations.size()) - begin};
}

}  // namespace

Result<UsualIteration> usual_iteration(const std::string& path, std::string_view text,
                                       const SimulatedIteration& simulated) {
  ASSIGN_OR_RETURN(const auto counted, counted_iterations(path, text, simulated));
  return UsualIteration{counted.usual, counted.left_out};
}

Result<LogExplanation> explain_log(const std::string& path, std::string_view text,
                                   const SimulatedIteration& simulated) {
  ASSIGN_OR_RETURN(const auto counted, counted_iterations(path, text, simulated));
  const std::vector<LogIteration>& all = counted.all;
  const double usual = counted.usual;
  double sum = 0;
  for (const LogIteration& each : all) sum += each.seconds;
  const auto count = static_cast<double>(all.size());
  Explanation explanation{.simulated_s = simulated.seconds, .measured_s = sum / count};
  explanation.steps = static_cast<int>(all.size());
  std::vector<Cause> causes;
  for (const auto& [kind, iterations] : counted.split.slow) {
    double excess = 0, most = 0;
    for (const LogIteration& each : iterations) {
      excess += each.seconds - usual;
      most = std::max(most, each.seconds);
    }
    const SlowWords& words = kSlowWords[static_cast<std::size_t>(kind)];
    causes.push_back({words.what, excess / count,
                      fmt::format("{}, {:.4g} s at most", lines_text(iterations), most),
                      words.advice});
  }
  const std::optional<Drift> drift = drift_of(counted.split.others, usual);
  const double steady = drift ? drift->begin_s : usual;
  if (drift)
    causes.push_back({"iterations drift", drift->longer_s,
                      fmt::format("{:.4g} s in the first third, {:.4g} s in the last",
                                  drift->first_s, drift->last_s),
                      drift->last_s > drift->first_s
                          ? "look for temperature, clocks, memory that fragments, longer sequences"
                          : "it grew faster: leave the first third out when you compare"});
  const double explained_s = add_causes(std::move(causes), &explanation);
  explanation.not_explained_s = explanation.measured_s - simulated.seconds - explained_s;
  if (std::abs(explanation.not_explained_s) >= kLeastCause * explanation.measured_s) {
    explanation.notes.push_back(fmt::format(
        "A log does not tell why the usual iteration ({:.4g} s) takes another time than "
        "simulated ({:.4g} s): that is not explained. Profiles tell.",
        steady, simulated.seconds));
  }
  if (const auto& band = simulated.interval_s)
    explanation.notes.push_back(fmt::format(
        "The usual iteration is {} the simulation's band: 9 of 10 real runs take {:.4g} "
        "to {:.4g} s.",
        steady >= band->first && steady <= band->second ? "in" : "outside", band->first,
        band->second));
  return LogExplanation{std::move(explanation), counted.left_out};
}

}  // namespace tandem
