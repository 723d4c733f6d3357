// The options of all commands that play on GPUs.
#pragma once

#include <CLI/CLI.hpp>

#include "exec/execute.h"

namespace tandem {

void add_gpu_options(CLI::App* command, ExecOptions* exec);

}  // namespace tandem
