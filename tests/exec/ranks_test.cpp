// Ranks that are started here, meet over TCP and pretend to play (ranks_job): how they end, and
// that nothing is left of them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/exec/free_port.h"
#include "tests/exec/mpi_run.h"
#include "tests/text.h"

using namespace tandem;

namespace {

const std::string kJob = TANDEM_RANKS_JOB;

// Ranks of a launcher's making: `names` with R for each rank.
std::string by_hand(const std::string& names, const std::string& ranks, const std::string& job) {
  return "sh -c 'export TANDEM_SECRET=\"what only this job knows\"; for R in " + ranks +
         "; do env " + names + ' ' + kJob + ' ' + job +
         " & own=\"$own $!\"; done; worst=0; for p in $own; do wait $p || worst=$?; done; exit "
         "$worst'";
}

bool within(const std::function<void()>& what, int seconds) {
  const auto begin = std::chrono::steady_clock::now();
  what();
  return std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds);
}

}  // namespace

TEST_CASE("ranks are started here, meet and play") {
  const Folder folder;
  MpiRun run(folder, kJob + " 3 short", "RANK");
  CHECK(run.wait() == 0);
  CHECK(run.out() == "2 iterations, emulated: all; on nothing\n");
  CHECK(run.err().empty());
  CHECK(run.leaves_nothing());
}

TEST_CASE("ranks of torchrun and of Slurm meet as their environment says") {
  const Folder folder;
  const std::string port = std::to_string(free_port());
  for (const std::string& names :
       {"RANK=$R WORLD_SIZE=2 LOCAL_RANK=$R MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
            " TORCHELASTIC_USE_AGENT_STORE=True",
        "SLURM_PROCID=$R SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$R "
        "SLURM_STEP_NODELIST=localhost,n[1-2] "
        "SLURM_JOB_ID=" +
            std::to_string(getpid())}) {
    INFO(names);
    MpiRun run(folder, by_hand(names, "1 0", "2 short"));
    CHECK(run.wait() == 0);
    CHECK(has(run.out(), "2 iterations"));
    CHECK(run.err().empty());
  }
}

TEST_CASE("ranks of mpirun that find neither MASTER_ADDR nor MPI say so") {
  const Folder folder;
  std::filesystem::copy(kJob, folder / "job");  // the plugin is not beside it
  MpiRun run(folder,
             "env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "
             "./job 2 short");
  CHECK(run.wait() == 3);
  check_line(run, "rank 0: found no MASTER_ADDR and no MPI (");
  CHECK(
      has(run.err(), "), expected mpirun -x MASTER_ADDR -x MASTER_PORT ... or libtandem_mpi.so\n"));
}

TEST_CASE("a rank that never comes is named by the coordinator") {
  const Folder folder;
  const std::string names =
      "RANK=$R WORLD_SIZE=3 LOCAL_RANK=$R MASTER_ADDR=localhost MASTER_PORT=" +
      std::to_string(free_port());
  MpiRun run(folder, by_hand(names, "0 2", "3 short"));
  CHECK(run.wait() == 1);
  check_line(run, "found no rank 1 within 3 s, expected all 3 to join\n");
  CHECK(run.leaves_nothing());
}

TEST_CASE("a killed rank is named in time, and the others take back what they have") {
  const Folder folder;
  MpiRun run(folder, kJob + " 3 heeds", "RANK");
  REQUIRE(run.plays(3));
  kill(run.local_rank(2), SIGKILL);
  CHECK(within([&] { CHECK(run.wait() == 1); }, 25));
  check_line(run, "rank 2 was killed by signal 9 (Killed) in forward ");
  for (const std::string rank : {"0", "1"}) CHECK(!text_of(folder / ("stopped." + rank)).empty());
  CHECK(run.leaves_nothing());
}

TEST_CASE("ranks that do not heed the word to stop are killed") {
  const Folder folder;
  MpiRun run(folder, kJob + " 2 long", "RANK");
  REQUIRE(run.plays(2));
  kill(run.local_rank(1), SIGKILL);
  CHECK(run.wait() == 1);
  check_line(run, "rank 1 was killed by signal 9 (Killed) in forward ");
  CHECK(run.leaves_nothing());
}

TEST_CASE("where a started process is killed the others end, and say so") {
  const Folder folder;
  for (const int rank : {0, 1}) {
    MpiRun run(folder, kJob + " 2 heeds", "RANK");
    REQUIRE(run.plays(2));
    kill(run.watch(rank), SIGKILL);
    CHECK(within([&] { CHECK(run.wait() == (rank == 0 ? 137 : 1)); }, 25));
    if (rank == 0) {
      CHECK(run.err() ==
            "rank 0 is gone, expected it to gather what the others did\n"
            "rank 0 was killed by signal 9 (Killed)\n");
    } else {
      check_line(run, "rank 1 is gone, and so is its watchdog");
    }
    CHECK(run.leaves_nothing());
  }
}

TEST_CASE("a rank 0 that is killed before the others have joined is named by its starter") {
  const Folder folder;
  MpiRun run(folder, kJob + " 2 long", "RANK");
  REQUIRE(comes_true([&] { return run.watch(0) != 0; }));
  kill(run.watch(0), SIGKILL);
  CHECK(within([&] { CHECK(run.wait() == 137); }, 25));
  CHECK(has(run.err(), "rank 0 was killed by signal 9 (Killed)\n"));
  CHECK(run.leaves_nothing());
}

TEST_CASE("a process that is stopped with its watchdog is named when the time-out is over") {
  const Folder folder;
  for (const int rank : {0, 1}) {
    INFO(rank);
    MpiRun run(folder, kJob + " 2 heeds", "RANK");
    REQUIRE(run.plays(2));
    kill(run.local_rank(rank), SIGSTOP);
    kill(run.watch(rank), SIGSTOP);
    CHECK(comes_true([&] { return has(run.err(), "\n"); }));
    check_line(run, rank == 0 ? "rank 0 does not answer within 3 s, expected it to gather what "
                              : "no op ended within 3 s: rank 1 does not answer");
    if (rank == 0) kill(run.watch(0), SIGKILL);  // it has half a minute to write a trace
    CHECK(run.wait() != 0);
    CHECK(run.leaves_nothing());
  }
}

TEST_CASE("a rank's own words and kind are the run's") {
  const Folder folder;
  MpiRun run(folder, kJob + " 2 fails", "RANK");
  CHECK(run.wait() == 3);
  check_line(run, "rank 1: found no GPU 1\n");
  CHECK(run.leaves_nothing());
}

TEST_CASE("a signal is passed on, and nothing is left where the starter is killed") {
  const Folder folder;
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    INFO(signal);
    MpiRun run(folder, kJob + " 2 heeds", "RANK");
    REQUIRE(run.plays(2));
    kill(run.launcher(), signal);
    CHECK(within([&] { CHECK(run.wait() != 0); }, 25));
    CHECK(run.leaves_nothing());
    if (signal != SIGKILL) check_line(run, "the run was ended by signal ");
  }
}
