// A table of kernels that were timed alone, against their predictions.
#pragma once

#include <string>
#include <vector>

#include "validation/published/published_checks.h"

namespace tandem {

// The errors of rows of one GPU or preset, of one kind.
struct KernelErrors {
  std::string name, what;
  Errors errors;
};

// Returns Markdown.
std::string kernel_table(const std::vector<KernelErrors>& lines);

}  // namespace tandem
