// How wide a command's tables and lines may be: the one place that asks the environment.
#pragma once

#include "cli/command_line.h"

namespace tandem {

// The option --wide of a command that prints tables.
void add_wide(const Command& command, bool* wide);

// --wide: any width. Else what COLUMNS says, else the terminal's columns, else any width: what a
// file or a pipe takes has all in one block, whoever looks on.
int text_width(bool wide);

}  // namespace tandem
