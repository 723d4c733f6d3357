#include "validation/microbench/device_run.h"

#include <fmt/format.h>

#include <utility>

#include "traces/trace_files.h"
#include "validation/microbench/device_bench.h"

namespace tandem {
namespace {

// Returns all that the run reports of itself, and the options that the numbers depend on.
std::vector<std::pair<std::string, std::string>> meta_of(const Program& program,
                                                         const Backend& backend,
                                                         const ExecOptions& options,
                                                         const DeviceBenchOptions& bench,
                                                         const Execution& execution) {
  std::vector<std::pair<std::string, std::string>> meta = {program_line(program)};
  for (const auto& [key, value] : execution.iterations.front().meta) {
    if (key != "iteration" && key != "complete") meta.emplace_back(key, value);
  }
  // On hosts, matrix products are OpenBLAS's sgemm.
  meta.emplace_back("precision", backend.on_gpus ? options.precision : "fp32");
  meta.emplace_back("gemm_scale", fmt::format("{:g}", options.gemm_scale));
  meta.emplace_back("iterations", fmt::format("{}", execution.iterations.size()));
  meta.emplace_back("repeats", fmt::format("{}", bench.repeats));
  return meta;
}

}  // namespace

Result<std::optional<CostTable>> calibrate_device(const Program& program, const Backend& backend,
                                                  ExecOptions options) {
  options.compute = Compute::Gemm;
  DeviceBenchOptions what;
  if (backend.on_gpus) {
    // Ranks of one GPU have no collectives, and some of their transfers are emulated.
    what.collectives = !options.share_gpu;
    what.transfers = !options.share_gpu || options.transfers != GpuTransfers::Priced;
    what.copies = options.share_gpu && options.transfers == GpuTransfers::Copy;
  }
  ASSIGN_OR_RETURN(const DeviceBench bench, device_bench(program, what));
  ASSIGN_OR_RETURN(const std::optional<Execution> execution,
                   execute(bench.program, backend, options));
  if (!execution) return std::optional<CostTable>();
  if (!execution->failure.empty()) return Error{execution->failure, Error::Failed};
  CostTable table;
  table.meta = meta_of(program, backend, options, what, *execution);
  table.rows = cost_rows(bench, execution->iterations);
  return std::optional(std::move(table));
}

}  // namespace tandem
