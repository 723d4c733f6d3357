// Sizing: economics by hand, recommendations that keep their limits; and the program.
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planning/size/size.h"
#include "planning/size/size_steps.h"
#include "scenarios/scenario.h"
#include "tests/sandbox.h"
#include "tests/text.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

TEST_CASE("economics by hand") {
  // 1e12 tokens in steps of 1e6 at 2 s: 2e6 s. 16 GPUs, 2 nodes and no spare: 2 x 2e6 / 3600 h x
  // 10; 2 x 5 kW x 1.5 x 2e6 / 3600 h = 8333 kWh.
  SizeInputs inputs{.tokens = 1e12, .days = 30, .spare_nodes = 0};
  inputs.price = {.node_hour = 10, .node_kW = 10, .load = 0.5, .pue = 1.5, .kWh = 0.2};
  inputs.price.gCO2_kWh = 400;
  inputs.failures = {.gpu_mtbf_h = 1e12, .checkpoint_s = 0, .restart_s = 0, .repair_h = 0};
  const Work work = {.working = {2, 8}, .tokens_a_step = 1e6, .iteration_s = 2};
  const Economics e = economics(inputs, work);
  CHECK(e.nodes == 2);
  CHECK(e.days_p50() == Approx(2e6 / 86400));
  CHECK(e.energy_MWh == Approx(2 * 5 * 1.5 * 2e6 / 3600 / 1000));
  CHECK(e.cost == Approx(2e6 / 3600 * (2 * 10 + 2 * 5 * 1.5 * 0.2)));
  CHECK(e.CO2_t == Approx(8333.33 * 0.4 / 1000));  // 400 g a kWh
  CHECK(e.cost_per_T == Approx(e.cost));
  CHECK(e.days_per_T == Approx(2e6 / 86400));
  SizeInputs half = inputs;  // of the tokens takes half the days: as many a trillion
  half.tokens = 0.5e12;
  CHECK(economics(half, work).days_per_T == Approx(2e6 / 86400));
  // Bought: a node of 87660 for a year (8766 h) is 10 an hour.
  inputs.price.node_hour = 0;
  inputs.price.node = 87660;
  inputs.price.years = 1;
  CHECK(economics(inputs, work).cost == Approx(e.cost));
  // 3 such nodes for 2 years: bought in each, and 3 x 5 kW x 1.5 x 2 x 8766 h at 0.2.
  CHECK(cost_of_years(inputs.price, 3, 2) == Approx(2 * 3 * 87660 + 3 * 5 * 1.5 * 2 * 8766 * 0.2));
  CHECK(cost_of_years(inputs.price, 3, 1, 1e6) ==
        Approx(3 * 87660 + 1e6 + 3 * 5 * 1.5 * 8766 * 0.2));
  const MachineCosts costs = machine_costs(inputs.price, 3);
  CHECK(costs.purchase == 3 * 87660);
  CHECK(costs.monthly == Approx((3 * 87660 + 3 * 5 * 1.5 * 8766 * 0.2) / 12));
  CHECK(costs.peak_MW == Approx(0.045));
  CHECK(costs.mean_MW == Approx(0.0225));
}

TEST_CASE("limits of purchase, rent, power and GPUs say how many nodes there may be") {
  SizeInputs inputs;
  inputs.price = {.node = 300e3, .node_kW = 10, .pue = 1.25};
  CHECK(nodes_within(inputs, 8, 1000) == 1000);
  inputs.purchase_budget = 40e6;  // 133.3 nodes
  CHECK(nodes_within(inputs, 8, 1000) == 133);
  inputs.power_MW = 1.25;  // 100 nodes of 12.5 kW
  CHECK(nodes_within(inputs, 8, 1000) == 100);
  inputs.gpus_max = 799;
  CHECK(nodes_within(inputs, 8, 1000) == 99);
  inputs.price = {.node_hour = 9, .node_kW = 10, .load = 0.5, .pue = 2, .kWh = 0.1};  // 10 in all
  inputs.rent_per_month = 10 * 730.5 * 7;
  CHECK(nodes_within(inputs, 8, 1000) == 7);
}

// Returns how many sizes the search tries to find the least of at most `most` nodes that takes at
// most `days`, if `days_of` says what each takes; and the least.
std::pair<int, std::optional<int>> searched(double (*days_of)(int), double days, int guess,
                                            int most) {
  std::vector<TriedSize> tried;
  while (const std::optional<int> next = next_size(tried, days, guess, most)) {
    for (const TriedSize& one : tried) REQUIRE(one.nodes != *next);
    REQUIRE(*next >= 1);
    REQUIRE(*next <= most);
    tried.push_back({*next, days_of(*next)});
  }
  return {static_cast<int>(tried.size()), least_in_time(tried, days)};
}

TEST_CASE("the search finds the least number of nodes in time, in few steps") {
  const auto ideal = [](int nodes) { return 1000.0 / nodes; };
  for (const int guess : {1, 10, 100, 1000}) {
    INFO(guess);
    const auto [tries, least] = searched(ideal, 10, guess, 16'384);
    CHECK(least == 100);  // a number of 5 bits
    CHECK(tries <= 8);
  }
  const auto scales_badly = [](int nodes) { return 1000.0 / nodes + 9; };
  CHECK(searched(scales_badly, 10, 10, 16'384).second == 1024);  // the next above 1000
  CHECK(searched(scales_badly, 8, 10, 16'384).second == std::nullopt);
  const auto needs_memory = [](int nodes) { return nodes < 50 ? 1 / 0.0 : 100.0 / nodes; };
  CHECK(searched(needs_memory, 10, 1, 16'384).second == 50);
  CHECK(searched(ideal, 1e6, 1000, 16'384).second == 1);
  // Above 90 nodes only powers of two have a plan.
  const auto cut_well = [](int nodes) {
    return nodes <= 90 || std::has_single_bit(static_cast<unsigned>(nodes)) ? 300.0 / nodes
                                                                            : 1 / 0.0;
  };
  CHECK(searched(cut_well, 2, 90, 464).second == 256);
}

TEST_CASE("the search goes below numbers that are cut badly to fewer that are cut well") {
  // Nodes of 8 H100 of scenarios/procurement.toml: 76 take longer than 64.
  const auto days_of = [](int nodes) {
    const bool is_even = nodes == 64 || nodes == 80 || nodes >= 82;
    return (is_even ? 3700.0 : 7000.0) / nodes;
  };
  CHECK(searched(days_of, 60, 60, 16'384).second == 64);
  CHECK(searched(days_of, 60, 82, 16'384).second == 64);
  // Tries the largest, then those that a tenth more a node would bring in time: from 80 x 50 / 1.1
  // / 60 = 60.6 on.
  CHECK(even_within({{82, 59}}, 60, 82) == 80);
  CHECK(even_within({{82, 59}, {80, 50}}, 60, 82) == 72);
  CHECK(even_within({{82, 59}, {80, 50}, {72, 62}}, 60, 82) == 64);
  CHECK(even_within({{82, 59}, {80, 50}, {72, 62}, {64, 70}}, 60, 82) == std::nullopt);
  CHECK(even_within({{82, 59}, {80, 1 / 0.0}}, 60, 82) == std::nullopt);
  CHECK(even_within({{64, 59}}, 60, 64) == 60);
  CHECK(even_within({{64, 59}, {60, 61}}, 60, 64) == std::nullopt);
  CHECK(even_within({{1, 59}}, 60, 1) == std::nullopt);
}

TEST_CASE("a batch near the stated one is cut over GPUs that are no power of two") {
  CHECK(even_batch(1024, 1024, 0.1) == 1024);
  CHECK(even_batch(1000, 1024, 0.1) == 1024);
  CHECK(even_batch(1024, 768, 0.1) == 960);     // 5 x 192; 1152 is too far
  CHECK(even_batch(1024, 768, 0.125) == 1152);  // 3 x 384
  CHECK(even_batch(1024, 1152, 0.1) == 1008);   // 9 x 112
  CHECK(even_batch(1024, 768, 0) == 1024);
  CHECK(even_batch(16, 8 * 1009, 0.1) == 16);  // no multiple of a large prime is near
}

const std::string kJob = R"([model]
layers = 8
hidden = 2048
heads = 16
seq = 1024
vocab = 32000
[parallel]
global_batch = 64
)";

const std::string kSize = kJob + R"([size]
tokens_T = 0.001
days = 1
gpus = [8, 16]
[price]
node_hour = 10
node_kW = 10
kWh = 0.1
[[matrix.job]]
name = "small"
[[matrix.node]]
name = "8 NICs"
cluster = {preset = "dgx-h100"}
[[matrix.node]]
name = "1 NIC"
cluster = {preset = "dgx-h100", nics_per_node = 1}
price = {node_hour = 9}
)";

Json sized(const Sandbox& sandbox, const std::string& options) {
  sandbox.file("size.toml", kSize);
  const Ran ran = sandbox.tandem("size size.toml --json --engine ideal " + options);
  check_done(ran);
  return Json::parse(ran.out);
}

// The candidate's plan, as tandem simulate has it.
Json simulated(const Sandbox& sandbox, const Json& one, const std::string& options) {
  sandbox.file("job.toml", kJob);
  std::string command = "simulate job.toml --engine ideal --json " + options;
  command += " --set cluster.preset=dgx-h100";
  command += " --set cluster.gpus=" + std::to_string(one["gpus"].get<int>());
  for (const auto& [key, value] : one["plan"].items())
    command += " --set " + key + "=" + value.get<std::string>();
  const Ran ran = sandbox.tandem(command);
  check_done(ran);
  return Json::parse(ran.out)[0];
}

TEST_CASE("tandem size recommends the cheapest of those that are in time") {
  const Sandbox sandbox;
  const Json result = sized(sandbox, "");
  REQUIRE(result["sized"].size() == 4);
  double best = 1e300, recommended = 0;
  for (const Json& machine : result["machines"]) {
    if (machine["out"].is_null()) best = std::min(best, machine["total"].get<double>());
    if (machine["recommended"]) recommended = machine["total"];
  }
  for (const Json& one : result["sized"]) {
    CHECK(one["economics"]["days_late"] >= one["economics"]["days_p50"]);
    // More bandwidth never takes longer.
    CHECK(one["nics"]["0.9"] >= 1);
    CHECK(one["nics"]["1.1"] <= 1);
  }
  CHECK(recommended == best);
  // The same but for what engines took on the wall.
  const Json again = sized(sandbox, "");
  for (std::size_t i = 0; i < again["sized"].size(); ++i) {
    CHECK(again["sized"][i]["economics"] == result["sized"][i]["economics"]);
    CHECK(again["sized"][i]["plan"] == result["sized"][i]["plan"]);
  }
  CHECK(again["tornado"] == result["tornado"]);
}

TEST_CASE("no candidate that misses the deadline, the budget or memory is recommended") {
  const Sandbox sandbox;
  for (const char* set : {"size.days=0.01", "size.budget=0.5", "cluster.memory_reserve_GiB=79.2"}) {
    INFO(set);
    sandbox.file("size.toml", kSize);
    const Ran ran =
        sandbox.tandem(std::string("size size.toml --json --engine ideal --set ") + set);
    CHECK(ran.status == 1);
    CHECK(ran.err.find("nothing is in time and within the limits") != std::string::npos);
    const Json result = Json::parse(ran.out);
    REQUIRE(result["machines"].size() == 4);
    for (const Json& machine : result["machines"]) {
      CHECK(!machine["out"].is_null());
      CHECK(machine["recommended"] == false);
    }
  }
}

// A job for which the numbers of nodes are found.
const std::string kFound = kJob + R"([size]
tokens_T = 0.2
days = 1
[[matrix.job]]
name = "a"
[[matrix.job]]
name = "b"
size = {tokens_T = 0.4, days = 1.5}
[[matrix.node]]
name = "H100"
cluster.preset = "dgx-h100"
price.node = 300e3
[[matrix.node]]
name = "rack"
cluster.preset = "gb200-nvl72"
price.node = 4e6
)";

Ran asked(const Sandbox& sandbox, const std::string& options) {
  sandbox.file("found.toml", kFound);
  return sandbox.tandem("size found.toml --json --engine ideal --set parallel.global_batch=512 " +
                        options);
}

TEST_CASE("without size.gpus the least nodes are found on which all jobs are in time") {
  const Sandbox sandbox;
  const Ran ran = asked(sandbox, "");
  check_done(ran);
  const Json result = Json::parse(ran.out);
  for (const Json& machine : result["machines"]) {
    INFO(machine.dump());
    REQUIRE(machine["jobs"].size() == 2);
    CHECK(machine["out"].is_null());
    CHECK(machine["purchase"].get<double>() ==
          (machine["nodes"].get<double>() + machine["spare_nodes"].get<double>()) *
              (machine["candidate"] == "rack" ? 4e6 : 300e3));
    for (const Json& job : machine["jobs"])
      CHECK(result["sized"][job.get<std::size_t>()]["economics"]["days_late"] <= 1.5);
  }
  // Given as many GPUs as the answer has, the same comes out; with a node less, some job is late.
  const Json& best = result["machines"][result["answers"].back()["machine"].get<std::size_t>()];
  REQUIRE(best["candidate"] == "H100");
  const int nodes = best["nodes"];
  const auto given = [&](int gpus) {
    return asked(sandbox, "--only H100 --set 'size.gpus=[" + std::to_string(gpus) + "]'");
  };
  CHECK(given(8 * nodes).status == 0);
  CHECK(given(8 * (nodes - 1)).status == 1);
}

TEST_CASE("a purchase above its budget is not recommended, and the nearest is named") {
  const Sandbox sandbox;
  const Ran ran = asked(sandbox, "--only H100 --set size.purchase_budget=900e3");
  CHECK(ran.status == 1);
  const Json result = Json::parse(ran.out);
  const std::string sentence = result["answers"].back()["sentence"];
  INFO(sentence);
  CHECK(sentence.find("Nothing is in time and within the limits. The nearest: ") == 0);
  const Json& nearest = result["machines"][result["nearest"].get<std::size_t>()];
  CHECK(nearest["excess"] > 1);
  // The best use of the budget buys at most 3 nodes.
  const Json& within = result["machines"][result["answers"][1]["machine"].get<std::size_t>()];
  CHECK(result["answers"][1]["question"] == "budget");
  CHECK(within["purchase"] <= 900e3);
}

TEST_CASE("a rack may leave GPUs idle, where as many as work are cut better") {
  const Sandbox sandbox;
  const Ran ran = asked(
      sandbox,
      "--only 'a, rack' --set 'size.gpus=[144]' --set size.days=9 --set size.batch_tolerance=0");
  check_done(ran);
  const Json one = Json::parse(ran.out)["sized"][0];
  CHECK(one["gpus"] == 128);  // of 144: a batch of 512 is no multiple of 9
  CHECK(one["nodes"] == 2);
  CHECK(one["batch"] == 512);
}

TEST_CASE("GPUs of a part of a node have the NICs that a simulation gives them") {
  const Sandbox sandbox;
  std::string text = kSize;
  for (const auto& [from, to] :
       std::map<std::string, std::string>{{"[8, 16]", "[12]"}, {"64", "60"}, {"= 1}", "= 2}"}})
    text.replace(text.find(from), from.size(), to);
  sandbox.file("part.toml", text);
  const Ran ran = sandbox.tandem("size part.toml --json --engine ideal");
  check_done(ran);
  const Json one = Json::parse(ran.out)["sized"][1];
  CHECK(one["candidate"] == "1 NIC");
  const Json alone =
      simulated(sandbox, one, "--set parallel.global_batch=60 --set cluster.nics_per_node=2");
  CHECK(one["simulate"]["iteration_s"].get<double>() == Approx(alone["iteration_s"].get<double>()));
}

TEST_CASE("fp8 is tried unless numerics are as stated, and its gain is told") {
  const Sandbox sandbox;
  const auto one = [&](const std::string& more) {
    const Ran ran =
        asked(sandbox, "--only 'a, H100' --set 'size.gpus=[16]' --set size.days=9 " + more);
    check_done(ran);
    return Json::parse(ran.out)["sized"][0];
  };
  const Json any = one(""), plain = one("--set 'size.numerics=as stated'");
  CHECK(any["plan"].contains("train.precision"));
  CHECK(any["plain_numerics"].get<double>() ==
        Approx(plain["simulate"]["iteration_s"].get<double>() /
               any["simulate"]["iteration_s"].get<double>()));
  CHECK(any["plain_numerics"] >= 1);
  CHECK(!plain["plan"].contains("train.precision"));
  CHECK(plain["plain_numerics"].is_null());
}

TEST_CASE("a batch that grows takes longer, by what its iterations take") {
  const Sandbox sandbox;
  const std::string own = "--only '8 NICs' --among parallel.micro_batch=1 ";
  const Json whole = sized(sandbox, own);
  const Json ramped =
      sized(sandbox, own + "--set size.ramp_from=16 --set size.ramp_tokens_T=0.0005");
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& one = ramped["sized"][i];
    CHECK(one["economics"]["ideal_days"] > whole["sized"][i]["economics"]["ideal_days"]);
    // Batches of 16 and 32 sequences of 1024 tokens, half of the ramp's tokens each.
    double seconds =
        std::ceil(0.0005e12 / (64 * 1024)) * one["simulate"]["iteration_s"].get<double>();
    for (const int batch : {16, 32}) {
      const std::string set = "--set parallel.global_batch=" + std::to_string(batch);
      seconds +=
          0.00025e12 / (batch * 1024) * simulated(sandbox, one, set)["iteration_s"].get<double>();
    }
    CHECK(one["economics"]["ideal_days"].get<double>() == Approx(seconds / 86400));
  }
}

TEST_CASE("a batch of the ramp below what the plan runs takes as long, for fewer sequences") {
  const Sandbox sandbox;
  const Json result = sized(
      sandbox,
      "--only '8 NICs' --among parallel.micro_batch=2 --among parallel.tp=1 --among parallel.pp=1 "
      "--set size.ramp_from=8 --set size.ramp_tokens_T=0.0006");
  const Json& one = result["sized"][1];  // 16 replicas of 2 sequences: multiples of 32
  REQUIRE(one["plan"]["parallel.dp"] == "16");
  const double least_s =
      simulated(sandbox, one, "--set parallel.global_batch=32")["iteration_s"].get<double>();
  double seconds =
      std::ceil(0.0004e12 / (64 * 1024)) * one["simulate"]["iteration_s"].get<double>();
  for (const int batch : {8, 16, 32}) seconds += 0.0002e12 / (batch * 1024) * least_s;
  CHECK(one["economics"]["ideal_days"].get<double>() == Approx(seconds / 86400));
  CHECK(has(result["machines"][1]["warnings"].dump(),
            "size.ramp_from = 8: the plan of 16 GPUs runs multiples of 32 alone"));
}

TEST_CASE("days are drawn from the seeds of variability.runs, and one seed alone is said") {
  const Sandbox sandbox;
  // Of the seeds 1 to 8 the third and the fifth slow the first node.
  const std::string slow =
      "--only '8 NICs' --set size.gpus=8 --set variability.straggler_share=0.3 --set "
      "variability.straggler_factor=2 ";
  const Json once = sized(sandbox, slow), all = sized(sandbox, slow + "--set variability.runs=8");
  const auto days = [](const Json& result, const char* key) {
    return result["sized"][0]["economics"][key].get<double>();
  };
  REQUIRE(days(all, "ideal_days") == days(once, "ideal_days"));
  CHECK(days(all, "days_late") > 1.5 * days(once, "days_late"));
  const auto warnings = [](const Json& result) { return result["machines"][0]["warnings"].dump(); };
  CHECK(has(warnings(once), "[variability]: its one seed, 1, decides all draws of days"));
  CHECK(!has(warnings(all), "[variability]"));
}

TEST_CASE("a repair of a part of a node without idle GPUs takes the node, and that is said") {
  const Sandbox sandbox;
  const auto warnings = [&](const std::string& set) {
    const Ran ran = asked(sandbox, "--only 'a, rack' --set size.days=9 --set 'size.gpus=[144]' " +
                                       std::string("--set size.batch_tolerance=0 ") + set);
    check_done(ran);
    return Json::parse(ran.out)["machines"][0]["warnings"].dump();
  };
  const std::string line =
      "failures.repair_gpus = 12: a repair takes the whole node of 72 GPUs: fewer than 12 of them "
      "are idle";
  CHECK(has(warnings("--set failures.repair_gpus=12"), line));  // 8 of 72 GPUs are idle
  CHECK(!has(warnings("--set failures.repair_gpus=8"), "failures.repair_gpus"));
  CHECK(!has(warnings("--set failures.repair_gpus=72"), "failures.repair_gpus"));  // the node
  CHECK(!has(warnings(""), "failures.repair_gpus"));
}

TEST_CASE("nodes that fail faster than they are repaired have no percentage of it") {
  const Sandbox sandbox;
  const Ran ran =
      asked(sandbox,
            "--only 'a, H100' --set 'size.gpus=[16]' --set size.purchase_budget=1e9 --set "
            "failures.gpu_mtbf_hours=1");
  CHECK(ran.status == 1);
  const std::string sentence = Json::parse(ran.out)["answers"][1]["sentence"];
  INFO(sentence);
  CHECK(has(sentence, "nodes fail faster than they are repaired. a never ends."));
}

TEST_CASE("as many jobs as one likes give the same answer") {
  const Sandbox sandbox;
  const Json one = sized(sandbox, "--jobs 1"), three = sized(sandbox, "--jobs 3");
  for (std::size_t i = 0; i < one["sized"].size(); ++i) {
    CHECK(one["sized"][i]["economics"] == three["sized"][i]["economics"]);
    CHECK(one["sized"][i]["plan"] == three["sized"][i]["plan"]);
  }
  CHECK(one["tornado"] == three["tornado"]);
}

TEST_CASE("what else is asked of a candidate is what simulations of it give") {
  const Sandbox sandbox;
  const Json result = sized(sandbox, "--only '1 NIC' --set size.gpus=16");
  const Json& one = result["sized"][0];
  REQUIRE(one["nodes"] == 2);
  const auto with = [&](const std::string& set) {
    return simulated(sandbox, one, "--set cluster.nics_per_node=1 " + set);
  };
  const double plain = with("")["iteration_s"];
  CHECK(one["simulate"]["iteration_s"] == plain);
  CHECK(one["nics"]["0.9"].get<double>() ==
        Approx(with("--set cluster.nic_Gbitps=360")["iteration_s"].get<double>() / plain));
  // A star is a fabric of leaves without oversubscription; these 2 nodes are on one leaf of 32.
  const std::string leaves = "--set cluster.fabric=rail-optimised --set cluster.nodes_per_leaf=";
  CHECK(with(leaves + "32")["iteration_s"] == plain);
  CHECK(one["oversubscribed"]["4"] == 1);
  CHECK(with(leaves + "1 --set cluster.oversubscription=4")["iteration_s"] > plain);
  CHECK(with("--set report.least_bandwidth=true")["least_internode_Gbitps"] ==
        one["simulate"]["least_internode_Gbitps"]);
}

TEST_CASE("what a file says of its own plan is no matter of sizing, and its keys are listed") {
  const Sandbox sandbox;
  const Json plain = sized(sandbox, "--only '1 NIC'");
  CHECK(plain["unused_keys"].empty());
  sandbox.file("plan.toml", kSize + "schedule.vocabulary = \"parallel\"\nparallel.tp = 2\n");
  const Ran ran = sandbox.tandem("size plan.toml --json --engine ideal --only '1 NIC'");
  check_done(ran);
  const Json same = Json::parse(ran.out);
  CHECK(same["unused_keys"] == Json{"parallel.tp", "schedule.vocabulary"});
  for (const char* key : {"plan", "economics"})
    CHECK(same["sized"][0][key] == plain["sized"][0][key]);
}

TEST_CASE("a gpus_max beyond the largest size that is searched limits nothing") {
  const Sandbox sandbox;
  const auto sizes_with = [&](const char* limit) {
    std::string text = kSize;
    text.replace(text.find("gpus = [8, 16]"), 14, limit);
    sandbox.file("size.toml", text);
    const Ran ran = sandbox.tandem(
        "size size.toml --json --engine ideal --only '8 NICs' --among parallel.tp=1 --among "
        "parallel.pp=1");
    check_done(ran);
    std::vector<int> sizes;
    const Json result = Json::parse(ran.out);
    for (const Json& one : result["sized"]) sizes.push_back(one["gpus"]);
    return sizes;
  };
  CHECK(sizes_with("gpus_max = 200000") == sizes_with(""));
}

TEST_CASE("a network tier is worth what the same GPUs take longer") {
  const Sandbox sandbox;
  // With 1 NIC one node is faster than two, if it was tried as well.
  const Json result = sized(sandbox, "--set size.gpus=16");
  std::map<std::pair<std::string, int>, double> iteration_s;
  for (const Json& one : result["sized"])
    iteration_s[{one["candidate"], one["gpus"]}] = one["simulate"]["iteration_s"];
  REQUIRE(!result["tiers"].empty());
  for (const Json& tier : result["tiers"]) {
    const int gpus = tier["gpus"];
    CHECK(tier["times_as_long"].get<double>() ==
          Approx(iteration_s[{tier["candidate"], gpus}] / iteration_s[{tier["best"], gpus}]));
    CHECK(tier["times_as_long"] > 1);
  }
}

TEST_CASE("tandem size refuses a wrong file with one line") {
  const Sandbox sandbox;
  sandbox.file("size.toml", kSize);
  const auto refused = [&](const std::string& arguments, const std::string& line) {
    const Ran ran = sandbox.tandem("size size.toml " + arguments);
    INFO(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(line) != std::string::npos);
  };
  refused("--set price.nodehour=3", "nearest is 'price.node_hour'");
  refused("--set size.days=0", "size.days = 0, expected a number from 0.001");
  refused("--set price.node=100000", "expected one of them: rented, or bought");
  refused("--set size.purchase_budget=1e6", "what is bought; tandem size needs it (run '");
  refused("--set size.power_MW=1 --set price.node_kW=0", "found no price.node_kW");
  refused("--set size.numerics=fp4", "size.numerics = fp4, expected any or as stated");
  refused("--set size.ramp_from=8", "expected both");
  refused("--set size.ramp_from=64 --set size.ramp_tokens_T=0.0005",
          "size.ramp_from = 64, expected less than the whole batch, parallel.global_batch = 64");
  refused("--set size.ramp_from=8 --set size.ramp_tokens_T=1",
          "size.ramp_tokens_T = 1, expected at most size.tokens_T = 0.001");
  refused("--set size.seed=1.5", "expected an integer from 0");
  refused("--set parallel.tp=8", "expected --among parallel.tp=8: the search chooses the plan");
  refused("--among parallel.tp=0", "expected a whole number of at least 1");
  refused("--set model.layer=8", "nearest is 'model.layers'");
}

TEST_CASE("other commands read a file of tandem size, and say what they leave out") {
  const Sandbox sandbox;
  sandbox.file("size.toml", kSize + "[failures]\nrepair_hours = 12\n");
  sandbox.file("job.toml", kJob);
  const std::string gpus = " --engine ideal --json --set cluster.gpus=16";
  const auto done = [&](const std::string& command) {
    const Ran ran = sandbox.tandem(command);
    REQUIRE(ran.status == 0);
    return std::pair(Json::parse(ran.out), ran.err);
  };
  const auto [file, said] = done("simulate size.toml --only '8 NICs'" + gpus);
  const auto [job, nothing] = done("simulate job.toml --set cluster.preset=dgx-h100" + gpus);
  CHECK(file[0]["iteration_s"] == job[0]["iteration_s"]);
  CHECK(has(said, "only tandem size reads [failures], [price], [size]"));
  CHECK(!has(nothing, "tandem size"));
  const auto [tuned, tune_said] =
      done("tune size.toml --only '8 NICs' --among parallel.tp=1 --among parallel.pp=1" + gpus);
  CHECK(has(tune_said, "only tandem size reads [failures], [price], [size]"));
  CHECK(!tuned["best"].empty());
  // Tables that no command reads stay unknown.
  check_refused(sandbox.tandem("simulate size.toml --set sizes.gpus=8"),
                "--set: found unknown key 'sizes.gpus'");
}

TEST_CASE("a setting for all candidates changes none of what their names and prices say") {
  const Sandbox sandbox;
  sandbox.file("size.toml", kSize);
  std::set<std::string> allowed;
  for (const char* key :
       {"collectives", "trees", "nvls", "placement", "memory_reserve_GiB", "communicator_GBps",
        "ring_fill_steps", "gemm_workspace_MiB", "gemm_ramp_k", "gemm_whole_wave", "training_clock",
        "attention_ramp_keys", "attention_softmax_size", "deepep_sm_GBps", "calibration"})
    allowed.insert(std::string("cluster.") + key);
  int refused = 0;
  for (const auto& [key, help] : scenario_keys()) {
    if (!key.starts_with("cluster.")) continue;
    const bool used = allowed.contains(key) || key.ends_with("_efficiency") ||
                      key.ends_with("_us") || key.ends_with("_latency") || key.ends_with("_rate");
    const auto cases =
        load_size_cases(sandbox.path("size.toml"), {{key, {std::int64_t{200}, "--set"}}}, "");
    const std::string error = cases.ok() ? "" : cases.error().text();
    const std::string begin = "--set: found " + key + " = 200, expected ";
    INFO(error);
    CHECK(used != (error.starts_with(begin + "it in a candidate's own lines") ||
                   error.starts_with(begin + "size.gpus")));
    refused += used ? 0 : 1;
  }
  CHECK(refused > 20);
  const Ran unknown = sandbox.tandem("size size.toml --set cluster.nope=3");
  check_refused(unknown, "--set: found unknown key 'cluster.nope'");
  const Ran nics = sandbox.tandem("size size.toml --set cluster.nic_Gbitps=200");
  check_refused(nics, "--set: found cluster.nic_Gbitps = 200, expected it in a candidate's own ");
  CHECK(nics.err.find("variability.background") != std::string::npos);
  // What the file itself says of one candidate stays.
  const auto slower = [&](const std::string& set) {
    const Json result = sized(sandbox, "--only '1 NIC' --set size.gpus=16 " + set);
    return result["sized"][0]["simulate"]["iteration_s"].get<double>();
  };
  CHECK(slower("--set variability.background=0.5") > slower(""));
}

TEST_CASE("docs/planning.md has every key of tandem size, word for word") {
  const std::string page = contents(TANDEM_SOURCE_DIR "/docs/planning.md");
  for (const auto& [key, help] : size_keys()) {
    INFO(key);
    CHECK(page.find("| `" + key + "` | " + help + " |") != std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
