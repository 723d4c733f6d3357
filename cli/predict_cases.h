// Runs that others measured, predicted: what `tandem validate CASES.csv` and `tandem-fit accuracy`
// do.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// As the command line has them; empty: not given.
struct CaseOptions {
  std::string cases;
  std::vector<std::string> sets;
  std::string only;
  std::string family;
  std::string engine = "ideal";
  int jobs = 0;
  std::string rivals;  // what other tools reach, a CSV
  std::string update;  // a page that takes the tables between its marks
  std::string plot;
  std::string csv;
  std::string page;
  bool json = false;
  bool wide = false;
};

// Predicts them, writes the files and prints the table.
Status predict_cases(const CaseOptions& options);

}  // namespace tandem
