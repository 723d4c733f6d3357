// Sweep: runs all of a scenario's runs into one CSV, by many processes on many machines. Runs whose
// rows exist are not run again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "launch/launch.h"
#include "planning/sweep/results.h"

namespace tandem {

// One of several jobs that share the runs without communicating: "2/8" is number 2 of 8.
struct Shard {
  int number = 1, of = 1;
};

struct SweepOptions {
  std::string output;  // the CSV; the parts and the lock are beside it
  int jobs = 1;        // runs at once
  std::optional<Shard> shard;
  std::optional<LaunchedRank> launched;  // this process, of several ranks that share the runs
};

// The numbers of rows found at the start, and of runs to do.
struct SweepStart {
  bool resumed = false;  // rows were found
  int kept = 0;          // rows that stay
  int again = 0;         // rows of runs that failed: they are run again
  int dropped = 0;       // rows of runs that are not in the sweep; .old has the file as it was
  int changed = 0;       // rows changed since they were written; dropped too
  std::int64_t cut_bytes = 0;  // of torn lines, which an interrupted process had begun to write
  int to_run = 0;              // runs to do, of all ranks together
};

struct SweepEnd {
  std::string written;  // the path of the CSV, or of the shard's part
  int rows = 0, failed = 0, warned = 0;
  std::string first_failure;
  bool is_reporter = true;  // only one of several ranks reports
};

struct SweepEvents {
  std::function<void(const SweepStart&)> started;
  // Called with the number of runs done of to_run; with several ranks, of runs handed out.
  std::function<void(int)> done;
};

// Checks that at least one run's scenario can be made. Otherwise returns the first run's Error.
Status check_some_run(const ScenarioFile& file, const std::vector<RunSettings>& runs);

// Appends rows to the CSV as runs end; with several ranks or shards, each appends to a file of its
// own, a part. At the end the rows are in the runs' order. A run that fails has a row as well.
// Errors: another process writes the file; it is not of this sweep; it cannot be written; no MPI.
//
// REQUIRES: no other thread runs, since it forks.
Result<SweepEnd> sweep(const ScenarioFile& file, const Results& results, Engine engine,
                       const SweepOptions& options, const SweepEvents& events);

}  // namespace tandem
