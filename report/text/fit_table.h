// Tables of fits of the cost model to published runs and to kernels that were timed alone: which
// constants changed, and how well a fit predicts rows that it was not fitted to.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/published/published_checks.h"
#include "validation/published/published_fit.h"

namespace tandem {

// Returns, for a terminal, a line a constant: its value before and after the fit, its standard
// deviation, its prior, and the families of runs that determine it.
std::string moved_table(const FitPlan& plan, const Values& before, const PublishedFit& after,
                        int width = kAnyWidth);

// Return the tables of docs/accuracy.md, as Markdown.
//   left_out    errors of a family's rows in a fit to all rows, and in one without them, whose
//               columns have the title `unseen`
//   ground      errors of the runs that support a prediction, in fits without them
//   unmeasured  measured over predicted time of rows that a fit left out with all of their GPU,
//               precision or model
//   interval    the 90 % intervals of predictions
std::string left_out_table(const std::vector<LeftOut>& rows, const std::string& unseen);
std::string ground_table(const std::vector<Ground>& grounds);
std::string unmeasured_table(const std::vector<Unmeasured>& unmeasured);
std::string interval_table(const std::vector<Interval>& intervals);

// The errors of the rows of one GPU or preset and one kind of operation.
struct KernelErrors {
  std::string name, operation;
  Errors errors;
};
// Returns Markdown, a row for each.
std::string kernel_table(const std::vector<KernelErrors>& lines);

}  // namespace tandem
