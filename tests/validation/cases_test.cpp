// tandem validate CASES.csv: reading, settings, predictions, and the numbers by family.
#include "validation/published/cases.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/page/case_page.h"
#include "report/text/case_table.h"
#include "report/text/what_if_table.h"
#include "tests/sandbox.h"
#include "tests/validation/case_rows.h"
#include "validation/published/ratios.h"
#include "validation/published/what_if.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;
using Layers = std::vector<std::int64_t>;

// Lines of validation/published/cases.csv, which names their sources: arXiv 2104.04473 (table 1),
// 2205.05198 (tables 3 and 5), 2401.10241 (tables 4, 8 and 9).
const std::string kHeader =
    "id,source,system,gpu,gpus,gpus_per_node,model,layers,hidden,ffn_hidden,heads,kv_heads,seq,"
    "vocab,gated_mlp,tp,pp,vpp,cp,ep,dp,schedule,micro_batch,global_batch,precision,recompute,"
    "sequence_parallel,zero_stage,iteration_s,iteration_s_origin,uncertainty,family,notes\n";
const std::string kSelene =
    "SC21-T1-04,arXiv 2104.04473 Table 1,selene,A100-80GB,256,8,GPT 18.4B,40,6144,24576,48,48,2048,"
    "51200,0,8,1,1,1,1,32,1f1b,8,1024,fp16,full,0,0,9.399,derived,0.0037,sc21-table1,\n";
const std::string kKorthikanti =
    "KOR-22B-present,arXiv 2205.05198 Tables 3 and 5,selene,A100-80GB,8,8,GPT 22B,48,6144,24576,64,"
    "64,2048,51200,0,8,1,1,1,1,1,1f1b,4,4,fp16,selective,1,0,1.1,reported,0.005,korthikanti,\n";
const std::string kZeroBubble =
    "ZB-037,\"arXiv 2401.10241 Tables 4, 8, 9\",zb-a100,A100-80GB,8,8,GPT 1.5B,22,2304,9216,24,24,"
    "1024,50257,0,1,8,3,1,1,1,interleaved,6,144,fp16,none,0,0,1.3740,derived,0.01,zero-bubble,"
    "\"layers = k*p-2; vocab assumed\"\n";
const std::string kThree = kHeader + kSelene + kKorthikanti + kZeroBubble;

// What kSelene says, as somebody would write it by hand.
const std::string kSeleneToml = R"([model]
layers = 40
hidden = 6144
heads = 48
seq = 2048
vocab = 51200
[parallel]
tp = 8
dp = 32
micro_batch = 8
global_batch = 1024
scatter_gather = true
[train]
precision = "fp16"
recompute = "full"
[cluster]
preset = "selene"
)";

const std::string kLeast = "id,family,system,layers,hidden,heads,seq,vocab,iteration_s";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<Case> read(const std::string& text) {
  const Folder folder;
  const auto cases = read_cases(folder.with("c.csv", text));
  INFO((cases.ok() ? "" : cases.error().text()));
  REQUIRE(cases.ok());
  return *cases;
}

// The Error's message from the file's name on.
std::string refused(const std::string& text) {
  const Folder folder;
  const auto cases = read_cases(folder.with("c.csv", text));
  REQUIRE(!cases.ok());
  const std::string& message = cases.error().text();
  return message.substr(message.find("c.csv"));
}

Scenario scenario(const Case& run) {
  const auto made = scenario_of(run);
  INFO((made.ok() ? "" : made.error().text()));
  REQUIRE(made.ok());
  return *made;
}

}  // namespace

TEST_CASE("a line of a cases file is read, quoted cells and all") {
  const std::vector<Case> cases = read(kThree);
  REQUIRE(cases.size() == 3);
  const Case& run = cases[2];
  CHECK(run.id == "ZB-037");
  CHECK(run.family == "zero-bubble");
  CHECK(run.place().ends_with("c.csv:4"));
  CHECK(run.layers == 22);
  CHECK(run.vpp == 3);
  CHECK(run.dp == 1);
  CHECK(run.schedule == "interleaved");
  CHECK(run.measured_s == 1.374);
  CHECK(cases[1].sequence_parallel);
  CHECK_FALSE(cases[0].sequence_parallel);
}

TEST_CASE("what a case leaves out is the scenario's default") {
  const std::vector<Case> cases = read(kLeast +
                                       ",dp,pp,gated_mlp\nx,f,selene,4,512,8,128,1024,2,"
                                       ",2,\n");
  const Scenario run = scenario(cases.at(0));
  CHECK(run.name == "x");
  CHECK(run.job.order.name == "1f1b");
  CHECK(run.job.plan.tp == 1);
  CHECK(run.job.plan.dp == 1);
  CHECK(run.cluster.gpus == 2);
  CHECK(run.job.plan.micro_batch == 1);
  CHECK(run.job.plan.global_batch == 1);
  CHECK(run.job.plan.precision == "bf16");
  CHECK(run.job.plan.recompute == Recompute::None);
  CHECK(run.job.plan.zero == 0);
  CHECK_FALSE(run.job.model.gated_mlp);
}

TEST_CASE("a bad line is refused with its place, what was found and what was expected") {
  CHECK(refused(kLeast + "\nx,f,selene,4,512,8,128,1024,soon\n") ==
        "c.csv:2: column 'iteration_s': found 'soon', expected a finite number");
  CHECK(refused(kLeast + "\n\nx,f,selene,4,512,8,128,1024,0\n") ==
        "c.csv:3: column 'iteration_s': found 0, expected seconds above 0");
  CHECK(refused(kLeast + "\nx,f,selene,4.5,512,8,128,1024,2\n") ==
        "c.csv:2: column 'layers': found '4.5', expected an integer");
  CHECK(refused(kLeast + "\nx,f,selene,0,512,8,128,1024,2\n") ==
        "c.csv:2: column 'layers': found 0, expected 1 to 1000000000");
  CHECK(refused(kLeast + "\nx,f,,4,512,8,128,1024,2\n") ==
        "c.csv:2: column 'system': found nothing, expected a text");
  CHECK(refused(kLeast + ",zero_stage\nx,f,selene,4,512,8,128,1024,2,4\n") ==
        "c.csv:2: column 'zero_stage': found 4, expected 0 to 3");
  CHECK(refused(kLeast + "\nx,f,selene,4,512\n") ==
        "c.csv:2: found 5 cells, expected 9 as in the header");
  CHECK(refused("# runs\n" + kLeast + ",iteration_s\nx,f,selene,4,512,8,128,1024,2,3\n") ==
        "c.csv:2: found the column iteration_s twice, expected it once");
  CHECK(refused(kLeast + ",s_per_step\nx,f,selene,4,512,8,128,1024,2,3\n") ==
        "c.csv:2: column 'iteration_s': found 2 beside s_per_step = 3, expected the same: they are "
        "two names of one number");
  CHECK(refused(kLeast + ",global_batch,gbs\nx,f,selene,4,512,8,128,1024,2,16,32\n")
            .starts_with("c.csv:2: column 'global_batch': found 16 beside gbs = 32"));
  CHECK(refused(kLeast + ",peak_alloc_GiB,max_alloc_bytes\nx,f,selene,4,512,8,128,1024,2,2,1e9\n")
            .starts_with("c.csv:2: column 'peak_alloc_GiB': found 2 beside max_alloc_bytes = 1e"));
  CHECK(read(kLeast + ",s_per_step,peak_alloc_GiB,max_alloc_bytes\n"
                      "x,f,selene,4,512,8,128,1024,2,2.0,20,21474836480\n")
            .size() == 1);
  CHECK(refused(kLeast + "\n") == "c.csv:1: found a header alone, expected a line a run");
  CHECK(refused("id,family\nx,f\n").starts_with("c.csv:1: found no column 'iteration_s', "));
}

TEST_CASE("a case's scenario is the one that somebody would write by hand") {
  const Sandbox sandbox;
  sandbox.file("c.csv", kThree);
  sandbox.file("s.toml", kSeleneToml);
  const Ran cases = sandbox.tandem("validate c.csv --only SC21-T1-04 --json");
  check_done(cases);
  const Ran run = sandbox.tandem("simulate s.toml --engine ideal --json");
  check_done(run);
  const Json row = Json::parse(cases.out)["rows"].at(0);
  const Json result = Json::parse(run.out).at(0);
  CHECK(row["predicted_s"] == result["iteration_s"]);
  CHECK(row["compute_s"] == result["compute_s"]);
}

TEST_CASE("layers that do not divide are one short at both ends, or few on the last stage") {
  CHECK(uneven_layers(22, 8) == Layers{2, 3, 3, 3, 3, 3, 3, 2});
  // BLOOM's 70 on 12.
  CHECK(uneven_layers(70, 12) == Layers{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5});
  CHECK(uneven_layers(78, 12) == Layers{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1});
  CHECK(uneven_layers(7, 4) == Layers{2, 2, 2, 1});
  // Two on each of five stages leave none for the last three.
  CHECK(uneven_layers(10, 8).empty());
  const std::vector<int> layers = scenario(read(kThree)[2]).job.plan.layers_per_stage;
  REQUIRE(layers.size() == 24);
  CHECK(layers.front() == 0);
  CHECK(layers[1] == 1);
  CHECK(layers.back() == 0);
  // A row that states its layers needs none that divide.
  Case stated = read(kThree)[2];
  stated.layers = 10;
  stated.pp = 8, stated.vpp = 1;
  CHECK(!settings_of(stated).ok());
  stated.sets.emplace_back("parallel.layers_per_stage", Setting{});
  CHECK(settings_of(stated).ok());
}

TEST_CASE("a family's framework does what its source says, another family's does not") {
  const std::vector<Case> cases = read(kThree);
  CHECK(scenario(cases[0]).job.plan.scatter_gather);
  CHECK_FALSE(scenario(cases[2]).job.plan.scatter_gather);
  Case nemo = cases[0];
  nemo.family = "mlperf-gpt3";
  CHECK(scenario(nemo).job.plan.flash_attention);
  CHECK(scenario(nemo).job.plan.gradient_dtype == "bf16");
  CHECK(scenario(nemo).job.data.grad_reduce);
  // DeepSpeed's ZeRO-3 of 2021 got a fifth of what NCCL reaches, which is not Megatron's.
  Case zero3 = cases[2];
  zero3.family = "sc21-table2-zero3";
  CHECK(scenario(zero3).costs.profile.name == "deepspeed-zero3-a100");
  CHECK(scenario(cases[2]).costs.profile.name == "megatron-a100");
}

TEST_CASE("zero-bubble's iterations follow from its profiled op times within 2.5 %") {
  const auto cases = read_cases(TANDEM_SOURCE_DIR "/validation/published/zero-bubble-profiled.csv");
  REQUIRE(cases.ok());
  const auto rows = predict(*cases, Engine::Ideal, 2);
  REQUIRE(rows.ok());
  const Accuracy all = accuracy_of(*rows);
  CHECK(all.n == 36);
  CHECK(all.mape < 0.025);
  CHECK(std::abs(all.bias) < 0.02);
}

TEST_CASE(
    "profiled seconds take the slowdowns of a case's framework profile, all of them the same") {
  const std::string header = kLeast + ",pp,global_batch,schedule,costs.forward_s,costs.input_s," +
                             "costs.weight_s,costs.p2p_s\n";
  const std::string of = ",selene,4,512,8,128,1024,2,2,2,1f1b,0.3,0.2,0.1,0.01\n";
  const std::vector<Case> cases = read(header + "a,f" + of + "b,zero-bubble" + of);
  CHECK(scenario(cases[0]).costs.profile.name.empty());
  const FrameworkProfile profile = scenario(cases[1]).costs.profile;
  CHECK(profile.name == "profiled-a100");
  const auto rows = predict(cases, Engine::Ideal, 1);
  REQUIRE(rows.ok());
  // The last rank computes two microbatches behind the first one's forward, before its last
  // backward: three microbatches' seconds. Between them F0 goes forth, B0 back while F1 goes forth,
  // B1 back.
  const double compute_s = 3 * 0.6, transfers_s = 3 * 0.01;
  CHECK(rows->at(0).prediction->predicted_s == Approx(compute_s + transfers_s));
  CHECK(rows->at(1).prediction->predicted_s ==
        Approx(compute_s * profile.compute_stretch + transfers_s * profile.pipeline_stretch));
}

TEST_CASE("a framework profile slows stated seconds and transfers, and adds its overhead") {
  const Folder folder;
  const std::string path =
      folder.with("slow.toml",
                  "base = \"megatron-a100\"\n"
                  "compute_stretch = {value = 2, source = \"made up\"}\n"
                  "pipeline_stretch = {value = 3, source = \"made up\"}\n"
                  "pipeline_overhead_us = {value = 5e5, source = \"made up\"}\n");
  const std::string text =
      "[parallel]\npp = 2\nglobal_batch = 1\n[costs]\nforward_s = 1\nbackward_s = 2\np2p_s = 1\n";
  const auto iteration_s = [&](const std::string& more) {
    const auto runs = load_scenarios(folder.with("s.toml", text + more));
    REQUIRE(runs.ok());
    const auto result = simulate(runs->front(), Engine::Ideal);
    REQUIRE(result.ok());
    return result->iteration_s;
  };
  // Forward and backward on two stages, a transfer each way.
  CHECK(iteration_s("") == Approx(2 * 3 + 2 * 1));
  CHECK(iteration_s("software = \"slow.toml\"\n") == Approx(2 * 3 * 2 + 2 * (1 * 3 + 0.5)));
}

TEST_CASE("a V100 of 16 GB is one of 32 GB with half the memory") {
  Case run = read(kThree)[0];
  run.gpu = "V100-SXM2-16GB";
  CHECK(scenario(run).cluster.spec.device.memory_bytes == 16.0 * (1 << 30));
  run.gpu = "V100-SXM2-32GB";
  CHECK(scenario(run).cluster.spec.device.memory_bytes == 31.7 * (1 << 30));
}

TEST_CASE("a GPU goes by its chip's name as well, of the memory that most have") {
  const Folder folder;
  const std::string header =
      "id,family,system,gpu,layers,hidden,heads,seq,vocab,gpus,iteration_s\n";
  for (const auto& [name, full] : {std::pair{"H200", "H200-SXM5-141GB"},
                                   {"GB300", "GB300-288GB"},
                                   {"b200-180gb", "B200-180GB"}}) {
    INFO(name);
    const auto cases = read_cases(
        folder.with("c.csv", header + "a,f,dgx-h100," + name + ",8,2304,24,2048,51200,8,1\n"));
    REQUIRE(cases.ok());
    const auto scenario = scenario_of(cases->front());
    REQUIRE(scenario.ok());
    CHECK(scenario->cluster.spec.device.name == full);
  }
}

TEST_CASE("a row that cannot be expressed is listed with its reason and counted") {
  const std::vector<Case> cases = read(
      kHeader + kSelene + replaced(kKorthikanti, ",selene,", ",eos,") +
      replaced(kKorthikanti, "A100-80GB", "TPU") + replaced(kKorthikanti, ",1f1b,", ",sideways,") +
      replaced(kKorthikanti, ",8,8,GPT 22B", ",9,8,GPT 22B") +
      replaced(kZeroBubble, ",22,2304", ",10,2304"));
  const auto rows = predict(cases, Engine::Ideal, 2);
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 6);
  CHECK(rows->at(0).prediction);
  CHECK(rows->at(0).reason.empty());
  for (int i = 1; i < 6; ++i) {
    INFO(i << ": " << rows->at(i).reason);
    CHECK_FALSE(rows->at(i).prediction);
    CHECK(rows->at(i).reason.find("found") != std::string::npos);
    CHECK(rows->at(i).reason.find("c.csv") == std::string::npos);
  }
  CHECK(
      rows->at(2).reason.starts_with("found the GPU TPU, expected one of a100-40gb, a100-80gb, "));
  CHECK(rows->at(5).reason.starts_with("found 10 layers on 24 stages, expected a multiple"));
  CHECK(accuracy_of(*rows, "korthikanti").n == 0);
  CHECK(accuracy_of(*rows, "korthikanti").without == 4);
  CHECK(accuracy_of(*rows).without == 5);
  CHECK(case_table(*rows).find("KOR-22B-present: found the GPU TPU") != std::string::npos);
  CHECK(case_page(*rows, {}, "t").find("- ZB-037: found 10 layers") != std::string::npos);
}

TEST_CASE("compute, bubble and exposed communication add up to the prediction") {
  const auto rows = predict(read(kThree), Engine::Ideal, 1);
  REQUIRE(rows.ok());
  for (const CaseRow& row : *rows) {
    INFO(row.run.id << ": " << row.reason);
    REQUIRE(row.prediction);
    const Prediction& of = *row.prediction;
    CHECK(of.compute_s + of.bubble_s + of.exposed_s == Approx(of.predicted_s).epsilon(1e-6));
  }
}

TEST_CASE("mean absolute error, bias, median and worst are those worked out by hand") {
  const std::vector<CaseRow> rows = made_up_rows();
  const std::vector<Accuracy> families = accuracy_by_family(rows);
  REQUIRE(families.size() == 2);
  CHECK(families[0].family == "a");
  CHECK(families[0].n == 3);
  CHECK(families[0].without == 0);
  CHECK(families[0].mape == Approx(0.2));      // (10 + 20 + 30) / 3
  CHECK(families[0].bias == Approx(0.2 / 3));  // (10 - 20 + 30) / 3
  CHECK(families[0].median == Approx(0.2));
  CHECK(families[0].worst == Approx(0.3));
  CHECK(families[0].worst_id == "a3");
  CHECK(families[1].n == 1);
  CHECK(families[1].without == 1);
  CHECK(families[1].mape == Approx(0.05));
  const Accuracy all = accuracy_of(rows);
  CHECK(all.n == 4);
  CHECK(all.mape == Approx(0.1625));  // (10 + 20 + 30 + 5) / 4
  CHECK(all.bias == Approx(0.0625));  // (10 - 20 + 30 + 5) / 4
  CHECK(all.median == Approx(0.15));  // of 5, 10, 20, 30
  CHECK(accuracy_of({made_up("c", "c", 1, 0.5), made_up("c", "c", 1, 1.4)}).worst == Approx(-0.5));
}

TEST_CASE("the JSON of cases has the keys that are documented") {
  const Json json = Json::parse(cases_json(made_up_rows()).dump());
  REQUIRE(json.size() == 3);
  REQUIRE(json["rows"].size() == 5);
  CHECK(json["rows"][2]["id"] == "a2");
  CHECK(json["rows"][2]["family"] == "a");
  CHECK(json["rows"][2]["measured_s"] == 10);
  CHECK(json["rows"][2]["predicted_s"] == 8);
  CHECK(json["rows"][2]["error"].get<double>() == Approx(-0.2));
  CHECK_FALSE(json["rows"][2].contains("reason"));
  for (const char* key : {"compute_s", "bubble_s", "exposed_s"})
    CHECK(json["rows"][2][key].is_number());
  CHECK(json["rows"][4]["predicted_s"].is_null());
  CHECK(json["rows"][4]["error"].is_null());
  CHECK(json["rows"][4]["reason"] == "made up");
  for (const Json& sum : {json["families"]["a"], json["families"]["b"], json["overall"]}) {
    for (const char* key : {"mape", "bias", "worst", "n"}) CHECK(sum[key].is_number());
  }
  CHECK(json["families"]["b"]["not_predicted"] == 1);
  CHECK(json["overall"]["n"] == 4);
  // Nothing to average: null, not 0.
  CHECK(to_json(accuracy_of({made_up("c", "c", 1, 0)}))["mape"].is_null());
}

TEST_CASE("memory that was measured is held against the fullest GPU's") {
  const Folder folder;
  // 20 GiB were measured of a run whose prediction is `predicted`.
  const auto cases = read_cases(
      folder.with("memory.csv",
                  "id,family,system,layers,hidden,heads,seq,vocab,gpus,iteration_s,peak_alloc_GiB\n"
                  "a,f,selene,8,2304,24,2048,51200,8,1,20\n"
                  "b,f,selene,8,2304,24,2048,51200,8,1,\n"));
  REQUIRE(cases.ok());
  const auto rows = predict(*cases, Engine::Ideal, 1);
  REQUIRE(rows.ok());
  const double predicted = (*rows)[0].prediction->memory_bytes;
  CHECK(predicted > 1e9);
  const Json json = Json::parse(cases_json(*rows).dump());
  CHECK(json["rows"][0]["measured_memory_bytes"] == 20 * 1024.0 * 1024 * 1024);
  CHECK(json["rows"][0]["memory_error"].get<double>() ==
        Approx(predicted / (20 * 1024.0 * 1024 * 1024) - 1));
  CHECK(!json["rows"][1].contains("memory_error"));
  CHECK(json["overall"]["memory"]["n"] == 1);
  CHECK(json["families"]["f"]["memory"]["bias"] == json["rows"][0]["memory_error"]);
  CHECK(case_table(*rows, 200).find("memory of 1 rows") != std::string::npos);
  // "memory of 1 rows: mean absolute error ..." is longer than 60 columns.
  const std::string narrow = case_table(*rows, 60);
  const std::string line = narrow.substr(narrow.find("memory of 1 rows"));
  CHECK(line.find('\n') <= 60);
  // A run that took 1000 times as long was probably given in milliseconds.
  CHECK(case_table(*rows).find("iteration_s is in seconds") == std::string::npos);
  std::vector<CaseRow> slow = *rows;
  slow[1].run.measured_s = 1000 * slow[1].prediction->predicted_s;
  CHECK(case_table(slow).find("b: measured 1000 times the prediction: iteration_s is in seconds") !=
        std::string::npos);
}

TEST_CASE("what-ifs compare runs of one source and model with the first of them") {
  const Folder folder;
  const std::string path = folder.with(
      "matched.csv",
      "source,model,system,layers,hidden,heads,seq,vocab,gpus,mbs,gbs,recompute,s_per_step,changed,"
      "value\n"
      "paper,GPT,selene,8,2304,24,2048,51200,8,1,16,none,1.0,recompute,none\n"
      "paper,GPT,selene,8,2304,24,2048,51200,8,1,16,full,1.3,recompute,full\n"
      "paper,Other,selene,,,,,,8,1,16,none,1.0,recompute,none\n"
      "paper,Other,selene,,,,,,8,1,16,full,,recompute,full\n");
  const auto pairs = what_ifs(path, Engine::Ideal, 1);
  REQUIRE(pairs.ok());
  REQUIRE(pairs->size() == 2);
  const WhatIf& first = pairs->front();
  CHECK(first.from == "none");
  CHECK(first.to == "full");
  CHECK(*first.measured == Approx(0.3));
  // One forward more for each forward and backward of about twice that.
  CHECK(*first.predicted > 0.15);
  CHECK(*first.predicted < 0.4);
  CHECK(first.reason.empty());
  CHECK(!pairs->back().predicted);
  CHECK_THAT(pairs->back().reason, Catch::Contains("matched.csv:4: "));
  const Json json = Json::parse(what_ifs_json(*pairs).dump());
  CHECK(json["overall"]["n"] == 1);
  CHECK(json["overall"]["same_direction"] == 1);
  CHECK(json["overall"]["bias"].get<double>() == Approx(*first.predicted - 0.3));
  CHECK(what_if_table(*pairs, 200).find("not compared") != std::string::npos);

  const auto refused = what_ifs(folder.with("cases.csv", kThree), Engine::Ideal, 1);
  REQUIRE(!refused.ok());
  CHECK_THAT(refused.error().text(), Catch::Contains("cases.csv:1: found no column 'changed'"));
}

TEST_CASE("ratios compare machines on one job, by the rows with the nearest numbers of GPUs") {
  const Folder folder;
  const std::string head =
      "id,family,model,system,layers,hidden,heads,seq,vocab,tp,dp,micro_batch,"
      "global_batch,gpus,precision,iteration_s\n";
  const auto row = [](const char* id, const char* system, int gpus, const char* precision,
                      double seconds) {
    return fmt::format("{},f,GPT,{},8,2304,24,2048,51200,8,{},1,{},{},{},{}\n", id, system,
                       gpus / 8, 2 * gpus, gpus, precision, seconds);
  };
  const std::string path = folder.with(
      "c.csv", head + row("a", "selene", 64, "bf16", 1) + row("b", "selene", 8, "bf16", 1) +
                   row("c", "dgx-h100", 8, "bf16", 0.4) + row("d", "dgx-h100", 8, "fp8", 0.3));
  const auto ratios = machine_ratios(path, Engine::Ideal, 1);
  REQUIRE(ratios.ok());
  REQUIRE(ratios->size() == 1);
  const MachineRatio& ratio = ratios->front();
  CHECK(ratio.job == "GPT, bf16");
  CHECK(ratio.from == "selene, 8 GPUs");
  CHECK(ratio.to == "dgx-h100, 8 GPUs");
  CHECK(ratio.measured == Approx(2.5));
  CHECK(*ratio.predicted > 1.1);
  CHECK(*ratio.predicted < 4);
  CHECK(ratio.same_order());
  const Json json = Json::parse(ratios_json(*ratios).dump());
  CHECK(json["overall"]["n"] == 1);
  CHECK(json["overall"]["bias"].get<double>() == Approx(*ratio.predicted / 2.5 - 1));
  CHECK_THAT(ratio_table(*ratios, 200), Catch::Contains("1 have the same machine ahead"));
  const auto alone = machine_ratios(folder.with("one.csv", head + row("b", "selene", 8, "bf16", 1)),
                                    Engine::Ideal, 1);
  REQUIRE(!alone.ok());
  CHECK_THAT(alone.error().text(), Catch::Contains("one.csv:1: found no two rows of one model"));
}

TEST_CASE("ratios count the GPUs and the batch of a row's scenario") {
  const Folder folder;
  const std::string head =
      "id,family,model,system,layers,hidden,heads,seq,vocab,tp,micro_batch,set,precision,"
      "iteration_s\n";
  const auto row = [](const char* id, const char* system, const char* set, double seconds) {
    return fmt::format("{},f,GPT,{},8,2304,24,2048,51200,8,2,{},bf16,{}\n", id, system, set,
                       seconds);
  };
  // The first has two replicas of 2 sequences, as no row has said a batch; the second says 8.
  const std::string path =
      folder.with("c.csv", head + row("a", "selene", "cluster.gpus=16", 1) +
                               row("b", "dgx-h100", "parallel.dp=2;parallel.global_batch=8", 1));
  const auto ratios = machine_ratios(path, Engine::Ideal, 1);
  REQUIRE(ratios.ok());
  REQUIRE(ratios->size() == 1);
  CHECK(ratios->front().from == "selene, 16 GPUs");
  CHECK(ratios->front().to == "dgx-h100, 16 GPUs");
  CHECK(ratios->front().measured == Approx(2));
  CHECK(ratios->front().predicted.has_value());
}

TEST_CASE("gains are judged by direction, and the large ones by size") {
  const auto pair = [](double measured, double predicted) {
    return WhatIf{.measured = measured, .predicted = predicted};
  };
  const GainErrors errors =
      gain_errors({pair(-0.3, -0.25), pair(-0.3, -0.1), pair(0.02, -0.01), WhatIf{}});
  CHECK(errors.n == 3);
  CHECK(errors.same_direction == 2);
  CHECK(errors.large == 2);
  CHECK(errors.within_a_third == 1);
  CHECK(errors.mean_absolute == Approx((0.05 + 0.2 + 0.03) / 3));
}

TEST_CASE("the CSV of cases has a line a row, with a reason where there is no prediction") {
  CHECK(case_csv({made_up("a", "f", 2, 3), made_up("b", "f", 2, 0)}) ==
        "id,family,measured_s,predicted_s,error,low_s,high_s,calibrated,compute_s,bubble_s,"
        "exposed_s,verdict,spare_bytes,line,reason\n"
        "a,f,2.0,3.0,0.5,,,,3.0,0.0,0.0,,,0,\n"
        "b,f,2.0,,,,,,,,,,,0,made up\n");
}

TEST_CASE("the CSV of cases has columns of memory if a row has it measured") {
  CaseRow measured = made_up("a", "f", 2, 3);
  measured.run.measured_memory_bytes = 8;
  measured.prediction->memory_bytes = 12;
  CHECK(case_csv({measured, made_up("b", "f", 2, 0)}) ==
        "id,family,measured_s,predicted_s,error,low_s,high_s,calibrated,compute_s,bubble_s,"
        "exposed_s,verdict,spare_bytes,line,measured_memory_bytes,predicted_memory_bytes,"
        "memory_error,reason\n"
        "a,f,2.0,3.0,0.5,,,,3.0,0.0,0.0,,,0,8.0,12.0,0.5,\n"
        "b,f,2.0,,,,,,,,,,,0,,,,made up\n");
}

TEST_CASE("validate takes a family of a cases file, and knows cases from suites") {
  const Sandbox sandbox;
  sandbox.file("c.csv", kThree);
  const Ran ran = sandbox.tandem("validate c.csv --family korthikanti --jobs 2 --json --csv o.csv");
  check_done(ran);
  CHECK(Json::parse(ran.out)["rows"].size() == 1);
  CHECK(sandbox.read("o.csv").starts_with("id,family,measured_s,"));
  const Ran table = sandbox.tandem("validate c.csv");
  check_done(table);
  CHECK(table.out.find("overall") != std::string::npos);
  // Without recompute a quarter of the GEMMs' FLOPs goes.
  const Ran set =
      sandbox.tandem("validate c.csv --family sc21-table1 --set train.recompute=none --json");
  check_done(set);
  CHECK(Json::parse(set.out)["rows"][0]["predicted_s"] <
        0.9 * Json::parse(sandbox.tandem("validate c.csv --json").out)["rows"][0]["predicted_s"]
                  .get<double>());
  check_refused(sandbox.tandem("validate c.csv --family korthikant"),
                "--family: found korthikant, expected a family of c.csv; the nearest is "
                "'korthikanti'\n");
  check_refused(sandbox.tandem("validate c.csv --iterations 3"),
                "c.csv: found --iterations, expected it with a SUITE.toml only\n");
  check_refused(sandbox.tandem("validate c.toml --family x"),
                "c.toml: found --family, expected it with a CASES.csv only\n");
  check_refused(sandbox.tandem("validate c.csv --set model.layer=3"),
                "--set: found unknown key 'model.layer', expected a known one");
  check_refused(sandbox.tandem("validate none.csv"), "none.csv: no such file");
}

TEST_CASE("every published row has a scenario") {
  for (const Case& run : published()) {
    const auto made = scenario_of(run);
    INFO((made.ok() ? run.id : made.error().text()));
    CHECK(made.ok());
  }
}
