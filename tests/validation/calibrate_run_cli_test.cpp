// tandem calibrate run: from files of a run to a software that predicts it, and what is refused.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/interop/small_log.h"
#include "tests/sandbox.h"

using namespace tandem;
using Catch::Contains;

namespace {

using Json = nlohmann::json;

constexpr const char* kJob =
    "model.layers = 16\nmodel.hidden = 4096\nmodel.heads = 32\nmodel.seq = 2048\n"
    "model.vocab = 32000\nparallel.tp = 2\nparallel.pp = 2\nparallel.dp = 4\n"
    "parallel.global_batch = 128\ncluster.preset = \"dgx-h100\"\ncluster.gpus = 16\n";

constexpr const char* kHidden =
    "base = \"nemo-h100\"\n"
    "compute_stretch = {value = 1.2, source = \"hidden\"}\n"
    "data_stretch = {value = 2, source = \"hidden\"}\n";

double simulated_s(const Sandbox& box, const std::string& more) {
  const Ran ran = box.tandem("simulate job.toml --json " + more);
  check_done(ran);
  return Json::parse(ran.out).at(0).at("iteration_s").get<double>();
}

}  // namespace

TEST_CASE("a run's profiles give a software that predicts the run, by either engine") {
  const Sandbox box;
  box.file("job.toml", kJob);
  box.file("hidden.toml", kHidden);
  check_done(
      box.tandem("simulate job.toml --engine ideal --kineto p --set costs.software=hidden.toml"));
  const Ran ran = box.tandem("calibrate run job.toml p -o mine.toml --json");
  check_done(ran);
  const Json found = Json::parse(ran.out);
  CHECK(found.at("constants").at(0).at("key") == "compute_stretch");
  CHECK(found.at("constants").at(0).at("after").get<double>() == Approx(1.2).epsilon(0.01));
  CHECK(found.at("constants").at(0).at("determined") == true);
  CHECK(found.at("measured_s").get<double>() ==
        Approx(found.at("simulated_s").get<double>()).epsilon(0.03));
  CHECK(found.at("is_evidence") == true);
  for (const Json& each : found.at("classes"))
    CHECK(each.at("measured_over_simulated").get<double>() == Approx(1).epsilon(0.02));
  for (const std::string engine : {" --engine ideal", " --engine simgrid"})
    CHECK(simulated_s(box, "--set costs.software=mine.toml" + engine) ==
          Approx(simulated_s(box, "--set costs.software=hidden.toml" + engine)).epsilon(0.01));
  CHECK(simulated_s(box, "--set costs.software=mine.toml --engine simgrid") ==
        Approx(found.at("simulated_s").get<double>()).epsilon(1e-9));
}

TEST_CASE("a software can be calibrated again, from another folder, on a log") {
  const Sandbox box;
  box.file("job.toml", kJob);
  check_done(box.tandem("calibrate run job.toml --iteration 0.5 --engine ideal -o mine.toml"));
  std::string log;
  for (int i = 1; i <= 20; ++i) log += iteration_line(i, "520.0", "400.0");
  box.file("train.log", log);
  std::filesystem::create_directory(box.path("other"));
  const Ran ran = box.tandem(
      "calibrate run job.toml train.log --set costs.software=mine.toml -o other/mine.toml");
  check_done(ran);
  CHECK_THAT(ran.out, Contains("measured 0.52 s"));
  // Of two runs the last one counts.
  std::string two = "using world size: 16\n";
  for (int i = 1; i <= 20; ++i) two += iteration_line(i, "900.0", "400.0");
  box.file("two.log", two + "using world size: 16\n" + log);
  const Ran last = box.tandem("calibrate run job.toml two.log --engine ideal -o two.toml");
  check_done(last);
  CHECK_THAT(last.out, Contains("measured 0.52 s"));
  CHECK_THAT(last.out, Contains("left out: two.log:1 to 21: an earlier run in this log"));
  // A last run of too few iterations leaves the one before.
  box.file("short.log", log + "using world size: 16\n" + iteration_line(21, "900.0", "400.0"));
  const Ran before = box.tandem("calibrate run job.toml short.log --engine ideal -o short.toml");
  check_done(before);
  CHECK_THAT(before.out, Contains("measured 0.52 s"));
  CHECK_THAT(before.out, Contains("left out: short.log:21 to 22: a later run in this log, which "
                                  "measured 1 iterations only"));
  CHECK_THAT(box.read("other/mine.toml"), Contains("base = \"../mine.toml\""));
  CHECK_THAT(box.read("other/mine.toml"), Contains("an iteration of 0.52 s of job.toml"));
  CHECK(simulated_s(box, "--set costs.software=other/mine.toml") > 0);
}

TEST_CASE("calibrate run refuses what it cannot use, in one line, and writes nothing") {
  const Sandbox box;
  box.file("job.toml", kJob);
  check_done(box.tandem("simulate job.toml --engine ideal --kineto p --set model.seq=3072"));
  std::string log;
  for (int i = 1; i <= 20; ++i) log += iteration_line(i, "520.0", "400.0");
  box.file("train.log", log);
  box.file("second.log", log);
  box.file("short.log", iteration_line(1, "520.0", "400.0"));
  box.file("stages.toml",
           "model.layers = 8\nparallel.pp = 2\nparallel.global_batch = 4\n"
           "costs.forward_s = 0.01\ncosts.backward_s = 0.02\n");
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Ran ran = box.tandem("calibrate run " + arguments + " -o mine.toml");
    INFO(arguments << ": " << ran.err);
    CHECK(ran.status == 2);
    CHECK_THAT(ran.err, Contains(why));
    CHECK(std::ranges::count(ran.err, '\n') == 1);
    CHECK(!std::filesystem::exists(box.path("mine.toml")));
  };
  refused("job.toml", "found no times of a run");
  refused("job.toml p", "transfers between stages of 16.8 MB against 25.2 MB");
  refused("job.toml train.log second.log", "found a second log beside train.log");
  refused("job.toml train.log --iteration 1", "found a log beside --iteration");
  refused("job.toml short.log", "found 1 iterations, expected at least");
  refused("job.toml none", "none: no such file");
  refused("stages.toml --iteration 1", "expected prices of a model");
  refused("job.toml --iteration nan", "--iteration: found nan, expected 1e-09 to 1e+09");
  refused("job.toml --iteration 500", "found an iteration of 500 s, simulated with");
  box.file("junk.log", "1 2 3\n");
  refused("job.toml junk.log", "found neither a profile");
  box.file("other.log", "-- arguments --\n  tensor_model_parallel_size .... 8\n" + log);
  refused("job.toml other.log",
          "other.log:2: found tensor_model_parallel_size = 8, expected the scenario's 2");
  refused("job.toml train.log --set parallel.global_batch=32", "expected 32, the job's");
}

TEST_CASE("calibrate run writes over no file that it reads, a software's bases included") {
  const Sandbox box;
  box.file("job.toml", kJob);
  check_done(box.tandem("simulate job.toml --engine ideal --kineto p"));
  check_done(box.tandem("calibrate run job.toml --iteration 4 --engine ideal -o a.toml"));
  check_done(
      box.tandem("calibrate run job.toml --iteration 4 --engine ideal -o b.toml "
                 "--set costs.software=a.toml"));
  std::filesystem::rename(box.path("p/rank-0.json"), box.path("p/rank-0.toml"));
  std::filesystem::create_symlink("rank-0.toml", box.path("p/rank-0.json"));
  for (const auto& [arguments, why] : {
           std::pair{"--iteration 4 --set costs.software=b.toml -o a.toml", "a.toml"},
           {"p -o p/rank-0.toml", "p/rank-0.toml"},
           {"--iteration 4 -o mine", "found no ending .toml"},
       }) {
    const Ran ran = box.tandem(std::string("calibrate run job.toml ") + arguments);
    INFO(arguments << ": " << ran.err);
    CHECK(ran.status == 2);
    CHECK_THAT(ran.err, Contains(why));
  }
  CHECK_THAT(box.read("a.toml"), Contains("base = \"nemo-h100\""));
}
