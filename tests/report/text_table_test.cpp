#include "report/text/text_table.h"
#include "tests/seed.h"
#include "tests/text.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tandem;

namespace {

struct Run {
  std::string name, seconds, gib, plan;
};

const std::vector<Run> kRuns = {{"a", "1.5", "40", "tp 8 pp 4"}, {"bc", "12.5", "7", "tp 1"}};

// 2 + 2 + 7 + 2 + 3 + 2 + 9 = 27 wide, as name is 4: 29.
const std::vector<Column<Run>> kColumns = {
    {"name", [](const Run& r) { return r.name; }, Place::Name},
    {"GiB", [](const Run& r) { return r.gib; }},
    {"plan", [](const Run& r) { return r.plan; }, Place::Second, Align::Left},
    {"seconds", [](const Run& r) { return r.seconds; }, Place::First}};

}  // namespace

TEST_CASE("a table that fits has its columns in one block, as they are listed") {
  // 4 + 2 + 3 + 2 + 9 + 2 + 7 = 29.
  const std::string all =
      "name  GiB  plan       seconds\n"
      "a      40  tp 8 pp 4      1.5\n"
      "bc      7  tp 1          12.5\n";
  CHECK(text_table(kColumns, kRuns, kAnyWidth) == all);
  CHECK(text_table(kColumns, kRuns, 29) == all);
}

TEST_CASE("of a table that does not fit the first columns stay above, the others follow below") {
  // One less: "seconds" is put first, then "GiB" beside it (4 + 2 + 3 + 2 + 7 = 18), as listed; for
  // "plan" 28 - 18 - 2 = 8 are left and it takes 9.
  CHECK(text_table(kColumns, kRuns, 28) ==
        "name  GiB  seconds\n"
        "a      40      1.5\n"
        "bc      7     12.5\n"
        "\n"
        "name  plan\n"
        "a     tp 8 pp 4\n"
        "bc    tp 1\n");
}

TEST_CASE("a column of Place::Beside stays beside the one before it") {
  const std::vector<Cells> rows = {{"x", "1", "2", "3"}};
  // n, simulated 9 and measured 8 make 1 + 2 + 9 + 2 + 8 = 22; with "ok" 26.
  const auto drawn = [&](Place measured) {
    return laid_out({{"n", Place::Name}, {"ok"}, {"simulated"}, {"measured", measured}}, rows, 20);
  };
  CHECK(drawn(Place::Second) == "n  ok  simulated\nx   1          2\n\nn  measured\nx         3\n");
  CHECK(laid_out({{"n", Place::Name}, {"ok"}, {"simulated"}, {"measured", Place::Beside}}, rows,
                 22) == "n  ok\nx   1\n\nn  simulated  measured\nx          2         3\n");
  // Where no block has room for both they part.
  CHECK(drawn(Place::Beside) == "n  ok  simulated\nx   1          2\n\nn  measured\nx         3\n");
}

TEST_CASE("text wraps at blanks inside its column, beside its row's numbers") {
  // 1 + 2 + 30 + 2 + 7 = 42 are too many for 40 and the first block of 1 + 2 + 34 = 37 has no room:
  // below, "why" gives way, from 30 to 40 - 12 = 28.
  const std::vector<Cells> rows = {
      {"x", "1234567890123456789012345678901234", "a word and some more words too", "7"}};
  CHECK(laid_out({{"n", Place::Name},
                  {"first", Place::First},
                  {"why", Place::Second, Align::Left},
                  {"seconds"}},
                 rows, 40) ==
        "n                               first\n"
        "x  1234567890123456789012345678901234\n"
        "\n"
        "n  why                           seconds\n"
        "x  a word and some more words          7\n"
        "     too\n");
}

TEST_CASE("a row that ends early has empty cells at its end") {
  CHECK(laid_out({{"a", Place::Name}, {"b"}, {"c"}}, {{"x", "1"}, {"y", "2", "3"}}, 80) ==
        "a  b  c\nx  1\ny  2  3\n");
}

TEST_CASE("names stand to the left but where they say otherwise") {
  CHECK(laid_out({{"a", Place::Name}, {"n", Place::Name, Align::Right}, {"b"}},
                 {{"x", "1", "2"}, {"yy", "10", "3"}}, 80) == "a    n  b\nx    1  2\nyy  10  3\n");
}

TEST_CASE("widths are of characters, not of bytes") {
  CHECK(laid_out({{"a", Place::Name}, {"b"}}, {{"\xC3\xA9", "1"}, {"ee", "2"}}, 80) ==
        "a   b\n\xC3\xA9   1\nee  2\n");
}

TEST_CASE("no line is wider than asked for, and no cell is lost, at any width") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Heading> headings = {{"run", Place::Name}};
    Cells cells = {"run"};
    for (std::size_t words = below(8); words > 0; --words) cells.back() += " named";
    const std::size_t columns = 1 + below(20);
    for (std::size_t i = 0; i < columns; ++i) {
      const bool first = below(3) == 0;
      const Place place = i > 0 && below(4) == 0 ? Place::Beside
                          : first                ? Place::First
                                                 : Place::Second;
      const bool text = below(5) == 0;
      headings.push_back(
          {std::string(1 + below(14), 't'), place, text ? Align::Left : Align::Auto});
      cells.push_back(std::to_string(100000 + i));  // no two alike
      for (std::size_t words = text ? below(12) : 0; words > 0; --words) cells.back() += " word";
    }
    const int width = 40 + static_cast<int>(below(200));
    const std::string drawn = laid_out(headings, {cells}, width);
    INFO(drawn);
    for (const std::string& line : lines_of(drawn)) CHECK(static_cast<int>(line.size()) <= width);
    for (std::size_t i = 0; i < columns; ++i)
      CHECK(drawn.find(std::to_string(100000 + i)) != std::string::npos);
  }
}

TEST_CASE("where there is little room, a number's title wraps, and words in a column are cut") {
  // 6 are least for text; beside it 18 - 6 - 2 = 10 for "iteration s", which wraps to 9.
  CHECK(laid_out({{"cluster", Place::Name}, {"iteration s"}}, {{"Jean-Zay-style", "25.538"}}, 18) ==
        "cluster  iteration\n                 s\nJean-       25.538\nZay-\nstyle\n");
  CHECK(laid_out({{"thing", Place::Name}, {"state", Place::First, Align::Left}},
                 {{"openblas", "found /usr/lib/libopenblas.so.0"}}, 24) ==
        "thing     state\nopenblas  found\n          /usr/lib/\n          libopenblas.so\n"
        "          .0\n");
  CHECK(wrapped_command("tandem tune a/long/file.toml --only '39B, selene' --jobs 2", 24) ==
        "tandem tune \\\n  a/long/file.toml \\\n  --only '39B, selene' \\\n  --jobs 2");
}

TEST_CASE("prose wraps between words, line by line, and what goes on is indented") {
  CHECK(wrapped("one two three\nfour\n", 9) == "one two\n  three\nfour\n");
  CHECK(wrapped("  one two\n\nthree", 7) == "  one\n    two\n\nthree");
  CHECK(wrapped("a-word-that-is-long b", 6) == "a-word-that-is-long\n  b");
  CHECK(wrapped("one two three\n", kAnyWidth) == "one two three\n");
  CHECK(wrapped("", 40).empty());
}

TEST_CASE("a wrapped command is the same to a shell") {
  const std::string command = "tandem simulate f.toml --only 'a --b, c' --set x=1 --set y=2";
  const std::string text = wrapped_command(command, 31);
  CHECK(text ==
        "tandem simulate f.toml \\\n"
        "  --only 'a --b, c' --set x=1 \\\n"
        "  --set y=2");
  CHECK(wrapped_command(command, kAnyWidth) == command);
  CHECK(wrapped_command("tandem tune --name 'it'\\''s' --only 'a, b, c, d, e, f'", 16) ==
        "tandem tune \\\n  --name \\\n  'it'\\''s' \\\n  --only \\\n  'a, b, c, d, e, f'");
}
