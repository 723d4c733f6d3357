// Settings of the heap that make runs faster, and the Error for when memory runs out.
#pragma once

#include "base/result.h"

namespace tandem {

// Returns the Error::Failed for a process that got no more memory. It says how much the process
// had. For whoever catches std::bad_alloc.
Error out_of_memory();

// Keeps freed memory in the process for later requests. Giving it back and taking it anew costs a
// tenth of a search's time. Does nothing without glibc.
void keep_freed_memory();

// Puts the heap's first 64 MiB on large pages, except its first 8 MiB: small runs use no more than
// those. Helps where the kernel gives large pages to programs that ask; larger runs then take a
// fifth less time. Does nothing without glibc.
void use_large_pages();

}  // namespace tandem
