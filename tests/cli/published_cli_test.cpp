// tandem-fit published: what it prints, and what it refuses before it fits.
#include "tests/sandbox.h"
#include "tests/text.h"

using namespace tandem;
using Catch::Contains;

namespace {

// Two runs of a second each, that are easily predicted: two families.
const std::string kCases =
    "id,family,system,layers,hidden,heads,seq,vocab,tp,dp,global_batch,gpus,iteration_s\n"
    "a,dense,selene,4,2048,16,1024,51200,1,8,64,8,1\n"
    "b,cut,selene,4,2048,16,1024,51200,8,1,8,8,1\n";

void write_inputs(const Sandbox& sandbox) {
  sandbox.file("c.csv", kCases);
  sandbox.file("constants.csv",
               "software,key,prior,sigma,least,most\nmegatron-a100,compute_stretch,1,0.5,0.5,3\n");
  sandbox.file("weights.csv", "family,noise_percent,most_rows\ndense,2,10\ncut,2,10\n");
}

// "step 1: cost 12.34".
double cost(const std::string& text, int step) {
  const std::string before = fmt::format("step {}: cost ", step);
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + before.size()));
}

}  // namespace

TEST_CASE("tandem-fit published prints what a step moves, and writes nothing by itself") {
  const Sandbox sandbox;
  write_inputs(sandbox);
  const Names before = sandbox.files();
  const Ran ran = sandbox.tandem_fit("published c.csv --plan . --steps 1 --no-check");
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK_THAT(ran.out, Contains("megatron-a100  compute_stretch"));
  // A second is far above what so little takes, so there is something to gain.
  CHECK(cost(ran.err, 1) < cost(ran.err, 0));
  CHECK(sandbox.files() == before);
}

TEST_CASE("tandem-fit kernels prints the table of docs/accuracy.md, and writes nothing by itself") {
  const Sandbox sandbox;
  const Names before = sandbox.files();
  const Ran ran = sandbox.tandem_fit("kernels");
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK(sandbox.files() == before);
  const std::string page = contents(TANDEM_SOURCE_DIR "/docs/accuracy.md");
  CHECK_THAT(page, Contains(ran.out));
}

TEST_CASE("tandem-fit kernels refuses DeepEP on two presets whose constants stand in one file") {
  const Sandbox sandbox;
  const std::string tables = TANDEM_SOURCE_DIR "/validation/kernels/";
  for (const char* name : {"gemm.csv", "attention.csv", "collectives.csv", "experts.csv"})
    sandbox.file(name, contents(tables + name));
  std::string rows = "preset,gpus,op,hidden,tokens,top_k,experts,sms,time_us\n";
  for (const std::string preset : {"aws-p5", "dgx-h100"})
    for (const std::string sms : {"4,304.63", "8,169.86", "12,126.42", "16,102.92"})
      rows += preset + ",8,dispatch,2048,1024,8,128," + sms + "\n";
  sandbox.file("deepep.csv", rows);
  check_refused(sandbox.tandem_fit("kernels ."),
                "deepep.csv: found aws-p5 and dgx-h100, expected one preset with their GPU, "
                "H100-SXM5-80GB");
}

TEST_CASE("tandem-fit published refuses an unknown family of --together before it fits") {
  const Sandbox sandbox;
  write_inputs(sandbox);
  const Ran ran = sandbox.tandem_fit("published c.csv --plan . --together dense+cup");
  check_refused(ran,
                "--together: found the family 'cup', expected one that is fitted; the nearest is "
                "'cut'");
}

TEST_CASE("tandem-fit published refuses a page without its marks before it fits") {
  const Sandbox sandbox;
  write_inputs(sandbox);
  sandbox.file("p.md", "# A page\n");
  const Ran ran = sandbox.tandem_fit("published c.csv --plan . --update p.md");
  check_refused(ran, "p.md: found no part, expected a line '<!-- made by tandem-fit published: ");
  CHECK(sandbox.read("p.md") == "# A page\n");
}
