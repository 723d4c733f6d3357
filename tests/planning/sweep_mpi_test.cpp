// tandem sweep under mpirun. Skipped, with the reason, where there is no MPI.

#include "exec/mpi/mpi.h"
#include "tests/exec/mpi_run.h"
#include "tests/planning/sweep_runs.h"

using namespace tandem;

namespace {

std::string ranks(int number, const std::string& output) {
  return fmt::format("mpirun -q --oversubscribe -np {} {}", number, sweep_command(output));
}

bool has_mpi() {
  const Status mpi = mpi_available();
  if (mpi.ok() && std::system("command -v mpirun > /dev/null") == 0) return true;
  WARN("skipped: " << (mpi.ok() ? "no mpirun" : mpi.error().text()));
  return false;
}

}  // namespace

TEST_CASE("under mpirun two and four ranks write an undisturbed sweep's bytes") {
  if (!has_mpi()) return;
  const Folder folder;
  const std::string whole = text_of(sweep_undisturbed(folder));
  for (const int number : {2, 4}) {
    MpiRun run(folder, ranks(number, "ranks.csv"));
    INFO(run.err());
    CHECK(run.wait() == 0);
    CHECK(run.out() == fmt::format("ranks.csv: {} rows\n", kSweepRuns));
    CHECK(text_of(folder / "ranks.csv") == whole);
    CHECK(folder.files() ==
          std::vector<std::string>{"all.csv", "err", "out", "ranks.csv", "runs.toml"});
    std::filesystem::remove(folder / "ranks.csv");
  }
}

TEST_CASE("ranks that are killed leave their rows to whoever starts next") {
  if (!has_mpi()) return;
  const Folder folder;
  const std::string whole = text_of(sweep_undisturbed(folder));
  for (const bool launcher_only : {false, true}) {
    const MpiRun run(folder, ranks(2, "ranks.csv"));
    const std::string part = folder / "ranks.csv.part-of-rank-1";
    comes_true(
        [&] { return text_of(part).size() > 3000 || text_of(folder / "ranks.csv") == whole; });
    if (launcher_only) {
      kill(run.launcher(), SIGKILL);
    } else {
      for (const pid_t process : run.processes()) kill(process, SIGKILL);
    }
    CHECK(run.leaves_nothing());
  }
  MpiRun run(folder, sweep_command("ranks.csv"));
  CHECK(run.wait() == 0);
  CHECK(text_of(folder / "ranks.csv") == whole);
}

TEST_CASE("of ranks whose sweep is refused one says why") {
  if (!has_mpi()) return;
  const Folder folder;
  sweep_undisturbed(folder);
  folder.with("mine.csv", "a,b\n");
  MpiRun run(folder, ranks(2, "mine.csv"));
  CHECK(run.wait() == 2);
  const std::string said = run.err();
  CHECK(said.find("mine.csv:1: found another file than a sweep's results") != std::string::npos);
  CHECK(said.find("mine.csv:1:") == said.rfind("mine.csv:1:"));
}
