// Says how wide a command's tables and lines may be, and whether they are coloured. No other file
// asks the environment for that.
#pragma once

#include <string>

#include "cli/command_line/command_line.h"

namespace tandem {

// Adds the option --wide to a command that prints tables.
void add_wide(const Command& command, bool* wide);

// Returns the columns that a line may take: with --wide any number; else the environment's COLUMNS;
// else the terminal's; else any number, as tables in a file or a pipe are one block.
int text_width(bool wide);

// Adds the option --colour to a command that prints pictures: auto, always or never.
void add_colour(const Command& command, std::string* when);

// Returns whether to colour. auto: yes if standard output is a terminal that has colours (TERM is
// set, and not dumb) and NO_COLOR is not set (https://no-color.org).
bool in_colour(const std::string& when);

}  // namespace tandem
