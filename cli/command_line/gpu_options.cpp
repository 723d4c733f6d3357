#include "cli/command_line/gpu_options.h"

#include <algorithm>
#include <array>

#include "exec/backends/backends.h"

namespace tandem {
namespace {

using Names = std::array<const char*, 3>;  // of an enumeration's values, in their order

constexpr Names kLaunches = {"gated", "direct", "graph"};

// Sets the value that the name stands for, if one was given.
template <class Value>
void set(const std::string& name, const Names& names, Value* value) {
  if (!name.empty()) *value = static_cast<Value>(std::ranges::find(names, name) - names.begin());
}

}  // namespace

void add_gpu_options(const Command& command, GpuOptions* options) {
  command.flag("--share-gpu", &options->share_gpu,
               "cuda: all ranks on one GPU, each on SMs of its own");
  command
      .option("--transfers", &options->transfers,
              "with --share-gpu: nccl (default), to oneself; copy: by the copy engine; "
              "priced: they take their priced time")
      .one_of({kGpuTransferNames.begin(), kGpuTransferNames.end()});
  command
      .option("--launch", &options->launch,
              "cuda: gated (default): an iteration begins when all of it is queued, and where it "
              "does not fit it is a graph or direct; direct: with the first call, so that the "
              "host's time counts; graph: as one CUDA graph")
      .one_of({kLaunches.begin(), kLaunches.end()});
  command
      .option("--gate-calls", &options->gate_calls,
              "cuda: calls that a queue of the device takes behind the closed gate; default 900")
      .at_least_one();
  command
      .option("--gradients", &options->gradients,
              "cuda: in which numbers gradients are added up; default: the scenario's, of a "
              "Program fp32")
      .one_of({"fp32", "fp16", "bf16"});
}

void add_precision_option(const Command& command, GpuOptions* options) {
  command
      .option("--precision", &options->precision,
              "cuda with matrix products: of their operands; default: the scenario's, of a "
              "Program bf16")
      .one_of({"fp32", "fp16", "bf16", "fp8"});
}

void apply_gpu_options(const GpuOptions& options, ExecOptions* exec) {
  exec->share_gpu = options.share_gpu;
  set(options.transfers, kGpuTransferNames, &exec->transfers);
  set(options.launch, kLaunches, &exec->launch);
  exec->precision = options.precision;
  exec->reductions.gradients = options.gradients;
  if (options.gate_calls > 0) exec->gate_calls = options.gate_calls;
}

bool may_be_a_rank(const std::string& backend) {
  const Backend* const chosen = backend_named(backend);
  return chosen == nullptr || chosen->own_processes;
}

}  // namespace tandem
