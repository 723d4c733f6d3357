// Memory that is not there, memory that is kept, and the size of its pages.
#pragma once

#include "base/result.h"

namespace tandem {

// An Error::Failed of a process that got no more memory, with how much it had: for whoever catches
// std::bad_alloc.
Error out_of_memory();

// What is freed stays with the process, for what it asks next: to give memory back and to take it
// anew is a tenth of a search's time. For glibc; elsewhere nothing.
void keep_freed_memory();

// From its eighth megabyte on, where small runs end, the heap's first 64 stand on large pages,
// where the kernel gives them to who asks: larger runs take a fifth less time. For glibc; elsewhere
// nothing.
void use_large_pages();

}  // namespace tandem
