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
  std::string rivals;  // a CSV of what other tools reach
  std::string update;  // a page that takes the tables between its marks
  std::string plot;
  std::string csv;
  std::string page;
  bool json = false;
  bool wide = false;
};

// Predicts the cases, writes the files and prints the table.
Status predict_cases(const CaseOptions& options);

}  // namespace tandem
