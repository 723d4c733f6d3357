// The options of all commands that run on GPUs.
#pragma once

#include <string>

#include "cli/command_line/command_line.h"
#include "exec/execute.h"

namespace tandem {

// The options' values; empty: not given.
struct GpuOptions {
  bool share_gpu = false;
  std::string transfers;
  std::string launch;
  int gate_calls = 0;  // 0: not given
  std::string gradients;
  std::string precision;
};

void add_gpu_options(const Command& command, GpuOptions* options);
// Adds --precision to a command that may multiply matrices.
void add_precision_option(const Command& command, GpuOptions* options);

// Sets in `exec` what the options say.
void apply_gpu_options(const GpuOptions& options, ExecOptions* exec);

// Returns whether this process may be one of many ranks, of which rank 0 alone prints.
bool may_be_a_rank(const std::string& backend);

}  // namespace tandem
