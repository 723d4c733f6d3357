// How wide a command's tables and lines may be, and whether in colour: the one place that asks the
// environment.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace tandem {

// The option --wide of a command that prints tables.
void add_wide(const Command& command, bool* wide);

// --wide: any width. Else what COLUMNS says, else the terminal's columns, else any width: what a
// file or a pipe takes has all in one block, whoever looks on.
int text_width(bool wide);

// The option --colour of a command that prints pictures: auto, always or never.
void add_colour(const Command& command, std::string* when);

// auto: where standard output is a terminal that has colours (TERM is set, and not dumb) and
// NO_COLOR is not set (https://no-color.org).
bool in_colour(const std::string& when);

}  // namespace tandem
