// Memory that is not there, and memory that is kept.
#pragma once

#include "base/result.h"

namespace tandem {

// An Error::Failed of a process that got no more memory, with how much it had: for whoever catches
// std::bad_alloc.
Error out_of_memory();

// What is freed stays with the process, for what it asks next: to give memory back and to take it
// anew is a tenth of a search's time. For glibc; elsewhere nothing.
void keep_freed_memory();

// The heap's first 64 MB stand on large pages, where the kernel gives them to who asks: most runs
// are that small, and take a fifth less time. For glibc; elsewhere nothing.
void use_large_pages();

}  // namespace tandem
