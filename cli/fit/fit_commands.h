// The subcommands of `tandem-fit`.
#pragma once

#include "cli/command_line/command_line.h"

namespace tandem {

void add_published(const Command& app);
void add_calibrated(const Command& app);
void add_accuracy(const Command& app);
void add_comparisons(const Command& app);
void add_kernels(const Command& app);

}  // namespace tandem
