#include "report/text/log_table.h"

#include <fmt/format.h>

#include "base/units.h"
#include "report/text/number_cells.h"
#include "report/text/table.h"

namespace tandem {
namespace {

struct LogRow {
  std::string quantity, simulated, measured;
  std::optional<double> error;
  std::string interval = "-";
  std::string inside = "-";  // whether the measured value lies in the interval: "yes", "no", "-"
};

std::string optional_number(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::vector<LogRow> log_rows(const LogComparison& comparison) {
  const RunResult& run = comparison.simulated;
  std::vector<LogRow> rows;
  LogRow iteration{.quantity = "iteration s",
                   .simulated = iteration_text(run),
                   .measured = optional_number(comparison.measured.iteration_s, 3),
                   .error = comparison.iteration_error()};
  if (run.interval_s)
    iteration.interval =
        fmt::format("{:.3f}-{:.3f}", run.interval_s->first, run.interval_s->second);
  if (const auto inside = comparison.is_inside()) iteration.inside = *inside ? "yes" : "no";
  rows.push_back(iteration);
  const auto bytes = comparison.measured.max_allocated_bytes;
  rows.push_back({.quantity = "peak GiB",
                  .simulated = fmt::format("{:.2f}", run.training->memory.total / GiB),
                  .measured = bytes ? fmt::format("{:.2f}", *bytes / GiB) : "-",
                  .error = comparison.memory_error()});
  if (const auto tflops = comparison.simulated_tflops())
    rows.push_back({.quantity = "TFLOP/s/GPU",
                    .simulated = fmt::format("{:.1f}", *tflops),
                    .measured = optional_number(comparison.measured.tflops_per_gpu, 1),
                    .error = *tflops / *comparison.measured.tflops_per_gpu - 1});
  return rows;
}

// Says how each row was measured and simulated, and warns of a plan that does not fit.
std::string log_notes(const LogComparison& comparison) {
  const RunResult& run = comparison.simulated;
  std::string text;
  if (comparison.measured.iteration_s)
    text += fmt::format("The iteration is the median of {} in the log, the first {} left out.\n",
                        comparison.measured.iterations, comparison.measured.warmup);
  for (const std::string& part : comparison.left_out)
    text += fmt::format("Left out are {}.\n", part);
  text += fmt::format(
      "The peak is that of pipeline rank {}, the fullest; the log's is the most that a rank "
      "allocated.\n",
      run.training->peak.pipeline_rank);
  if (const auto flops = comparison.log_flops())
    text += fmt::format(
        "TFLOP/s count the log's {:.4g} PFLOP an iteration in both columns; the model's here are "
        "{} % of them.\n",
        *flops / 1e15, percent(comparison.own_flops() / *flops));
  if (!run.training->fits)
    text += fmt::format(
        "It would not fit: {:.1f} GiB of tensors and {:.1f} GiB of CUDA's context and NCCL's "
        "buffers are more than {:.1f} GiB.\n",
        run.training->memory.total / GiB, run.training->memory.outside / GiB,
        run.training->memory.capacity / GiB);
  if (is_guess(run.calibrated)) text += uncalibrated_line(run.cost_model);
  return text;
}

}  // namespace

std::string log_table(const LogComparison& comparison, int width) {
  using Row = const LogRow&;
  const std::vector<Column<LogRow>> columns = {
      {"", [](Row row) { return row.quantity; }, Place::Name},
      {"simulated", [](Row row) { return row.simulated; }, Place::First},
      {"90 %", [](Row row) { return row.interval; }, Place::Second},
      {"measured", [](Row row) { return row.measured; }, Place::First},
      {"error %", [](Row row) { return signed_percent(row.error); }, Place::First},
      {"inside", [](Row row) { return row.inside; }, Place::Second}};
  const RunResult& run = comparison.simulated;
  return fmt::format("{}: {} GPUs, {}, engine {}\n\n", comparison.log, run.gpus, run.cluster,
                     run.engine) +
         text_table(columns, log_rows(comparison), width) + "\n" +
         wrapped(log_notes(comparison), width);
}

}  // namespace tandem
