// What asks for too much is counted and refused before any of it is made.
#include <nlohmann/json.hpp>

#include "tests/sandbox.h"

using namespace tandem;
using Catch::Contains;

namespace {

using Json = nlohmann::json;

// So many whole numbers from 1 on, as a list.
std::string numbers(int count) {
  std::string text = "[1";
  for (int i = 2; i <= count; ++i) text += fmt::format(", {}", i);
  return text + "]";
}

const std::string kModel = R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 512
vocab = 32000
[parallel]
tp = 2
pp = 2
dp = 2
global_batch = 64
[cluster]
preset = "selene"
gpus = 8
)";

}  // namespace

TEST_CASE("a matrix of 1e8 runs is refused with its axes and the key that allows it") {
  const Sandbox box;
  // Two axes of 10,000.
  box.file("big.toml", kTwoStages + "[matrix]\nvariability.seed = " + numbers(10'000) +
                           "\nparallel.micro_batch = " + numbers(10'000) + "\n");
  const std::string found =
      "big.toml: found 100000000 runs, 10000 of variability.seed x 10000 of parallel.micro_batch, "
      "expected at most limits.runs = 100000; --set limits.runs=100000000 allows them\n";
  for (const char* arguments :
       {"simulate big.toml", "sweep big.toml -o o.csv", "run big.toml", "tune big.toml",
        "size big.toml", "schedule big.toml", "validate big.toml", "simulate big.toml --only x"}) {
    INFO(arguments);
    check_refused(box.tandem(arguments), found);
  }
  CHECK(box.files() == Names{"big.toml"});
}

TEST_CASE("as many runs as limits.runs says are played, one more is not") {
  const Sandbox box;
  const std::string matrix = "[matrix]\nvariability.seed = [1, 2, 3]\nparallel.pp = [1, 2]\n";
  box.file("five.toml", kTwoStages + "[limits]\nruns = 5\n" + matrix);
  check_refused(box.tandem("simulate five.toml"), "five.toml: found 6 runs, 3 of ");
  check_refused(box.tandem("sweep five.toml -o o.csv"), "five.toml: found 6 runs, 3 of ");
  const Ran ran = box.tandem("sweep five.toml -o o.csv --engine ideal --set limits.runs=6");
  CHECK(ran.status == 0);
  CHECK(ran.out == "o.csv: 6 rows\n");
}

TEST_CASE("a global batch of 1e7 is refused with its ops and the key that allows them") {
  const Sandbox box;
  box.file("big.toml", kTwoStages);
  box.file("model.toml", kModel);
  // A forward and a backward on each of two stages, and a send and a receive each way.
  for (const char* arguments :
       {"simulate big.toml", "simulate big.toml --engine ideal", "schedule big.toml",
        "schedule big.toml --format program", "run big.toml"}) {
    INFO(arguments);
    check_refused(box.tandem(std::string(arguments) + " --set parallel.global_batch=10000000"),
                  "--set: found 10000000 microbatches of 8 ops, 8e+07 in all, expected at most "
                  "limits.ops = 5e+07; --set limits.ops=8.8e+07 allows them\n");
  }
  const Ran model = box.tandem("simulate model.toml --set parallel.global_batch=10000000");
  check_refused(model, "--set: found 5000000 microbatches of ");
  // A microbatch of its own for each sequence: 2.5 million and more of each replica, and six ops of
  // each, more than a quarter of 5e7.
  const Ran tuned = box.tandem(
      "tune model.toml --set parallel.global_batch=10000000 --among parallel.tp=2 --among "
      "parallel.micro_batch=1");
  check_refused(tuned, "model.toml: found ");
  CHECK_THAT(tuned.err, Contains(" plans and none that can be played, expected fewer microbatches "
                                 "or more ops than limits.ops = 5e+07\n"));
}

TEST_CASE("the ops that are counted are those that are played, of all ranks that are not folded") {
  const Sandbox box;
  box.file("model.toml", kModel);
  // DualPipe splits some of its backwards only, and is counted as if it split all.
  struct Job {
    const char* sets;
    double over = 1.02;
  };
  for (const auto& [sets, over] :
       {Job{""}, Job{" --set parallel.vpp=2"}, Job{" --set schedule.order=zb1p"},
        Job{" --set schedule.order=gpipe"}, Job{" --set schedule.order=zbv"},
        Job{" --set schedule.order=dualpipev", 1.3},
        Job{" --set train.sequence_parallel=true --set overlap.tensor=ring"},
        Job{" --set parallel.scatter_gather=true"}, Job{" --set variability.jitter=0.1"}}) {
    INFO(sets);
    const std::string command = std::string("simulate model.toml --engine ideal --json") + sets;
    const Ran ran = box.tandem(command);
    REQUIRE(ran.status == 0);
    const double ops = Json::parse(ran.out)[0]["ops"];
    // Data parallelism and the optimizer come once, beside 32 microbatches: a tenth at most.
    CHECK(box.tandem(fmt::format("{} --set limits.ops={:.0f}", command, over * ops)).status == 0);
    const Ran refused = box.tandem(fmt::format("{} --set limits.ops={:.0f}", command, 0.85 * ops));
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Contains(": found 32 microbatches of "));
  }
}

TEST_CASE("an order of too many stages is refused before it is made, and so is its grid") {
  const Sandbox box;
  box.file("many.toml",
           "[parallel]\npp = 50000\nglobal_batch = 400\n[costs]\nsource = \"uniform\"\n"
           "forward_s = 1\nbackward_s = 2\n");
  // Each would take minutes to make or to draw.
  for (const std::string order :
       {"gpipe", "1f1b", "zb1p", "zbv", "v-min", "interleaved-zb", "dualpipe", "auto"}) {
    INFO(order);
    const std::string sets = "many.toml --set schedule.order=" + order;
    const std::string within = "timeout 60";
    check_refused(box.tandem("simulate --engine ideal " + sets, within), "many.toml:2: found ");
    check_refused(box.tandem("schedule --explain " + sets, within), "many.toml:2: found ");
    if (order == "auto") continue;
    const Ran grid =
        box.tandem("schedule --pp 50000 --microbatches 100000 --order " + order, within);
    check_refused(grid, "found an");
    check_refused(
        box.tandem("schedule --pp 50000 --microbatches 100 --order " + order, within),
        order == "dualpipe" ? "order dualpipe: found 100" : "found a grid of 50000 ranks");
  }
}

TEST_CASE("a search for a million GPUs ends in time, and below 4 GiB") {
  const Sandbox box;
  box.file("model.toml", kModel);
#ifdef TANDEM_SANITIZED
  const std::string within = "timeout 250";
#else
  const std::string within = "timeout 60 prlimit --as=4294967296 --core=0";
#endif
  const Ran ran = box.tandem(
      "tune model.toml --engine ideal --jobs 4 --seconds 2 --set cluster.gpus=1000000 --set "
      "parallel.global_batch=1000000 --set parallel.tp=1 --set parallel.pp=1 --set "
      "parallel.dp=1000000",
      within);
  INFO(ran.out << ran.err);
  CHECK((ran.status == 0 || ran.status == 1));
  if (ran.status == 1) CHECK(ran.err == "stopped before the first plan was played\n");
}
