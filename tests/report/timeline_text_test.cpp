// Pictures for a terminal: timelines and bars, character by character.
#include <catch2/catch.hpp>

#include <regex>

#include "report/text/text_table.h"
#include "report/text/timeline_text.h"

using namespace tandem;

namespace {

std::size_t at(OpKind kind) { return static_cast<std::size_t>(kind); }
std::size_t at(GroupKind kind) { return static_cast<std::size_t>(kind); }

// Eight columns of 1 ms. Rank 0: forwards for 2.5 ms, bubble, backwards for 4 ms; rank 3 waits for
// its pipeline, computes, and has an all-reduce of 0.25 ms in its last column but one.
TimelineStrip small() {
  TimelineStrip strip;
  strip.iteration_ns = 8'000'000;
  TimelineStrip::Row first{0, std::vector<TimelineStrip::Cell>(8)};
  first.cells[0].compute_ns[at(OpKind::Forward)] = 1'000'000;
  first.cells[1].compute_ns[at(OpKind::Forward)] = 1'000'000;
  first.cells[2].compute_ns[at(OpKind::Forward)] = 500'000;
  for (int i = 4; i < 8; ++i) first.cells[i].compute_ns[at(OpKind::Backward)] = 1'000'000;
  TimelineStrip::Row last{3, std::vector<TimelineStrip::Cell>(8)};
  last.cells[0].exposed_ns[at(GroupKind::Pipeline)] = 800'000;
  for (int i = 1; i < 7; ++i) last.cells[i].compute_ns[at(OpKind::Forward)] = 1'000'000;
  last.cells[6].compute_ns[at(OpKind::Forward)] = 750'000;
  last.cells[6].exposed_ns[at(GroupKind::Data)] = 250'000;
  strip.rows = {first, last};
  return strip;
}

std::string without_colour(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1B\\[[0-9;]*m"), "");
}

RunResult run(const std::string& name, double compute, double pipeline, double data) {
  RunResult result;
  result.name = name;
  result.iteration_s = 1;
  result.compute_s = compute;
  result.exposed_s[at(GroupKind::Pipeline)] = pipeline;
  result.exposed_s[at(GroupKind::Data)] = data;
  return result;
}

}  // namespace

TEST_CASE("blocks are as high as compute's share of their column, in eighths") {
  CHECK(timeline_text(small(), false) ==
        "time   0\n"
        "rank 0 ██▄.████\n"
        "rank 3 -█████▆.\n"
        "█ compute, as high as its share of 1 ms\n"
        "- exposed communication\n"
        ". bubble\n");
}

TEST_CASE("a timeline's colours tell kinds apart, and its text stays as it is without them") {
  const std::string text = timeline_text(small(), true);
  CHECK(text.find("rank 0 \x1B[38;5;74m██▄\x1B[0m.\x1B[38;5;172m████\x1B[0m\n") !=
        std::string::npos);
  // The letter of a wait on its ground; three quarters of compute over the all-reduce's ground.
  CHECK(text.find("rank 3 \x1B[38;5;250;48;5;25m-\x1B[0m\x1B[38;5;74m█████\x1B[0m"
                  "\x1B[38;5;74;48;5;175m▆\x1B[0m.\n") != std::string::npos);
  CHECK(without_colour(text) ==
        "time   0\n"
        "rank 0 ██▄.████\n"
        "rank 3 -█████▆.\n"
        "█ compute, as high as its share of 1 ms:  forward   backward \n"
        "- exposed communication:  pipeline   data \n"
        ". bubble\n");
}

// Each cell has one third of forward and two of backward: every third cell is a forward's.
TEST_CASE("kinds that share every column have cells by their time") {
  TimelineStrip strip;
  strip.iteration_ns = 54;
  TimelineStrip::Row row{0, std::vector<TimelineStrip::Cell>(18)};
  for (TimelineStrip::Cell& cell : row.cells) {
    cell.compute_ns[at(OpKind::Forward)] = 1;
    cell.compute_ns[at(OpKind::Backward)] = 2;
  }
  strip.rows = {row};
  const std::string text = timeline_text(strip, true);
  std::size_t forwards = 0;
  for (std::size_t from = 0; (from = text.find("\x1B[38;5;74m█\x1B[0m", from)) != std::string::npos;
       ++from)
    ++forwards;
  CHECK(forwards == 6);
}

TEST_CASE("times stand above their columns, twelve or more apart") {
  TimelineStrip strip;
  strip.iteration_ns = 50'000;  // 1 us a column
  strip.rows = {{0, std::vector<TimelineStrip::Cell>(50)}, {12, {}}};
  strip.rows[1].cells.resize(50);
  const std::string text = timeline_text(strip, false);
  CHECK(text.starts_with("time    0                   20 us               40 us\nrank 0  ....."));
}

TEST_CASE("rows that are left out are counted") {
  TimelineStrip strip = small();
  strip.left_out = 6;
  CHECK(timeline_text(strip, false).find("\nand 6 more ranks\n█ compute") != std::string::npos);
}

TEST_CASE("a bar is an iteration: compute, exposed communication by letter, bubble") {
  // Widths 20: 10, 4, 0 and 6; and 19.6 -> 20 of compute.
  const std::vector<RunResult> results = {run("a", 0.5, 0.2, 0), run("bb", 0.98, 0, 0)};
  CHECK(bars_text(results, 23, false) ==
        "a  ██████████pppp......\n"
        "bb ████████████████████\n"
        "█ compute; exposed communication: p pipeline; . bubble\n");
  CHECK(without_colour(bars_text(results, 23, true)) == bars_text(results, 23, false));
  CHECK(bars_text({run("a", 1, 0, 0)}, 22, true) ==
        "a \x1B[38;5;74m████████████████████\x1B[0m\n█ compute\n");
}

TEST_CASE("a strip fits the width, or a hundred columns where that is any") {
  CHECK(strip_columns(80) == 68);
  CHECK(strip_columns(kAnyWidth) == 88);
  CHECK(strip_columns(10) == 20);
}
