// Sweep: all runs of a scenario into one CSV, by many processes, on many machines; what is there
// already is not run again.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "launch/launch.h"
#include "planning/sweep/results.h"

namespace tandem {

// One of `of` jobs that share the runs and know nothing of one another; from 1.
struct Shard {
  int number = 1, of = 1;
};

struct SweepOptions {
  std::string output;  // the CSV; parts and the lock stand beside it
  int jobs = 1;        // runs at once
  std::optional<Shard> shard;
  std::optional<LaunchedRank> launched;  // of several ranks that share the runs
};

// What was there.
struct SweepStart {
  bool resumed = false;        // rows were found
  int kept = 0;                // rows that stay
  int again = 0;               // of runs that failed: they are run again
  int dropped = 0;             // of runs that are not in the sweep; the file as it was is .old
  int changed = 0;             // since they were written: dropped as well
  std::int64_t cut_bytes = 0;  // of torn lines
  int to_run = 0;              // by all ranks together
};

struct SweepEnd {
  std::string written;  // the file: the CSV, or the shard's part of it
  int rows = 0, failed = 0;
  std::string first_failure;
  bool speaks = true;  // whether this rank reports: one of several does
};

struct SweepEvents {
  std::function<void(const SweepStart&)> started;
  // Of to_run; of several ranks those that were given out.
  std::function<void(int)> done;
};

// The first run that can be made says that the file is sound; where none can, the first Error is
// all there is to say.
Status check_some_run(const ScenarioFile& file, const std::vector<RunSettings>& runs);

// Rows come into the CSV as runs end (of several ranks or shards into each one's part); at the end
// they are in the runs' order. Errors: another process writes the file; it is not of this sweep; it
// cannot be written; no MPI. A run that fails is a row.
//
// REQUIRES: no other thread runs: it forks.
Result<SweepEnd> sweep(const ScenarioFile& file, const Results& results, Engine engine,
                       const SweepOptions& options, const SweepEvents& events);

}  // namespace tandem
