#include "cli/gpu_options.h"

#include <map>
#include <string>

namespace tandem {
namespace {

template <class Value>
void add_choice(CLI::App* command, const char* option, Value* value,
                const std::map<std::string, Value>& names, const char* help) {
  command->add_option(option, *value, help)
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->option_text("NAME");
}

}  // namespace

void add_gpu_options(CLI::App* command, ExecOptions* exec) {
  command->add_flag("--share-gpu", exec->share_gpu,
                    "cuda: all ranks on one GPU, each on SMs of its own");
  add_choice<GpuTransfers>(command, "--transfers", &exec->transfers,
                           {{"nccl", GpuTransfers::Nccl},
                            {"copy", GpuTransfers::Copy},
                            {"priced", GpuTransfers::Priced}},
                           "with --share-gpu: nccl (default), to oneself; copy: by the copy "
                           "engine; priced: they take their priced time");
  add_choice<GpuLaunch>(
      command, "--launch", &exec->launch,
      {{"gated", GpuLaunch::Gated}, {"direct", GpuLaunch::Direct}, {"graph", GpuLaunch::Graph}},
      "cuda: gated (default): an iteration begins when all of it is queued; "
      "direct: with the first call, so that the host's time counts; graph: as "
      "one CUDA graph");
  command
      ->add_option("--precision", exec->precision,
                   "cuda with matrix products: of their operands; default: the scenario's, else "
                   "bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16", "fp8"}));
}

}  // namespace tandem
