// Runs a sweep in forked processes and appends a row for each run to a CSV. Rows of earlier
// attempts are kept, and their runs are not run again. Files beside the CSV, `output`:
//   output.part-2-of-8      rows of shard 2 of 8: run i belongs to shard i mod 8 + 1
//   output.part-of-rank-3   rows of rank 3: ranks take runs from a SharedCounter
//   *.old                   the file before rows were dropped
//   *.tmp                   a file that a killed process did not finish
#include "planning/sweep/sweep.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "launch/shared_counter.h"
#include "planning/sweep/journal.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

using ResultRows = std::map<int, Results::Row>;

std::string rank_part(const std::string& output, int rank) {
  return fmt::format("{}.part-of-rank-{}", output, rank);
}

// Returns the paths that begin with `begin`.
std::vector<std::string> files_beside(const std::string& begin) {
  const fs::path path(begin);
  std::vector<std::string> files;
  std::error_code unknown;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, unknown)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(path.filename().string()))
      files.push_back((path.parent_path() / name).string());
  }
  std::ranges::sort(files);
  return files;
}

// Returns the part files of shards and ranks.
std::vector<std::string> parts_of(const std::string& output) {
  std::vector<std::string> parts = files_beside(output + ".part-");
  std::erase_if(parts, [](const std::string& path) {
    return path.ends_with(".old") || path.ends_with(".tmp");
  });
  return parts;
}

// Removes the files that killed processes had begun to write. REQUIRES: the lock on `output`.
void remove_unfinished(const std::string& output) {
  for (const std::string& path : files_beside(output + '.')) {
    if (path.ends_with(".tmp")) fs::remove(path);
  }
}

// Replaces the file by exactly these rows, in order. On an error it stays as it was.
Status write_rows(const std::string& path, const Results& results, const ResultRows& rows) {
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(path));
  file.write(results.header() + '\n');
  for (const auto& [run, row] : rows) file.write(row.line + '\n');
  file.sync();
  return file.commit();
}

// Returns the rows of all files, and adds to the counts of `start`. If a run failed in one file and
// not in another, keeps the row without failure.
Result<ResultRows> gather_rows(const Results& results, const std::vector<std::string>& files,
                               SweepStart* start) {
  ResultRows rows;
  for (const std::string& path : files) {
    RETURN_IF_ERROR(Results::check_form(path));
    ASSIGN_OR_RETURN(const std::int64_t bytes, cut_torn_lines(path));
    ASSIGN_OR_RETURN(const Results::RowsFound found, results.read(path));
    start->cut_bytes += bytes;
    start->dropped += found.of_no_run;
    start->changed += found.changed;
    const bool drops = found.of_no_run + found.changed > 0;
    start->resumed |= !found.rows.empty() || drops;
    if (drops) {
      std::error_code failed;
      fs::copy_file(path, path + ".old", fs::copy_options::overwrite_existing, failed);
      if (failed)
        return Error::at(path + ".old", fmt::format("cannot be written: {}", failed.message()));
    }
    for (const auto& [run, row] : found.rows) {
      const auto [known, is_new] = rows.try_emplace(run, row);
      if (!is_new && known->second.failed) known->second = row;
    }
  }
  return rows;
}

// Locks `path`, or one part. Tries for a second, as a process that was killed a moment ago may
// still hold the lock. Gives up at once if the lock's file cannot be written (Error::BadInput).
Result<FileLock> take_lock(const std::string& path, std::optional<int> part = std::nullopt) {
  constexpr int kTries = 20;
  constexpr useconds_t kPause_us = 50'000;
  for (int i = 1; i < kTries; ++i, usleep(kPause_us)) {
    auto lock = FileLock::take(path, part);
    if (lock.ok() || lock.error().kind == Error::BadInput) return lock;
  }
  return FileLock::take(path, part);
}

constexpr double kBatch_s = 0.1;  // the time that a batch should take
constexpr std::size_t kMostRunsOfBatch = 32;

// Groups runs into batches. A batch shares one process, so that starting it costs little for small
// runs. The first batch has one run; later ones have as many as should take kBatch_s together. A
// process that has taken this long leaves its other runs to later batches.
class RunBatches {
 public:
  explicit RunBatches(std::size_t most) : most_(most) {}

  const std::vector<int>& runs(int batch) const { return batches_[batch].runs; }

  // Makes a batch and returns its number: a run whose process died, by itself; or else runs that
  // earlier batches left over, and then runs from `more`. Returns nothing if there are none.
  Result<std::optional<int>> next(const NextJob& more) {
    std::vector<int> runs;
    if (!to_repeat_.empty()) runs.push_back(take_front(&to_repeat_));
    const std::size_t most = runs.empty() ? size() : 1;
    while (runs.size() < most) {
      std::optional<int> run;
      if (!left_over_.empty()) {
        run = take_front(&left_over_);
      } else {
        ASSIGN_OR_RETURN(run, more());
      }
      if (!run) break;
      runs.push_back(*run);
    }
    if (runs.empty()) return std::optional<int>();
    batches_.push_back({std::move(runs), {}});
    return std::optional(static_cast<int>(batches_.size()) - 1);
  }

  // Calls job(run) for the runs of a batch until kBatch_s is over. Called in the batch's process.
  void each(int batch, const std::function<void(int)>& job) const {
    const Stopwatch begun;
    for (const int run : runs(batch)) {
      job(run);
      if (begun.seconds() > kBatch_s) break;
    }
  }

  // Notes that the first `count` runs of the batch have ended; the others are left over.
  void ended(int batch, std::size_t count) {
    const std::vector<int>& all = runs(batch);
    left_over_.insert(left_over_.end(), all.begin() + static_cast<std::ptrdiff_t>(count),
                      all.end());
    seconds_ += batches_[batch].begun.seconds();
    ended_ += static_cast<double>(count);
  }

  // Notes that the batch's process died: each of its runs is run again by itself.
  void died(int batch) {
    to_repeat_.insert(to_repeat_.end(), runs(batch).begin(), runs(batch).end());
  }

  bool all_ended() const { return to_repeat_.empty() && left_over_.empty(); }

 private:
  struct Batch {
    std::vector<int> runs;
    Stopwatch begun;
  };

  static int take_front(std::deque<int>* runs) {
    const int run = runs->front();
    runs->pop_front();
    return run;
  }

  // Returns how many runs the next batch should have.
  std::size_t size() const {
    if (ended_ == 0) return 1;
    const double runs = kBatch_s * ended_ / std::max(seconds_, 1e-6);
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::min(runs, 1e6)), 1, most_);
  }

  const std::size_t most_;
  std::vector<Batch> batches_;
  std::deque<int> to_repeat_, left_over_;
  double seconds_ = 0, ended_ = 0;  // of all batches so far: their time, and their runs that ended
};

// The sweep of one process, which may be one of several.
class Sweep {
 public:
  Sweep(const ScenarioFile& file, const Results& results, Engine engine,
        const SweepOptions& options, const SweepEvents& events)
      : file_(file), results_(results), engine_(engine), options_(options), events_(events) {}

  Result<SweepEnd> run_alone() {
    const std::string& output = options_.output;
    ASSIGN_OR_RETURN(const FileLock lock, take_lock(output));
    RETURN_IF_ERROR(collect_rows({output}, parts_of(output)));
    events_.started(start_);
    RETURN_IF_ERROR(run(output, next_of(to_run())));
    return join_rows(output, {});
  }

  Result<SweepEnd> run_shard(const Shard& shard) {
    const std::string part =
        fmt::format("{}.part-{}-of-{}", options_.output, shard.number, shard.of);
    ASSIGN_OR_RETURN(const FileLock lock, take_lock(options_.output, shard.number));
    RETURN_IF_ERROR(collect_rows({part}, {}));
    std::vector<int> own;
    for (const int i : to_run()) {
      if (i % shard.of == shard.number - 1) own.push_back(i);
    }
    start_.to_run = static_cast<int>(own.size());
    events_.started(start_);
    RETURN_IF_ERROR(run(part, next_of(own)));
    return join_rows(part, {});
  }

  // Rank 0 gathers the rows that exist. Then all ranks have the same list of runs to do, and each
  // takes the run of the next number of the shared counter. At the end rank 0 joins all parts.
  Result<SweepEnd> run_with_ranks(const LaunchedRank& launched) {
    const std::string& output = options_.output;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // end with the launcher, which started this rank
    ASSIGN_OR_RETURN(SharedCounter counter, SharedCounter::join(launched));
    std::optional<FileLock> lock;
    if (launched.rank == 0) RETURN_IF_ERROR(share_status(&counter, start_as_rank_0(&lock)));
    if (launched.rank != 0) RETURN_IF_ERROR(start_as_other_rank(&counter));
    const std::vector<int> runs = to_run();
    const NextJob next = [&]() -> Result<std::optional<int>> {
      ASSIGN_OR_RETURN(const std::int64_t number, counter.next());
      const bool more = number < static_cast<std::int64_t>(runs.size());
      events_.done(static_cast<int>(more ? number : runs.size()));
      return more ? std::optional(runs[number]) : std::nullopt;
    };
    reports_done_ = false;
    RETURN_IF_ERROR(run(rank_part(output, launched.rank), next));
    ASSIGN_OR_RETURN(const std::int64_t all_have_ended, counter.meet(0));
    (void)all_have_ended;
    SweepEnd ended;
    ended.is_reporter = launched.rank == 0;
    if (launched.rank == 0) {
      std::vector<std::string> parts;
      for (int rank = 0; rank < launched.ranks; ++rank) parts.push_back(rank_part(output, rank));
      ASSIGN_OR_RETURN(ended, join_rows(output, parts));
    }
    RETURN_IF_ERROR(counter.leave());
    return ended;
  }

 private:
  // Called by rank 0: tells the other ranks its status, as 0 or the kind of its Error. They give 0,
  // and meet() returns the greatest number to all. On an Error all ranks end, and only rank 0
  // reports it.
  static Status share_status(SharedCounter* counter, const Status& own_status) {
    ASSIGN_OR_RETURN(
        const std::int64_t status_of_rank_0,
        counter->meet(own_status.ok() ? 0 : static_cast<int>(own_status.error().kind)));
    (void)status_of_rank_0;
    if (!own_status.ok()) RETURN_IF_ERROR(counter->leave());
    return own_status;
  }

  Status start_as_rank_0(std::optional<FileLock>* lock) {
    auto taken = take_lock(options_.output);
    if (!taken.ok()) return taken.error();
    lock->emplace(std::move(*taken));
    RETURN_IF_ERROR(collect_rows({options_.output}, parts_of(options_.output)));
    events_.started(start_);
    return Done{};
  }

  Status start_as_other_rank(SharedCounter* counter) {
    ASSIGN_OR_RETURN(const std::int64_t status_of_rank_0, counter->meet(0));
    if (status_of_rank_0 != 0) {
      RETURN_IF_ERROR(counter->leave());
      return Error{"", static_cast<Error::Kind>(status_of_rank_0)};
    }
    ASSIGN_OR_RETURN(const Results::RowsFound found, results_.read(options_.output));
    rows_ = found.rows;
    return Done{};
  }

  // Gathers all rows that exist into the first of `files`, in the runs' order, and removes `parts`.
  // Rows of runs that failed are left out: these are run again.
  Status collect_rows(std::vector<std::string> files, const std::vector<std::string>& parts) {
    const std::string path = files.front();
    remove_unfinished(path);
    files.insert(files.end(), parts.begin(), parts.end());
    ASSIGN_OR_RETURN(rows_, gather_rows(results_, files, &start_));
    start_.again =
        static_cast<int>(std::erase_if(rows_, [](const auto& row) { return row.second.failed; }));
    start_.kept = static_cast<int>(rows_.size());
    start_.to_run = results_.size() - start_.kept;
    RETURN_IF_ERROR(write_rows(path, results_, rows_));
    for (const std::string& part : parts) fs::remove(part);
    return Done{};
  }

  std::vector<int> to_run() const {
    std::vector<int> runs;
    for (int i = 0; i < results_.size(); ++i) {
      if (!rows_.contains(i)) runs.push_back(i);
    }
    return runs;
  }

  static NextJob next_of(std::vector<int> runs) {
    return [runs = std::move(runs), i = std::size_t{0}]() mutable -> Result<std::optional<int>> {
      return i < runs.size() ? std::optional(runs[i++]) : std::nullopt;
    };
  }

  std::string row_of(int run) const {
    const auto scenario = make_scenario(file_, results_.runs()[run]);
    return results_.row(run, scenario.ok() ? simulate(*scenario, engine_) : scenario.error());
  }

  // Runs all runs that `next` gives, and appends their rows to the file. If a batch's process dies,
  // its runs are run once more, each in a process of its own. SimGrid can play only one run in a
  // process, so its batches have one run.
  Status run(const std::string& path, const NextJob& next) {
    ASSIGN_OR_RETURN(Journal journal, Journal::open(path, results_.header()));
    RunBatches batches(engine_ == Engine::SimGrid ? 1 : kMostRunsOfBatch);
    open_ahead(engine_);
    int done = 0;
    const auto rows_of = [&](int batch) -> Result<std::string> {
      std::string rows;
      batches.each(batch, [&](int run) { rows += row_of(run) + '\n'; });
      return rows;
    };
    const auto write = [&](int batch, const Result<std::string>& rows) -> Status {
      const std::vector<int>& runs = batches.runs(batch);
      if (!rows.ok() && runs.size() > 1) {
        batches.died(batch);
        return Done{};
      }
      // A run that died by itself gets a row with the reason.
      const auto count = rows.ok() ? std::ranges::count(*rows, '\n') : 1;
      batches.ended(batch, static_cast<std::size_t>(count));
      done += static_cast<int>(count);
      if (reports_done_) events_.done(done);
      return journal.append(rows.ok() ? rows->substr(0, rows->size() - 1)
                                      : results_.row(runs.front(), rows.error()));
    };
    const auto wait = [&] {
      if (reports_done_) events_.done(done);
    };
    NextJob more = next;
    do {
      RETURN_IF_ERROR(fork_each(
          options_.jobs, [&] { return batches.next(more); }, rows_of, write, wait));
      more = [] { return std::optional<int>(); };  // only runs that are left over or died
    } while (!batches.all_ended());
    return journal.sync();
  }

  // Replaces the file by the rows of itself and its parts, in the runs' order.
  Result<SweepEnd> join_rows(const std::string& path, const std::vector<std::string>& parts) {
    std::vector<std::string> files = {path};
    files.insert(files.end(), parts.begin(), parts.end());
    SweepStart ignored;
    ASSIGN_OR_RETURN(const ResultRows rows, gather_rows(results_, files, &ignored));
    if (!options_.shard && static_cast<int>(rows.size()) < results_.size())
      return Error{fmt::format("{}: found {} rows when all had ended, expected {}: start it again",
                               path, rows.size(), results_.size()),
                   Error::Failed};
    RETURN_IF_ERROR(write_rows(path, results_, rows));
    for (const std::string& part : parts) fs::remove(part);
    SweepEnd ended{path, static_cast<int>(rows.size())};
    for (const auto& [run, row] : rows) {
      if (row.warned) ++ended.warned;
      if (!row.failed) continue;
      if (ended.failed++ == 0) ended.first_failure = results_.runs()[run].name;
    }
    return ended;
  }

  const ScenarioFile& file_;
  const Results& results_;
  const Engine engine_;
  const SweepOptions& options_;
  const SweepEvents& events_;
  SweepStart start_;
  ResultRows rows_;
  bool reports_done_ = true;  // false: run_with_ranks() reports, by the shared counter
};

}  // namespace

Status check_some_run(const ScenarioFile& file, const std::vector<RunSettings>& runs) {
  Status first = Done{};
  for (const RunSettings& run : runs) {
    const auto scenario = make_scenario(file, run);
    if (scenario.ok()) return Done{};
    if (first.ok()) first = scenario.error();
  }
  return first;
}

Result<SweepEnd> sweep(const ScenarioFile& file, const Results& results, Engine engine,
                       const SweepOptions& options, const SweepEvents& events) {
  Sweep own(file, results, engine, options, events);
  if (options.shard) return own.run_shard(*options.shard);
  if (options.launched && options.launched->ranks > 1) return own.run_with_ranks(*options.launched);
  return own.run_alone();
}

}  // namespace tandem
