// Faults drawn at random: who is killed or stopped in a run, and when, and what a run finds full,
// closed, small or not writable. Each run ends in time, leaves nothing and names the culprit.
// TANDEM_FAULTS: how many (30); TANDEM_SEED: which.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "exec/mpi/mpi.h"
#include "launch/exit_status.h"
#include "schedule/program/program_text.h"
#include "tests/draw.h"
#include "tests/exec/mpi_run.h"
#include "tests/made_program.h"
#include "tests/planning/sweep_runs.h"
#include "tests/seed.h"
#include "tests/text.h"

using namespace tandem;

namespace {

using Names = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kTandem = TANDEM_PROGRAM;

int faults() {
  const char* const text = std::getenv("TANDEM_FAULTS");
  return text == nullptr ? 30 : std::atoi(text);
}

Draw draw_of(std::uint64_t number) { return Draw((std::uint64_t{test_seed()} << 32) + number); }

// Two stages, a second of iterations.
const std::string kTwoStages = R"([parallel]
pp = 2
global_batch = 40
[costs]
source = "uniform"
forward_s = 0.001
backward_s = 0.002
p2p_s = 0.0001
)";

// Three ranks that take turns: 5 ms each, 80 times.
std::string turns() {
  return to_text(made_program(R"(
    rank 0, 80 times: F# 5ms, send# 0>1 after F#
    rank 1, 80 times: recv# 0>1, F# 5ms after recv#, send# 1>2 after F#
    rank 2, 80 times: recv# 1>2, F# 5ms after recv#
  )"));
}

// A command that is disturbed.
struct Job {
  std::string command;
  int ranks = 0;         // with a process each
  std::string rank_key;  // how a process is told its rank
  Names outputs;         // the files it writes
  int about_ms = 0;      // how long it takes by itself
  int timeout_s = 3;
  bool by_mpirun = false;
};

const Job kRanks = {TANDEM_RANKS_JOB + std::string(" 3 some"), 3, "RANK", {}, 1800};
const Job kMpi = {kTandem +
                      " run turns.csv --backend mpi --iterations 2 --warmup 0 --timeout 3 "
                      "--trace t.csv --json",
                  3,
                  "OMPI_COMM_WORLD_RANK",
                  {"t.csv"},
                  2500,
                  3,
                  true};
const Job kHost = {kTandem +
                       " run two.toml --iterations 5 --timeout 3 --trace t.csv --perfetto "
                       "t.json --plot t.svg --json",
                   0,
                   "",
                   {"t.csv", "t.json", "t.svg"},
                   1200};
const Job kSimulation = {kTandem +
                             " simulate two.toml --set parallel.global_batch=4000 --trace "
                             "t.csv --perfetto t.json --json",
                         0,
                         "",
                         {"t.csv", "t.json"},
                         300};
const Job kSweeping = {sweep_command("all.csv") + " --jobs 2", 0, "", {"all.csv"}, 500};

// A folder with all that the jobs read, and with one for temporary files.
void furnish(const Folder& folder) {
  folder.with("two.toml", kTwoStages);
  folder.with("turns.csv", turns());
  folder.with("runs.toml", kSweep);
  std::filesystem::create_directory(folder / "tmp");
}

bool is_whole(const std::string& name, const std::string& text) {
  if (name.ends_with(".json")) return text.ends_with("]}\n") || text.ends_with("}\n");
  if (name.ends_with(".svg")) return text.ends_with("</svg>\n");
  return text.ends_with('\n');
}

// What a run left in its folder that it should not have; empty: nothing.
std::string litter(const Folder& folder, const Job& job) {
  std::set<std::string> known = {"two.toml", "turns.csv", "runs.toml", "tmp", "out", "err"};
  known.insert(job.outputs.begin(), job.outputs.end());
  for (const std::string& name : folder.files()) {
    if (known.count(name) == 0) return "leaves " + name;
    const bool is_output = std::ranges::count(job.outputs, name) > 0;
    if (is_output && name != "all.csv" && !is_whole(name, text_of(folder / name)))
      return "leaves a torn " + name;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path() / "tmp"))
    if (has(entry.path().filename().string(), "tandem")) return "leaves " + entry.path().string();
  return "";
}

// Signals that a test sends are no faults for a sanitizer to report.
[[maybe_unused]] const int kept_from_sanitizers =
    setenv("ASAN_OPTIONS", "handle_segv=0:handle_abort=0", /*overwrite=*/1);

// What no run may say or end with, whatever was done to it but `by_signals`.
std::string crash(const MpiRun& run, int status, const std::vector<int>& by_signals = {}) {
  for (const char* words : {"terminate called", "Sanitizer", "CHECK", "Assert", "runtime error"})
    if (has(run.err(), words)) return std::string("says ") + words;
  if (status > 128 && std::ranges::count(by_signals, status - 128) == 0)
    return fmt::format("ends with {}", status);
  return "";
}

// Whose process gets the signal.
struct Victim {
  enum Kind { Starter, Mpirun, Watchdog, RankProcess } kind = Starter;
  int rank = 0;

  pid_t in(const MpiRun& run) const {
    if (kind == Starter) return run.launcher();
    if (kind == Mpirun) return run.named("mpirun");
    return kind == Watchdog ? run.watch(rank) : run.local_rank(rank);
  }
  std::string text() const {
    if (kind == Starter) return "the process that was started";
    if (kind == Mpirun) return "mpirun";
    return fmt::format("rank {}'s {}", rank, kind == Watchdog ? "watchdog" : "process");
  }
};

struct SignalFault {
  Victim victim;
  int signal = SIGKILL;
  int after_ms = 0;

  std::string text() const {
    return fmt::format("{} gets signal {} after {} ms", victim.text(), signal, after_ms);
  }
};

SignalFault draw_signal(const Job& job, Draw* draw) {
  SignalFault fault;
  fault.after_ms = draw->below(job.about_ms);
  if (job.ranks > 0 && draw->below(5) > 0) {
    fault.victim.kind = draw->below(3) == 0 ? Victim::Watchdog : Victim::RankProcess;
    fault.victim.rank = draw->below(job.ranks);
    fault.signal = draw->among<int>({SIGKILL, SIGKILL, SIGSEGV, SIGABRT, SIGSTOP});
    return fault;
  }
  if (job.by_mpirun && draw->below(2) == 0) fault.victim.kind = Victim::Mpirun;
  fault.signal = draw->among<int>({SIGKILL, SIGTERM, SIGINT, SIGSEGV, SIGSTOP});
  return fault;
}

// What a run that failed must say; empty: nothing can be said.
std::string culprit(const SignalFault& fault) {
  const Victim& victim = fault.victim;
  if (victim.kind == Victim::Mpirun) return "mpirun";
  if (victim.kind == Victim::Starter) return "";
  return fmt::format("rank {} ", victim.rank);
}

// Stops somebody whose stop nobody can tell from a user's; then it goes on.
bool goes_on(const SignalFault& fault) {
  return fault.signal == SIGSTOP &&
         (fault.victim.kind == Victim::Starter || fault.victim.kind == Victim::Mpirun);
}

std::string does_not_end(MpiRun* run) {
  run->end();
  return "does not end";
}

// Until there is somebody to hit; false: the run ended before.
bool strike(const SignalFault& fault, MpiRun* run) {
  if (run->ends_within(milliseconds(fault.after_ms))) return false;
  for (int i = 0; i < 1000; ++i) {
    const pid_t process = fault.victim.in(*run);
    if (process > 0) {
      kill(process, fault.signal);
      if (goes_on(fault)) {
        usleep(700'000);  // a stop of some length is the fault
        kill(process, SIGCONT);
      }
      return true;
    }
    if (run->ends_within(milliseconds(2))) return false;
  }
  return false;
}

std::string judge(const Job& job, const SignalFault& fault, const Folder& folder, bool struck,
                  MpiRun* run) {
  // A rank 0 that was stopped, and its watchdog too, has half a minute to write what it knows.
  const seconds most(job.timeout_s + 45);
  if (!run->ends_within(most)) return does_not_end(run);
  const int status = run->wait();
  if (!run->leaves_nothing()) return "leaves processes";
  if (std::string found = litter(folder, job); !found.empty()) return found;
  // Rank 0's watchdog that is stopped is ended, and its status is the run's.
  const bool is_first = fault.victim.kind == Victim::Watchdog && fault.victim.rank == 0;
  if (std::string found = crash(*run, status, {fault.signal, is_first ? SIGKILL : fault.signal});
      !found.empty())
    return found;
  const std::string err = run->err();
  if (status == 0) {
    const bool named = has(err, culprit(fault)) && has(err, "after all had played");
    if (!err.empty() && !named) return "ends with 0 and errors";
    if (run->out().empty()) return "ends with 0 and no results";
    for (const std::string& name : job.outputs)
      if (text_of(folder / name).empty()) return "ends with 0 and without " + name;
    return "";
  }
  if (!struck) return "fails untouched";
  if (goes_on(fault)) return "fails after a stop";
  // Before MPI has started nobody knows which rank is missing, and rank 0 may be gone unheard.
  // Whom a user's signal ends mpirun may end before rank 0 has said so: then its starter does.
  const bool by_user = fault.signal == SIGTERM || fault.signal == SIGINT;
  if (by_user && job.by_mpirun && (has(err, "mpirun ended") || has(err, "ended by signal")))
    return "";
  const bool early = job.by_mpirun && (has(err, "MPI did not start") ||
                                       (is_first && has(err, "mpirun ended with status")));
  if (!early && !has(err, culprit(fault))) return "does not name the culprit";
  if (by_user && job.ranks > 0 && status < 128 && !has(err, "ended by signal"))
    return "does not say what ended it";
  return "";
}

// A case's words, and what is wrong with it.
std::string disturbed(const Job& job, Draw draw, std::string* what) {
  const SignalFault fault = draw_signal(job, &draw);
  *what = job.command + ": " + fault.text();
  const Folder folder;
  furnish(folder);
  MpiRun run(folder, "env TMPDIR='" + folder / "tmp" + "' " + job.command, job.rank_key);
  const bool struck = strike(fault, &run);
  std::string wrong = judge(job, fault, folder, struck, &run);
  if (wrong.empty()) return "";
  return fmt::format("{}; status {}; it said: {}", wrong, run.wait(), run.err());
}

void check_all(int count, const Job& job, std::uint64_t from) {
  for (int i = 0; i < count; ++i) {
    std::string what;
    const std::string wrong = disturbed(job, draw_of(from + static_cast<std::uint64_t>(i)), &what);
    INFO("TANDEM_SEED=" << test_seed() << ", case " << from + i << ": " << what << " " << wrong);
    CHECK(wrong.empty());
  }
}

bool mpi_is_there() {
  return mpi_available().ok() && std::system("mpirun --version >/dev/null 2>&1") == 0;
}

// What a run finds around it.
struct Surroundings {
  std::string before;  // in front of the command, in a shell
  std::string after;   // behind it
  bool loses_results = false;
  bool loses_errors = false;
};

Surroundings draw_surroundings(const Folder& folder, Draw* draw) {
  const std::string temporary = "TMPDIR='" + folder / "tmp" + "' exec ";
  switch (draw->below(9)) {
    case 0:
      return {temporary, " >&-", true};
    case 1:
      return {temporary, " >/dev/full", true};
    case 2:
      return {temporary, " 2>&-", false, true};
    case 3:
      return {temporary, " 2>/dev/full", false, true};
    case 4:
      return {temporary, " <&-"};
    case 5:
      return {fmt::format("ulimit -n {}; ", 5 + draw->below(40)) + temporary, ""};
    case 6:
      return {fmt::format("ulimit -c 0 -f {}; ", draw->below(60)) + temporary, ""};
    case 7:
      return {"TMPDIR=/proc exec ", ""};
    default:
#ifdef TANDEM_SANITIZED  // which takes terabytes of address space
      return {temporary, ""};
#else  // in KiB
      return {fmt::format("ulimit -v {}; ", 30'000 + draw->below(600'000)) + temporary, ""};
#endif
  }
}

std::string judge(const Job& job, const Surroundings& around, const Folder& folder, MpiRun* run) {
  if (!run->ends_within(seconds(job.timeout_s + 20))) return does_not_end(run);
  const int status = run->wait();
  if (!run->leaves_nothing()) return "leaves processes";
  if (std::string found = litter(folder, job); !found.empty()) return found;
  if (std::string found = crash(*run, status); !found.empty()) return found;
  // The loader, or a shell, that found no room for its own.
  if (status == 127 && has(run->err(), "error while loading shared libraries")) return "";
  if (status > exit_status(Error::Missing)) return "ends with another status than 0 to 3";
  if (status != 0) {
    const std::string err = run->err();
    return around.loses_errors || !err.empty() ? "" : "fails without a word";
  }
  if (around.loses_results) return "ends with 0 and its results are lost";
  if (run->out().empty()) return "ends with 0 and no results";
  for (const std::string& name : job.outputs)
    if (text_of(folder / name).empty()) return "ends with 0 and without " + name;
  return "";
}

}  // namespace

TEST_CASE("ranks that meet over TCP: whoever is killed or stopped, whenever, is named in time") {
  check_all(faults() * 2 / 5, kRanks, 0);
}

TEST_CASE("ranks under mpirun: whoever is killed or stopped, whenever, is named in time") {
  if (!mpi_is_there()) {
    WARN("skipped: no MPI");
    return;
  }
  check_all(faults() / 5, kMpi, 1'000'000);
}

TEST_CASE("runs of one process that are killed at any moment leave whole files or none") {
  const int each = std::max(1, faults() / 15);
  check_all(each, kHost, 2'000'000);
  check_all(each, kSimulation, 3'000'000);
}

TEST_CASE("full and closed outputs, small limits, folders that cannot be written to are told") {
  std::vector<Job> jobs = {kRanks, kHost, kSimulation, kSweeping};
  if (mpi_is_there()) jobs.push_back(kMpi);
  for (int i = 0; i < faults() * 4 / 15; ++i) {
    const std::uint64_t number = 4'000'000 + static_cast<std::uint64_t>(i);
    Draw draw = draw_of(number);
    const Job& job = draw.among(jobs);
    const Folder folder;
    furnish(folder);
    const Surroundings around = draw_surroundings(folder, &draw);
    const std::string script = folder.with("tmp/run", around.before + job.command + around.after);
    MpiRun run(folder, "sh '" + script + "'", job.rank_key);
    const std::string wrong = judge(job, around, folder, &run);
    INFO("TANDEM_SEED=" << test_seed() << ", case " << number << ": " << text_of(script));
    INFO("status " << run.wait() << "; it said: " << run.err() << " " << wrong);
    CHECK(wrong.empty());
  }
}
