// tandem run --backend mpi under a real mpirun: what it plays, how it fails, and that it leaves
// nothing behind. Skipped where there is no MPI.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>

#include "exec/mpi/mpi.h"
#include "schedule/program/program_text.h"
#include "tests/exec/free_port.h"
#include "tests/exec/mpi_run.h"
#include "tests/made_program.h"
#include "tests/text.h"
#include "tests/variable.h"

using namespace tandem;

namespace {

const std::string kTandem = TANDEM_PROGRAM;
const std::string kJob = TANDEM_MPI_JOB;
const std::string kPretend = TANDEM_RANKS_JOB;

const std::string kUniform = R"([parallel]
pp = 4
global_batch = 4
[costs]
source = "uniform"
forward_s = 0.001
backward_s = 0.002
p2p_s = 0.0001
)";

// ctest counts a test as skipped that prints why.
bool possible() {
  const Status plugin = mpi_available();
  const bool launcher = std::system("mpirun --version >/dev/null 2>&1") == 0;
  if (plugin.ok() && launcher) return true;
  WARN("skipped: " << (plugin.ok() ? "no mpirun" : plugin.error().text()));
  return false;
}

std::string mpirun(int ranks, const std::string& command) {
  return "mpirun -q --oversubscribe --bind-to none -np " + std::to_string(ranks) + ' ' + command;
}

// A chain of stages, each waiting for the one before: rank 2 computes 5 ms, the others 0.1 ms.
std::string chain(int microbatches) {
  return to_text(made_program(fmt::format(R"(
    rank 0, {0} times: F# 100us, send# 0>1 after F#
    rank 1, {0} times: recv# 0>1, F# 100us after recv#, send# 1>2 after F#
    rank 2, {0} times: recv# 1>2, F# 5ms after recv#, send# 2>3 after F#
    rank 3, {0} times: recv# 2>3, F# 100us after recv#
  )",
                                          microbatches)));
}
constexpr int kLong = 4000;  // 20 s

// Rank, op, kind, microbatch, part and bytes of every row.
std::set<std::string> ops_of(const std::string& trace) {
  std::set<std::string> ops;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string op;
    int column = 0;
    for (std::string cell; std::getline(cells, cell, ',') && column < 8; ++column) {
      if (column != 1 && column != 4) op += cell + ',';  // not the lane and the stage
    }
    ops.insert(op);
  }
  return ops;
}

}  // namespace

TEST_CASE("started alone or by mpirun, mpi plays the ops that the host plays") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  const std::string command = kTandem + " run four.toml --iterations 2 --trace ";
  MpiRun host(folder, command + "host.csv");
  CHECK(host.wait() == 0);
  MpiRun alone(folder, command + "alone.csv --backend mpi");
  CHECK(alone.wait() == 0);
  CHECK(alone.err().empty());
  CHECK(has(alone.out(), "measured: messages by MPI"));
  CHECK(has(alone.out(), "72 payloads checked"));  // 24 receives, 3 iterations
  CHECK(alone.leaves_nothing());
  MpiRun started(folder, mpirun(4, command + "mpi.csv --backend mpi --payload full"));
  CHECK(started.wait() == 0);
  CHECK(started.err().empty());
  const std::string trace = text_of(folder / "mpi.csv");
  CHECK(has(trace, "# backend: mpi\n"));
  CHECK(has(trace, "# complete: yes\n"));
  CHECK(ops_of(trace).size() == 1 + 4 * 8 + 48);
  CHECK(ops_of(trace) == ops_of(text_of(folder / "host.csv")));
  CHECK(ops_of(trace) == ops_of(text_of(folder / "alone.csv")));
}

TEST_CASE("a Program of one rank needs no mpirun") {
  if (!possible()) return;
  const Folder folder;
  folder.with("one.csv", to_text(made_program("rank 0: F0 1ms")));
  MpiRun run(folder, kTandem + " run one.csv --backend mpi --iterations 2");
  CHECK(run.wait() == 0);
  CHECK(run.err().empty());
  CHECK(run.leaves_nothing());
}

TEST_CASE("on one host nobody beyond it reaches a run, neither its ranks nor mpirun") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  folder.with("one.csv", to_text(made_program("rank 0: F0 20000ms")));
  const auto is_closed = [&](const std::string& program, int ranks) {
    MpiRun run(folder, kTandem + " run " + program + " --backend mpi --json");
    REQUIRE(comes_true([&] { return !run.open_to_this_host().empty(); }));  // the coordinator
    REQUIRE((ranks > 1 ? run.plays(ranks) : run.plays_alone()));
    CHECK(run.open_to_others().empty());
    kill(run.launcher(), SIGTERM);
    CHECK(run.wait() != 0);
    CHECK(!has(run.err(), "preload"));
  };
  is_closed("chain.csv", 4);
  is_closed("one.csv", 1);
  // An exclusion in the environment opens nothing, and what is preloaded goes on to be.
  const Variable btl("OMPI_MCA_btl", "^openib"), preload("LD_PRELOAD", "libdl.so.2");
  is_closed("chain.csv", 4);
}

TEST_CASE("where mpirun cannot work, or its results are lost, the run fails and says so") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  const auto fails = [&](const std::string& before, const std::string& after,
                         const std::string& message) {
    INFO(before << ' ' << after);
    MpiRun run(folder, "sh -c '" + before + ' ' + kTandem +
                           " run four.toml --backend mpi --iterations 2 --json --timeout 10 " +
                           after + "'");
    CHECK(run.wait() == 1);
    check_line(run, message);
    CHECK(run.leaves_nothing());
  };
  fails("ulimit -n 32;", "", "found at most 32 open files (ulimit -n), expected 128 for mpirun");
  fails("", ">&-", "standard output: found it closed, expected room for the results");
  fails("", ">/dev/full",
        "standard output: No space left on device, expected room for the results");
  fails("TMPDIR=/proc", "", "/proc/tandem.");
}

TEST_CASE("mpirun works without standard input and error, whose numbers no other file takes") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  MpiRun run(folder, "sh -c '" + kTandem + " run four.toml --backend mpi --iterations 2 <&- 2>&-'");
  CHECK(run.wait() == 0);
  CHECK(has(run.out(), "72 payloads checked"));
  CHECK(run.leaves_nothing());
}

TEST_CASE("ranks that need no messages meet by MPI, or where MASTER_ADDR says") {
  if (!possible()) return;
  const Folder folder;
  const std::string port = std::to_string(free_port());
  for (const std::string& master :
       {std::string(), " -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT=" + port + " -x TANDEM_SECRET"}) {
    const Variable secret("TANDEM_SECRET", "what only this job knows");
    MpiRun run(folder, "mpirun -q --oversubscribe --bind-to none -np 3" + master + ' ' + kPretend +
                           " 3 short");
    CHECK(run.wait() == 0);
    CHECK(run.err().empty());
    CHECK(has(run.out(), "2 iterations, emulated: all"));
    CHECK(run.leaves_nothing());
  }
}

TEST_CASE("messages of all kinds and sizes hold what they should, as samples and whole") {
  if (!possible()) return;
  const Folder folder;
  for (const std::string payload : {"sample", "full"}) {
    MpiRun run(folder, mpirun(4, kJob + " collectives " + payload));
    CHECK(run.wait() == 0);
    INFO(run.err());
    // 6 sizes, 3 iterations: 4 x 5 on all, 2 and 2 on two, 2 receives, and 3 on one.
    CHECK(run.out() ==
          "2 iterations, " + std::to_string(6 * 3 * (20 + 4 + 2 + 3)) + " payloads checked\n\n");
  }
}

TEST_CASE("ranks multiply matrices under mpi") {
  if (!possible()) return;
  const Folder folder;
  folder.with("small.toml", R"([model]
layers = 2
hidden = 64
heads = 4
seq = 128
vocab = 128
[parallel]
pp = 2
global_batch = 4
micro_batch = 1
[cluster]
preset = "selene"
gpus = 2
)");
  MpiRun run(folder, kTandem + " run small.toml --backend mpi --compute gemm --iterations 2");
  if (run.wait() == 3) {
    WARN("skipped: no libopenblas.so.0");
    return;
  }
  CHECK(run.wait() == 0);
  CHECK(run.err().empty());
  CHECK(has(run.out(), "matrix products by OpenBLAS"));
}

TEST_CASE("bad input is one line of rank 0, with status 2") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  const auto fails = [&](int ranks, const std::string& input, const std::string& message) {
    MpiRun run(folder, mpirun(ranks, kTandem + " run --backend mpi " + input));
    CHECK(run.wait() == 2);
    check_line(run, message);
  };
  fails(3, "four.toml", "four.toml:5: found 3 processes (Open MPI), expected 4, one a rank");
  fails(4, "none.toml", "none.toml");
  fails(4, "four.toml --compute gemm", "four.toml:5: rank 0: found forward 0 of stage 0");
}

TEST_CASE("a killed rank is named with its op and who waits for it, within the time-out") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi --trace t.csv");
  REQUIRE(run.plays(4));
  kill(run.local_rank(2), SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run.wait() == 1);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));  // of 60
  check_line(run, "rank 2 was killed by signal 9 (Killed) in ");
  CHECK(has(run.err(), " of stage 2 (lane "));
  CHECK(has(run.err(), "; rank 3 waits for it in recv "));
  const std::string trace = text_of(folder / "t.csv");
  CHECK(has(trace, "# complete: no\n"));
  CHECK(has(trace, "# iteration: 0 of 5\n"));
  CHECK(run.leaves_nothing());
}

TEST_CASE("a killed rank is named, too, where all ranks' states are 400 MB") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi --iterations 500 --trace t.csv");
  REQUIRE(run.plays(4));
  kill(run.local_rank(2), SIGKILL);
  CHECK(run.wait() == 1);
  check_line(run, "rank 2 was killed by signal 9 (Killed) in ");
  CHECK(has(text_of(folder / "t.csv"), "# complete: no\n"));
}

TEST_CASE("a terminal's or a shell's signals to the whole group end a run as one signal does") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi --trace t.csv");
  REQUIRE(run.plays(4));
  kill(run.launcher(), SIGTERM);
  kill(-run.launcher(), SIGTERM);
  CHECK(run.wait() != 0);
  CHECK(has(run.err(), "the run was ended by signal "));
  CHECK(has(text_of(folder / "t.csv"), "# complete: no\n"));
  CHECK(run.leaves_nothing());
}

TEST_CASE("a run under mpirun leaves its caller's standard input alone") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  folder.with("script", "printf '1\\n2\\n' | while read line; do\n" + kTandem +
                            " run four.toml --backend mpi --iterations 1 >/dev/null\n"
                            "echo $line\ndone\n");
  MpiRun run(folder, "sh script");
  CHECK(run.wait() == 0);
  CHECK(run.out() == "1\n2\n");
}

TEST_CASE("where a watchdog is killed, the rank is gone, and who waits for it is known") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi --trace t.csv");
  REQUIRE(run.plays(4));
  // mpirun ends all ranks where one is killed. It is held until rank 0 has said why, for which it
  // might have no time.
  const pid_t mpirun = run.named("mpirun");
  REQUIRE(mpirun != 0);
  kill(mpirun, SIGSTOP);
  kill(run.watch(2), SIGKILL);
  CHECK(comes_true([&] { return run.watch(0) == 0; }));
  kill(mpirun, SIGCONT);
  CHECK(run.wait() != 0);  // mpirun's own status
  check_line(run, "rank 2 is gone, and so is its watchdog; ");
  CHECK(has(run.err(), "; rank 3 waits for it in recv "));
  CHECK(run.leaves_nothing());
}

TEST_CASE("where rank 0's watchdog is killed, rank 1 says so, or who started mpirun") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi");
  REQUIRE(run.plays(4));
  kill(run.watch(0), SIGKILL);
  CHECK(run.wait() != 0);
  const std::string err = run.err();
  INFO(err);
  CHECK((err == "mpirun ended with status 137 before a rank said why\n" ||
         err == "rank 0 is gone, expected it to gather what the others did\n"));
  CHECK(run.leaves_nothing());
}

TEST_CASE("a stopped rank is named when no op has ended for the time-out") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi --timeout 8 --trace t.csv");
  REQUIRE(run.plays(4));
  kill(run.local_rank(2), SIGSTOP);
  CHECK(run.wait() == 1);
  check_line(run, "no op ended within 8 s: rank 2 is stopped by signal 19 (Stopped (signal)) in ");
  CHECK(has(run.err(), "; rank 3 waits for it in recv "));
  CHECK(has(text_of(folder / "t.csv"), "# complete: no\n"));
  CHECK(run.leaves_nothing());
}

TEST_CASE("a rank that goes on after a stop goes on") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(400));  // 2 s
  MpiRun run(folder, kTandem + " run chain.csv --backend mpi --warmup 0 --iterations 1");
  REQUIRE(run.plays(4));
  const pid_t local_rank = run.local_rank(2);
  kill(local_rank, SIGSTOP);
  usleep(500'000);  // the time that is lost is what is tested
  kill(local_rank, SIGCONT);
  CHECK(run.wait() == 0);
  CHECK(run.err().empty());
  // It came late to what it waited for, by a quarter of the time.
  CHECK(has(run.out(), ": unreliable, times may be too long by as much.\n"));
}

TEST_CASE("wrong pairings are found: other bytes, too many bytes, sends that wait for each other") {
  if (!possible()) return;
  const Folder folder;
  const auto fails = [&](const std::string& job, const std::string& message) {
    MpiRun run(folder, mpirun(2, kJob + ' ' + job));
    CHECK(run.wait() == 1);
    INFO(run.out() << run.err());
    CHECK(has(run.out(), message));
    CHECK(run.leaves_nothing());
  };
  fails("swapped",
        "rank 1: received other bytes in recv 1 of stage 1 (lane 0>1) than rank 0 "
        "should have sent: ");
  fails("cut", "rank 1: MPI_Test: ");
  fails("crossed",
        "no op ended within 10 s: rank 0 waits in send 0 of stage 0 (lane 0>1) for rank "
        "1, which waits in send 0 of stage 1 (lane 1>0) for rank 0");
}

TEST_CASE("ranks with different Programs are refused, with both hashes") {
  if (!possible()) return;
  const Folder folder;
  const std::string one = folder.with("one.csv", chain(3)), two = folder.with("two.csv", chain(4));
  const std::string command = ' ' + kTandem + " run --backend mpi ";
  MpiRun run(folder, mpirun(3, command + one) + " : -np 1" + command + two);
  CHECK(run.wait() == 1);
  for (const std::string& path : {one, two}) {
    const auto program = read_program(path);
    REQUIRE(program.ok());
    char text[17];
    std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(hash(*program)));
    CHECK(has(run.err(), text));
  }
  check_line(run, "found the Program ");
  CHECK(run.leaves_nothing());
}

TEST_CASE("a rank that never comes is found missing") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(3));
  const std::string command = mpirun(3, kTandem + " run chain.csv --backend mpi --timeout ");
  MpiRun waits(folder, command + "2 : -np 1 sleep 30");
  CHECK(waits.wait() == 1);
  check_line(waits, "MPI did not start within 2 s, expected all 4 ranks to come");
  CHECK(waits.leaves_nothing());
  MpiRun ended(folder, command + "20 : -np 1 sh -c 'until [ -e go ]; do sleep 0.01; done; exit 1'");
  CHECK(comes_true([&] {
    return ended.local_rank(0) != 0 && ended.local_rank(1) != 0 && ended.local_rank(2) != 0;
  }));
  folder.with("go", "");
  CHECK(ended.wait() == 1);
  check_line(ended,
             "MPI did not start until the run was ended by signal 15 (Terminated), "
             "expected all 4 ranks to come");
  CHECK(ended.leaves_nothing());
}

TEST_CASE("nothing is left of a run whose mpirun is killed, or that Ctrl-C ends") {
  if (!possible()) return;
  const Folder folder;
  folder.with("chain.csv", chain(kLong));
  for (const int signal : {SIGKILL, SIGINT, SIGTERM}) {
    INFO(signal);
    MpiRun run(folder, kTandem + " run chain.csv --backend mpi --trace t.csv");
    REQUIRE(run.plays(4));
    CHECK(run.processes().size() >= 9);
    kill(run.launcher(), signal);
    CHECK(run.wait() != 0);
    CHECK(run.leaves_nothing());
    CAPTURE(run.err());
    if (signal != SIGKILL) CHECK(has(run.err(), "the run was ended by signal "));
  }
}

TEST_CASE("without mpirun ranks are not started, in one line") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  MpiRun run(folder, "env PATH=/none " + kTandem + " run four.toml --backend mpi");
  CHECK(run.wait() == 3);
  check_line(run, "mpirun: No such file or directory; --backend host needs no MPI");
}

// Open MPI's mpirun with PMIx 4.2 is such a one, where a rank was killed while connecting to it.
TEST_CASE("an mpirun that collects none of its ended ranks is ended") {
  if (!possible()) return;
  const Folder folder;
  folder.with("four.toml", kUniform);
  folder.with("mpirun", "#!/bin/sh\ntrue &\nexec sleep 1000\n");
  std::filesystem::permissions(folder / "mpirun", std::filesystem::perms(0755));
  MpiRun run(folder, "env PATH=\"$PWD:$PATH\" " + kTandem + " run four.toml --backend mpi");
  REQUIRE(run.ends_within(std::chrono::seconds(60)));
  CHECK(run.wait() == 1);
  check_line(run, "mpirun did not end within 10 s of its ranks, and was ended");
  CHECK(run.leaves_nothing());
}

TEST_CASE("without the plugin the mpi backend is missing, in one line, and the host plays on") {
  const Folder folder;
  folder.with("four.toml", kUniform);
  std::filesystem::copy(kTandem, folder / "tandem");
  setenv("TANDEM_DATA_DIR", TANDEM_SOURCE_DIR, 1);
  MpiRun run(folder, "./tandem run four.toml --backend mpi");
  CHECK(run.wait() == 3);
  check_line(run, "the mpi backend is unavailable: ");
  CHECK(has(run.err(), "; --backend host needs no MPI\n"));
  MpiRun host(folder, "./tandem run four.toml --iterations 1");
  CHECK(host.wait() == 0);
  MpiRun doctor(folder, "./tandem doctor");
  CHECK(doctor.wait() == 0);
  CHECK(has(doctor.out(), "libtandem_mpi.so"));
}
