// Finds where the running program lies.
#pragma once

#include <string>

namespace tandem {

// Returns the folder of the program that holds this code, or of the shared library when Python
// loaded one. Returns "" if it is not known.
std::string own_folder();

}  // namespace tandem
