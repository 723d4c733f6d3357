// Memory that is not there.
#pragma once

#include "base/result.h"

namespace tandem {

// An Error::Failed of a process that got no more memory, with how much it had: for whoever catches
// std::bad_alloc.
Error out_of_memory();

}  // namespace tandem
