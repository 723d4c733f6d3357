// Pictures in the terminal: what --timeline, --bars and --colour add, and that nothing else
// changes.
#include <regex>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

std::string without_colour(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1B\\[[0-9;]*m"), "");
}

}  // namespace

TEST_CASE("a timeline and bars stand below the table, and change nothing of the rest") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  const std::string plain = box.tandem("simulate two.toml --engine ideal").out;
  const Ran ran = box.tandem("simulate two.toml --engine ideal --timeline --bars");
  check_done(ran);
  // (4 + 1) x 3 ms and 5 transfers of 0.1 ms: 12 of 15.5 ms compute.
  const std::size_t begin = ran.out.find("\ntwo ███") + 1, end = ran.out.rfind(". bubble\n\n") + 10;
  REQUIRE(begin > 0);
  CHECK(ran.out.substr(0, begin) + ran.out.substr(end) == plain);
  CHECK(ran.out.find("\nrank 1 ......") != std::string::npos);
  CHECK(ran.out.find('\x1B') == std::string::npos);

  const Ran coloured =
      box.tandem("simulate two.toml --engine ideal --timeline --bars --colour always");
  check_done(coloured);
  CHECK(coloured.out.find("\x1B[38;5;172m") != std::string::npos);
  const std::string stripped = without_colour(coloured.out);
  CHECK(stripped.find(":  forward   backward \n") != std::string::npos);
}

TEST_CASE("the timeline is that of the run which --files-of names") {
  const Sandbox box;
  box.file("two.toml", kTwoStages +
                           "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n"
                           "costs.forward_s = 0.003\n");
  const auto timeline_of = [&](const std::string& option) {
    const Ran ran = box.tandem("simulate two.toml --engine ideal --timeline " + option);
    check_done(ran);
    const std::size_t time = ran.out.find("\ntime ");
    REQUIRE(time != std::string::npos);
    CHECK(ran.out.find("\ntime ", time + 1) == std::string::npos);
    return ran.out.substr(time - 1, 1);
  };
  CHECK(timeline_of("") == "a");
  CHECK(timeline_of("--files-of b") == "b");
}

TEST_CASE("a Program and Chakra traces have a timeline too") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  const auto rows_of = [&](const std::string& input) {
    const Ran ran = box.tandem("simulate " + input + " --engine ideal --timeline");
    check_done(ran);
    const std::size_t begin = ran.out.find("\ntime ");
    return ran.out.substr(begin, ran.out.find("█ compute,") - begin);
  };
  const std::string rows = rows_of("two.toml");
  CHECK(rows.find("\nrank 0 ███") != std::string::npos);
  box.file("two.csv", box.tandem("schedule two.toml --format program").out);
  check_done(box.tandem("export two.csv --chakra two"));
  CHECK(rows_of("two.csv") == rows);
  CHECK(rows_of("two.0.et") == rows);
}

TEST_CASE("pictures have no colour in a pipe, whatever the environment says, and none in JSON") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  const std::string grid = "schedule --order 1f1b --pp 2 --microbatches 2";
  const std::string plain = box.tandem(grid, "TERM=xterm-256color").out;
  CHECK(plain.find('\x1B') == std::string::npos);
  CHECK(box.tandem(grid + " --colour never").out == plain);
  CHECK(without_colour(box.tandem(grid + " --color always", "NO_COLOR=1").out) == plain);
  check_refused(box.tandem("simulate two.toml --json --bars"),
                "found --bars with --json, expected one of them");
  check_refused(box.tandem(grid + " --colour blue"), "--colour: ");
}
