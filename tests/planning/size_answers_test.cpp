// Answers of tandem size: the buyer's question as it is shipped, published machines, what moves an
// answer, and how sure it is.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "planning/size/answer_text.h"
#include "report/text/size_table.h"
#include "tests/needs.h"
#include "tests/sandbox.h"
#include "tests/text.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// Returns what `tandem size` answers about a shipped file. `options` follow it.
Json shipped(const std::string& name, const std::string& options) {
  const Sandbox sandbox;
  const Ran ran = sandbox.tandem(fmt::format("size '{}' --json --engine ideal {}",
                                             TANDEM_SOURCE_DIR "/scenarios/" + name, options));
  check_done(ran);
  return Json::parse(ran.out);
}

TEST_CASE("the buyer's question is answered in a sentence") {
  const Json result = shipped("procurement.toml", "--only GB200");
  CHECK(result["answers"].back()["sentence"] ==
        "Buy 5 racks of GB200 NVL72 (360 GPUs) for 20.55 M $: the cheapest that is in time and "
        "within the limits, 22.66 M $ over 4 years, up to 0.792 MW. Llama 3 70B takes 75.1 days, "
        "at most 85.8 of 90 with 95 % certainty, on 320 GPUs with a batch of 960 in fp8 (mxfp8), "
        "1.66 times as fast as in bf16, for 0.17 $ a million tokens; DeepSeek-V3 takes 19.7 days, "
        "at most 29.3 of 60 with 95 % certainty, on 320 GPUs with a batch of 8320 in fp8 (mxfp8) "
        "by alltoall, 1.23 times as fast as in bf16, for 0.23 $ a million tokens.");
  // 6 N D of Llama 3 70B: N is 69.5e9 without the input's embedding (80 layers of 2 x 8192^2 for q
  // and out, 2 x 8192 x 1024 for k and v, 3 x 8192 x 28672; 8192 x 128256 for the head), D 8e12:
  // 3.34e24 FLOPs. Attention's products add 12 x 80 x 8192 x 8192 a token, 0.52e24. The days are
  // FLOPs over GPUs x fp8's peak x MFU.
  const double N =
      80 * (2 * 8192.0 * 8192 + 2 * 8192.0 * 1024 + 3 * 8192.0 * 28672) + 8192.0 * 128256;
  const double work = (6 * N + 12 * 80 * 8192.0 * 8192) * 8e12;
  const Json& run = result["sized"][0];
  REQUIRE(run["job"] == "Llama 3 70B");
  const double peak = 5000e12;
  const double days =
      work / (run["gpus"].get<double>() * peak * run["simulate"]["mfu"].get<double>()) / 86400;
  CHECK(run["economics"]["ideal_days"].get<double>() == Approx(days).epsilon(0.005));
}

TEST_CASE("a key of a plan that counts for nothing names what does, if something does") {
  const Sandbox sandbox;
  for (const auto& [key, value] :
       {std::pair{"schedule.vocabulary", "parallel"}, std::pair{"parallel.layout", "auto"},
        std::pair{"schedule.order", "auto"}})
    check_refused(
        sandbox.tandem(fmt::format("size '{}/scenarios/procurement.toml' --set {}={}",
                                   TANDEM_SOURCE_DIR, key, value)),
        fmt::format("--set: found {} = {}, expected none: the search chooses the plan, and "
                    "compares plans that are not refined",
                    key, value));
  SizeResult result;
  result.unused_keys = {"parallel.tp", "cluster.gpus"};
  CHECK(size_notes(result) ==
        "The search chooses parallel.tp, whatever the file states; --among says from what.\n"
        "cluster.gpus of the file does not count: size.gpus says it.\n");
}

TEST_CASE("a price below ten cents has two digits, as others have at least") {
  CHECK(money_text(0.0038286, "$") == "0.0038 $");
  CHECK(money_text(0.0050981, "$") == "0.0051 $");
  CHECK(money_text(0.0073650, "$") == "0.0074 $");
  CHECK(money_text(0.1744, "$") == "0.17 $");
  CHECK(money_text(0, "$") == "0.00 $");
  CHECK(money_text(1'234'567, "$") == "1.23 M $");
  CHECK(money_text(1 / 0.0, "$") == "-");
}

TEST_CASE("a plan that stage level prices too low, or that is a guess, displaces no better one") {
  for (const char* only : {"--only 'DeepSeek-V3, GB200' --set 'size.gpus=[648]'",
                           "--only 'Llama 3 70B, B200' --set 'size.gpus=[336]'"}) {
    INFO(only);
    const auto days = [&](const std::string& more) {
      return shipped("procurement.toml", only + more)["machines"][0]["days_late"].get<double>();
    };
    CHECK(days("") <= days(" --among train.zero=0,1"));
  }
}

TEST_CASE("whole nodes stand by where as many as work are cut better") {
  const std::string offer = "--only 'DeepSeek-V3, MI300X' --set size.gpus=";
  const Json two = shipped("procurement.toml", offer + "'[768, 928]'");
  REQUIRE(two["machines"].size() == 2);
  const Json &small = two["machines"][0], &large = two["machines"][1];
  CHECK(large["days_late"] <= small["days_late"]);
  CHECK(large["gpus"] == 928);
  CHECK(large["nodes"] == 96);
  CHECK(large["spare_nodes"] == 20);
  CHECK(large["purchase"] > small["purchase"]);
  CHECK(two["sized"][1]["gpus"] == 768);
  const Json alone = shipped("procurement.toml", offer + "'[928]'");
  REQUIRE(alone["machines"].size() == 1);
  CHECK(alone["machines"][0]["days_late"] == large["days_late"]);
  CHECK(has(alone["answers"].back()["sentence"].get<std::string>(),
            "116 nodes of MI300X (928 GPUs; 20 of the nodes stand by)"));
}

TEST_CASE("published machines are found again from their tokens and days") {
  // As scenarios/published-machines.toml says: 16,384 H100 and 2,048 H800. Within 15 %.
  const auto gpus = [](const std::string& only) {
    const Json result = shipped("published-machines.toml", "--only '" + only + "'");
    const Json& least = result["answers"].front();
    CHECK(least["question"] == "least");
    return result["machines"][least["machine"].get<std::size_t>()]["gpus"].get<double>();
  };
  CHECK(gpus("Llama 3 405B") == Approx(16384).epsilon(0.15));
  CHECK(gpus("DeepSeek-V3") == Approx(2048).epsilon(0.15));
}

const std::string kModel = R"([model]
layers = 8
hidden = 2048
heads = 16
seq = 1024
vocab = 32000
[parallel]
global_batch = 512
[size]
tokens_T = 0.2
)";

Ran ran_with(const std::string& candidates, const std::string& options) {
  const Sandbox sandbox;
  sandbox.file("size.toml", kModel + candidates);
  return sandbox.tandem("size size.toml " + options);
}

Json answered(const std::string& candidates, const std::string& options = "") {
  const Ran ran = ran_with(candidates, "--json " + options);
  check_done(ran);
  return Json::parse(ran.out);
}

// Two offers of H100 at these prices, A and B.
std::string offers(const std::string& prices_a, const std::string& prices_b) {
  const std::string node = "[[matrix.node]]\ncluster.preset = \"dgx-h100\"\n";
  return node + "name = \"A\"\n" + prices_a + "\n" + node + "name = \"B\"\n" + prices_b + "\n";
}

// What is answered about them, on so many GPUs.
Json two_offers(const std::string& prices_a, const std::string& prices_b, const std::string& more,
                const std::string& options = "--engine ideal") {
  return answered(more + offers(prices_a, prices_b), options);
}

const Json& bar(const Json& result, const std::string& input) {
  for (const Json& one : result["tornado"]) {
    if (one["input"] == input) return one;
  }
  FAIL("found no bar of " << input);
  return result;
}

TEST_CASE("two equal offers are the best equally often") {
  for (const char* price : {"price.node = 300e3", "price.node_hour = 10"}) {
    INFO(price);
    const Json sure = two_offers(price, price, "gpus = [32]\ndays = 3\n")["sure"];
    REQUIRE(sure["offers"].size() == 2);
    for (const Json& offer : sure["offers"])
      CHECK(offer[1].get<double>() == Approx(0.5).margin(0.03));
    CHECK(sure["machine"].get<double>() == Approx(0.5).margin(0.03));
  }
}

TEST_CASE("a machine whose GPUs size.gpus does not list is compared with none") {
  // The search also tries 15 of the 16 nodes, which are cheaper and in time.
  const Json result = answered(R"(gpus = [128]
days = 3
[[matrix.node]]
name = "A"
cluster.preset = "dgx-h100"
price.node = 300e3
)",
                               "--engine ideal --among parallel.tp=1 --among parallel.pp=1");
  CHECK(result["sure"]["machine"].get<double>() == Approx(1));
  REQUIRE(!result["tornado"].empty());
  for (const Json& one : result["tornado"]) CHECK(one["flips_to"].is_null());
}

TEST_CASE("what is a little cheaper and as likely to be in time is the best") {
  const Json sure =
      two_offers("price.node = 300e3", "price.node = 297e3", "gpus = [32]\ndays = 3\n")["sure"];
  CHECK(sure["offers"][0][0] == "B");
  CHECK(sure["machine"].get<double>() > 0.95);
}

TEST_CASE("a dearer recommended node makes another one the best") {
  const Json result =
      two_offers("price.node = 300e3", "price.node = 312e3", "gpus = [32]\ndays = 3\n");
  const Json& price = bar(result, "price of the recommended nodes");
  CHECK(price["flips_at"].get<double>() == Approx(312 / 300.0).epsilon(1e-3));
  CHECK(price["flips_to"] == "B, 32 GPUs that work");
}

TEST_CASE("a tornado has each input's effect, and the value at which the choice changes") {
  // B costs more a node and has twice the nodes: it is in time by far, A by a little.
  const Json result = two_offers("size.gpus = [32]\nprice.node = 300e3",
                                 "size.gpus = [64]\nprice.node = 310e3", "days = 0.9\n");
  const Json& best = result["machines"][result["answers"].back()["machine"].get<std::size_t>()];
  REQUIRE(best["candidate"] == "A");
  const Json& price = bar(result, "price of the recommended nodes");
  CHECK(price["total_low"].get<double>() == Approx(-0.1));
  CHECK(price["total_high"].get<double>() == Approx(0.1));
  CHECK(price["days_high"] == 0);
  CHECK(price["flips_at"].is_null());
  const Json& mfu = bar(result, "MFU");
  CHECK(mfu["days_low"].get<double>() == Approx(1 / 0.9 - 1).epsilon(0.01));
  CHECK(mfu["days_high"].get<double>() == Approx(1 / 1.1 - 1).epsilon(0.01));
  const Json& tokens = bar(result, "tokens");
  CHECK(tokens["days_high"].get<double>() == Approx(0.1).epsilon(0.01));
  // A is late from MFU x days / 0.9 days on.
  const double share = best["days_late"].get<double>() / 0.9;
  REQUIRE(share < 1);
  REQUIRE(share > 0.91);
  CHECK(mfu["flips_at"].get<double>() == Approx(share).epsilon(0.01));
  CHECK(mfu["flips_to"] == "B, 64 GPUs that work");
  CHECK(tokens["flips_at"].get<double>() == Approx(1 / share).epsilon(0.01));
}

TEST_CASE("switches, optics and cables are paid where a node's price leaves them out") {
  const Json result = answered(R"(gpus = [512]
[price]
node_without_network = 280e3
switch = 30e3
optic = 600
cable = 200
[[matrix.node]]
name = "H100"
cluster.preset = "dgx-h100"
)",
                               "--engine ideal");
  const Json& machine = result["machines"][0];
  const Json& network = machine["network"];
  const double nodes = machine["nodes"].get<double>() + machine["spare_nodes"].get<double>();
  const double price = 30e3 * network["switches"].get<double>() +
                       600 * network["optics"].get<double>() +
                       200 * network["cables"].get<double>();
  CHECK(network["switches"] > 0);
  CHECK(machine["network_price"].get<double>() == Approx(price));
  CHECK(machine["purchase"].get<double>() == Approx(280e3 * nodes + price));
}

TEST_CASE("what cannot be built answers no question, or with that said if its price has all") {
  const auto ran = [](const std::string& prices) {
    return ran_with(
        "gpus = [32]\ndays = 3\n[[matrix.node]]\nname = \"A\"\ncluster = {preset = "
        "\"dgx-h100\", nic_Gbitps = 1600}\nprice = {" +
            prices + "}\n",
        "--engine ideal --among parallel.tp=1 --among parallel.pp=1");
  };
  const Ran apart = ran("node_without_network = 280e3, switch = 30e3, optic = 600");
  CHECK(apart.status == 1);
  CHECK(has(apart.out, "Nothing that can be built is in time."));
  CHECK(!has(apart.out, "inf "));
  const Ran whole = ran("node = 300e3");
  CHECK(whole.status == 0);
  CHECK(has(whole.out, "for 1.50 M $, if its network can be built: the cheapest"));
}

TEST_CASE("numbers of GPUs of which as many work are one machine") {
  const Json result = answered(R"(gpus = [512, 576]
batch_tolerance = 0
[[matrix.node]]
name = "rack"
cluster.preset = "gb200-nvl72"
price.node = 4e6
)",
                               "--engine ideal");
  CHECK(result["machines"].size() == 1);
  CHECK(result["machines"][0]["gpus"] ==
        576 + 72 * result["machines"][0]["spare_nodes"].get<int>());
}

TEST_CASE("a rack of which size.gpus names a part is bought whole, and its idle GPUs stand in") {
  const std::string rack = R"([[matrix.node]]
name = "rack"
cluster.preset = "gb200-nvl72"
price.node = 4e6
)";
  const Json part = answered("gpus = [64]\nbatch_tolerance = 0\n" + rack, "--engine ideal");
  const Json whole = answered("gpus = [72]\nbatch_tolerance = 0\n" + rack, "--engine ideal");
  REQUIRE(whole["sized"][0]["gpus"] == 64);
  for (const char* key : {"gpus", "nodes", "spare_nodes", "purchase"})
    CHECK(part["machines"][0][key] == whole["machines"][0][key]);
  CHECK(part["machines"][0]["gpus"] == 72 * (1 + part["machines"][0]["spare_nodes"].get<int>()));
}

TEST_CASE("of machines with one price the one that is done first is recommended") {
  const Json result = answered(R"(gpus = [4, 8]
[[matrix.node]]
name = "H100"
cluster.preset = "dgx-h100"
price.node = 300e3
)",
                               "--engine ideal");
  const Json& machines = result["machines"];
  REQUIRE(machines[0]["total"] == machines[1]["total"]);
  REQUIRE(machines[0]["days_late"] > machines[1]["days_late"]);
  CHECK(machines[1]["recommended"] == true);
}

const std::string kOnGpus = "gpus = [32]\ndays = 3\n";
const std::string kFewPlans =
    "--engine ideal --among parallel.tp=1 --among parallel.pp=1 --among parallel.micro_batch=1 ";

TEST_CASE("a machine that differs from job to job is refused") {
  const auto refused = [](const std::string& of_jobs, const std::string& line) {
    check_refused(ran_with(kOnGpus + of_jobs + R"([[matrix.contract]]
name = "reserved"
price.node_hour = 20
)",
                           kFewPlans),
                  "size.toml: found " + line);
  };
  const auto jobs = [](const std::string& of_x, const std::string& of_y) {
    return "[[matrix.job]]\nname = \"x\"\n" + of_x + "\n[[matrix.job]]\nname = \"y\"\n" + of_y +
           "\n";
  };
  const std::string expected =
      " of 'reserved' that differ from job to job ('x', 'y'), expected one machine for all jobs";
  refused(jobs("cluster.preset = \"dgx-h100\"", "cluster.preset = \"dgx-b200\""),
          "clusters" + expected);
  const std::string h100 = "cluster.preset = \"dgx-h100\"\n";
  refused(jobs(h100 + "size.gpus = [16]", h100), "size.gpus or prices" + expected);
  refused(jobs(h100 + "size.gpus_max = 64", h100), "limits of [size]" + expected);
  // A cluster's settings that say what is reached of one machine may differ.
  CHECK(answered(kOnGpus + jobs(h100 + "cluster.memory_reserve_GiB = 10", h100) +
                     "[[matrix.contract]]\nname = \"reserved\"\nprice.node_hour = 20\n",
                 kFewPlans)["machines"]
            .size() == 1);
}

TEST_CASE("totals are compared over as many years and in one currency, or refused") {
  const auto refused = [](const std::string& a, const std::string& b, const std::string& line) {
    check_refused(ran_with(kOnGpus + offers(a, b), kFewPlans), "size.toml: found " + line);
  };
  const std::string four = "price = {node = 300e3, years = 4}";
  const std::string two = "price = {node = 300e3, years = 2}";
  refused(four, two,
          "a total over 4 years of 'A' and over 2 years of 'B', expected one size.years for all");
  refused("price.node_hour = 20", four,
          "a total over the trainings' own time of 'A' and over 4 years of 'B'");
  refused("price = {node_hour = 9, currency = \"EUR\"}", "price.node_hour = 9",
          "price.currency EUR of 'A' and $ of 'B', expected one price.currency for all");
  // What is used for 2 years is bought twice in 4.
  const Json machines = two_offers(four, two, kOnGpus + "years = 4\n", kFewPlans)["machines"];
  CHECK(machines[0]["total"] == machines[0]["purchase"]);
  CHECK(machines[1]["total"].get<double>() == 2 * machines[1]["purchase"].get<double>());
  CHECK(machines[0]["recommended"] == true);
}

TEST_CASE("rented and bought machines are ordered by their totals over the same years") {
  // A node for 20 an hour costs 701 k in 4 years, more than the 400 k for which another is bought.
  const std::string file =
      kOnGpus + "years = 4\n" +
      offers("price.node_hour = 20", "price.node = 400e3\nsize.purchase_budget = 1e6");
  const Ran ran = ran_with(file, kFewPlans + "--json");
  const Json result = Json::parse(ran.out);
  const Json& rented = result["machines"][0];
  const Json& bought = result["machines"][1];
  const double nodes = rented["nodes"].get<double>() + rented["spare_nodes"].get<double>();
  CHECK(rented["total"].get<double>() == Approx(nodes * 20 * 8766 * 4));
  REQUIRE(bought["out"] == "above the purchase budget");
  REQUIRE(rented["recommended"] == true);
  const Json& least = result["answers"][0];
  CHECK(least["machine"] == 1);
  CHECK(has(least["sentence"],
            "The smallest tried that is in time (by total, 2.00 M $ over 4 years): "));
}

TEST_CASE("trainings that take longer than the years counted rule a machine out") {
  const std::string file = R"([[matrix.node]]
name = "A"
cluster.preset = "dgx-h100"
price = {node = 300e3, years = 2}
)";
  const Ran ran = ran_with("days = 3\nweight = 1000\ngpus = [32]\n" + file, kFewPlans + "--json");
  CHECK(ran.status == 1);
  const Json late = Json::parse(ran.out);
  const double days = late["machines"][0]["days_late"];
  REQUIRE(late["sized"][0]["economics"]["days_late"] < 3);
  CHECK(late["machines"][0]["out"] == "beyond the 2 years counted");
  CHECK(late["machines"][0]["excess"].get<double>() == Approx(days / (2 * 365.25)));
  // The search goes on until all of them fit.
  const Json found = answered("days = 3\nweight = 1000\n" + file, kFewPlans);
  CHECK(found["machines"][0]["out"].is_null());
  CHECK(found["machines"][0]["days_late"] <= 2 * 365.25);
  CHECK(found["answers"][0]["machine"] == found["answers"][1]["machine"]);
}

TEST_CASE("days of delivery count against the first job alone, as days of jobs before do not") {
  const auto out = [](const std::string& set) {
    const std::string jobs = "[[matrix.job]]\nname = \"x\"\nsize.days = 30\n" +
                             std::string("[[matrix.job]]\nname = \"y\"\nsize.days = 3\n");
    const Ran ran = ran_with(
        "gpus = [32]\ndelivery_days = 20\n" + jobs + offers("price.node = 3e5", "price.node = 2e5"),
        kFewPlans + "--json " + set);
    return Json::parse(ran.out)["machines"][0];
  };
  const Json machine = out("");
  CHECK(machine["out"].is_null());
  CHECK(machine["days_late"] > 20);
  CHECK(out("--set size.days=20.1")["out"] == "x: later than 20.1 days");
}

TEST_CASE("energy that is paid for needs a node's kW, and what is not known is shown as -") {
  const std::string known = "price = {node = 300e3, node_kW = 10}";
  check_refused(
      ran_with(kOnGpus + "[price]\nkWh = 0.1\n" + offers(known, "price.node = 20e4"), kFewPlans),
      "size.toml: found no price.node_kW of 'B', expected it beside price.kWh");
  check_refused(ran_with(kOnGpus + offers("price = {node = 20e4, gCO2_kWh = 9}", known), kFewPlans),
                "size.toml: found no price.node_kW of 'A', expected it beside price.gCO2_kWh");
  // A rent may include the energy, which is said so.
  const auto rented = [](const std::string& b) {
    return ran_with(kOnGpus + "[price]\nkWh = 0.1\n" +
                        offers("price = {node_hour = 20, node_kW = 10}", "price = " + b),
                    kFewPlans);
  };
  check_refused(rented("{node_hour = 30}"),
                "size.toml: found no price.node_kW of 'B', expected it beside price.kWh, or 0 of ");
  const Ran ran = rented("{node_hour = 30, kWh = 0}");
  check_done(ran);
  CHECK(std::regex_search(ran.out, std::regex("\nB +40 .* k \\$ +- +- +[0-9.]+\n")));
}

TEST_CASE("the rent a month is limited as it is shown, with its energy") {
  const std::string file = offers("price = {node_hour = 20, node_kW = 10, kWh = 0.5}",
                                  "price = {node_hour = 30, node_kW = 10, kWh = 0.5}");
  const Ran ran = ran_with(kOnGpus + "rent_per_month = 60e3\n" + file, kFewPlans + "--json");
  CHECK(ran.status == 1);
  for (const Json& machine : Json::parse(ran.out)["machines"]) {
    CHECK(machine["out"] == "above the rent per month");
    CHECK(machine["excess"].get<double>() == Approx(machine["monthly"].get<double>() / 60e3));
  }
}

TEST_CASE("assumptions are those of all candidates, with the ones that each is of") {
  const Json result = two_offers("price = {node = 300e3, pue = 1.1, years = 4}",
                                 "price = {node = 290e3, load = 0.7}", kOnGpus, kFewPlans);
  std::map<std::string, std::string> values;
  for (const Json& one : result["assumptions"]) values[one["key"]] = one["value"];
  CHECK(values["price.pue"] == "1.2*; of B");
  CHECK(values["price.years"] == "4; of B");
  CHECK(has(values["price.load"], "arXiv 2506.14551); of A"));
  CHECK(values["failures.repair_hours"] == "24*");
  CHECK(!values.contains("size.days"));
  // Of the jobs y alone has a default.
  const Json jobs = answered(kOnGpus + R"([[matrix.job]]
name = "x"
size.weight = 2
[[matrix.job]]
name = "y"
)" + offers("price.node_hour = 9", "price.node_hour = 8"),
                             kFewPlans);
  for (const Json& one : jobs["assumptions"]) values[one["key"]] = one["value"];
  CHECK(values["size.weight"] == "1; of y");
}

TEST_CASE("a recommended plan that fits only if unfragmented is said to, and the table has GiB") {
  const std::string file = kOnGpus + R"([[matrix.node]]
name = "A"
cluster.preset = "dgx-h100"
price.node = 300e3
)";
  const std::string options =
      kFewPlans +
      "--among train.zero=0 --among train.recompute=none --set 'size.numerics=as stated' ";
  const std::string line = "Recommended plans that fit into memory only if unfragmented: ";
  const Ran roomy = ran_with(file, options);
  check_done(roomy);
  CHECK(!has(roomy.out, line));
  CHECK(std::regex_search(roomy.out, std::regex(" yes \\+[0-9.]+ ")));
  const Json bytes = answered(file, options)["sized"][0]["simulate"]["memory_bytes"];
  const double GiB = (bytes["total"].get<double>() + bytes["outside"].get<double>()) / (1 << 30);
  const Ran tight = ran_with(file + fmt::format("cluster.memory_GiB = {}\n", GiB + 0.3), options);
  CHECK(has(tight.out, line + "the training.\n"));
  CHECK(has(tight.out, " if unfragmented +0.3 "));
}

TEST_CASE("where no plan fits, no nearest is promised, and no days or totals are shown") {
  const std::string file = kOnGpus + offers("price.node_hour = 9", "price.node_hour = 8");
  const std::string none = kFewPlans + "--set cluster.memory_reserve_GiB=79.5 ";
  const Ran ran = ran_with(file, none);
  CHECK(ran.status == 1);
  CHECK(has(ran.err, "nothing is in time and within the limits\n"));
  CHECK(std::regex_search(ran.out, std::regex("\nA +32 +no plan.* k \\$ +- +-\n")));
  const Json result = Json::parse(ran_with(file, none + "--json").out);
  CHECK(result["nearest"].is_null());
  for (const Json& machine : result["machines"]) {
    CHECK(machine["total"].is_null());
    CHECK(machine["days_late"].is_null());
  }
}

TEST_CASE("days and costs of nodes that fail faster than they are repaired are not known") {
  for (const char* more : {"", "--set failures.spare_nodes=1 "}) {
    INFO(more);
    const Ran ran =
        ran_with(kOnGpus + "budget = 1e9\n" + offers("price.node = 9e4", "price.node_hour = 8"),
                 kFewPlans + "--json --set size.years=4 --set failures.gpu_mtbf_hours=5 " + more);
    CHECK(ran.status == 1);
    const Json result = Json::parse(ran.out);
    CHECK(result["answers"][0]["sentence"] == "Nothing is in time.");
    for (const Json& machine : result["machines"]) {
      CHECK(machine["out"] == "nodes fail faster than they are repaired");
      CHECK(machine["days_late"].is_null());
    }
    for (const Json& one : result["sized"]) {
      for (const char* key : {"days_p50", "days_late", "cost", "energy_MWh"})
        CHECK(one["economics"][key].is_null());
    }
  }
}

TEST_CASE("an input at whose end nodes fail too fast has no end there") {
  const std::string file =
      "gpus = [8]\ndays = 3000\nyears = 9\n" + offers("price.node = 300e3", "price.node = 310e3");
  const std::string often = kFewPlans + "--set failures.gpu_mtbf_hours=3600 ";
  const Json failures = bar(answered(file, often), "failures");
  CHECK(failures["days_low"].is_number());
  CHECK(failures["days_high"].is_null());
  CHECK(std::regex_search(ran_with(file, often + "--wide").out,
                          std::regex("failures .* to - % .*: none in time")));
}

TEST_CASE("all rates of a run that is scaled to the chosen engine's go together") {
  need_simgrid();
  const Json result = answered(R"(days = 1
numerics = "as stated"
[[matrix.node]]
name = "8 NICs"
cluster.preset = "dgx-h100"
price.node = 300e3
[[matrix.node]]
name = "1 NIC"
cluster = {preset = "dgx-h100", nics_per_node = 1}
price.node = 310e3
)",
                               "--among parallel.micro_batch=1");
  for (const Json& one : result["sized"]) {
    const Json& run = one["simulate"];
    const double FLOPs = 1e12 * run["model_tflops_per_gpu"].get<double>() /
                         run["tokens_per_s_per_gpu"].get<double>();
    const Json& first = result["sized"][0]["simulate"];
    CHECK(FLOPs == Approx(1e12 * first["model_tflops_per_gpu"].get<double>() /
                          first["tokens_per_s_per_gpu"].get<double>()));
    CHECK(run["tokens_per_s_per_gpu"].get<double>() * one["gpus"].get<double>() *
              run["iteration_s"].get<double>() ==
          Approx(one["batch"].get<double>() * 1024));
  }
}

}  // namespace
}  // namespace tandem
