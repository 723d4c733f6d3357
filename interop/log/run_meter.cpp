#include "interop/log/run_meter.h"

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

}  // namespace

bool RunMeter::take(std::string_view line) {
  if (line.find("validate step:") != std::string_view::npos) return false;  // torchtitan's
  bool any = false, bytes = false;
  for (const LogWord& row : kWords) {
    if (!row.beside.empty() && line.find(row.beside) == std::string_view::npos) continue;
    if (row.what == Figure::Bytes && bytes) continue;  // a shorter word of the same
    const auto number = number_behind(line, row.word);
    // An iteration whose time is no number has no other figures either.
    if (!number && row.what == Figure::Seconds && line.find(row.word) != std::string_view::npos)
      return false;
    if (!number) continue;
    any = true;
    const double value = *number * row.unit;
    switch (row.what) {
      case Figure::Seconds:
        seconds_.push_back(value);
        break;
      case Figure::Tflops:
        tflops_.push_back(value);
        break;
      case Figure::TokensOfGpu:
        tokens_.push_back(value);
        break;
      case Figure::Samples:
        samples_.push_back(value);
        break;
      case Figure::Bytes:
        bytes = true;
        allocated_bytes_ = std::max(allocated_bytes_, value);
        break;
    }
  }
  return any;
}

MeasuredRun RunMeter::run() const {
  MeasuredRun run;
  run.iteration_s = median_of(seconds_);
  run.tflops_per_gpu = median_of(tflops_);
  run.tokens_per_gpu_s = median_of(tokens_);
  run.samples_per_s = median_of(samples_);
  const std::size_t counted = std::max({seconds_.size(), tokens_.size(), samples_.size()});
  run.warmup = static_cast<int>(std::min<std::size_t>(kWarmup, counted == 0 ? 0 : counted - 1));
  run.iterations = static_cast<int>(counted) - run.warmup;
  if (allocated_bytes_ > 0) run.max_allocated_bytes = allocated_bytes_;
  return run;
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
