// tandem validate of a log: what a run of Megatron-LM measured, beside what its plan is said to
// take.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/interop/small_log.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

// The plan of kSmallLog, and six iterations: the last two count.
std::string log_of(double seconds) {
  std::string log = kSmallLogArguments;
  for (int i = 1; i <= 3; ++i) log += iteration_line(i, "99000.0", "1.0");
  for (int i = 4; i <= 5; ++i)
    log += iteration_line(i, fmt::format("{:.9f}", 1e3 * seconds), "400.0");
  return log + memory_line(0, "20480.0") + memory_line(8, "30720.0");
}

Json compared(const Sandbox& box, const std::string& log, const std::string& more = "") {
  box.file("train.log", log);
  const Ran ran = box.tandem("validate train.log --cluster dgx-h100 --json " + more);
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  return Json::parse(ran.out);
}

}  // namespace

TEST_CASE("a log that took what is simulated has no error, one that took twice as long half") {
  const Sandbox box;
  const double predicted_s = compared(box, log_of(1)).at("predicted_s");
  const Json same = compared(box, log_of(predicted_s));
  CHECK(same.at("predicted_s") == predicted_s);
  CHECK(same.at("error").get<double>() == Approx(0).margin(1e-9));
  CHECK(same.at("inside") == true);
  CHECK(same.at("iterations") == 2);
  CHECK(same.at("warmup") == 3);
  CHECK(same.at("gpus") == 16);
  // The log's FLOPs in the same time are its TFLOP/s.
  CHECK(same.at("predicted_tflops_per_gpu").get<double>() == Approx(400));
  CHECK(same.at("log_flops").get<double>() == Approx(400e12 * 16 * predicted_s));
  // The fullest of both ranks: 30720 MiB.
  CHECK(same.at("measured_bytes") == 30720.0 * 1024 * 1024);
  CHECK(same.at("bytes_error").get<double>() ==
        Approx(same.at("predicted_bytes").get<double>() / (30720.0 * 1024 * 1024) - 1));

  const Json twice = compared(box, log_of(2 * predicted_s));
  CHECK(twice.at("error").get<double>() == Approx(-0.5));
  CHECK(twice.at("predicted_tflops_per_gpu").get<double>() == Approx(800));
  const Json far = compared(box, log_of(100 * predicted_s));
  CHECK(far.at("inside") == false);
}

TEST_CASE("the simulated run of a log is that of a scenario with parallel.from") {
  const Sandbox box;
  const Json log = compared(box, log_of(1), "--set parallel.micro_batch=2");
  box.file("s.toml",
           "[parallel]\nfrom = \"train.log\"\nmicro_batch = 2\n[cluster]\npreset = \"dgx-h100\"\n");
  const Ran ran = box.tandem("simulate s.toml --engine ideal --json");
  REQUIRE(ran.status == 0);
  const Json run = Json::parse(ran.out).at(0);
  CHECK(run.at("iteration_s") == log.at("predicted_s"));
  CHECK(run.at("iteration_high_s") == log.at("high_s"));
  CHECK(run.at("memory_bytes").at("total") == log.at("predicted_bytes"));
}

TEST_CASE(
    "a log's table has iteration, peak and TFLOP/s, and what was not understood is warned of") {
  const Sandbox box;
  box.file("train.log", log_of(1));
  const Ran ran = box.tandem("validate train.log --cluster dgx-h100");
  CHECK(ran.status == 0);
  CHECK(ran.err ==
        "warning: train: parallel.from: not understood: train.log:25: some_new_argument "
        "3\n");
  CHECK(ran.out.starts_with("train.log: 16 GPUs, dgx-h100, engine ideal\n\n"));
  CHECK(ran.out.find("\niteration s ") != std::string::npos);
  CHECK(ran.out.find("\npeak GiB ") != std::string::npos);
  CHECK(ran.out.find(" 30.00 ") != std::string::npos);
  CHECK(ran.out.find("\nTFLOP/s/GPU ") != std::string::npos);
  CHECK(ran.out.find("median of 2 in the log, the first 3 left out") != std::string::npos);
  // Under another name it is told by what is in it.
  box.file("out.txt", log_of(1));
  const Ran other = box.tandem("validate out.txt --cluster dgx-h100 --gpus 16");
  CHECK(other.out.starts_with("out.txt: 16 GPUs"));
  // The arguments of a run that crashed are not held against the times of the one before.
  box.file("crashed.log", log_of(1) +
                              "using world size: 16\n-- arguments --\n"
                              "  tensor_model_parallel_size ............. 8\n"
                              "-- end of arguments --\nOutOfMemoryError\n");
  const Ran crashed = box.tandem("validate crashed.log --cluster dgx-h100");
  const auto row = [](const std::string& out) {
    const std::size_t begin = out.find("\niteration s ");
    REQUIRE(begin != std::string::npos);
    return out.substr(begin, out.find('\n', begin + 1) - begin);
  };
  CHECK(row(crashed.out) == row(ran.out));
  CHECK(crashed.err.find("crashed.log:42 to 46: a later run in this log, which measured nothing") !=
        std::string::npos);
}

TEST_CASE("a log without memory or TFLOP/s is compared by what it has") {
  const Sandbox box;
  const Json time = compared(
      box, kSmallLogArguments + " iteration 1/ 5 | elapsed time per iteration (ms): 7000.0 |\n");
  CHECK(time.at("measured_s") == 7.0);
  CHECK(time.at("measured_bytes").is_null());
  CHECK(time.at("warnings")
            .dump()
            .find("train.log: found 1 iterations, expected more than 3: the first ones compile") !=
        std::string::npos);
  CHECK(time.at("bytes_error").is_null());
  CHECK(time.at("predicted_tflops_per_gpu").is_null());
  const Json memory = compared(box, kSmallLogArguments + memory_line(0, "1024.0"));
  CHECK(memory.at("measured_s").is_null());
  CHECK(memory.at("warnings").dump().find("iterations") == std::string::npos);
  CHECK(memory.at("inside").is_null());
  CHECK(memory.at("measured_bytes") == 1024.0 * 1024 * 1024);
}

TEST_CASE("iterations without an optimizer step do not count") {
  // As with fp16: 20 iterations overflow at 1 s each, then 20 take 1.5 s. The first 3 of these are
  // the warm-up. A line of several iterations with one that was skipped does not count either.
  const Sandbox box;
  const auto iterations = [](int first, int last, const std::string& ms, int skipped) {
    std::string text;
    for (int i = first; i <= last; ++i) {
      text += iteration_line(i, ms, "400.0");
      text.insert(text.size() - 1, fmt::format(" number of skipped iterations: {} |", skipped));
    }
    return text;
  };
  const std::string skipped = kSmallLogArguments + iterations(1, 20, "1000.0", 1);
  const Json log = compared(box, skipped + iterations(21, 40, "1500.0", 0));
  CHECK(log.at("measured_s") == 1.5);
  CHECK(log.at("iterations") == 17);
  CHECK(log.at("warnings")
            .dump()
            .find("left out: train.log: 20 iterations without an optimizer step (skipped)") !=
        std::string::npos);
  box.file("job.toml", "parallel.from = 'train.log'\ncluster.preset = 'dgx-h100'\n");
  const Ran ran = box.tandem("explain job.toml train.log --engine ideal --json");
  CHECK(Json::parse(ran.out).at("measured_s") == 1.5);
  CHECK(Json::parse(ran.out).at("causes").empty());
  CHECK(Json::parse(ran.out).at("notes").at(0) ==
        "20 skipped iterations, without an optimizer step, do not count.");
  box.file("train.log", skipped + iterations(21, 26, "1500.0", 0));
  check_refused(box.tandem("calibrate run job.toml train.log --engine ideal"),
                "train.log: found 6 iterations with an optimizer step, expected at least 13");
  box.file("train.log", skipped);
  check_refused(box.tandem("validate train.log --cluster dgx-h100"),
                "train.log: found no iteration that counts, expected some of the job's batch");
}

TEST_CASE("iterations whose time is no number above 0 do not count, and are told") {
  const Sandbox box;
  std::string text = kSmallLogArguments;
  for (int i = 1; i <= 20; ++i) text += iteration_line(i, "1500.0", "400.0");
  for (const char* ms : {"0.0", "-1500.0", "nan"}) text += iteration_line(21, ms, "400.0");
  text += "elapsed time per iteration (ms): see the lines above\n";  // prose, no iteration
  const Json log = compared(box, text);
  CHECK(log.at("iterations") == 17);
  CHECK(has(log.at("warnings").dump(),
            "left out: train.log: 3 lines of iterations whose time is not above 0"));
  box.file("job.toml", "parallel.from = 'train.log'\ncluster.preset = 'dgx-h100'\n");
  const Ran ran = box.tandem("explain job.toml train.log --engine ideal --json");
  CHECK(Json::parse(ran.out).at("notes").at(0) ==
        "3 lines of iterations whose time is not above 0 do not count.");
}

TEST_CASE("of two logs one tells of iterations, the other of arguments and memory alone") {
  const Sandbox box;
  box.file("rank0.log", kSmallLogArguments + memory_line(0, "30720.0"));
  std::string steps;
  for (int i = 1; i <= 5; ++i) steps += iteration_line(i, "2000.0", "400.0");
  for (const std::string& memory : {std::string(), memory_line(8, "20480.0")}) {
    box.file("rank15.log", steps + memory);
    const Ran ran = box.tandem("validate rank15.log rank0.log --cluster dgx-h100 --json");
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    CHECK(Json::parse(ran.out).at("measured_s") == 2);
    CHECK(Json::parse(ran.out).at("measured_bytes") == 30720.0 * 1024 * 1024);
  }
  // Parts of one log, as where it was rotated.
  box.file("train.log", kSmallLogArguments + steps);
  box.file("train.log.1", steps);
  for (const std::string files : {"train.log train.log.1", "train.log.1 train.log"})
    check_refused(box.tandem("validate " + files + " --cluster dgx-h100"),
                  "train.log.1: found a second log with iterations, beside train.log, expected "
                  "one: join the logs of one run");
}

TEST_CASE("a log that is packed with gzip is read as it was") {
  const Sandbox box;
  const Json plain = compared(box, log_of(1));
  REQUIRE(std::system(fmt::format("gzip '{}'", box.path("train.log")).c_str()) == 0);
  const Ran ran = box.tandem("validate train.log.gz --cluster dgx-h100 --json");
  CHECK(ran.status == 0);
  CHECK(Json::parse(ran.out).at("measured_s") == plain.at("measured_s"));
  CHECK(Json::parse(ran.out).at("predicted_s") == plain.at("predicted_s"));
  box.file("job.toml", "parallel.from = 'train.log.gz'\ncluster.preset = 'dgx-h100'\n");
  for (const std::string command : {"explain", "calibrate run"})
    check_refused(box.tandem(command + " job.toml train.log.gz --engine ideal"),
                  "train.log.gz: found 5 iterations, expected at least 13");
}

TEST_CASE("a packed log that is cut off or not of gzip is refused as such") {
  const Sandbox box;
  box.file("train.log", log_of(1));
  REQUIRE(std::system(fmt::format("gzip '{}'", box.path("train.log")).c_str()) == 0);
  box.file("cut.gz", box.read("train.log.gz").substr(0, 300));
  box.file("log.xz", "\xFD\x37zXZ");
  box.file("job.toml", "parallel.from = 'train.log.gz'\ncluster.preset = 'dgx-h100'\n");
  for (const std::string command :
       {"validate ", "validate --cluster dgx-h100 ", "import ", "explain --engine ideal job.toml ",
        "calibrate run --engine ideal job.toml "}) {
    check_refused(box.tandem(command + "cut.gz"), "cut.gz: ends inside its gzip data, behind ");
    check_refused(box.tandem(command + "log.xz"), "log.xz: found xz data, expected gzip or a");
  }
}

TEST_CASE("a log without a plan, a measurement, a cluster or a number of GPUs is refused") {
  const Sandbox box;
  box.file("train.log", log_of(1));
  box.file("bare.log", iteration_line(1, "1000.0", "400.0"));
  box.file("early.log", kSmallLogArguments);
  check_refused(box.tandem("validate train.log"),
                "train.log: found no cluster, expected --cluster PRESET, one of ");
  check_refused(box.tandem("validate bare.log --cluster dgx-h100"),
                "bare.log: found no plan, expected Megatron-LM's block '-- arguments");
  // Numbers that go back are of a run whose arguments are not in the log.
  box.file("back.log",
           log_of(1) + iteration_line(1, "1000.0", "400.0") + iteration_line(2, "1000.0", "400.0"));
  check_refused(box.tandem("validate back.log --cluster dgx-h100"),
                "back.log: found no plan in the run that counts (left out: back.log:1 to 41: an "
                "earlier run in this log), expected Megatron-LM's block '-- arguments --'");
  check_refused(box.tandem("validate early.log --cluster dgx-h100"),
                "early.log: found no measurement, expected lines such as 'elapsed");
  box.file(
      "other.log", kSmallLogArguments + [] {
        std::string line = iteration_line(1, "1000.0", "400.0");
        return line.replace(line.find("size: 128"), 9, "size:  32");
      }());
  check_refused(
      box.tandem("validate other.log --cluster dgx-h100"),
      "other.log: found no iteration that counts, expected some of the job's batch; left out: "
      "other.log: the times of 1 iterations whose global batch size, such as 32, is not 128");
  check_refused(box.tandem("validate train.log --cluster nowhere"), "");
  check_refused(box.tandem("validate none.log --cluster dgx-h100"), "none.log: no such file");
  // Times of 16 GPUs say nothing of 32.
  check_refused(box.tandem("validate train.log --cluster dgx-h100 --gpus 32"),
                "train.log: found a world size of 16 in the log, expected the job's 32 GPUs");
  check_refused(box.tandem("validate train.log --cluster dgx-h100 --set parallel.tp=3"),
                "train.log:");
  check_refused(box.tandem("validate train.log --cluster dgx-h100 --set model.layers=32"),
                "--set: found model.layers = 32, expected model.hidden and the model's other sizes "
                "too: beside it the imported model does not count");
  std::string unsized = log_of(1);
  for (const char* name : {"world_size", "data_parallel_size"})
    unsized.replace(unsized.find(name), 5, "other");
  box.file("unsized.log", unsized);
  check_refused(box.tandem("validate unsized.log --cluster dgx-h100"),
                "unsized.log: found no world_size among its arguments, expected --gpus N");
}

TEST_CASE("options of suites and lists are refused with a log, and a log's with them") {
  const Sandbox box;
  box.file("train.log", log_of(1));
  box.file("s.toml", kTwoStages);
  box.file("c.csv", "id\n");
  for (const std::string option : {"--iterations 3", "--family x", "--csv a.csv", "--only x"})
    check_refused(box.tandem("validate train.log --cluster dgx-h100 " + option),
                  "train.log: found " + option.substr(0, option.find(' ')) + ", expected it with ");
  check_refused(box.tandem("validate s.toml --cluster dgx-h100"),
                "s.toml: found --cluster, expected it with a log only");
  check_refused(box.tandem("validate c.csv --gpus 8"),
                "c.csv: found --gpus, expected it with a log only");
  CHECK(box.files() == Names{"c.csv", "s.toml", "train.log"});
}
