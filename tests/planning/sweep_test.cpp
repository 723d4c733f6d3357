// tandem sweep: what its CSV holds, and that nothing ends it for good.
#include <fmt/format.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/csv.h"
#include "base/file_lock.h"
#include "tests/exec/mpi_run.h"
#include "tests/planning/sweep_runs.h"
#include "tests/sandbox.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

// A CSV's rows by their names' order, each a map of its cells.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& path) {
  const auto file = read_csv(path);
  REQUIRE(file.ok());
  std::vector<std::map<std::string, std::string>> rows;
  for (std::size_t i = 1; i < file->rows.size(); ++i) {
    auto& row = rows.emplace_back();
    for (std::size_t c = 0; c < file->rows[0].cells.size(); ++c)
      row[file->rows[0].cells[c]] = file->rows[i].cells.at(c);
  }
  return rows;
}

std::size_t lines_in(const std::string& path) {
  const std::string text = text_of(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a sweep has a row a run, in the scenario's order, with the numbers of simulate --json") {
  const Folder folder;
  const std::string csv = sweep_undisturbed(folder);
  CHECK(folder.files() == Names{"all.csv", "runs.toml"});
  const auto rows = rows_of(csv);
  REQUIRE(rows.size() == kSweepRuns);
  CHECK(rows[0].at("name") == "schedule.order=1f1b, parallel.pp=1, parallel.global_batch=4");
  CHECK(rows[1].at("parallel.global_batch") == "6");
  CHECK(rows[1].at("costs.forward_s") == "0.001");
  // 1F1B on two stages, four microbatches: (4 + 1) x 3 ms of compute, as no transfer costs any.
  const auto& two = rows[kSweepBatches];
  CHECK(two.at("name") == "schedule.order=1f1b, parallel.pp=2, parallel.global_batch=4");
  CHECK(std::stod(two.at("iteration_s")) == Approx(0.015));
  CHECK(two.at("bubble_ratio") == "0.25");
  CHECK(two.at("plan.pp") == "2");
  CHECK(two.at("exposed_s.data") == "0.0");
  CHECK(two.at("error").empty());
  CHECK(two.count("engine_wall_s") == 0);
  // Columns that came later stand behind the others, which keep their places.
  const std::string sweep = text_of(csv);
  CHECK(sweep.substr(0, sweep.find('\n'))
            .ends_with(
                ",ops,tokens_per_s_per_gpu,flops_convention,memory_bytes.reserve,memory_"
                "bytes.by_pipeline_rank,memory_bytes.workspace,memory_bytes.outside,memory_bytes."
                "fragmentation,verdict,spare_bytes,equal_expert_loads,routing_cost,routing_waiting,"
                "checksum"));

  const std::string json = folder / "all.json";
  REQUIRE(std::system(fmt::format("'{}' simulate '{}' --engine ideal --only 1f1b --json > '{}'",
                                  TANDEM_PROGRAM, folder / "runs.toml", json)
                          .c_str()) == 0);
  const Json all = Json::parse(text_of(json));
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(rows[i].at("name") == all[i]["name"]);
    CHECK(rows[i].at("iteration_s") == all[i]["iteration_s"].dump());
    CHECK(rows[i].at("overlap_fraction.pipeline") ==
          (all[i]["overlap_fraction"]["pipeline"].is_null()
               ? ""
               : all[i]["overlap_fraction"]["pipeline"].dump()));
  }
}

TEST_CASE("a run that cannot be is a row with its error, and the others are there") {
  const Sandbox sandbox;
  sandbox.file("runs.toml", kTwoStages + "[matrix]\nparallel.micro_batch = [1, 3, 2]\n");
  const Ran ran = sandbox.tandem("sweep runs.toml -o all.csv --engine ideal");
  CHECK(ran.status == 0);
  CHECK(ran.out == "all.csv: 3 rows\n");
  CHECK(ran.err ==
        "all.csv: 1 of 3 runs failed, the first is 'parallel.micro_batch=3': see the column "
        "error\n");
  const std::string text = sandbox.read("all.csv");
  CHECK(text.find("\"runs.toml:3: found parallel.global_batch = 4, expected a multiple of "
                  "micro_batch x dp = 3 x 1\"") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
}

TEST_CASE("where no run can be, a sweep is refused and leaves nothing") {
  const Sandbox sandbox;
  sandbox.file("runs.toml", kTwoStages + "[matrix]\nparallel.micro_batch = [3, 5]\n");
  check_refused(sandbox.tandem("sweep runs.toml -o all.csv --engine ideal"),
                "runs.toml:3: found parallel.global_batch = 4");
  sandbox.file("list.csv", "name,parallel.qp\na,2\n");
  check_refused(sandbox.tandem("sweep runs.toml --list list.csv -o all.csv"),
                "list.csv:2: found unknown key 'parallel.qp'");
  sandbox.file("list.csv", "name,parallel.tp,parallel.tp\na,1,2\n");
  check_refused(sandbox.tandem("sweep runs.toml --list list.csv -o all.csv"),
                "list.csv:1: found the column parallel.tp twice, expected it once");
  check_refused(sandbox.tandem("sweep runs.toml -o all.csv --shard 3/2"),
                "--shard: found '3/2', expected I/N");
  // The scenario has a fault too, and is not read.
  check_refused(sandbox.tandem("sweep runs.toml -o all.csv --shard 1/2",
                               "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
                               "OMPI_COMM_WORLD_LOCAL_RANK=0"),
                "--shard: found 2 ranks (Open MPI), expected one process");
  CHECK(sandbox.files() == Names{"list.csv", "runs.toml"});
}

TEST_CASE("a sweep says how many of its runs have warnings, which its CSV holds") {
  const Sandbox sandbox;
  sandbox.file("axis.toml", kTwoStages + "[matrix]\nparallel.global_batch = [4, 8]\n");
  const Ran ran =
      sandbox.tandem("sweep axis.toml -o all.csv --engine ideal --set parallel.global_batch=8");
  CHECK(ran.status == 0);
  CHECK(ran.err == "all.csv: 1 of 2 runs have warnings: see the column warnings\n");
  CHECK(sandbox.read("all.csv").find("replaces what the axis parallel.global_batch gives") !=
        std::string::npos);
}

TEST_CASE("a list's rows are runs over the scenario, an empty cell leaves its setting") {
  const Sandbox sandbox;
  sandbox.file("base.toml", kTwoStages);
  sandbox.file("list.csv",
               "name,parallel.global_batch,schedule.order\n"
               "plain,,\n"
               "eight,8,gpipe\n"
               ",6,\n");
  check_done(sandbox.tandem("sweep base.toml --list list.csv -o all.csv --engine ideal"));
  const Folder folder;
  const auto rows = rows_of(folder.with("all.csv", sandbox.read("all.csv")));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].at("name") == "plain");
  CHECK(rows[0].at("parallel.global_batch") == "4");
  CHECK(rows[1].at("schedule.order") == "gpipe");
  CHECK(rows[1].at("plan.microbatches") == "8");
  CHECK(rows[2].at("name") == "parallel.global_batch=6");
  CHECK(rows[2].at("schedule.order").empty());
}

#ifndef TANDEM_SANITIZED  // which takes terabytes of address space
TEST_CASE(
    "of small runs that share a process with one that fails for want of memory none is lost") {
  const Sandbox sandbox;
  sandbox.file("base.toml", kTwoStages);
  std::string list = "name,parallel.pp,parallel.global_batch,schedule.order\n";
  for (int i = 4; i < 44; ++i)
    list += i == 24 ? "large,64,20000,gpipe\n" : fmt::format("small {0},2,{0},1f1b\n", i);
  sandbox.file("list.csv", list);
  sandbox.tandem("sweep base.toml --list list.csv -o all.csv --engine ideal --jobs 1",
                 "prlimit --as=300000000");
  const Folder folder;
  const auto rows = rows_of(folder.with("all.csv", sandbox.read("all.csv")));
  REQUIRE(rows.size() == 40);
  for (const auto& row : rows) {
    INFO(row.at("name"));
    const bool large = row.at("name") == "large";
    CHECK((row.at("error").find("found no memory left") != std::string::npos) == large);
    CHECK(row.at("error").empty() == !large);
    CHECK(row.at("iteration_s").empty() == large);
  }
}
#endif

TEST_CASE("two runs of one name and the same settings are refused") {
  const Sandbox sandbox;
  sandbox.file("runs.toml", kTwoStages);
  sandbox.file("list.csv", "name,parallel.micro_batch\na,1\na,1\n");
  check_refused(sandbox.tandem("sweep runs.toml --list list.csv -o all.csv --engine ideal"),
                "list.csv:3: found the run 'a' twice (first in list.csv:2), expected each once\n");
}

TEST_CASE("a sweep that is killed and started again ends with an undisturbed one's bytes") {
  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const Folder folder;
  const std::string whole = text_of(sweep_undisturbed(folder));
  const std::string csv = folder / "killed.csv";
  for (int kills = 0; kills < 6; ++kills) {
    // Killed once some more rows are there than at its start; the last time there may be none left.
    const std::size_t rows = lines_in(csv) + random() % 8;
    const MpiRun run(folder, sweep_command("killed.csv") + " --jobs 2");
    const bool coordinator_only = random() % 2 == 0;
    for (int i = 0; i < 10'000 && lines_in(csv) < rows; ++i) usleep(200);
    kill(coordinator_only ? run.launcher() : -run.launcher(), SIGKILL);
    CHECK(run.leaves_nothing());
  }
  MpiRun run(folder, sweep_command("killed.csv"));
  CHECK(run.wait() == 0);
  CHECK(text_of(csv) == whole);
  CHECK(folder.files() == Names{"all.csv", "err", "killed.csv", "out", "runs.toml"});
}

TEST_CASE("a torn line is cut, said, and its run is run again") {
  const Folder folder;
  const std::string whole = text_of(sweep_undisturbed(folder));
  const std::string csv = folder.with("torn.csv", whole.substr(0, whole.size() - 20));
  MpiRun run(folder, sweep_command("torn.csv"));
  CHECK(run.wait() == 0);
  CHECK(text_of(csv) == whole);
  CHECK(run.err() ==
        fmt::format("torn.csv: {} rows kept, a torn line cut, 1 to run\n", kSweepRuns - 1));
}

TEST_CASE("a row of which one byte was changed is noticed, kept aside and run again") {
  const Folder folder;
  const std::string whole = text_of(sweep_undisturbed(folder));
  const std::size_t second = whole.find('\n', whole.find('\n') + 1) + 1;
  const std::size_t third = whole.find('\n', second) + 1;
  // In the name, in a number that is kept, and in the checksum.
  for (const std::size_t at : {second + 20, whole.rfind("0.0", third), third - 2}) {
    std::string changed = whole;
    REQUIRE((second < at && at < third));
    changed[at] = changed[at] == '7' ? '8' : '7';
    INFO(changed.substr(second, third - second));
    const std::string csv = folder.with("changed.csv", changed);
    MpiRun run(folder, sweep_command("changed.csv"));
    CHECK(run.wait() == 0);
    CHECK(run.err() == fmt::format("changed.csv: {} rows kept, 1 dropped that are not as they were "
                                   "written (they "
                                   "stay in changed.csv.old), 1 to run\n",
                                   kSweepRuns - 1));
    CHECK(text_of(csv) == whole);
    CHECK(text_of(folder / "changed.csv.old") == changed);
  }
}

TEST_CASE("a sweep ends whatever its runs are called, and no name is a command to anybody") {
  const Sandbox sandbox;
  sandbox.file("runs.toml", kTwoStages + R"([[matrix.parallel]]
name = "x\ny"
parallel.global_batch = 4
[[matrix.parallel]]
name = "\u0000\r"
parallel.global_batch = 6
[[matrix.parallel]]
name = "=cmd|' /C calc'!A0"
parallel.global_batch = 8
[[matrix.parallel]]
name = "\u001b[31m\u202e\u2028"
parallel.global_batch = 10
[report]
baseline = "x\ny"
)");
  const Ran first = sandbox.tandem("sweep runs.toml -o all.csv --engine ideal");
  CHECK(first.status == 0);
  const std::string csv = sandbox.read("all.csv");
  for (const char* row : {"\nx\\ny,", "\n\\x00\\r,", "\n'=cmd|' /C calc'!A0,",
                          "\n\\x1b[31m\\xe2\\x80\\xae\\xe2\\x80\\xa8,"}) {
    INFO(row);
    CHECK(csv.find(row) != std::string::npos);
  }
  const Ran again = sandbox.tandem("sweep runs.toml -o all.csv --engine ideal");
  CHECK(again.err == "all.csv: 4 rows kept, 0 to run\n");
  CHECK(sandbox.read("all.csv") == csv);
  const Ran table = sandbox.tandem("simulate runs.toml --engine ideal");
  CHECK(table.status == 0);
  for (const char c : table.out + table.err) CHECK((c == '\n' || (' ' <= c && c <= '~')));
  CHECK(table.out.find("x\\ny") != std::string::npos);
}

TEST_CASE("after an edit only what is new is run, and what was dropped is said and kept aside") {
  const Sandbox sandbox;
  const std::string matrix = "[matrix]\nparallel.global_batch = ";
  sandbox.file("runs.toml", kTwoStages + matrix + "[2, 4, 6]\n");
  check_done(sandbox.tandem("sweep runs.toml -o all.csv --engine ideal"));
  const std::string before = sandbox.read("all.csv");
  sandbox.file("runs.toml", kTwoStages + matrix + "[8, 6, 4]\n");
  const Ran ran = sandbox.tandem("sweep runs.toml -o all.csv --engine ideal");
  CHECK(ran.status == 0);
  CHECK(ran.err ==
        "all.csv: 2 rows kept, 1 dropped that no run has (they stay in all.csv.old), 1 to run\n");
  CHECK(sandbox.read("all.csv.old") == before);
  const std::string resumed = sandbox.read("all.csv");
  check_done(sandbox.tandem("sweep runs.toml -o new.csv --engine ideal"));
  CHECK(sandbox.read("new.csv") == resumed);
}

TEST_CASE("what stands in a file that a run names counts as its setting") {
  const Sandbox sandbox;
  sandbox.file("order.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  sandbox.file("runs.toml", kTwoStages + "[schedule]\norder = \"order.csv\"\n");
  const std::string command =
      "sweep runs.toml -o all.csv --engine ideal --set parallel.global_batch=2";
  check_done(sandbox.tandem(command));
  CHECK(sandbox.tandem(command).err == "all.csv: 1 rows kept, 0 to run\n");
  sandbox.file("order.csv", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  CHECK(sandbox.tandem(command).err ==
        "all.csv: 0 rows kept, 1 dropped that no run has (they stay in all.csv.old), 1 to run\n");
}

TEST_CASE("the traces of all ranks count as the setting that names one of them") {
  const Sandbox sandbox;
  const auto trace = [&](int rank, const char* expert) {
    sandbox.file(fmt::format("router_trace_rank{}.jsonl", rank).c_str(),
                 fmt::format(R"({{"step": 0, "layer": 0, "top_indices": [[{}]]}})", expert) + "\n");
  };
  trace(0, "0");
  trace(1, "1");
  sandbox.file("runs.toml", R"([model]
layers = 1
hidden = 1024
heads = 8
seq = 1024
vocab = 32000
experts = 2
top_k = 1
routing = "router_trace_rank0.jsonl"
[parallel]
dp = 2
ep = 2
global_batch = 2
[cluster]
preset = "dgx-h100"
)");
  const std::string command = "sweep runs.toml -o all.csv --engine ideal";
  check_done(sandbox.tandem(command));
  CHECK(sandbox.tandem(command).err == "all.csv: 1 rows kept, 0 to run\n");
  trace(1, "0");
  CHECK(sandbox.tandem(command).err ==
        "all.csv: 0 rows kept, 1 dropped that no run has (they stay in all.csv.old), 1 to run\n");
}

TEST_CASE("two sweeps into one file: the second is refused, a shard beside another is not") {
  const Folder folder;
  sweep_undisturbed(folder);
  const auto refused = [&](const std::string& options) {
    MpiRun run(folder, sweep_command("all.csv") + options);
    const int status = run.wait();
    if (status != 0)
      CHECK(run.err() == fmt::format("all.csv: found that process {} writes it, expected nobody "
                                     "else to\n",
                                     getpid()));
    return status == 1;
  };
  {
    const auto lock = FileLock::take(folder / "all.csv");
    REQUIRE(lock.ok());
    CHECK(refused(""));
    CHECK(refused(" --shard 1/3"));
  }
  {
    const auto shard = FileLock::take(folder / "all.csv", 1);
    REQUIRE(shard.ok());
    CHECK(refused(""));
    CHECK(refused(" --shard 1/3"));
    CHECK(!refused(" --shard 2/3"));
  }
  CHECK(!refused(""));
}

TEST_CASE("the parts of shards, joined, are an undisturbed sweep's bytes") {
  const Folder folder;
  const std::string whole = text_of(sweep_undisturbed(folder));
  for (const char* shard : {"3/3", "1/3"}) {
    MpiRun run(folder, sweep_command("parts.csv") + " --shard " + shard);
    CHECK(run.wait() == 0);
    CHECK(run.out() == fmt::format("parts.csv.part-{}-of-3: {} rows\n", shard[0], kSweepRuns / 3));
  }
  // The second shard never ran: its runs are run now.
  MpiRun run(folder, sweep_command("parts.csv"));
  CHECK(run.wait() == 0);
  CHECK(run.err() ==
        fmt::format("parts.csv: {} rows kept, {} to run\n", kSweepRuns / 3 * 2, kSweepRuns / 3));
  CHECK(text_of(folder / "parts.csv") == whole);
  CHECK(folder.files() == Names{"all.csv", "err", "out", "parts.csv", "runs.toml"});
}

TEST_CASE("a file that no sweep wrote is not touched") {
  const Sandbox sandbox;
  sandbox.file("runs.toml", kTwoStages);
  for (const char* text : {"a,b\n1,2\n", "no line end", "name,settings\n"}) {
    sandbox.file("mine.csv", text);
    check_refused(sandbox.tandem("sweep runs.toml -o mine.csv --engine ideal"),
                  "mine.csv:1: found another file than a sweep's results");
    CHECK(sandbox.read("mine.csv") == text);
  }
}
