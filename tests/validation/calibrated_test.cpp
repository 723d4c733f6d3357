// What no measured run stands behind is marked wherever its figures stand.
#include <nlohmann/json.hpp>

#include "tests/sandbox.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// On A100 in fp16, as measured, or on B200, as nobody did.
const std::string kJob = R"([model]
layers = 8
hidden = 2048
heads = 16
seq = 1024
vocab = 32000
[train]
precision = "fp16"
[parallel]
dp = 8
global_batch = 16
)";
const std::string kCandidates = R"([[matrix.job]]
name = "small"
[[matrix.gpu]]
name = "A100"
cluster.preset = "dgx-a100"
[[matrix.gpu]]
name = "B200"
cluster.preset = "dgx-b200"
)";
constexpr const char* kWhy =
    "* not calibrated: no measured run stands behind nemo-b200 on B200-180GB in fp16: a guess.\n";

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

std::string out_of(const Sandbox& sandbox, const std::string& arguments) {
  const Ran ran = sandbox.tandem(arguments);
  check_done(ran);
  return ran.out;
}

TEST_CASE("tables and JSON of simulate, tune and sweep say what is not calibrated") {
  const Sandbox sandbox;
  sandbox.file("both.toml", kJob + kCandidates);
  const std::string text = out_of(sandbox, "simulate both.toml --engine ideal");
  CHECK(count_of(text, kWhy) == 1);
  CHECK(count_of(text, "* ") == 2);  // the mark of B200's interval, and that line
  const Json json = Json::parse(out_of(sandbox, "simulate both.toml --engine ideal --json"));
  CHECK(json[0]["calibrated"] == true);
  CHECK(json[1]["calibrated"] == false);
  CHECK(json[1]["cost_model"] == "nemo-b200 on B200-180GB in fp16");

  out_of(sandbox, "sweep both.toml -o all.csv --engine ideal");
  const std::string csv = sandbox.read("all.csv");
  CHECK(count_of(csv, ",calibrated,cost_model,") == 1);
  CHECK(count_of(csv, ",false,nemo-b200 on B200-180GB in fp16,") == 1);
  CHECK(count_of(csv, ",true,megatron-a100 on A100-SXM4-80GB in fp16,") == 1);

  sandbox.file("one.toml", kJob + "[cluster]\npreset = \"dgx-b200\"\n");
  const std::string tune = "tune one.toml --engine ideal --keep 1 --among parallel.tp=1 ";
  CHECK(count_of(out_of(sandbox, tune), kWhy) == 1);
  CHECK(Json::parse(out_of(sandbox, tune + "--json"))["best"][0]["simulate"]["calibrated"] ==
        false);
}

// B200 nodes at that price an hour, A100's at 10.
std::string purchase(const char* b200_hour) {
  return kJob + kCandidates + "price.node_hour = " + b200_hour +
         "\n[size]\ntokens_T = 0.001\ndays = 30\ngpus = [8]\nnumerics = \"as "
         "stated\"\n[price]\nnode_hour = 10\n";
}

TEST_CASE("tandem size says that it weighs a guess, and what it would choose without") {
  const Sandbox sandbox;
  const std::string size = "size size.toml --engine ideal --among parallel.tp=1 ";
  sandbox.file("size.toml", purchase("1"));
  const std::string text = out_of(sandbox, size);
  CHECK(count_of(text, kWhy) == 1);
  CHECK(count_of(text, "Guesses, not calibrated and so with the widest interval: small on B200.") ==
        1);
  CHECK(count_of(
            text,
            "The best, B200, is one. The cheapest that is calibrated: 1 node of A100 (8 GPUs)") ==
        1);
  const Json sized = Json::parse(out_of(sandbox, size + "--json"))["sized"];
  CHECK(sized[0]["calibrated"] == true);
  CHECK(sized[1]["calibrated"] == false);
  CHECK(sized[1]["recommended"] == true);
  // So dear that it is not the best, it is weighed all the same.
  sandbox.file("size.toml", purchase("1000"));
  CHECK(count_of(out_of(sandbox, size), "small on B200. The best is calibrated.") == 1);
  // Nobody guesses where A100 is alone.
  CHECK(count_of(out_of(sandbox, size + "--only A100"), "Guesses, not") == 0);
}

TEST_CASE("validate says which published rows no other run stands behind") {
  const Sandbox sandbox;
  const std::string header =
      "id,family,system,gpu,layers,hidden,heads,seq,vocab,dp,micro_batch,global_batch,precision,"
      "iteration_s\n";
  const auto row = [](const char* id, const char* precision) {
    return std::string(id) + ",f,dgx-h100,H100-80GB,8,2048,16,1024,32000,8,1,16," + precision +
           ",1\n";
  };
  sandbox.file("cases.csv", header + row("a", "fp8") + row("b", "fp16"));
  CHECK(count_of(out_of(sandbox, "validate cases.csv"),
                 "1 of 2 rows are not calibrated: no other measured run stands behind them.\n") ==
        1);
  const Json rows = Json::parse(out_of(sandbox, "validate cases.csv --json"))["rows"];
  CHECK(rows[0]["calibrated"] == true);
  CHECK(rows[1]["calibrated"] == false);
}

TEST_CASE("pages mark runs, plans and candidates that are not calibrated") {
  const Sandbox sandbox;
  sandbox.file("both.toml", kJob + kCandidates);
  sandbox.file("size.toml", purchase("1"));
  const Ran ran = sandbox.tandem("simulate both.toml --engine ideal --report page.html");
  if (ran.status == 3) {  // D3 was not there when the program was built
    WARN("skipped: " << ran.err);
    return;
  }
  check_done(ran);
  CHECK(count_of(sandbox.read("page.html"), "\"calibrated\":false") == 1);
  out_of(sandbox, "sweep both.toml -o all.csv --engine ideal --report page.html");
  CHECK(count_of(sandbox.read("page.html"), "no: a guess") == 1);
  out_of(sandbox, "size size.toml --engine ideal --among parallel.tp=1 --report page.html");
  CHECK(count_of(sandbox.read("page.html"), "no: a guess") == 1);
  sandbox.file("one.toml", kJob + "[cluster]\npreset = \"dgx-b200\"\n");
  out_of(sandbox, "tune one.toml --engine ideal --keep 1 --among parallel.tp=1 --report page.html");
  CHECK(count_of(sandbox.read("page.html"), "no: a guess") >= 1);
}

}  // namespace
}  // namespace tandem
