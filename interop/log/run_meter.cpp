#include "interop/log/run_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/quantile.h"
#include "interop/document/fields.h"
#include "interop/log/log_line.h"

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

bool begins_run(std::string_view line) {
  const auto has = [&](std::string_view word) { return line.find(word) != line.npos; };
  return has("using world size:") || has("-- arguments --") ||
         (has(":::MLLOG") && (has("\"init_start\"") || has("\"run_start\""))) || mlperf_batch(line);
}

}  // namespace

std::optional<double> mlperf_batch(std::string_view line) {
  if (line.find(":::MLLOG") == line.npos || line.find("\"global_batch_size\"") == line.npos)
    return std::nullopt;
  return number_behind(line, "\"value\":");
}

std::optional<LineFigures> figures_in(std::string_view line) {
  if (line.find("validate step:") != std::string_view::npos) return std::nullopt;  // torchtitan's
  LineFigures figures;
  bool any = false;
  for (const LogWord& row : kWords) {
    if (!row.beside.empty() && line.find(row.beside) == std::string_view::npos) continue;
    const auto number = number_behind(line, row.word);
    // An iteration whose time is no number has no other figures either.
    if (!number && row.what == Figure::Seconds && line.find(row.word) != std::string_view::npos)
      return std::nullopt;
    std::optional<double>& figure = place_of(row.what, &figures);
    if (!number || figure) continue;  // a shorter word of the same
    figure = *number * row.unit;
    any = true;
  }
  if (!any) return std::nullopt;
  figures.batch = number_behind(line, "global batch size:");
  if (!figures.batch) figures.batch = number_behind(line, "global_batch_size:");  // NeMo
  return figures;
}

std::optional<double> RunMeter::batch_or_last(std::optional<double> batch) const {
  for (std::size_t i = lines_.size(); i-- > 0 && !batch;) batch = lines_[i].batch;
  return batch;
}

std::string RunMeter::other_batches(std::optional<double> batch) const {
  const std::optional<double> counted = batch_or_last(batch);
  const auto differs = [&](const LineFigures& line) { return line.batch && line.batch != counted; };
  const auto first = std::ranges::find_if(lines_, differs);
  if (first == lines_.end()) return "";
  return fmt::format(
      "the times of {} iterations whose global batch size, such as {:g}, is not {:g}",
      std::ranges::count_if(lines_, differs), *first->batch, *counted);
}

MeasuredRun RunMeter::run(std::optional<double> batch) const {
  const std::optional<double> counted = batch_or_last(batch);
  const auto values = [&](std::optional<double> LineFigures::*figure) {
    std::vector<double> all;
    for (const LineFigures& line : lines_) {
      if (line.*figure && (!line.batch || line.batch == counted)) all.push_back(*(line.*figure));
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

LogPart last_run(std::string_view text) {
  LogPart part{text};
  bool measured = false;  // since the run began
  std::optional<LogPart> begins;
  int number = 1;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (measured && begins_run(line)) {
      begins = LogPart{text.substr(begin), number};
      measured = false;
    }
    if (!measured && has_measurement(line)) {
      measured = true;
      if (begins) part = *begins;
    }
    begin = end + 1;
    ++number;
  }
  return part;
}

bool has_measurement(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const bool measures = std::ranges::any_of(kWords, [&](const LogWord& row) {
      return row.what != Figure::Bytes && number_behind(line, row.word) &&
             line.find(row.beside) != std::string_view::npos;
    });
    if (measures) return true;
  }
  return false;
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
