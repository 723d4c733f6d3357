// Predicts runs that others measured, for `tandem validate CASES.csv` and `tandem-fit accuracy`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// The options, as the command line has them; empty: not given.
struct CaseOptions {
  std::string cases;
  std::vector<std::string> sets;
  std::string only;
  std::string family;
  std::string engine = "ideal";
  int jobs = 0;
  std::string rivals;  // a CSV of the errors of other tools
  std::string update;  // a page whose tables are replaced (report/page/page_parts.h)
  std::string plot;
  std::string csv;
  std::string page;
  bool json = false;
  bool wide = false;
};

// Predicts the cases, writes the files and prints the table.
Status predict_cases(const CaseOptions& options);

}  // namespace tandem
