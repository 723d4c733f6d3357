// Results: the form of a sweep's CSV: one row for each run, with its settings and its results.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/simulate/simulate.h"
#include "results/run_result.h"
#include "scenarios/scenario.h"

namespace tandem {

// Returns whether the cells of a sweep's column are texts: "1e5" is no number there, "true" no
// flag.
bool holds_texts(const std::string& column);

// The runs of one sweep, and the columns of their results: name, settings (a hash), error, engine;
// one column for every key that a run sets; one for every number of `simulate --json`, except
// wall-clock times and comparisons of runs; a checksum of the row.
class Results {
 public:
  // Error: two runs are the same.
  static Result<Results> of(const ScenarioFile& file, std::vector<RunSettings> runs, Engine engine);

  const std::vector<RunSettings>& runs() const { return runs_; }
  int size() const { return static_cast<int>(runs_.size()); }

  std::string header() const;
  // Returns a run's row with its result.
  std::string row(int run, const Result<RunResult>& result) const;

  // Checks that the file may be written. Error: it exists and is not a sweep's.
  static Status check_form(const std::string& path);

  // A row of the file.
  struct Row {
    std::string line;
    bool failed = false;
    bool warned = false;  // the run has warnings
  };
  struct RowsFound {
    std::map<int, Row> rows;  // by the run's number
    int of_no_run = 0;        // number of rows that belong to no run of this sweep
    int changed = 0;          // number of rows that were edited since they were written
  };
  // Reads the rows of a file; none if there is no file or it is empty. Errors, with the line: it is
  // no file of results, or has other columns. REQUIRES: no torn lines (cut_torn_lines()).
  Result<RowsFound> read(const std::string& path) const;

 private:
  using RunKey = std::pair<std::string, std::string>;  // name and hash

  std::string line(int run, const std::string& error,
                   const std::vector<std::string>& outputs) const;

  std::vector<RunSettings> runs_;
  std::string engine_;
  std::vector<std::string> hashes_;  // by run
  std::map<RunKey, int> by_key_;
  std::vector<std::string> inputs_, outputs_;  // columns: keys that runs set, and results
};

}  // namespace tandem
