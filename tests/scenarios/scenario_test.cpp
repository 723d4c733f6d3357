// Scenarios: what a file becomes, and what it is refused for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "planning/simulate/simulate.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/text.h"

using namespace tandem;

namespace {

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Names names_of(const std::vector<Scenario>& scenarios) {
  Names names;
  for (const Scenario& scenario : scenarios) names.push_back(scenario.name);
  return names;
}

// The message of the Error that loading or preparing the text gives, without the folder's name:
// one line, "file:line: what was found, what was expected".
std::string error_of(const Folder& folder, const std::string& text, const Names& set = {}) {
  const auto scenarios = try_load(folder, text, set);
  Result<CompiledJob> job = Error{};
  if (scenarios.ok()) job = compile(scenarios->front());
  REQUIRE(!job.ok());
  const Error& error = scenarios.ok() ? job.error() : scenarios.error();
  const std::string line = error.text();
  INFO(line);
  CHECK(error.kind == Error::BadInput);
  CHECK(line.find('\n') == std::string::npos);
  // Orders say in other words what they must be.
  CHECK((line.find("expected") != std::string::npos || line.find("must be") != std::string::npos ||
         line.find("waits for itself") != std::string::npos));
  const std::string here = folder / "";
  return line.starts_with(here) ? line.substr(here.size()) : line;
}

std::string error_of(const std::string& text, const Names& set = {}) {
  return error_of(Folder(), text, set);
}

// Edits of a text, and what it is refused for then: "FROM -> TO", where ';' is a line end, and
// below it, indented, "LINE: message".
void check_refused(const std::string& text, const std::string& cases) {
  const auto words = [](std::string s) {
    s.erase(0, s.find_first_not_of(' '));
    s.erase(s.find_last_not_of(' ') + 1);
    return s;
  };
  std::vector<std::pair<std::string, std::string>> list;
  std::istringstream in(cases);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    if (line.front() != ' ') {
      list.emplace_back(line, "");
    } else {
      std::string& message = list.back().second;
      message += (message.empty() ? "" : " ") + words(line);
    }
  }
  REQUIRE(!list.empty());
  for (auto& [edit, message] : list) {
    INFO(edit);
    std::replace(edit.begin(), edit.end(), ';', '\n');
    const std::size_t arrow = edit.find("->");
    REQUIRE(arrow != std::string::npos);
    CHECK(error_of(changed(text, words(edit.substr(0, arrow)), words(edit.substr(arrow + 2)))) ==
          "small.toml:" + message);
  }
}

}  // namespace

TEST_CASE("what a scenario does not say has defaults") {
  const Scenario s = load(R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 512
vocab = 32000
[parallel]
micro_batch = 3
[cluster]
preset = "selene"
)")[0];
  CHECK(s.name == "small");  // the file's
  CHECK((s.axes.empty() && s.points.empty()));
  CHECK((s.job.plan.tp == 1 && s.job.plan.pp == 1 && s.job.plan.vpp == 1 && s.job.plan.dp == 1 &&
         s.cluster.gpus == 1));
  CHECK(s.job.plan.global_batch == 3);  // micro_batch x dp
  CHECK(s.job.plan.microbatches() == 1);
  CHECK(s.job.plan.precision == "bf16");
  CHECK(s.job.plan.gradient_dtype == "fp32");
  CHECK(s.job.plan.recompute == Recompute::None);
  CHECK((!s.job.plan.sequence_parallel && !s.job.plan.scatter_gather && !s.job.batch_p2p));
  CHECK((s.job.plan.layers_per_stage.empty() && !s.job.overlap_p2p && !s.costs.uniform &&
         !s.report.least_bandwidth));
  CHECK(s.job.order.name == "1f1b");
  CHECK((s.variability.jitter == 0 && s.variability.seed == 1));
}

TEST_CASE("defaults follow what is said: data parallel size, order, gradients' type") {
  // 64 GPUs / (2 x 2) = 16 replicas; a batch of 1 x 16.
  const std::string no_dp = changed(changed(kSmall, "dp = 2\n", ""), "global_batch = 16\n", "");
  const Scenario s = load(no_dp, {"cluster.gpus=64"})[0];
  CHECK(s.job.plan.dp == 16);
  CHECK(s.job.plan.global_batch == 16);
  CHECK(s.job.plan.microbatches() == 1);
  CHECK(load(changed(kSmall, "gpus = 8\n", ""))[0].cluster.gpus == 8);  // 2 x 2 x 2
  CHECK(load(kSmall, {"parallel.vpp=2"})[0].job.order.name == "interleaved");
  CHECK(load(kSmall, {"train.precision=fp16"})[0].job.plan.gradient_dtype == "fp16");
  CHECK(load(kSmall, {"train.precision=fp16", "train.gradient_dtype=fp32"})[0]
            .job.plan.gradient_dtype == "fp32");
}

TEST_CASE("uniform costs: what is absent is half of the backward, or the sum of its halves") {
  const auto costs = [](const Names& set) {
    return *load(changed(kUniform, "backward_s = 2\n", ""), set)[0].costs.uniform;
  };
  const UniformCosts whole = costs({"costs.backward_s=3"});
  CHECK(whole.forward_s == 1);
  CHECK(whole.input_s == 1.5);
  CHECK(whole.weight_s == 1.5);
  const UniformCosts split = costs({"costs.input_s=2", "costs.weight_s=0.5"});
  CHECK(split.backward_s == 2.5);
  const UniformCosts all = costs({"costs.input_s=2", "costs.weight_s=0.5", "costs.backward_s=7"});
  CHECK(all.backward_s == 7);
  CHECK(all.input_s == 2);
  CHECK(all.weight_s == 0.5);
}

TEST_CASE("single numbers of [cluster] change what the preset gives") {
  // HDR's 200 Gbit/s are 25e9 bytes/s; selene has 8 GPUs a node.
  const Scenario s = load(kSmall, {"cluster.nic_Gbitps=400", "cluster.name=faster"})[0];
  CHECK(load(kSmall)[0].cluster.spec.nic_bytes_per_s == 25e9);
  CHECK(s.cluster.spec.nic_bytes_per_s == 50e9);
  CHECK(s.cluster.spec.name == "faster");
  CHECK(s.cluster.spec.gpus_per_node == 8);
  CHECK(s.cluster.preset == "selene");
}

TEST_CASE("a cluster can be given in numbers alone") {
  const Scenario s = load(changed(kSmall, "preset = \"selene\"\n", R"(name = "mine"
gpus_per_node = 4
intra_GBps = 50
intra_latency_us = 3
nics_per_node = 2
nic_Gbitps = 100
inter_efficiency = 0.8
inter_latency_us = 5
fabric = "fat-tree"
nodes_per_leaf = 2
oversubscription = 2
gpu_name = "mine"
memory_GiB = 16
memory_GBps = 900
sms = 80
tflops = 125
)"))[0];
  CHECK(s.cluster.spec.intra_bytes_per_s == 50e9);
  CHECK(s.cluster.spec.nic_bytes_per_s == 12.5e9);
  CHECK(s.cluster.spec.inter_latency_s == Approx(5e-6));
  CHECK(s.cluster.spec.fabric.kind == Fabric::FatTree);
  CHECK(s.cluster.spec.device.flops_per_s.at("bf16") == 125e12);
  CHECK(s.cluster.spec.device.memory_bytes == 16.0 * (1 << 30));
  const auto job = compile(s);
  REQUIRE(job.ok());
  CHECK(job->site.cluster.nodes() == 2);
}

TEST_CASE("the runs are the product of the axes, in the file's order, the first outermost") {
  const auto scenarios = load(kSmall + R"(
[[variant]]
name = "slow"
cluster.nic_Gbitps = 100
[[variant]]
name = "fast"
cluster.nic_Gbitps = 400
[matrix]
schedule.order = ["1f1b", "gpipe"]
[[matrix.recompute]]
name = "keep"
train = {recompute = "none"}
[[matrix.recompute]]
name = "again"
train = {recompute = "full"}
)");
  REQUIRE(scenarios.size() == 2 * 2 * 2);
  CHECK(scenarios[0].axes == Names{"variant", "schedule.order", "recompute"});
  CHECK(scenarios[0].points == Names{"slow", "schedule.order=1f1b", "keep"});
  Names expected;
  for (const char* variant : {"slow", "fast"}) {
    for (const char* order : {"1f1b", "gpipe"}) {
      for (const char* recompute : {"keep", "again"})
        expected.push_back(fmt::format("{}, schedule.order={}, {}", variant, order, recompute));
    }
  }
  CHECK(names_of(scenarios) == expected);
  CHECK(scenarios[5].cluster.spec.nic_bytes_per_s == 50e9);
  CHECK(scenarios[5].job.order.name == "1f1b");
  CHECK(scenarios[5].job.plan.recompute == Recompute::Full);
  CHECK(scenarios[5].job.model.layers == 8);
}

TEST_CASE("axes stand in the file's order, not in the alphabet's") {
  const auto scenarios = load(kSmall + R"(
[matrix]
variability.seed = [1, 2]
overlap.batch_p2p = [true, false]
variability.jitter = [0.05]
[[variant]]
name = ["A", "first"]
[[variant]]
name = ["B", "second"]
)");
  REQUIRE(scenarios.size() == 8);
  CHECK(scenarios[0].name ==
        "variability.seed=1, overlap.batch_p2p=true, variability.jitter=0.05, A, first");
  CHECK(scenarios[1].name ==
        "variability.seed=1, overlap.batch_p2p=true, variability.jitter=0.05, B, second");
  CHECK(scenarios[2].name ==
        "variability.seed=1, overlap.batch_p2p=false, variability.jitter=0.05, A, first");
  CHECK(scenarios[7].axes ==
        Names{"variability.seed", "overlap.batch_p2p", "variability.jitter", "variant", "variant"});
  CHECK(scenarios[7].variability.seed == 2);
}

TEST_CASE("a setting over an axis of its key is said: the names of its runs say another value") {
  const std::string text = kSmall + "[matrix]\ntrain.recompute = [\"none\", \"full\"]\n";
  const auto runs = load(text, {"train.recompute=full", "model.layers=16"});
  CHECK(runs[0].job.plan.recompute == Recompute::Full);
  CHECK(runs[0].notes == Names{"--set: train.recompute=full replaces what the axis train.recompute "
                               "gives: the run's name says another value"});
  CHECK(runs[1].notes.empty());  // its name says full
  const std::string variant = kSmall + "[[variant]]\nname = \"A\"\nschedule.order = \"gpipe\"\n";
  CHECK(load(variant, {"schedule.order=1f1b"}).front().notes.size() == 1);
  CHECK(load(variant, {"model.layers=16"}).front().notes.empty());
}

TEST_CASE("an axis of lists gives each list to one run") {
  const auto scenarios = load(kSmall + "[matrix]\nparallel.layers_per_stage = [[4, 4], [5, 3]]\n");
  REQUIRE(scenarios.size() == 2);
  CHECK(scenarios[1].job.plan.layers_per_stage == std::vector<int>{5, 3});
  CHECK(scenarios[1].name == "parallel.layers_per_stage=[5, 3]");
}

TEST_CASE("a point's settings go over the file's, --set over everything, the last one winning") {
  const std::string text = kSmall + R"(
[[variant]]
name = "A"
parallel.global_batch = 32
train.precision = "fp16"
[[variant]]
name = "B"
)";
  const auto given = load(text);
  CHECK(given[0].job.plan.global_batch == 32);
  CHECK(given[1].job.plan.global_batch == 16);
  const auto set = load(text, {"parallel.global_batch=64", "parallel.global_batch=48",
                               "train.precision=\"bf16\"", "train.sequence_parallel=true"});
  for (const Scenario& s : set) {
    CHECK(s.job.plan.global_batch == 48);
    CHECK(s.job.plan.precision == "bf16");
    CHECK(s.job.plan.sequence_parallel);
  }
  CHECK(names_of(set) == Names{"A", "B"});
}

TEST_CASE("an unknown key is refused at its line, the nearest known one named") {
  check_refused(kSmall, R"(
heads = 16 -> head = 16
  4: found unknown key 'model.head', expected a known one; the nearest is 'model.heads'
[cluster] -> [clusters]
  15: found unknown key 'clusters.gpus', expected a known one; the nearest is 'cluster.gpus'
layers = 8 -> layers.first = 8
  2: found unknown key 'model.layers.first', expected a known one; the nearest is 'model.layers'
)");
  // A run's name is a variant's key, not a scenario's.
  CHECK(error_of("name = \"x\"\n" + kSmall).starts_with("small.toml:1: found unknown key 'name'"));
  CHECK(error_of(kSmall, {"model.seqs=3"}) ==
        "--set: found unknown key 'model.seqs', expected a known one; the nearest is 'model.seq'");
}

TEST_CASE("a value of the wrong type is refused at its line") {
  check_refused(kSmall, R"(
layers = 8 -> layers = "8"
  2: found model.layers = "8", expected an integer from 1 to 1000000000
layers = 8 -> layers = 8.5
  2: found model.layers = 8.5, expected an integer from 1 to 1000000000
layers = 8 -> layers = 2026-01-01
  2: found 'model.layers' with a date or time, expected a number, a text, true, false or a list
preset = "selene" -> preset = 3
  14: found cluster.preset = 3, expected a preset's name
tp = 2 -> tp = 2;scatter_gather = 1
  9: found parallel.scatter_gather = 1, expected true or false
tp = 2 -> tp = 2;layers_per_stage = 4
  9: found parallel.layers_per_stage = 4, expected a list of integers
tp = 2 -> tp = 2;layers_per_stage = [4, "4"]
  9: found 'parallel.layers_per_stage' with a list of other things, expected integers
gpus = 8 -> gpus = 8;nic_Gbitps = "fast"
  16: found cluster.nic_Gbitps = "fast", expected a number above 0
[cluster] -> [train];recompute = true;[cluster]
  14: found train.recompute = true, expected one of full none selective
[cluster] -> [train];precision = 16;[cluster]
  14: found train.precision = 16, expected a text
[cluster] -> [variability];seed = 0.5;[cluster]
  14: found variability.seed = 0.5, expected an integer, not negative
)");
}

TEST_CASE("a size that is negative, zero or beyond any machine is refused at its line") {
  check_refused(kSmall, R"(
layers = 8 -> layers = -8
  2: found model.layers = -8, expected an integer from 1 to 1000000000
tp = 2 -> tp = 0
  8: found parallel.tp = 0, expected an integer from 1 to 1000000000
tp = 2 -> tp = 8589934594
  8: found parallel.tp = 8589934594, expected an integer from 1 to 1000000000
gpus = 8 -> gpus = -8
  15: found cluster.gpus = -8, expected an integer from 1 to 1000000000
gpus = 8 -> gpus = 8;nic_Gbitps = 0
  16: found cluster.nic_Gbitps = 0, expected a number above 0
gpus = 8 -> gpus = 8;nic_Gbitps = nan
  16: found cluster.nic_Gbitps = nan, expected a number above 0
gpus = 8 -> gpus = 8;inter_latency_us = -1
  16: found cluster.inter_latency_us = -1, expected a number of at least 0 and at most 900000000
gpus = 8 -> gpus = 8;intra_efficiency = 1.5
  16: found cluster.intra_efficiency = 1.5, expected a number above 0 and at most 1
gpus = 8 -> gpus = 8;oversubscription = 0.5
  16: found cluster.oversubscription = 0.5, expected a number of at least 1
[cluster] -> [variability];jitter = -0.1;[cluster]
  14: found variability.jitter = -0.1, expected a number of at least 0 and at most 1
tp = 2 -> tp = 2;layers_per_stage = [12, -4]
  9: found parallel.layers_per_stage = [12, -4], expected integers from 0 to 1000000
tp = 2 -> tp = 2;layers_per_stage = [4294967300, 4]
  9: found parallel.layers_per_stage = [4294967300, 4], expected integers from 0 to 1000000
micro_batch = 1 -> micro_batch = 1000000000
  11: found micro_batch x dp = 1000000000 x 2, expected at most 1000000000 sequences
)");
  // 65536 x 65536 is 0 in 32 bits.
  check_refused(kSmall, R"(
tp = 2;pp = 2 -> tp = 65536;pp = 65536
  10: found tp x pp x dp = 65536 x 65536 x 2, expected at most 1000000 GPUs
)");
}

TEST_CASE("a plan that does not come out even is refused at the line that is at odds") {
  check_refused(kSmall, R"(
gpus = 8 -> gpus = 16
  15: found cluster.gpus = 16, expected tp x pp x dp = 2 x 2 x 2 = 8
global_batch = 16 -> global_batch = 15
  12: found parallel.global_batch = 15, expected a multiple of micro_batch x dp = 1 x 2
heads = 16 -> heads = 15
  3: model.hidden: found 1024, expected a multiple of model.heads = 15
tp = 2 -> tp = 2;layers_per_stage = [4]
  9: parallel.layers_per_stage: found 1, expected as many numbers as stages, parallel.pp x
  parallel.vpp = 2
tp = 2 -> tp = 2;layers_per_stage = [4, 5]
  9: parallel.layers_per_stage: found 9, expected a sum of model.layers = 8
pp = 2 -> pp = 2;vpp = 6
  9: parallel.pp x parallel.vpp: found 12 stages, expected at most model.layers + 2 = 10
heads = 16; ->
  2: model.heads: found 0, expected a positive number
)");
  const std::string no_dp = changed(kSmall, "dp = 2\n", "");
  check_refused(no_dp, R"(
gpus = 8 -> gpus = 6
  14: found cluster.gpus = 6, expected a multiple of tp x pp = 2 x 2
tp = 2;pp = 2;micro_batch = 1;global_batch = 16;[cluster] -> tp = 3;[cluster];gpus_per_node = 3
  12: found cluster.gpus = 8, expected a multiple of tp x pp = 3 x 1
)");
  check_refused(changed(no_dp, "gpus = 8\n", ""), R"(
tp = 2;pp = 2 -> tp = 3
  4: model.heads: found 16, expected a multiple of parallel.tp = 3
)");
}

TEST_CASE("an order that cannot be made is refused at the line that asks for it") {
  // In groups of 7, the last of 8 microbatches is left: that does not fill two ranks.
  CHECK(error_of(changed(kSmall, "[cluster]", "[schedule]\norder = \"1f2b\"\n[cluster]"))
            .starts_with("small.toml:14: found order '1f2b', expected one of none, gpipe, "));
  check_refused(kSmall, R"(
[cluster] -> [schedule];order = "none";[cluster]
  14: order none: found pp = 2, expected 1: it has no pipeline
dp = 2;micro_batch = 1;global_batch = 16 -> vpp = 2;global_batch = 16;[schedule];group = 7
  13: order interleaved: M % N = 1 must be 0 or >= PP=2; found M = 8 microbatches in groups of N = 7
[cluster] -> [overlap];p2p = true;batch_p2p = true;[cluster]
  14: found overlap.p2p and overlap.batch_p2p both on, expected one of them at most: a grouped
  exchange is waited for
)");
}

TEST_CASE("a missing, empty or garbled scenario is refused, with the line where there is one") {
  const auto missing = load_scenarios("no/such.toml");
  REQUIRE(!missing.ok());
  CHECK(missing.error().text() == "no/such.toml: no such file, expected a scenario (TOML)");
  const Folder folder;
  CHECK(!load_scenarios(folder / "").ok());
  CHECK(!load_scenarios(folder / std::string(5000, 'x').c_str()).ok());

  CHECK(error_of("") == "small.toml: is empty, expected a scenario (TOML)");
  CHECK(error_of("# all comments\n") ==
        "small.toml: found no cluster, expected [cluster] with a preset or with its "
        "numbers");
  CHECK(error_of(changed(kSmall, "preset = \"selene\"\n", "")) ==
        "small.toml:14: found no cluster, expected [cluster] with a preset or with its numbers");
  for (const auto& [from, to, line] : {std::array{"layers = 8", "layers = ", "2"},
                                       {"[parallel]", "[parallel", "7"},
                                       {"heads = 16", "layers = 16", "4"},
                                       {"seq = 512", "seq = \"512", "5"},
                                       {"seq = 512", "seq = \xff", "5"}}) {
    INFO(to);
    const std::string message = error_of(changed(kSmall, from, to));
    CHECK(message.starts_with(fmt::format("small.toml:{}: found text that is not TOML (", line)));
    CHECK(message.ends_with("), expected TOML"));
  }
}

TEST_CASE("an unknown or half-given cluster is refused at its line") {
  CHECK(
      error_of(changed(kSmall, "\"selene\"", "\"selen\""))
          .starts_with("small.toml:14: found preset 'selen', expected a known one; the nearest is "
                       "'selene'; known are aws-"));
  check_refused(kSmall, R"(
preset = "selene" -> gpus_per_node = 8;nics_per_node = 8;tflops = 100;sms = 80;memory_GBps = 900
  15: found intra bytes/s = 0, expected at least 1
gpus = 8 -> gpus = 8;nics_per_node = 3
  16: found gpus_per_node = 8, expected a multiple of nics_per_node = 3
gpus = 8 -> gpus = 8;fabric = "fat-tree"
  16: found nodes_per_leaf = 0, expected at least 1
gpus = 8 -> gpus = 8;fabric = "torus"
  16: found cluster.fabric = torus, expected one of fat-tree rail-optimised star
)");
  // fp8 came after the A100.
  const std::string fp8 =
      error_of(changed(kSmall, "[cluster]", "[train]\nprecision = \"fp8\"\n[cluster]"));
  CHECK(fp8.starts_with("small.toml:14: train.precision: found fp8, expected one that "));
}

TEST_CASE("variants without names, axes without values and misplaced words are refused") {
  const std::string text = kSmall + "(more)\n";  // line 16
  check_refused(text, R"(
(more) -> [[variant]];cluster.gpus = 8
  16: found [[variant]] without a name, expected name = "..."
(more) -> [[variant]];name = 3
  17: found a name that is no text, expected name = "..." or a list of texts
(more) -> [[variant]];name = ["A", 3]
  17: found a name that is no text, expected name = "..." or a list of texts
(more) -> [variant];name = "A"
  16: found variant that is no list of tables, expected [[variant]]
(more) -> [matrix];parallel.tp = 2
  17: found matrix.parallel.tp without a list, expected the values to run
(more) -> [matrix];parallel.tp = []
  17: found matrix.parallel.tp without a list, expected the values to run
(more) -> [matrix];parallel.tp = [1, 2, 1]
  17: found 'parallel.tp=1' twice, expected another run
(more) -> [[variant]];name = "A";[[variant]];name = "A"
  18: found 'A' twice, expected another run
(more) -> [[variant]];name = "A";cluster.gpus = 9
  18: found cluster.gpus = 9, expected tp x pp x dp = 2 x 2 x 2 = 8 (run 'A')
)");
  CHECK(error_of(kSmall + "[matrix]\nparallel.tps = [1, 2]\n") ==
        "small.toml:17: found unknown key 'parallel.tps', expected a known one; the nearest is "
        "'parallel.tp' (run 'parallel.tps=1')");
  CHECK(error_of("matrix = 3\n" + kSmall) ==
        "small.toml:1: found matrix that is no table, expected [matrix]");
}

TEST_CASE("a setting that is no KEY=VALUE is refused") {
  for (const char* text : {"", "novalue", "=3"}) {
    const auto set = parse_set(text);
    REQUIRE(!set.ok());
    CHECK(set.error().text() == fmt::format("--set: found '{}', expected KEY=VALUE", text));
  }
  CHECK(parse_set("a.b={c=1}").error().text() ==
        "--set: found 'a.b' with a table, expected a number, a text, true, false or a list");
  CHECK(std::get<std::string>(parse_set("a=two words")->second.value) == "two words");
  CHECK(std::get<std::string>(parse_set("a=")->second.value).empty());
  CHECK(std::get<double>(parse_set("a=1e3")->second.value) == 1000);
}

TEST_CASE("uniform costs want their seconds, and no other source beside them") {
  check_refused(kUniform, R"(
forward_s = 1; ->
  5: found costs.source = uniform without its seconds, expected costs.forward_s and
  costs.backward_s (or input_s and weight_s)
backward_s = 2 -> input_s = 2
  5: found costs.source = uniform without its seconds, expected costs.forward_s and
  costs.backward_s (or input_s and weight_s)
"uniform" -> "analytic"
  5: found costs.source = analytic, expected uniform, as costs.forward_s and the like are set
"uniform" -> "measured"
  5: found costs.source = measured, expected analytic, table or uniform
forward_s = 1 -> forward_s = -1
  6: found costs.forward_s = -1, expected a number of at least 0 and at most 10000
forward_s = 1 -> forward_s = 1;p2p_s = 1e9
  7: found costs.p2p_s = 1000000000, expected a number of at least 0 and at most 900
)");
}

TEST_CASE("a custom order that is missing, cut short, cyclic or of other sizes is refused") {
  const Folder folder;
  const std::string text = kUniform + "[schedule]\norder = \"two.csv\"\n";
  const Names set = {"parallel.global_batch=2"};
  const auto error = [&](const std::string& csv) {
    folder.with("two.csv", csv);
    return error_of(folder, text, set);
  };
  CHECK(error_of(folder, text, set) ==
        "small.toml:9: found schedule.order = two.csv: no such file, expected a file in "
        "PyTorch's or Primus's form beside the scenario");
  // ParallelSizes inside a cell, behind a cell, and behind a row.
  CHECK(
      error("0F0,0F1,0B0,0B1\n1F0,1B0,1F").starts_with("two.csv:2: cell 3: found '1F', expected"));
  CHECK(error("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n")
            .starts_with("two.csv:2: rank 1: found 1F1 and no backward of it, expected 1B1"));
  CHECK(error("0F0,0F1,0B0,0B1\n").starts_with("small.toml:9: found 1 ranks, 1 stages and 2 "));
  CHECK(error("0F0,0F1,0B0,0B1\n\"1F0,1B0,1F1,1B1\n").starts_with("two.csv:2: found a quote"));
  CHECK(error("") == "two.csv:1: found no rows, expected a row of actions a rank");
  // Rank 0 does microbatch 0 whole first, rank 1 wants 1 first.
  CHECK(error("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n") ==
        "two.csv:1: the order waits for itself: rank 0 at 0B0 waits for 1B0 of rank 1, which at "
        "1F1 waits for 0F1 of rank 0");
  folder.with("two.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(error_of(folder, text) ==
        "small.toml:9: found 2 ranks, 2 stages and 2 microbatches in " + (folder / "two.csv") +
            ", expected pp = 2 ranks, pp x vpp = 2 stages and global_batch / (micro_batch x dp) = "
            "4 microbatches");
}
