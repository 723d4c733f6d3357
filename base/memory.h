// Memory that is not there, and pages of what is.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"

namespace tandem {

// An Error::Failed of a process that got no more memory, with how much it had: for whoever catches
// std::bad_alloc.
Error out_of_memory();

// Asks the system for large pages there, if it is a large array: written here and there, it costs
// fewer misses of the processor's page table. Nothing else changes.
void advise_large_pages(void* begin, std::size_t bytes);

// The same of an empty vector, which gets its size.
template <class T>
void resize_in_large_pages(std::vector<T>* vector, std::size_t size) {
  vector->reserve(size);
  advise_large_pages(vector->data(), size * sizeof(T));
  vector->resize(size);
}

}  // namespace tandem
