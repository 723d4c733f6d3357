// Keeps standard output for results. Libraries that print there by themselves, as NCCL does with
// NCCL_DEBUG set, would otherwise garble tables and JSON.
#pragma once

#include <cstdio>

namespace tandem {

// Opens /dev/null for reading in place of each of standard input, output and error that is closed.
// Otherwise the next file to be opened would take its number, and get what is printed. Printing
// fails as before.
void fill_closed_streams();

// Returns whether standard output was closed when the program started.
bool standard_output_is_closed();

// Returns the stream to print results to: stdout, or what that was before keep_standard_output().
std::FILE* standard_output();

// From now on, bytes written to file descriptor 1 go to standard error, until the process ends:
// threads and destructors of a library may print late. standard_output() still goes where stdout
// went. Does nothing if called again, or if descriptor 1 is closed.
void keep_standard_output();

// Restores file descriptor 1, before another program takes this process's place.
void give_back_standard_output();

}  // namespace tandem
