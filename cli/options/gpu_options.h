// The options of all commands that play on GPUs.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "exec/execute.h"

namespace tandem {

// As they are given; empty: not.
struct GpuOptions {
  bool share_gpu = false;
  std::string transfers;
  std::string launch;
  int gate_calls = 0;  // 0: not given
  std::string gradients;
  std::string precision;
};

void add_gpu_options(const Command& command, GpuOptions* options);
// Of commands that may multiply matrices.
void add_precision_option(const Command& command, GpuOptions* options);

// Fills in what they say.
void apply(const GpuOptions& options, ExecOptions* exec);

// Whether this process may be one rank of many, of which rank 0 alone speaks.
bool may_be_a_rank(const std::string& backend);

}  // namespace tandem
