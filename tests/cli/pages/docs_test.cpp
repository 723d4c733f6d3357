// The documentation is true: every command in an sh block runs, and the README's excerpt, the
// comparison of docs/usage.md and the tables of docs/overlap.md are what comes out.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/pages/page_sandbox.h"
#include "tests/folder.h"
#include "tests/text.h"

using namespace tandem;

namespace {

namespace fs = std::filesystem;

// A command, or several, and what they are said to print.
struct Example {
  std::vector<std::string> commands, prints;
};

// The sh blocks of a file that a block of output follows.
std::vector<Example> examples_of(const std::string& path) {
  std::vector<Example> examples;
  std::vector<std::string> block;
  std::string fence;
  for (const std::string& line : lines_of(source_file(path))) {
    if (line.rfind("```", 0) != 0) {
      if (!fence.empty()) block.push_back(line);
    } else if (fence.empty()) {
      fence = line;
    } else {
      if (fence == "```sh") examples.push_back({commands_of(block), {}});
      if (fence == "```" && !examples.empty()) examples.back().prints = block;
      fence.clear();
      block.clear();
    }
  }
  return examples;
}

// A page's headings as links name them: "### Where it is far off" -> "where-it-is-far-off".
std::set<std::string> headings_of(const std::string& page) {
  std::set<std::string> headings;
  bool inside = false;
  for (const std::string& line : lines_of(page)) {
    inside ^= line.rfind("```", 0) == 0;
    const std::size_t text = line.find_first_not_of('#');
    if (inside || text == 0 || text == std::string::npos) continue;
    std::string heading;
    for (const unsigned char c : line.substr(text + 1)) {
      if (std::isalnum(c) || c == '-' || c == '_') heading += static_cast<char>(std::tolower(c));
      if (c == ' ') heading += '-';
    }
    headings.insert(heading);
  }
  return headings;
}

std::string words(const std::string& line) {
  std::istringstream in(line);
  std::string joined;
  for (std::string word; in >> word;) joined += word + ' ';
  return joined;
}

// A family of runs that a fit has not seen, by a table of docs/accuracy.md.
struct LeftOut {
  std::string family;
  double rows = 0;
  double percent = 0;  // the mean error of their predictions
};

// The table that `tandem-fit published` makes under this name.
std::vector<LeftOut> left_out(const std::string& name) {
  const std::regex row("\\| (\\S+) \\| (\\d+) \\| \\S+ \\| (\\S+) \\|.*");
  std::vector<LeftOut> families;
  bool inside = false;
  for (const std::string& line : lines_of(source_file("docs/accuracy.md"))) {
    if (line.starts_with("<!-- ")) inside = line.ends_with("published: " + name + " -->");
    std::smatch cells;
    if (inside && std::regex_match(line, cells, row))
      families.push_back({cells[1], std::stod(cells[2]), std::stod(cells[3])});
  }
  return families;
}

double rows_in(const std::vector<LeftOut>& families) {
  double rows = 0;
  for (const LeftOut& family : families) rows += family.rows;
  return rows;
}

// The mean over all rows.
double mean_of_rows(const std::vector<LeftOut>& families) {
  double sum = 0;
  for (const LeftOut& family : families) sum += family.rows * family.percent;
  return sum / rows_in(families);
}

}  // namespace

TEST_CASE("every command of the documentation runs") {
  const PageSandbox sandbox;
  int commands = 0;
  for (const char* path :
       {"README.md", "docs/chakra.md", "docs/cluster.md", "docs/formats.md", "docs/planning.md",
        "docs/profiles.md", "docs/scenario.md", "docs/topologies.md", "docs/usage.md"}) {
    for (const std::string& command : commands_of(block_lines(path, "```sh"))) {
      INFO(path << ": " << command);
      const bool redirected = command.find('>') != std::string::npos;
      const int status = sandbox.run(redirected ? command : command + " > output");
      INFO(sandbox.read("errors"));
      CHECK(status == 0);
      ++commands;
    }
  }
  CHECK(commands >= 10);
}

TEST_CASE("the tables of docs/overlap.md are what its commands print") {
  const PageSandbox sandbox;
  const std::vector<Example> examples = examples_of("docs/overlap.md");
  CHECK(examples.size() >= 9);
  for (const Example& example : examples) {
    std::string printed;
    for (const std::string& command : example.commands) {
      INFO(command);
      CHECK(sandbox.run(command + " > output") == 0);
      for (const std::string& line : lines_of(sandbox.read("output")))
        printed += words(line) + '\n';
    }
    CHECK(!example.prints.empty());
    for (const std::string& line : example.prints) {
      INFO(line);
      CHECK(printed.find(words(line) + '\n') != std::string::npos);
    }
  }
}

TEST_CASE("what docs/profiles.md shows of its commands is what they print") {
  const PageSandbox sandbox;
  int compared = 0;
  for (const Example& example : examples_of("docs/profiles.md")) {
    std::string printed;
    for (const std::string& command : example.commands) {
      INFO(command);
      const bool redirected = command.find('>') != std::string::npos;
      CHECK(sandbox.run(redirected ? command : command + " > output") == 0);
      for (const std::string& line : lines_of(sandbox.read("output")))
        printed += words(line) + '\n';
    }
    for (const std::string& line : example.prints) {
      INFO(line);
      CHECK(printed.find(words(line) + '\n') != std::string::npos);
      ++compared;
    }
  }
  CHECK(compared > 10);
}

TEST_CASE("the README's excerpt is what the demo prints") {
  const PageSandbox sandbox;
  REQUIRE(sandbox.run("COLUMNS=100 build/release/tandem simulate scenarios/megatron-sc21.toml "
                      "--only 39B > output") == 0);
  std::string printed;
  for (const std::string& line : lines_of(sandbox.read("output"))) printed += words(line) + '\n';
  const std::vector<std::string> readme = lines_of(source_file("README.md"));
  auto line = std::find_if(readme.begin(), readme.end(), [](const std::string& text) {
    return text.rfind("model  cluster", 0) == 0;
  });
  int compared = 0;
  for (; line != readme.end() && *line != "```"; ++line, ++compared) {
    INFO(*line);
    CHECK(line->size() <= 100);
    CHECK(printed.find(words(*line) + '\n') != std::string::npos);
  }
  CHECK(compared > 9);  // three runs, and what follows
}

TEST_CASE("the comparison of docs/usage.md is what its commands print") {
  const PageSandbox sandbox;
  int compared = 0;
  for (const Example& example : examples_of("docs/usage.md")) {
    if (example.commands.back().find("tandem compare ") == std::string::npos) continue;
    for (const std::string& command : example.commands)
      REQUIRE(sandbox.run(command + " > output") == 0);
    std::string printed;
    for (const std::string& line : lines_of(sandbox.read("output"))) printed += words(line) + '\n';
    for (const std::string& line : example.prints) {
      INFO(line);
      CHECK(printed.find(words(line) + '\n') != std::string::npos);
      ++compared;
    }
  }
  CHECK(compared == 7);
}

TEST_CASE("the timeline and the bars of docs/usage.md are what its command prints") {
  const PageSandbox sandbox;
  int compared = 0;
  for (const Example& example : examples_of("docs/usage.md")) {
    if (example.commands.back().find(" --timeline") == std::string::npos) continue;
    REQUIRE(sandbox.run(example.commands.back() + " > output") == 0);
    std::string shown;
    for (const std::string& line : example.prints) shown += line + '\n';
    INFO(shown);
    CHECK(sandbox.read("output").find(shown) != std::string::npos);
    compared += static_cast<int>(example.prints.size());
  }
  CHECK(compared == 12);
}

TEST_CASE("the documented scenario is one") {
  const PageSandbox sandbox;
  std::string toml;
  for (const std::string& line : block_lines("docs/scenario.md", "```toml")) toml += line + '\n';
  const Folder folder;
  const std::string path = folder.with("documented.toml", toml);
  CHECK(sandbox.run(
            fmt::format("build/release/tandem simulate {} --engine ideal > output", path)) == 0);
  INFO(sandbox.read("errors"));
  // Three micro batch sizes on two clusters, and the header.
  int runs = 0;
  for (const std::string& line : lines_of(sandbox.read("output")))
    runs += line.rfind("parallel.micro_batch=", 0) == 0 && line.find(':') == std::string::npos;
  CHECK(runs == 6);
}

TEST_CASE(
    "the layouts of docs/scenario.md are those that its commands find, and take what it says") {
  const PageSandbox sandbox;
  const std::string page = source_file("docs/scenario.md");
  int found = 0;
  for (const std::string& command : commands_of(block_lines("docs/scenario.md", "```sh"))) {
    if (!command.ends_with("--set parallel.layout=auto")) continue;
    INFO(command);
    REQUIRE(sandbox.run(command + " --json > output") == 0);
    const auto run = nlohmann::json::parse(sandbox.read("output")).at(0);
    // A bar inside a table's cell is escaped.
    const std::string layout =
        std::regex_replace(run.at("layout").get<std::string>(), std::regex("\\|"), "\\|");
    CHECK_THAT(page, Catch::Contains(fmt::format("| auto: `{}` | {:.2f} |", layout,
                                                 run.at("iteration_s").get<double>())));
    ++found;
  }
  CHECK(found == 2);
}

TEST_CASE("docs/memory.md counts the published rows that would not fit") {
  // The columns of published.csv are id, family, ..., verdict (the twelfth), ...; no id or family
  // holds a comma.
  const std::vector<std::string> lines = lines_of(source_file("validation/results/published.csv"));
  int unfit = 0, on_v100s = 0;
  for (const std::string& line : lines) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    if (cells.size() < 12 || cells[11] != "no") continue;
    ++unfit;
    on_v100s += cells[1] == "jz-v100";
  }
  CHECK_THAT(
      words(source_file("docs/memory.md")),
      Catch::Contains(fmt::format("come out `no` in {} of {} rows", unfit, lines.size() - 1)) &&
          Catch::Contains(fmt::format("{} on Jean Zay's V100s", on_v100s)));
}

TEST_CASE("how far off a fit is on runs it has not seen is said as the tables have it") {
  // The README has the figures of docs/accuracy.md, which are means of its tables. Their cells are
  // rounded to a tenth, so a mean of them may be off by half of that, and another half as it is
  // rounded.
  const std::string readme = words(source_file("README.md")),
                    page = words(source_file("docs/accuracy.md"));
  const auto said = [](const std::string& text, const std::string& pattern) {
    std::smatch found;
    INFO(pattern);
    REQUIRE(std::regex_search(text, found, std::regex(pattern)));
    return std::stod(found[1]);
  };
  // Families on A100s and V100s are not among the newer ones.
  std::vector<LeftOut> newer = left_out("halves");
  std::erase_if(newer, [](const LeftOut& family) {
    static const std::regex older("(sc21-|korthikanti|vtrain-|jz-|zero-bubble|mpt-a100-).*");
    return std::regex_match(family.family, older);
  });
  const double newer_off = said(page, "newer that can be left out are (\\S+) % off");
  CHECK(said(page, "The (\\d+) rows on H100s and newer") == rows_in(newer));
  CHECK(newer_off == Approx(mean_of_rows(newer)).margin(0.101));
  CHECK(said(readme, "expect an error of (\\S+) % on average, as runs on H100s and newer") ==
        newer_off);
  const std::vector<LeftOut> families = left_out("leave a family out");
  REQUIRE(!families.empty());
  double sum = 0;
  for (const LeftOut& family : families) sum += family.percent;
  const double families_off = said(page, "families are (\\S+) % off in the mean");
  CHECK(said(page, "The (\\d+) families are") == static_cast<double>(families.size()));
  CHECK(families_off == Approx(sum / static_cast<double>(families.size())).margin(0.101));
  const std::string whole = "whole families of runs left out of the fit came out ";
  CHECK(said(readme, whole + "(\\S+) % off") == families_off);
  const auto [least, most] =
      std::minmax_element(families.begin(), families.end(),
                          [](const LeftOut& a, const LeftOut& b) { return a.percent < b.percent; });
  CHECK(said(readme, whole + "\\S+ % off on average, from (\\d+) to") ==
        std::round(least->percent));
  CHECK(said(readme, whole + "\\S+ % off on average, from \\d+ to (\\d+) %") ==
        std::round(most->percent));
}

TEST_CASE("every link between the pages leads to a file and a heading that are there") {
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"};
  for (const auto& entry : fs::directory_iterator(TANDEM_SOURCE_DIR "/docs")) {
    if (entry.path().extension() == ".md")
      pages.push_back("docs/" + entry.path().filename().string());
  }
  const std::regex link("\\]\\(([^)#\\s]*)(#[^)\\s]*)?\\)");
  int links = 0;
  for (const std::string& page : pages) {
    const std::string text = source_file(page);
    for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
      const std::string file = (*at)[1], heading = (*at)[2];
      if (file.rfind("http", 0) == 0) continue;
      INFO(page << " links to " << file << heading);
      const fs::path to =
          file.empty() ? fs::path(page) : (fs::path(page).parent_path() / file).lexically_normal();
      const bool is_there = fs::exists(fs::path(TANDEM_SOURCE_DIR) / to);
      CHECK(is_there);
      if (is_there && !heading.empty())
        CHECK(headings_of(source_file(to.string())).count(heading.substr(1)) == 1);
      ++links;
    }
  }
  CHECK(links > 50);
}
