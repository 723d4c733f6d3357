// This process's own command line, to start it again.
#pragma once

#include <string>
#include <vector>

namespace tandem {

// With the program's path.
std::vector<std::string> own_command();

// Takes this process's place; gives back only where it cannot, with errno.
void become(std::vector<std::string> words);

}  // namespace tandem
