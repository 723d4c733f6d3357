// What users wrote, and what a machine refuses: names of any bytes, no memory, no room for a file,
// messages of terabytes.
#include "schedule/program/program_text.h"
#include "tests/made_program.h"
#include "tests/sandbox.h"

using namespace tandem;
using Catch::Contains;

namespace {

// A transfer of so many bytes between two ranks.
std::string program_of(const std::string& name, Bytes bytes) {
  Program program = made_program(fmt::format(R"(
    rank 0: F0 100ns, send0 0>1 {0}B 50ns after F0
    rank 1: recv0 0>1 {0}B 50ns, F0 100ns after recv0
  )",
                                             bytes));
  program.name = name;
  return to_text(program);
}

}  // namespace

TEST_CASE("an error is one line without commands to a terminal, whatever a value holds") {
  const Sandbox box;
  box.file("two.toml",
           "[parallel]\npp=2\nglobal_batch=4\n[costs]\nsource=\"uni\\nform\\u001b[31m\"\n"
           "forward_s=1\n");
  const Ran ran = box.tandem("simulate two.toml");
  check_refused(ran, "two.toml:5: ");
  CHECK_THAT(ran.err, Contains("uni\\nform\\x1b[31m"));
  check_refused(box.tandem("simulate \"$(printf 'a\\nb\\033.toml')\""),
                "a\\nb\\x1b.toml: no such file");
  check_refused(box.tandem("\"$(printf 'a\\nb')\""), "found the command 'a\\nb', expected ");
  check_refused(box.tandem("simulate two.toml \"$(printf -- '--a\\nb')\""), "");
}

TEST_CASE("a name of any bytes is printed as text, and its picture is well formed") {
  const Sandbox box;
  box.file("p.csv", program_of("\xFF<\x1b[31m&", 1000));
  const Ran ran = box.tandem("simulate p.csv --plot p.svg");
  check_done(ran);
  CHECK(ran.out.find('\x1b') == std::string::npos);
  CHECK(ran.out.find('\xFF') == std::string::npos);
  CHECK_THAT(ran.out, Contains("\\xff<\\x1b[31m&"));
  const std::string picture = box.read("p.svg");
  CHECK_THAT(picture, Contains("\\xff&lt;\\x1b[31m&amp;"));
  CHECK(picture.find('\xFF') == std::string::npos);
}

TEST_CASE("a file that may not grow is a write that fails, and nothing of it is left") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  const Ran ran = box.tandem("simulate two.toml --engine ideal --json --trace t.csv",
                             "prlimit --fsize=300 --core=0");
  CHECK(ran.status != 0);
  CHECK(ran.err.starts_with("t.csv: cannot be written: File too large"));
  CHECK(box.files() == Names{"two.toml"});
}

TEST_CASE("a sweep whose CSV may not grow ends as where any file cannot be written") {
  const Sandbox box;
  box.file("runs.toml",
           kTwoStages + "[matrix]\nparallel.global_batch = [2, 4, 6, 8, 10, 12, 14, 16]\n");
  check_refused(
      box.tandem("sweep runs.toml -o r.csv --engine ideal", "prlimit --fsize=4000 --core=0"),
      "r.csv: cannot be written: File too large");
}

TEST_CASE("results that find no room are a failure, and so is an error that nobody can read") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  const Ran full = box.tandem("schedule two.toml --set parallel.global_batch=64 --format program",
                              "prlimit --fsize=1024 --core=0");
  CHECK(full.status == 1);
  CHECK(full.err == "standard output: File too large, expected room for the results\n");
  const std::string without_errors = "sh -c 'exec \"$0\" \"$@\" 2>&-'";
  CHECK(box.tandem("simulate none.toml", without_errors).status == 2);
  CHECK(box.tandem("simulate two.toml --engine ideal", without_errors).status == 0);
}

TEST_CASE("the version, helps and completions that find no room are failures too") {
  const Sandbox box;
  for (const char* arguments : {"--version", "--help", "simulate --help", "--shell-file bash"}) {
    INFO(arguments);
    const Ran ran = box.tandem(arguments, "sh -c 'exec \"$0\" \"$@\" >/dev/full'");
    CHECK(ran.status == 1);
    CHECK(ran.err.ends_with('\n'));
    CHECK(std::ranges::count(ran.err, '\n') == 1);
  }
}

TEST_CASE("tables in tables without an end are refused by whoever reads TOML") {
  const Sandbox box;
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  const std::string error = ": found tables and lists nested more than 200 deep";
  for (const std::string& text : {"a" + deep + " = 1\n", "[a" + deep + "]\n"}) {
    box.file("deep.toml", text);
    for (const char* command : {"simulate", "tune", "topology", "schedule", "import"})
      check_refused(box.tandem(fmt::format("{} deep.toml", command)), "deep.toml:1" + error);
    box.file("two.toml", kTinyModel);
    for (const char* key : {"cluster.calibration", "cluster.from", "costs.software"}) {
      const Ran ran = box.tandem(fmt::format("simulate two.toml --set {}=deep.toml", key));
      INFO(key);
      check_refused(ran, "");
      CHECK_THAT(ran.err, Contains(error));
    }
  }
}

TEST_CASE("what an error quotes of a file is cut to a line") {
  const Sandbox box;
  box.file("config.json", "{\"num_hidden_layers\": " + std::string(1'000'000, '9') + "}");
  const Ran number = box.tandem("import config.json");
  check_refused(number, "config.json:1: ");
  CHECK(number.err.size() < 2100);
  box.file("two.toml", kTwoStages + "x." + std::string(40'000, 'k') + " = 1\n");
  const Ran key = box.tandem("simulate two.toml");
  check_refused(key, "two.toml:9: ");
  CHECK(key.err.size() < 2100);
  box.file("p.csv", program_of(std::string(1'000'000, 'n'), 1000));
  const Ran table = box.tandem("simulate p.csv");
  CHECK(table.status == 0);
  CHECK(table.out.size() < 10'000);
}

TEST_CASE("a message of terabytes ends with the time-out, not after it") {
  const Sandbox box;
  box.file("huge.csv", program_of("huge", 4'000'000'000'000));
  const Ran ran = box.tandem("run huge.csv --payload full --timeout 0.2 --warmup 0 --iterations 1");
  CHECK(ran.status == 1);
  CHECK(ran.out.empty());
  CHECK(ran.err ==
        "no op ended within 0.2 s: rank 0 is still in send 0 of stage 0 (lane 0>1); rank 1 waits "
        "for it in recv 0 of stage 1 (lane 0>1)\n");
}

#ifndef TANDEM_SANITIZED  // which takes terabytes of address space
TEST_CASE("no memory is a failure that says how much there was, not bad input") {
  const Sandbox box;
  box.file("big.toml",
           kTwoStages + "[matrix]\nparallel.pp = [64]\nparallel.global_batch = [20000]\n");
  // Made in this process, and in a child of it.
  for (const char* arguments : {"schedule big.toml --format program",
                                "simulate big.toml --engine ideal --set schedule.order=gpipe"}) {
    const Ran ran = box.tandem(arguments, "prlimit --as=300000000");
    INFO(ran.err);
    CHECK(ran.status == 1);
    CHECK(ran.err.starts_with("found no memory left beside 0."));
    CHECK(std::ranges::count(ran.err, '\n') == 1);
  }
}
#endif
