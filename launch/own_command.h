// Finds this process's own command line and starts it again.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// Returns the command line, with the program's full path as first word.
std::vector<std::string> own_command();

// Replaces this process by that program (exec). Returns only if that fails, with errno set.
void become(std::vector<std::string> words);

}  // namespace tandem
