// The program itself: exit statuses, what goes to stdout and stderr, the files it leaves.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "base/csv.h"
#include "tests/sandbox.h"
#include "tests/seed.h"
#include "tests/text.h"

using namespace tandem;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kSource = TANDEM_SOURCE_DIR;

// Two stages of two tensor ranks and two replicas, on one node.
const std::string kSmall = R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 512
vocab = 32000
[parallel]
tp = 2
pp = 2
dp = 2
micro_batch = 1
global_batch = 8
[cluster]
preset = "selene"
gpus = 8
)";

const std::string kUniform = R"([parallel]
pp = 2
global_batch = 2
[costs]
source = "uniform"
forward_s = 1
backward_s = 2
[schedule]
order = "two.csv"
)";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The runs that `simulate ... --json` prints.
Json runs_of(const Sandbox& box, const std::string& arguments) {
  const Ran ran = box.tandem("simulate " + arguments + " --json");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  return Json::parse(ran.out);  // throws where anything else is printed
}

double iteration_s(const Sandbox& box, const std::string& arguments) {
  return runs_of(box, arguments).at(0).at("iteration_s");
}

void need_simgrid(const Sandbox& box) {
  const std::string doctor = box.tandem("doctor").out;
  if (!std::regex_search(doctor, std::regex("engine simgrid +ready")))
    FAIL("skipped: " << doctor);  // as tests/needs.h has it
}

std::string without_wall_time(const std::string& json) {
  return std::regex_replace(json, std::regex("\"engine_wall_s\": [0-9.e+-]+"), "");
}

Names file_names(const fs::path& folder, const std::string& extension) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("help and version go to stdout, and every command has an example") {
  const Sandbox box;
  const Ran help = box.tandem("--help");
  check_done(help);
  for (const std::string command : {"simulate", "run", "compare", "validate", "bench", "calibrate",
                                    "schedule", "topology", "doctor"}) {
    CHECK(help.out.find("\n  " + command + " ") != std::string::npos);
    const Ran ran = box.tandem(command + " --help");
    INFO(command);
    check_done(ran);
    CHECK(ran.out.find("Example: tandem " + command) != std::string::npos);
  }
  std::size_t last = 0;
  for (const char* group : {"Plan", "Simulate", "Run for real", "Compare with what was measured",
                            "Exchange with other tools"}) {
    const std::size_t at = help.out.find(fmt::format("\n\n{}:\n", group));
    INFO(group);
    CHECK((at != std::string::npos && at > last));
    last = at;
  }
  CHECK(box.tandem("--version").out.starts_with("tandem 0.1.0"));
}

TEST_CASE("wrong use is one line on stderr and exit status 2") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  for (const std::string arguments :
       {"", "simulat small.toml", "simulate", "simulate small.toml --engin ideal",
        "simulate small.toml --engine quick", "simulate small.toml other.toml",
        "simulate small.toml --jobs 0", "schedule --format text", "schedule --pp two",
        "schedule --order 1f1b --pp 0", "topology", "topology selene --format picture"}) {
    INFO(arguments);
    check_refused(box.tandem(arguments), "");
  }
  check_refused(box.tandem("schedule"), "found neither a file nor --order, expected one of them");
  check_refused(box.tandem("schedule --order 1f2b"), "found order '1f2b', expected one of ");
  check_refused(box.tandem("schedule --order 1f1b --format program"),
                "found --format program without a scenario, expected SCENARIO.toml");
  check_refused(box.tandem("schedule --order 1f1b --explain --format pytorch"),
                "found --explain, expected --format grid with it");
  check_refused(box.tandem("schedule --order 1f1b --only x"),
                "found --only, expected it with a SCENARIO.toml only");
  check_refused(box.tandem("schedule --order 1f1b --pp 99999999999"),
                "--pp: found 99999999999, expected at most 2147483647");
  check_refused(box.tandem("schedule --order 1f1b --pp 010"),
                "--pp: found 010, expected a whole number of at least 1");
  check_refused(box.tandem("schedule --order 1f1b --costs 1,2"), "--costs: found 2 numbers, exp");
  check_refused(box.tandem("schedule --order 1f1b --costs 1,2,x"), "--costs: found '1,2,x', exp");
  check_refused(box.tandem("schedule --order 1f1b --costs 1,1e9,1"), "--costs: found ");
  for (const std::string explain : {"", " --explain"})
    check_refused(box.tandem("schedule --order 1f1b --costs 0,0,0" + explain),
                  "--costs: found F, I and W of 0, expected times above 0");
  check_refused(box.tandem("simulate small.toml --set parallel.tp"), "--set: found 'parallel.tp'");
  check_refused(box.tandem("simulate small.toml --only 39B"), "--only: found no run whose name");
  check_refused(box.tandem("simulate small.toml --plot x.svg --files-of x"),
                "--files-of: found no run 'x'");
  check_refused(box.tandem("topology selen"),
                "found preset 'selen', expected a known one; the nearest is 'selene'");
}

TEST_CASE("bad input is one line with its place, exit status 2, and no file") {
  const Sandbox box;
  box.file("cut.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F");
  box.file("cyclic.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  struct Bad {
    std::string text;
    const char* found;
  };
  const std::vector<Bad> cases = {
      {changed(kSmall, "heads", "head"), "bad.toml:4: found unknown key 'model.head', expected"},
      {changed(kSmall, "= 1024", "= \"1024\""),
       "bad.toml:3: found model.hidden = \"1024\", expected"},
      {changed(kSmall, "seq = 512", "seq = -512"), "bad.toml:5: found model.seq = -512, expected"},
      {changed(kSmall, "gpus = 8", "gpus = 16"),
       "bad.toml:15: found cluster.gpus = 16, expected tp x pp x dp = 2 x 2 x 2 = 8"},
      {changed(kSmall, "global_batch = 8", "global_batch = 9"),
       "bad.toml:12: found parallel.global_batch = 9, expected a multiple of"},
      {changed(changed(kSmall, "heads = 16", "heads = 1"), "hidden = 1024", "hidden = 128"),
       "bad.toml:4: model.heads: found 1, expected a multiple of parallel.tp = 2"},
      {changed(kSmall, "selene", "selen"), "bad.toml:14: found preset 'selen', expected"},
      {changed(kSmall, "[cluster]", "[cluster"), "bad.toml:13: found text that is not TOML"},
      {changed(kUniform, "two.csv", "no.csv"),
       "bad.toml:9: found schedule.order = no.csv: no such file"},
      {changed(kUniform, "two.csv", "cut.csv"), "cut.csv:2: cell 3: found '1F', expected"},
      {changed(kUniform, "two.csv", "cyclic.csv"), "cyclic.csv:1: the order waits for itself: "},
  };
  for (const Bad& bad : cases) {
    box.file("bad.toml", bad.text);
    for (const char* engine : {"ideal", "simgrid"}) {
      check_refused(box.tandem(fmt::format("simulate bad.toml --engine {} --json --trace trace.csv "
                                           "--perfetto perfetto.json",
                                           engine)),
                    bad.found);
    }
    // Several runs, each in a process of its own.
    box.file("bad.toml", bad.text + "[matrix]\nvariability.seed = [1, 2]\n");
    check_refused(box.tandem("simulate bad.toml --trace trace.csv --perfetto perfetto.json"),
                  bad.found);
    CHECK(box.files() == Names{"bad.toml", "cut.csv", "cyclic.csv"});
  }
  for (const std::string command : {"simulate", "schedule", "topology"})
    check_refused(box.tandem(command + " no.toml"), "no.toml: no such file, expected a scenario");
  for (const std::string arguments : {"simulate no.csv --engine ideal", "schedule no.csv"})
    check_refused(box.tandem(arguments), "no.csv: no such file, expected a CSV file");
}

TEST_CASE("schedule shows a cyclic order's cycle in the grid, and then says it") {
  const Sandbox box;
  box.file("cyclic.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  box.file("small.toml", changed(kUniform, "two.csv", "cyclic.csv"));
  for (const char* arguments : {"schedule cyclic.csv", "schedule small.toml"}) {
    const Ran ran = box.tandem(arguments);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    // 0B0 waits for 1B0, which stands behind 1F1, which waits for 0F1 behind 0B0.
    CHECK(lines_of(ran.err) ==
          Names{"rank 0  0F0 [0B0] 0F1  0B1", "rank 1 [1F1] 1B1  1F0  1B0",
                "cyclic.csv:1: the order waits for itself: rank 0 at 0B0 waits for 1B0 of rank 1, "
                "which at 1F1 waits for 0F1 of rank 0"});
  }
  // Two chains: what is wrong is the missing backward, not the stages.
  box.file("two.csv", "# chains: 2\n0F0,0B0,3F0\n1F0,1B0,2F0,2B0\n");
  const Names lines = lines_of(box.tandem("schedule two.csv").err);
  REQUIRE(lines.size() == 3);
  CHECK(lines[2] ==
        "two.csv:2: rank 0: found 3F0 and no backward of it, expected 3B0, or 3I0 and 3W0");
}

TEST_CASE("an output that cannot be written is one line, and nothing is left") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  for (const char* option : {"--trace", "--perfetto"}) {
    const Ran ran =
        box.tandem(fmt::format("simulate small.toml --engine ideal --json {} no/file", option));
    check_refused(ran, "no/file: cannot be written: No such file or directory");
  }
  CHECK(box.files() == Names{"small.toml"});
}

TEST_CASE("simulate --json prints one array, an object a run, with every key promised") {
  const Sandbox box;
  box.file("small.toml", kSmall + "[matrix]\nparallel.global_batch = [8, 16]\n");
  const Ran ran = box.tandem("simulate small.toml --engine ideal --json");
  check_done(ran);
  const Json runs = Json::parse(ran.out);
  REQUIRE(runs.is_array());
  REQUIRE(runs.size() == 2);
  for (const Json& run : runs) {
    for (const char* key : {"name", "cluster", "engine"}) {
      INFO(key);
      CHECK(run.at(key).is_string());
    }
    for (const char* key :
         {"gpus", "iteration_s", "tokens_per_s", "model_tflops_per_gpu", "hardware_tflops_per_gpu",
          "mfu", "hfu", "bubble_ratio", "bubble_fraction", "bubble_window_fraction",
          "bubble_window_fraction_max", "compute_s", "ranks_simulated", "ops", "engine_wall_s"}) {
      INFO(key);
      CHECK(run.at(key).is_number());
    }
    for (const char* kind : {"tensor", "pipeline", "data", "context", "expert"}) {
      INFO(kind);
      CHECK(run.at("exposed_s").at(kind).is_number());
      CHECK(run.at("comm_s").at(kind).is_number());
      const bool has = run.at("comm_s").at(kind).get<double>() > 0;
      CHECK(run.at("overlap_fraction").at(kind).is_number() == has);
      CHECK(run.at("overlap_fraction").at(kind).is_null() == !has);
    }
    for (const char* key :
         {"weights", "gradients", "optimizer", "activations", "total", "reserve", "capacity"}) {
      INFO(key);
      CHECK(run.at("memory_bytes").at(key).get<double>() > 0);
    }
    CHECK(run.at("fits").get<bool>());
    CHECK(run.at("tokens_per_s_per_gpu").get<double>() ==
          Approx(run.at("tokens_per_s").get<double>() / 8));
    CHECK(run.at("flops_convention") == "whole attention");
    CHECK(run.at("cluster") == "selene");
    CHECK(run.at("gpus") == 8);
  }
  CHECK(runs[1].at("name") == "parallel.global_batch=16");
  CHECK(runs[1].at("iteration_s").get<double>() > runs[0].at("iteration_s").get<double>());
}

TEST_CASE("without a model the keys of one are there, and null") {
  const Sandbox box;
  box.file("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  box.file("uniform.toml", kUniform);
  const Json runs = runs_of(box, "uniform.toml --engine ideal");
  for (const char* key : {"tokens_per_s", "model_tflops_per_gpu", "hardware_tflops_per_gpu", "mfu",
                          "hfu", "memory_bytes", "fits"}) {
    INFO(key);
    CHECK(runs.at(0).at(key).is_null());
  }
  // F of 1 s, B of 2 s: rank 1 works from 1 to 7, rank 0's last backward follows: 9 s.
  CHECK(runs.at(0).at("iteration_s") == 9.0);
}

TEST_CASE("warnings go to stderr, and JSON stays JSON") {
  const Sandbox box;
  box.file("wide.toml", kSmall);
  const Ran ran = box.tandem(
      "simulate wide.toml --engine ideal --json --set parallel.tp=16 --set cluster.gpus=64");
  CHECK(ran.status == 0);
  CHECK(ran.err ==
        "warning: wide: parallel.tp = 16 is more than the 8 GPUs of a node: tensor communication "
        "crosses nodes\n");
  CHECK(Json::parse(ran.out).at(0).at("warnings").size() == 1);
  // What is no UTF-8 in a name is escaped, as in a table.
  const Json odd =
      runs_of(box, "wide.toml --engine ideal --set cluster.name=\"$(printf '\\377')\"");
  CHECK(odd.at(0).at("cluster") == "\\xff");
}

TEST_CASE("a warning that several runs share stands once on stderr, and not on stdout") {
  const Sandbox box;
  // 32 heads of 108, whose rows are no multiples of 16 bytes.
  box.file("odd.toml",
           "[model]\nlayers = 2\nhidden = 3456\nheads = 32\nseq = 2048\nvocab = 51200\n"
           "[parallel]\nmicro_batch = 2\n[cluster]\npreset = \"selene\"\ngpus = 1\n"
           "[matrix]\nparallel.global_batch = [2, 4]\n");
  const Ran ran = box.tandem("simulate odd.toml --engine ideal");
  CHECK(ran.status == 0);
  const Names lines = lines_of(ran.err);
  REQUIRE(!lines.empty());
  CHECK(lines.size() <= 4);
  for (const std::string& line : lines) {
    CHECK(line.starts_with("warning: "));
    CHECK(line.ends_with(" (and 1 other run)"));
  }
  INFO(ran.err);
  CHECK(ran.err.find("model.heads = 32 (head size 108): attention's ") != std::string::npos);
  CHECK(ran.err.find("; with 36 (head size 96) it loses ") != std::string::npos);
  CHECK(ran.out.find("head size") == std::string::npos);
  for (const Json& run : runs_of(box, "odd.toml --engine ideal"))
    CHECK(run.at("warnings").size() == lines.size());
  // What was measured says nothing of other sizes, and uniform costs know none.
  box.file("uniform.toml", kUniform);
  box.file("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(box.tandem("simulate uniform.toml --engine ideal").err.empty());
}

TEST_CASE("two runs give byte-identical JSON, traces and Perfetto files") {
  const Sandbox box;
  need_simgrid(box);
  // Four GPUs a node with one NIC: replicas contend. Twice more with jitter, unfolded.
  box.file("small.toml", changed(kSmall, "gpus = 8\n",
                                 "gpus = 8\ngpus_per_node = 4\n"
                                 "nics_per_node = 1\n") +
                             "[matrix]\nvariability.jitter = [0.0, 0.05]\n");
  for (const char* run : {"variability.jitter=0", "variability.jitter=0.05"}) {
    std::set<std::string> jsons, traces, perfettos;
    for (int i = 0; i < 2; ++i) {
      const Ran ran = box.tandem(fmt::format(
          "simulate small.toml --json --trace t.csv --perfetto p.json --files-of {}", run));
      REQUIRE(ran.status == 0);
      jsons.insert(without_wall_time(ran.out));
      traces.insert(box.read("t.csv"));
      perfettos.insert(box.read("p.json"));
    }
    CHECK(jsons.size() == 1);
    CHECK(traces.size() == 1);
    CHECK(perfettos.size() == 1);
    CHECK(jsons.begin()->find("\"engine\": \"simgrid\"") != std::string::npos);
    CHECK(traces.begin()->find("\n# complete: yes\n") != std::string::npos);
    CHECK(Json::parse(*perfettos.begin()).at("traceEvents").size() > 100);
    CHECK(box.files() == Names{"p.json", "small.toml", "t.csv"});
  }
}

TEST_CASE("the trace is that of the run that --files-of names") {
  const Sandbox box;
  box.file("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  box.file("uniform.toml",
           changed(kUniform, "forward_s = 1\n", "") + "[matrix]\ncosts.forward_s = [1, 2]\n");
  REQUIRE(box.tandem("simulate uniform.toml --engine ideal --trace t.csv --files-of "
                     "costs.forward_s=2")
              .status == 0);
  const Names lines = lines_of(box.read("t.csv"));
  const auto first = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("0,compute,");
  });
  REQUIRE(first != lines.end());
  CHECK(first->ends_with(",0,0,2000000000"));  // the first forward: 2 s
}

TEST_CASE("without contention the ideal engine gives simgrid's iteration") {
  const Sandbox box;
  need_simgrid(box);
  box.file("small.toml", kSmall);
  // On one node, and with each replica's stages on nodes of their own.
  for (const std::string set : {"", " --set cluster.gpus_per_node=2 --set cluster.nics_per_node=2"})
    CHECK(iteration_s(box, "small.toml --engine ideal" + set) ==
          Approx(iteration_s(box, "small.toml --engine simgrid" + set)).margin(2e-9).epsilon(0));
}

TEST_CASE("schedule draws the grid, with costs") {
  const Sandbox box;
  // Two ranks, two microbatches: F 1, B 2.
  CHECK(box.tandem("schedule --order 1f1b --pp 2 --microbatches 2").out ==
        "time   0  1  2  3  4  5  6  7  8\n"
        "rank 0 F0 F1 .  .  B0--- .  B1---\n"
        "rank 1 .  F0 B0--- F1 B1--- .  .\n");
  // F 1, B 1 + 1 = 2 with the costs doubled: the same picture, times of two.
  CHECK(box.tandem("schedule --order gpipe --pp 2 --microbatches 2 --costs 2,2,2").out ==
        "time   0  2  4  6  8  10 12 14 16\n"
        "rank 0 F0 F1 .  .  .  B0--- B1---\n"
        "rank 1 .  F0 F1 B0--- B1--- .  .\n");
}

TEST_CASE("schedule prints PyTorch's form, and reads what it prints") {
  const Sandbox box;
  const std::string printed =
      box.tandem("schedule --order interleaved --pp 2 --vpp 2 --microbatches 2 --format pytorch")
          .out;
  // Warm-up of rank 0: 2(p-1) + (v-1) 2 = 4, all there is; of rank 1: 2.
  CHECK(printed ==
        "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
        "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
  box.file("order.csv", printed);
  CHECK(box.tandem("schedule order.csv --format pytorch").out == printed);
  CHECK(box.tandem("schedule order.csv").out ==
        box.tandem("schedule --order interleaved --pp 2 --vpp 2 --microbatches 2").out);
  const Ran comms =
      box.tandem("schedule --order 1f1b --pp 2 --microbatches 1 --format pytorch-comms");
  CHECK(comms.out ==
        "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
        "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n");
}

TEST_CASE("schedule of a scenario shows its order, or its program") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  CHECK(box.tandem("schedule small.toml --format pytorch").out ==
        box.tandem("schedule --order 1f1b --pp 2 --microbatches 4 --format pytorch").out);
  CHECK(box.tandem("schedule small.toml --set schedule.order=gpipe --format pytorch").out ==
        box.tandem("schedule --order gpipe --pp 2 --microbatches 4 --format pytorch").out);
  CHECK(box.tandem("schedule small.toml --format program").out.starts_with("# tandem program"));
}

TEST_CASE("the settings that Megatron rejects exit 2 with the rule") {
  const Sandbox box;
  const auto index = CsvTable::read((kSource / "tests/golden/megatron/index.csv").string());
  REQUIRE(index.ok());
  int rejected = 0;
  for (int row = 0; row < index->size(); ++row) {
    if (index->text(row, "file") != "REJECTED") continue;
    const Ran ran = box.tandem(
        fmt::format("schedule --order interleaved --pp {} --vpp {} --microbatches {} --group {}",
                    index->text(row, "pp"), index->text(row, "vp"), index->text(row, "m"),
                    index->text(row, "n_group")));
    check_refused(ran, "order interleaved: ");
    CHECK(ran.err.find(index->text(row, "note")) != std::string::npos);
    ++rejected;
  }
  CHECK(rejected == 24);
}

TEST_CASE("a program printed and simulated takes as long as its scenario") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  for (const std::string set :
       {"", " --set schedule.order=gpipe", " --set parallel.vpp=2", " --set train.recompute=full",
        " --set cluster.gpus_per_node=2 --set cluster.nics_per_node=1"}) {
    INFO(set);
    box.file("program.csv", box.tandem("schedule small.toml --format program" + set).out);
    CHECK(iteration_s(box, "program.csv --engine ideal") ==
          iteration_s(box, "small.toml --engine ideal" + set));
  }
  check_refused(box.tandem("simulate program.csv --engine simgrid"),
                "program.csv: found a Program with --engine simgrid, expected --engine ideal");
}

TEST_CASE("a program that is cut short is refused, wherever it is cut") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  const std::string text =
      box.tandem("schedule small.toml --format program --set parallel.global_batch=2").out;
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 25; ++i) {
    // The last row tells a rank's communicators: at least one of them is cut off.
    const std::size_t end = text.find_last_of(", ");
    const std::size_t size = i == 0 ? end : random() % end;
    INFO("cut behind " << size << " of " << text.size() << " bytes");
    box.file("cut.csv", text.substr(0, size));
    check_refused(box.tandem("simulate cut.csv --engine ideal --trace t.csv"), "cut.csv:");
  }
  CHECK(box.files() == Names{"cut.csv", "small.toml"});
}

TEST_CASE("a run whose baseline was not played says that nothing is compared with it") {
  const Sandbox box;
  box.file("two.toml", kTwoStages +
                           "[report]\nbaseline = \"one\"\n[[matrix.way]]\nname = \"one\"\n"
                           "[[matrix.way]]\nname = \"two\"\nschedule.order = \"gpipe\"\n");
  const std::string command = "simulate two.toml --engine ideal";
  CHECK(box.tandem(command).err.empty());
  CHECK(box.tandem(command + " --only one").err.empty());
  CHECK(box.tandem(command + " --only two").err ==
        "warning: two: report.baseline = one: its run was not played or failed, so no saving "
        "against it is shown\n");
}

TEST_CASE("topology shows every preset, as a table and as a graph") {
  const Sandbox box;
  const Names presets = file_names(kSource / "topology/presets", ".toml");
  CHECK(presets.size() >= 14);
  for (const std::string& preset : presets) {
    INFO(preset);
    const Ran table = box.tandem("topology " + preset);
    check_done(table);
    CHECK(table.out.find("\nsources\n") != std::string::npos);
    const Ran dot = box.tandem("topology --format dot " + preset);
    check_done(dot);
    CHECK(std::regex_search(dot.out, std::regex("^(graph|digraph) ")));
    CHECK(dot.out.ends_with("}\n"));
  }
}

TEST_CASE("topology shows a scenario's cluster, and says where it is at odds") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  const Ran table = box.tandem("topology small.toml");
  check_done(table);
  CHECK(std::regex_search(table.out, std::regex("\nsize +8 GPUs on 1 nodes of 8\n")));
  CHECK(std::regex_search(box.tandem("topology small.toml --gpus 24").out,
                          std::regex("\nsize +24 GPUs on 3 nodes of 8\n")));
  box.file("small.toml", kSmall + "nics_per_node = 3\n");
  check_refused(box.tandem("topology small.toml"), "small.toml:16: found gpus_per_node = 8, exp");
  box.file("small.toml", kUniform);
  box.file("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  check_refused(box.tandem("topology small.toml"),
                "small.toml: found uniform costs, which know no");
}

TEST_CASE("doctor says what can be used") {
  const Sandbox box;
  const Ran ran = box.tandem("doctor");
  check_done(ran);
  CHECK(ran.out.find("engine ideal") != std::string::npos);
}

TEST_CASE("every scenario that is shipped loads, and its orders can be made") {
  const Sandbox box;
  const Names names = file_names(kSource / "scenarios", ".toml");
  CHECK(std::count(names.begin(), names.end(), "megatron-sc21") == 1);
  for (const std::string& name : names) {
    if (name == "procurement" || name == "published-machines") continue;  // for tandem size
    INFO(name);
    check_done(box.tandem(fmt::format("schedule '{}/{}.toml' --format pytorch",
                                      (kSource / "scenarios").string(), name)));
  }
}

TEST_CASE("the ten models run on three clusters, Jean-Zay-style never faster than DGX-2-style") {
  const Sandbox box;
  const std::string arguments =
      fmt::format("'{}' --engine ideal --set report.least_bandwidth=false",
                  (kSource / "scenarios/megatron-sc21.toml").string());
  const Json runs = runs_of(box, arguments);
  CHECK(runs.size() == 30);
  std::map<std::string, std::map<std::string, double>> iteration_s;  // by model and cluster
  for (const Json& run : runs) {
    iteration_s[run.at("points").at(0)][run.at("points").at(1)] = run.at("iteration_s");
    CHECK(run.at("bubble_fraction").get<double>() >= 0);
  }
  CHECK(iteration_s.size() == 10);
  for (const auto& [model, on] : iteration_s) {
    INFO(model);
    REQUIRE(on.size() == 3);
    CHECK(on.at("Jean-Zay-style") >= on.at("DGX-2-style"));
  }
  // The table: a row of titles, one a run, an empty line; then a line a model with the reason.
  const Names lines = lines_of(box.tandem("simulate " + arguments).out);
  const auto end = std::find(lines.begin(), lines.end(), "");
  CHECK(end - lines.begin() == 1 + 30);
  CHECK(std::count_if(end, lines.end(), [](const std::string& line) {
          // What accounts for all of it and a little more is said in seconds.
          const std::size_t jz = line.find(". Jean-Zay-style takes ");
          return jz != std::string::npos &&
                 (line.find(" accounts for ", jz) != std::string::npos ||
                  line.find("communication takes ", jz) != std::string::npos);
        }) == 10);
}

TEST_CASE("the models of the V100 scenario fit into their GPUs") {
  const Sandbox box;
  const Json runs =
      runs_of(box, fmt::format("'{}' --engine ideal --set report.least_bandwidth=false",
                               (kSource / "scenarios/v100-dgx2-vs-jz.toml").string()));
  CHECK(runs.size() >= 4);
  for (const Json& run : runs) {
    INFO(run.at("name"));
    CHECK(run.at("fits").get<bool>());
    for (const Json& warning : run.at("warnings"))  // tensor parallelism stays inside a node
      CHECK(warning.get<std::string>().find("crosses nodes") == std::string::npos);
  }
}
