// Tables of fits, to published runs and to kernels that were timed alone: which constants moved,
// and how a fit does on what it has not seen.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/published/published_checks.h"
#include "validation/published/published_fit.h"

namespace tandem {

// Returns, for a terminal, a line a constant: before, after, and what stays open of it.
std::string moved_table(const FitPlan& plan, const Values& before, const PublishedFit& after,
                        int width = kAnyWidth);

// Return Markdown, as docs/accuracy.md has it.
std::string left_out_table(const std::vector<LeftOut>& rows, const std::string& unseen);
std::string ground_table(const std::vector<Ground>& grounds);
std::string unmeasured_table(const std::vector<Unmeasured>& unmeasured);
std::string interval_table(const std::vector<Interval>& intervals);

// The errors of rows of one GPU or preset, of one kind.
struct KernelErrors {
  std::string name, what;
  Errors errors;
};
std::string kernel_table(const std::vector<KernelErrors>& lines);

}  // namespace tandem
