// tandem simulate --repeat and --sensitivity: what is printed.
#include <nlohmann/json.hpp>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

}  // namespace

TEST_CASE("simulate --repeat prints the seeds and p5, p50 and p95, as a table and as JSON") {
  const Sandbox sandbox;
  sandbox.file("job.toml", kTwoStages + "[variability]\njitter = 0.1\nseed = 3\n");
  const std::string command = "simulate job.toml --engine ideal --repeat 9 ";
  const Ran table = sandbox.tandem(command);
  CHECK(table.status == 0);
  CHECK(table.out.find("runs  seeds") != std::string::npos);
  CHECK(table.out.find("  3-11  ") != std::string::npos);
  const Ran ran = sandbox.tandem(command + "--json"), again = sandbox.tandem(command + "--json");
  const Json run = Json::parse(ran.out)[0];
  CHECK(run["repeats"]["runs"] == 9);
  CHECK(run["repeats"]["first_seed"] == 3);
  const Json& spread = run["repeats"]["iteration_s"];
  CHECK(spread["p5"] <= spread["p50"]);
  CHECK(spread["p50"] <= spread["p95"]);
  CHECK(run["iteration_s"] == spread["p50"]);
  CHECK(Json::parse(again.out)[0]["repeats"] == run["repeats"]);
  CHECK(run["sensitivity"].is_null());
}

TEST_CASE("noise over replicas: who came last, and the same numbers as with all events at once") {
  const Sandbox sandbox;
  sandbox.file("job.toml", R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 1024
vocab = 4096
[cluster]
preset = "dgx-h100"
gpus = 64
[parallel]
tp = 2
pp = 4
vpp = 2
dp = 8
micro_batch = 1
global_batch = 64
[variability]
jitter = 0.05
straggler_nodes = [3]
straggler_factor = 1.5
)");
  const std::string command = "simulate job.toml --engine ideal ";
  Json run;
  for (const std::string size :
       {"--set cluster.gpus=3072 --set parallel.dp=384 --set parallel.global_batch=3072 ", ""}) {
    const Json at_once =
        Json::parse(sandbox.tandem(command + size + "--json --trace /dev/null").out)[0];
    run = Json::parse(sandbox.tandem(command + size + "--json").out)[0];
    CHECK(run["ranks_simulated"] == (size.empty() ? 64 : 3072));
    for (const auto& [key, value] : run.items()) {
      INFO(key);
      CHECK((key == "engine_wall_s" || value == at_once[key]));
    }
  }

  const Json repeats = Json::parse(sandbox.tandem(command + "--repeat 5 --json").out)[0]["repeats"];
  REQUIRE(repeats["each"].size() == 5);
  CHECK(repeats["each"][0]["iteration_s"] == run["iteration_s"]);
  for (const Json& each : repeats["each"]) {
    CHECK(each["last"]["slow_nodes"] == Json({3}));
    CHECK(each["last"]["rank"].get<int>() < 64);
  }
  // With ZeRO gradients are scattered: who comes last to the norm or to the gathering of parameters
  // is another question.
  const std::string zero = "--set train.zero=1 --set overlap.param_gather=true ";
  const Json sharded = Json::parse(sandbox.tandem(command + zero + "--repeat 5 --json").out)[0];
  for (const Json& each : sharded["repeats"]["each"])
    CHECK(each["last"]["slow_nodes"] == Json({3}));
  const std::string table = sandbox.tandem(command + "--repeat 5").out;
  CHECK(table.find("last replica  slow node there") != std::string::npos);
}

TEST_CASE("simulate --sensitivity prints each part, the one that counts most first in the table") {
  const Sandbox sandbox;
  // Two stages, four microbatches of 3 ms: 10 % of stage 1 is 4 x 0.3 ms, of stage 0 3 x 0.3 ms, as
  // its warm-up forward and its last backward fall into its waits.
  sandbox.file("job.toml", kTwoStages);
  const std::string command = "simulate job.toml --engine ideal --set costs.p2p_s=0 --sensitivity ";
  const Json run = Json::parse(sandbox.tandem(command + "--json").out)[0];
  REQUIRE(run["sensitivity"].size() == 2);
  CHECK(run["sensitivity"][0]["part"] == "stage 0");
  CHECK(run["sensitivity"][0]["seconds"].get<double>() == Approx(0.0009));
  CHECK(run["sensitivity"][1]["seconds"].get<double>() == Approx(0.0012));
  CHECK(run["sensitivity"][1]["of_iteration"].get<double>() == Approx(0.0012 / 0.015));
  const std::string table = sandbox.tandem(command).out;
  CHECK(table.find("+1.200") < table.find("+0.900"));
  CHECK(table.find("+0.900") != std::string::npos);
  CHECK(run["repeats"].is_null());
}

TEST_CASE("a scenario with a straggler is written as a Program, read, simulated and run") {
  const Sandbox box;
  box.file("job.toml", R"([parallel]
pp = 2
dp = 2
global_batch = 8
[costs]
source = "uniform"
forward_s = 0.002
backward_s = 0.004
p2p_s = 0.0001
[variability]
straggler_factor = 2.0
straggler_ranks = [1]
)");
  const Ran written = box.tandem("schedule job.toml --format program");
  REQUIRE(written.status == 0);
  box.file("job.csv", written.out);
  // Rank 1, first stage of the second replica, forwards in 4 ms and sends in 0.1; its second stage
  // has the gradient 6 ms later, and 0.1 for the way: 10.2 ms. Then four backwards of 8 ms and two
  // forwards, with a transfer before each backward but the first.
  for (const std::string options : {"", " --unfolded"}) {
    const Ran ran = box.tandem("simulate job.csv --json" + options);
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    CHECK(Json::parse(ran.out)[0]["iteration_s"].get<double>() == Approx(0.0102 + 0.04 + 0.0003));
  }
  const Ran run = box.tandem("run job.csv --backend host --json");
  INFO(run.err);
  CHECK(run.status == 0);
}

TEST_CASE("a Program is refused with --repeat or --sensitivity") {
  const Sandbox sandbox;
  sandbox.file("job.toml", kTwoStages);
  const Ran program = sandbox.tandem("schedule job.toml --format program");
  check_done(program);
  sandbox.file("job.csv", program.out);
  for (const char* option : {"--repeat 3", "--sensitivity"})
    check_refused(sandbox.tandem(std::string("simulate job.csv ") + option),
                  std::string("job.csv: found ") + std::string(option).substr(0, 8));
}
