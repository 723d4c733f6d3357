// A table of what was timed alone, against what is predicted for it.
#pragma once

#include <string>
#include <vector>

#include "validation/published/published_checks.h"

namespace tandem {

// Rows of one GPU or preset, of one kind.
struct KernelErrors {
  std::string name, what;
  Errors errors;
};

// Markdown.
std::string kernel_table(const std::vector<KernelErrors>& lines);

}  // namespace tandem
