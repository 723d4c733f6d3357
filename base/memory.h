// Settings of the heap that make runs faster, and the Error for when memory runs out.
#pragma once

#include "base/result.h"

namespace tandem {

// Returns the Error for a caught std::bad_alloc, of the kind Error::Failed. It says how much memory
// the process had.
Error out_of_memory();

// Keeps freed memory in the process for later requests. Giving it back and taking it anew costs a
// tenth of a search's time. Does nothing without glibc.
void keep_freed_memory();

// Puts the heap's first 64 MiB on large pages, except its first 8 MiB, which suffice for small
// runs. Larger runs take a fifth less time if the kernel gives large pages to programs that ask
// (madvise). Does nothing without glibc. REQUIRES: keep_freed_memory() was called, so that malloc()
// takes 2 MiB from the heap.
void use_large_pages();

}  // namespace tandem
