// Results: the form of a sweep's CSV: a row a run, with all that it sets and all that it gives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run.h"
#include "scenarios/run/run_result.h"

namespace tandem {

// The runs of one sweep, and the columns of their results: name, settings (a hash), error, engine;
// a column for every key that a run sets; one for every number of `simulate --json`, but what is
// timed and what compares runs; a checksum of the row.
class Results {
 public:
  // An Error where two runs are the same.
  static Result<Results> of(const ScenarioFile& file, std::vector<RunSettings> runs, Engine engine);

  const std::vector<RunSettings>& runs() const { return runs_; }
  int size() const { return static_cast<int>(runs_.size()); }

  std::string header() const;
  // A run's row, from what it gave.
  std::string row(int run, const Result<RunResult>& result) const;

  // An Error where a file is there that is not a sweep's: it must not be touched.
  static Status check_form(const std::string& path);

  // A row of a file.
  struct Row {
    std::string line;
    bool failed = false;
  };
  struct Found {
    std::map<int, Row> rows;  // by run
    int strange = 0;          // rows of no run of this sweep
    int changed = 0;          // since they were written: they may be of any
  };
  // Errors name the line: not a file of results, or one with other columns. REQUIRES: no torn
  // lines. No file, or an empty one: nothing.
  Result<Found> read(const std::string& path) const;

 private:
  using Key = std::pair<std::string, std::string>;  // name and hash

  std::string line(int run, const std::string& error,
                   const std::vector<std::string>& outputs) const;

  std::vector<RunSettings> runs_;
  std::string engine_;
  std::vector<std::string> hashes_;  // by run
  std::map<Key, int> by_key_;
  std::vector<std::string> inputs_, outputs_;  // columns
};

}  // namespace tandem
