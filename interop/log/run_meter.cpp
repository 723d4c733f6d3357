#include "interop/log/run_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/quantile.h"
#include "interop/document/fields.h"

namespace tandem {
namespace {

constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;

enum class Figure { Seconds, Tflops, TokensOfGpu, Samples, Bytes };

// The figure that stands behind a word, times `unit` in seconds, TFLOP/s, tokens a second of a GPU,
// samples a second of all, or bytes.
struct LogWord {
  std::string_view word;
  Figure what;
  double unit;
  std::string_view beside = {};  // the line has this too
};
constexpr LogWord kWords[] = {
    {"elapsed time per iteration (ms):", Figure::Seconds, 1e-3},  // Megatron-LM
    {"elapsed time per iteration (s):", Figure::Seconds, 1},      // BigScience's
    {"throughput per GPU (TFLOP/s/GPU):", Figure::Tflops, 1},     //
    {"max allocated:", Figure::Bytes, kMiB},                      //
    {"max_allocated:", Figure::Bytes, kMiB},                      //
    {"max_allocated", Figure::Bytes, kMiB},                       //
    {"train_step_timing in s:", Figure::Seconds, 1},              // NeMo
    {"train_step_timing in s=", Figure::Seconds, 1},              //
    {"tps:", Figure::TokensOfGpu, 1, "step:"},                    // torchtitan
    {"wps:", Figure::TokensOfGpu, 1, "step:"},                    // its releases of 2024
    {"tflops:", Figure::Tflops, 1, "step:"},                      //
    {"CurrSamplesPerSec=", Figure::Samples, 1},                   // DeepSpeed
    {"MaxMemAllocated=", Figure::Bytes, kGiB},                    //
    {"\"train_step_time\":", Figure::Seconds, 1, ":::MLLOG"}};    // MLPerf

// A word before an iteration's number. A plain "iteration" counts in Megatron-LM's lines alone:
// NeMo's begins anew with each epoch.
struct StepWord {
  std::string_view word, beside;
};
constexpr std::array<StepWord, 4> kIterationWords = {{{"global_step=", ""},
                                                      {"global_step:", ""},
                                                      {"step:", ""},
                                                      {"iteration", "elapsed time per iteration"}}};

void take_step(std::string_view line, LineFigures* figures) {
  for (std::size_t i = 0; i < kIterationWords.size() && !figures->step; ++i) {
    if (line.find(kIterationWords[i].beside) == line.npos) continue;
    figures->step = count_behind(line, kIterationWords[i].word);
    figures->step_word = static_cast<int>(i);
  }
}

// Whether the line has the word as lines of iterations do, with a number of theirs, and is no
// prose.
bool is_of_iteration(std::string_view line, const LogWord& row) {
  const auto has_number = [&](const StepWord& word) {
    return count_behind(line, word.word).has_value();
  };
  return line.find(row.word) != line.npos &&
         (!row.beside.empty() || std::ranges::any_of(kIterationWords, has_number));
}

// Returns the bytes of a unit of memory in this line: `unit`, unless the line names another, as in
// "memory (GB) | max allocated: 31.0". 0: the named one is not known.
double bytes_of_unit(std::string_view line, double unit) {
  constexpr std::string_view kBefore = "memory (";
  const std::size_t at = line.find(kBefore);
  if (unit != kMiB || at == line.npos) return unit;
  const std::string_view stated = line.substr(at + kBefore.size());
  if (stated.starts_with("MB)") || stated.starts_with("MiB)")) return kMiB;
  return stated.starts_with("GB)") || stated.starts_with("GiB)") ? kGiB : 0;
}

std::vector<double> behind_warmup(const std::vector<double>& values) {
  const std::size_t skipped =
      std::min<std::size_t>(RunMeter::kWarmup, values.empty() ? 0 : values.size() - 1);
  return {values.begin() + static_cast<std::ptrdiff_t>(skipped), values.end()};
}

std::optional<double> median_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return median(behind_warmup(values));
}

std::optional<double>& place_of(Figure what, LineFigures* figures) {
  switch (what) {
    case Figure::Seconds:
      return figures->seconds;
    case Figure::Tflops:
      return figures->tflops;
    case Figure::TokensOfGpu:
      return figures->tokens_per_gpu_s;
    case Figure::Samples:
      return figures->samples_per_s;
    case Figure::Bytes:
      break;
  }
  return figures->allocated_bytes;
}

bool has_word(std::string_view line, std::string_view word) { return line.find(word) != line.npos; }

// Returns the number behind a name and dots, as DeepSpeed writes "train_batch_size ....... 256".
std::optional<double> number_behind_dots(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == line.npos) return std::nullopt;
  const std::string_view rest = line.substr(at + name.size());
  const std::size_t number = rest.find_first_not_of(" .");
  if (!rest.starts_with(" ..") || number == rest.npos) return std::nullopt;
  return number_behind(rest.substr(number), "");
}

// Returns the global batch that an MLPerf log states.
std::optional<double> mlperf_batch(std::string_view line) {
  if (!has_word(line, ":::MLLOG") || !has_word(line, "\"global_batch_size\"")) return std::nullopt;
  return number_behind(line, "\"value\":");
}

// The rank whose lines about iterations count, by its label, such as "[rank0]": eight ranks that
// all write of a step give one iteration.
struct Reporter {
  std::string label;
  double first = 0, before = 0, last = 0;  // iterations' numbers: the run's first, the last two
  std::optional<double> next;              // that of this label's next line in the log

  // Returns whether this label passes over an iteration that another label writes of.
  bool skips(double step) const { return step > last && (!next || step < *next); }

  // Returns whether this line, the label's next one, is of a restart: 5 in "7, 8, 5, 6". Nodes that
  // share a label write late, so these are no restarts:
  //   one number back: 7 in "7, 8, 7, 9"
  //   one line farther back, if the line after it goes on: 5 in "7, 8, 5, 9"
  bool goes_back(const LineFigures& line) const {
    return *line.step < before && (!line.next_step || *line.next_step < last);
  }
};

// Returns whether a label that is new in a run begins the next run with the first of these lines:
//   if the reporter has no further line, and the label's first number is another than the
//   reporter's, or only one of the two has a label
//   if, before the reporter's next line, it writes of an iteration that the reporter passes over
bool replaces(const Reporter& reporter, std::span<const RunLine> lines) {
  const RunLine& first = lines.front();
  const std::string& label = first.line.label;
  const bool is_heard_again = reporter.next.has_value();
  const bool begins_elsewhere = *first.figures->step != reporter.first;
  const bool one_has_label = label.empty() != reporter.label.empty();
  if (!is_heard_again && (begins_elsewhere || one_has_label)) return true;
  for (const auto& [line, number, figures] : lines) {
    if (!figures || !figures->step || figures->step_word != first.figures->step_word) continue;
    if (line.label == reporter.label) return false;
    if (line.label == label && reporter.skips(*figures->step)) return true;
  }
  return false;
}

// Tells the lines of one run from those of the next.
class RunSoFar {
 public:
  // Counts lines with a time or, if no line has one, with another rate.
  int iterations() const { return timed_ > 0 ? timed_ : rated_; }

  // Returns whether the first of these lines of a log is the first one of the next run.
  bool ends_before(std::span<const RunLine> lines) const {
    const auto& [line, number, figures] = lines.front();
    const bool measured = iterations() > 0;
    // World size and arguments begin the next run if this one has measured, or has arguments of the
    // same rank. Every rank may print its own.
    if (has_word(line.text, kWorldSize) || has_word(line.text, kArguments))
      return measured || arguments_of_ == line.label;
    if (figures && figures->step) return restarts_with(lines);
    const bool is_mlperf_start =
        has_word(line.text, ":::MLLOG") &&
        (has_word(line.text, "\"init_start\"") || has_word(line.text, "\"run_start\""));
    return measured && (is_mlperf_start || mlperf_batch(line.text));
  }

  // Takes a line into the run. A line about an iteration that was already counted, as another rank
  // or a progress bar writes it, keeps its memory only.
  void take(RunLine* line) {
    if (has_word(line->line.text, kArguments)) arguments_of_ = line->line.label;
    std::optional<LineFigures>& figures = line->figures;
    if (!figures) return;
    if (figures->step && !is_new_iteration(line->line.label, *figures)) {
      LineFigures memory;
      memory.allocated_bytes = figures->allocated_bytes;
      figures = memory;
    }
    if (figures->was_skipped) return;
    timed_ += figures->seconds ? 1 : 0;
    rated_ += figures->has_rate() ? 1 : 0;
  }

 private:
  static constexpr std::string_view kWorldSize = "using world size:",
                                    kArguments = "-- arguments --";

  // Returns whether these lines, whose first is about an iteration, begin the next run.
  bool restarts_with(std::span<const RunLine> lines) const {
    const auto& [line, number, figures] = lines.front();
    const auto& reporter = reporters_[static_cast<std::size_t>(figures->step_word)];
    if (!reporter) return false;  // the run's first iteration
    if (reporter->label == line.label) return reporter->goes_back(*figures);
    const bool is_new_label = !heard_.contains({figures->step_word, line.label});
    return is_new_label && replaces(*reporter, lines);
  }

  bool is_new_iteration(const std::string& label, const LineFigures& figures) {
    heard_.insert({figures.step_word, label});
    const double step = *figures.step;
    auto& reporter = reporters_[static_cast<std::size_t>(figures.step_word)];
    if (!reporter) {
      reporter = Reporter{label, step, step - 1, step, figures.next_step};
      return true;
    }
    const bool is_own = reporter->label == label;
    const bool is_new = is_own ? step > reporter->last : reporter->skips(step);
    if (is_new) reporter = Reporter{label, reporter->first, reporter->last, step, {}};
    if (is_new || is_own) reporter->next = figures.next_step;
    return is_new;
  }

  int timed_ = 0, rated_ = 0;
  std::optional<std::string> arguments_of_;  // the label of who wrote them
  std::array<std::optional<Reporter>, kIterationWords.size()> reporters_;
  std::set<std::pair<int, std::string>> heard_;  // labels that told of iterations, by the word
};

// Sets the batch of iterations that state only the samples so far, as NeMo 1's: the samples since
// the iteration before. The first iteration has the batch of the second.
void take_batches(std::vector<RunLine>* lines) {
  std::map<std::string, LineFigures*> before;  // by label
  for (auto& [line, number, figures] : *lines) {
    if (!figures || !figures->step || !figures->samples_so_far || figures->batch) continue;
    LineFigures*& last = before[line.label];
    if (last != nullptr && *figures->step > *last->step &&
        *figures->samples_so_far > *last->samples_so_far) {
      figures->batch =
          (*figures->samples_so_far - *last->samples_so_far) / (*figures->step - *last->step);
      if (!last->batch) last->batch = figures->batch;
    }
    last = &*figures;
  }
}

// Returns a log's lines with what they measure.
std::vector<RunLine> measured_lines(std::string_view text) {
  std::vector<RunLine> lines;
  for (const RawLine& raw : raw_lines(text)) {
    lines.push_back({.line = log_line(raw.text), .number = raw.number, .figures = {}});
    lines.back().figures = figures_in(lines.back().line.text);
  }
  std::map<std::pair<int, std::string>, std::optional<double>> next_steps;
  for (std::size_t i = lines.size(); i-- > 0;) {
    auto& figures = lines[i].figures;
    if (!figures || !figures->step) continue;
    auto& next = next_steps[{figures->step_word, lines[i].line.label}];
    figures->next_step = std::exchange(next, figures->step);
  }
  take_batches(&lines);
  return lines;
}

}  // namespace

void StatedJob::take(std::string_view line) {
  const auto set = [](std::optional<double> stated, std::optional<double>* to) {
    if (stated) *to = stated;
  };
  set(mlperf_batch(line), &batch);
  set(number_behind_dots(line, " train_batch_size"), &batch);
  if (has_word(line, "Trainer is initialized with")) {  // torchtitan's
    set(number_behind(line, "global batch size "), &batch);
    set(number_behind(line, "sequence length "), &seq);
  }
  set(number_behind(line, "using world size:"), &gpus);
  set(number_behind_dots(line, " world_size"), &gpus);
}

std::optional<LineFigures> figures_in(std::string_view line) {
  if (line.find("validate step:") != std::string_view::npos) return std::nullopt;  // torchtitan's
  LineFigures figures;
  bool any = false;
  for (const LogWord& row : kWords) {
    if (!row.beside.empty() && line.find(row.beside) == std::string_view::npos) continue;
    const auto number = number_behind(line, row.word);
    if (!number && row.what == Figure::Seconds && is_of_iteration(line, row)) {
      LineFigures none;
      none.has_no_time = true;
      return none;
    }
    std::optional<double>& figure = place_of(row.what, &figures);
    if (!number || figure) continue;  // a shorter word of the same
    const double unit = row.what == Figure::Bytes ? bytes_of_unit(line, row.unit) : row.unit;
    if (unit == 0) continue;
    figure = *number * unit;
    any = true;
  }
  if (!any) return std::nullopt;
  figures.batch = number_behind(line, "global batch size:");
  if (!figures.batch) figures.batch = number_behind(line, "global_batch_size:");  // NeMo
  figures.seq = number_behind(line, "actual seqlen:");  // Megatron-DeepSpeed
  figures.samples_so_far = count_behind(line, "consumed_samples=");
  figures.was_skipped = number_behind(line, "number of skipped iterations:").has_value();
  take_step(line, &figures);
  return figures;
}

StatedJob RunMeter::job_or_last(StatedJob job) const {
  for (std::size_t i = lines_.size(); i-- > 0;) {
    if (!job.batch) job.batch = lines_[i].batch;
    if (!job.seq) job.seq = lines_[i].seq;
  }
  return job;
}

std::vector<std::string> RunMeter::not_counted(const StatedJob& job) const {
  const StatedJob counted = job_or_last(job);
  std::vector<std::string> texts;
  const auto tell = [&](const char* what, std::optional<double> LineFigures::*stated,
                        std::optional<double> own) {
    const auto differs = [&](const LineFigures& line) {
      return line.*stated && line.*stated != own;
    };
    const auto first = std::ranges::find_if(lines_, differs);
    if (first == lines_.end()) return;
    texts.push_back(fmt::format("the times of {} iterations whose {}, such as {:g}, is not {:g}",
                                std::ranges::count_if(lines_, differs), what, *((*first).*stated),
                                *own));
  };
  tell("global batch size", &LineFigures::batch, counted.batch);
  tell("sequence length", &LineFigures::seq, counted.seq);
  const auto skipped = std::ranges::count_if(lines_, &LineFigures::was_skipped);
  if (skipped > 0)
    texts.push_back(fmt::format("{} iterations without an optimizer step (skipped)", skipped));
  const auto without_time = std::ranges::count_if(lines_, &LineFigures::has_no_time);
  if (without_time > 0)
    texts.push_back(fmt::format("{} lines of iterations whose time is not above 0", without_time));
  return texts;
}

MeasuredRun RunMeter::run(const StatedJob& job) const {
  const StatedJob counted = job_or_last(job);
  const auto values = [&](std::optional<double> LineFigures::*figure) {
    std::vector<double> all;
    for (const LineFigures& line : lines_) {
      const bool counts = !line.was_skipped && (!line.batch || line.batch == counted.batch) &&
                          (!line.seq || line.seq == counted.seq);
      if (line.*figure && counts) all.push_back(*(line.*figure));
    }
    return all;
  };
  const std::vector<double> seconds = values(&LineFigures::seconds),
                            tokens = values(&LineFigures::tokens_per_gpu_s),
                            samples = values(&LineFigures::samples_per_s);
  MeasuredRun run;
  run.iteration_s = median_of(seconds);
  run.tflops_per_gpu = median_of(values(&LineFigures::tflops));
  run.tokens_per_gpu_s = median_of(tokens);
  run.samples_per_s = median_of(samples);
  const std::size_t most = std::max({seconds.size(), tokens.size(), samples.size()});
  run.warmup = static_cast<int>(std::min<std::size_t>(kWarmup, most == 0 ? 0 : most - 1));
  run.iterations = static_cast<int>(most) - run.warmup;
  const std::vector<double> bytes = values(&LineFigures::allocated_bytes);
  const double allocated = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  if (allocated > 0) run.max_allocated_bytes = allocated;
  return run;
}

std::vector<std::string> LogRun::left_out(const std::string& path) const {
  std::vector<std::string> parts;
  if (first > 1)
    parts.push_back(fmt::format("{}:1 to {}: an earlier run in this log", path, first - 1));
  if (last < lines_of_log)
    parts.push_back(fmt::format(
        "{}:{} to {}: a later run in this log, which measured {}", path, last + 1, lines_of_log,
        most_later == 0 ? "nothing" : fmt::format("{} iterations only", most_later)));
  return parts;
}

LogRun last_run(std::string_view text, int least_iterations) {
  std::vector<RunLine> lines = measured_lines(text);
  std::optional<LogRun> enough, measured;
  LogRun run;
  RunSoFar so_far;
  const auto end_run = [&] {
    const int iterations = so_far.iterations();
    if (iterations >= least_iterations)
      enough = std::move(run);
    else if (enough)
      enough->most_later = std::max(enough->most_later, iterations);
    else if (iterations > 0)
      measured = std::move(run);
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const int number = lines[i].number;
    if (so_far.ends_before(std::span(lines).subspan(i))) {
      end_run();
      run = {.lines = {}, .first = number};
      so_far = {};
    }
    so_far.take(&lines[i]);
    run.lines.push_back(std::move(lines[i]));
    run.last = number;
  }
  const int lines_of_log = run.last;
  end_run();
  if (enough || measured) run = *std::move(enough ? enough : measured);
  run.lines_of_log = lines_of_log;
  return run;
}

bool has_measurement(std::string_view text) {
  return std::ranges::any_of(raw_lines(text), [](const RawLine& line) {
    const auto figures = figures_in(line.text);
    return figures && figures->has_rate();
  });
}

void complete_measured(ImportedPlan* plan) {
  MeasuredRun& run = plan->measured;
  if (run.iteration_s) return;
  const auto batch = plan->whole_of("parallel.global_batch"), seq = plan->whole_of("model.seq"),
             gpus = plan->whole_of("cluster.gpus");
  if (run.samples_per_s && batch)
    run.iteration_s = static_cast<double>(*batch) / *run.samples_per_s;
  else if (run.tokens_per_gpu_s && batch && seq && gpus)
    run.iteration_s = static_cast<double>(product_of({*batch, *seq})) /
                      (*run.tokens_per_gpu_s * static_cast<double>(*gpus));
}

}  // namespace tandem
