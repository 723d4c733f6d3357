// Standard output, kept for results: libraries that print there by themselves, as NCCL does where
// NCCL_DEBUG is set, are not to stand in a table or among JSON.
#pragma once

#include <cstdio>

namespace tandem {

// Where results are printed: stdout, or what it was before it was kept.
std::FILE* standard_output();

// From here on what goes to file descriptor 1 goes to standard error, whoever prints it, until the
// process ends: threads and destructors of a library may print late. standard_output() still goes
// where stdout went. A second call does nothing, and so does one where nothing is open to keep.
void keep_standard_output();

// Gives file descriptor 1 back, before another program takes this process's place.
void give_back_standard_output();

}  // namespace tandem
