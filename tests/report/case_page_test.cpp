// The page of accuracy: other tools' figures, the tables, the parts of a page written by hand, and
// that docs/accuracy.md has them as they come out.
#include "report/page/case_page.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/csv.h"
#include "report/page/case_plot.h"
#include "tests/sandbox.h"
#include "tests/text.h"
#include "tests/validation/case_rows.h"

using namespace tandem;

namespace {

const std::string kBaselineTools =
    "tool,family,rows,mean_absolute_percent,bias_percent,kind,source\n"
    "X,a,3,10.25,-10.25,reproduced,a paper\n"
    "Y,a,8,3.5,,published,\"another, | paper\"\n"
    "Y,elsewhere,,1,,published,a third\n";
const std::string kCases =
    "id,family,system,layers,hidden,heads,seq,vocab,iteration_s\n"
    "r1,f,selene,2,128,2,128,1024,0.01\n";

std::vector<BaselineTool> tools(const std::string& text) {
  const Folder folder;
  const auto read = read_rivals(folder.with("r.csv", text));
  INFO((read.ok() ? "" : read.error().text()));
  REQUIRE(read.ok());
  return *read;
}

std::string refused(const std::string& line) {
  const Folder folder;
  const std::string header = kBaselineTools.substr(0, kBaselineTools.find('\n') + 1);
  const auto read = read_rivals(folder.with("r.csv", header + line + "\n"));
  REQUIRE(!read.ok());
  return read.error().text().substr(read.error().text().find("r.csv"));
}

std::string begin(const std::string& part) {
  return "<!-- made by ./dev accuracy: " + part + " -->\n";
}
const std::string kEnd = "<!-- end -->\n";

std::string refused_page(const std::string& page) {
  const auto text = updated_page(page, "p.md", {}, {});
  REQUIRE(!text.ok());
  CHECK(text.error().kind == Error::BadInput);
  return text.error().text();
}

// The text between a part's marker and its end.
std::string part_of(const std::string& page, const std::string& part) {
  const std::size_t at = page.find(begin(part));
  REQUIRE(at != std::string::npos);
  return page.substr(at, page.find(kEnd, at) - at);
}

}  // namespace

TEST_CASE("a line of other tools' figures is read, what the source does not say left open") {
  const std::vector<BaselineTool> read = tools(kBaselineTools);
  REQUIRE(read.size() == 3);
  CHECK(read[0].tool == "X");
  CHECK(read[0].rows == 3);
  CHECK(read[0].mean_absolute_percent == 10.25);
  CHECK(read[0].bias_percent == -10.25);
  CHECK(read[0].reproduced);
  CHECK(read[1].source == "another, | paper");
  CHECK_FALSE(read[1].bias_percent);
  CHECK_FALSE(read[1].reproduced);
  CHECK(read[2].rows == 0);
  CHECK(tools("tool,family,mean_absolute_percent,kind,source\n").empty());
}

TEST_CASE("a bad line of other tools' figures is refused with its place") {
  CHECK(refused(",a,3,1,,published,p") == "r.csv:2: column 'tool': found nothing, expected a text");
  CHECK(refused("X,a,3,1,,published,") ==
        "r.csv:2: column 'source': found nothing, expected a text");
  CHECK(refused("X,a,3,1,,claimed,p") ==
        "r.csv:2: column 'kind': found claimed, expected published or reproduced");
  CHECK(refused("X,a,3,-1,,published,p") ==
        "r.csv:2: column 'mean_absolute_percent': found -1, expected 0 or more");
  CHECK(refused("X,a,0,1,,published,p") ==
        "r.csv:2: column 'rows': found 0, expected 1 to "
        "1000000000");
  CHECK(
      refused("X,a,3,1,-2,published,p").starts_with("r.csv:2: column 'bias_percent': found -2, "));
  CHECK(refused("X,a,3,much,,published,p").starts_with("r.csv:2: "));
  const Folder folder;
  const auto read = read_rivals(folder.with("r.csv", "tool,family\nX,a\n"));
  REQUIRE(!read.ok());
  CHECK_THAT(read.error().text(), Catch::Contains("r.csv:1: found no column "
                                                  "'mean_absolute_percent', expected"));
}

TEST_CASE("the families' table has other tools beside ours, and says where their rows differ") {
  const std::string page = case_page(made_up_rows(), tools(kBaselineTools), "t");
  CHECK_THAT(page, Catch::Contains("| worst row | others, mean absolute % |\n"
                                   "|---|---:|---:|---:|---:|---:|---:|---|---|\n"
                                   "| a | 3 | 0 | 20.0 | 20.0 | +6.7 | +30.0 | a3 | "
                                   "X 10.25 (reproduced), Y 3.5 on 8 rows (published) |\n"));
  CHECK_THAT(page, Catch::Contains("| a | X | reproduced | 3 | 10.25 | -10.25 | 3 | 20.0 | +6.7 | "
                                   "a paper |\n"));
  CHECK_THAT(page, Catch::Contains("| a | Y | published | 8 | 3.5 | not said | 3 | 20.0 | +6.7 | "
                                   "another, \\| paper |\n"));
  CHECK_THAT(page, !Catch::Contains("elsewhere"));
  CHECK_THAT(case_page(made_up_rows(), {}, "t"), !Catch::Contains("others"));
}

TEST_CASE("the farthest rows are twenty, all families among them, few of one") {
  std::vector<CaseRow> rows;
  std::vector<std::string> names;
  for (int family = 0; family < 9; ++family) names.push_back("f" + std::to_string(family));
  // Family f is off by 10 f + i percent in its rows i: f0 least, f8 most.
  for (int family = 0; family < 9; ++family) {
    for (int i = 0; i < 5; ++i)
      rows.push_back(made_up((names[family] + "-" + std::to_string(i)).c_str(),
                             names[family].c_str(), 100, 100 + 10 * family + i));
  }
  const auto page = updated_page(begin("farthest") + kEnd, "p.md", rows, {});
  REQUIRE(page.ok());
  std::vector<std::string> ids;
  std::istringstream lines(*page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| f")) ids.push_back(line.substr(2, 4));
  }
  // The worst of each family are nine; the other eleven are two each of f8 to f4, and one of f3.
  CHECK(ids == std::vector<std::string>{"f8-4", "f8-3", "f8-2", "f7-4", "f7-3", "f7-2", "f6-4",
                                        "f6-3", "f6-2", "f5-4", "f5-3", "f5-2", "f4-4", "f4-3",
                                        "f4-2", "f3-4", "f3-3", "f2-4", "f1-4", "f0-4"});
}

TEST_CASE("a page's parts are written anew between their markers, all else is left alone") {
  const std::string other = "<!-- made by something else: families -->\nkept\n<!-- end -->\n";
  const std::string page = "# By hand\n" + begin("families") + "old\nold\n" + kEnd + "between\n" +
                           other + begin("not predicted") + kEnd + "no line end";
  const auto text = updated_page(page, "p.md", made_up_rows(), {});
  REQUIRE(text.ok());
  CHECK_THAT(*text, Catch::StartsWith("# By hand\n" + begin("families") + "\n| family | rows |"));
  CHECK_THAT(*text, Catch::Contains("|\n\n" + kEnd + "between\n" + other + begin("not predicted") +
                                    "\n- b2: made up\n\n" + kEnd + "no line end"));
  CHECK_THAT(*text, !Catch::Contains("old"));
  const auto again = updated_page(*text, "p.md", made_up_rows(), {});
  REQUIRE(again.ok());
  CHECK(*again == *text);
}

TEST_CASE("a page whose markers do not fit is refused with the line") {
  CHECK(refused_page("# By hand\n\n" + begin("familes") + kEnd) ==
        "p.md:3: found the part 'familes', expected one of families, rivals, farthest, not "
        "predicted; the nearest is 'families'");
  const std::string no_end =
      ":2: found no end of this part, expected a line '<!-- end -->' before the next part and the "
      "page's end";
  CHECK(refused_page("a\n" + begin("families") + "b\n") == "p.md" + no_end);
  CHECK(refused_page("a\n" + begin("families") + begin("rivals") + kEnd) == "p.md" + no_end);
  CHECK(
      refused_page("a\n<!-- end -->\n").starts_with("p.md: found no part, expected a line '<!--"));
  CHECK(refused_page("").starts_with("p.md: found no part"));
}

TEST_CASE("validate draws a plot and updates a page, or leaves nothing behind") {
  const Sandbox sandbox;
  sandbox.file("c.csv", kCases);
  sandbox.file("r.csv", kBaselineTools);
  sandbox.file("p.md", "by hand\n" + begin("families") + kEnd);
  const Ran ran = sandbox.tandem_fit("accuracy c.csv --plot o.svg --rivals r.csv --update p.md");
  check_done(ran);
  CHECK_THAT(sandbox.read("o.svg"), Catch::Contains("measured: 1 runs of others"));
  CHECK_THAT(sandbox.read("p.md"), Catch::StartsWith("by hand\n" + begin("families") + "\n| fam"));
  sandbox.file("bad.md", begin("family") + kEnd);
  sandbox.file("bad.csv", kBaselineTools + "X,a\n");
  sandbox.file("empty.csv", kCases.substr(0, kCases.find('\n') + 1));
  const Names files = sandbox.files();
  check_refused(sandbox.tandem_fit("accuracy c.csv --plot p.svg --update bad.md"),
                "bad.md:1: found the part 'family', expected one of ");
  check_refused(sandbox.tandem_fit("accuracy c.csv --plot p.svg --update none.md"), "none.md: ");
  check_refused(sandbox.tandem_fit("accuracy c.csv --page p.page --rivals bad.csv"), "bad.csv:5: ");
  check_refused(sandbox.tandem("validate c.csv --csv p.csv --plot none/p.svg"), "none/p.svg: ");
  check_refused(sandbox.tandem("validate c.toml --plot p.svg"),
                "c.toml: found --plot, expected it with a CASES.csv only\n");
  check_refused(sandbox.tandem("validate empty.csv --plot p.svg"),
                "empty.csv:1: found a header alone");
  CHECK(sandbox.files() == files);
}

TEST_CASE("other tools' figures are of families that are published here") {
  std::set<std::string> families;
  for (const Case& run : published()) families.insert(run.family);
  if (families.empty()) return;
  const auto read = read_rivals(TANDEM_SOURCE_DIR "/validation/published/rivals.csv");
  REQUIRE(read.ok());
  CHECK(read->size() >= 4);
  for (const BaselineTool& tool : *read) {
    INFO(tool.tool << " on " << tool.family);
    CHECK(families.contains(tool.family));
  }
}

TEST_CASE("docs/accuracy.md is as ./dev accuracy makes it, where that is fast") {
  std::vector<Case> cases = published();
  const std::size_t all = cases.size();
  // The others take a few seconds more, and minutes under sanitizers.
  std::erase_if(cases, [](const Case& run) {
    return run.family.starts_with("jz-") || run.family.starts_with("vtrain-");
  });
  if (cases.empty()) return;
  const auto rows = predict(cases, Engine::Ideal, 2);
  REQUIRE(rows.ok());
  const auto tools = read_rivals(TANDEM_SOURCE_DIR "/validation/published/rivals.csv");
  REQUIRE(tools.ok());
  const std::string docs = contents(TANDEM_SOURCE_DIR "/docs/accuracy.md");
  const auto page = updated_page(docs, "docs/accuracy.md", *rows, *tools);
  REQUIRE(page.ok());
  const std::string svg = contents(TANDEM_SOURCE_DIR "/docs/accuracy.svg"),
                    drawn = case_plot(*rows);
  int seen = 0;
  // Lines of each part; the overall one is of all rows, as are the farthest ones but for each
  // family's worst.
  const std::vector<Accuracy> families = accuracy_by_family(*rows);
  for (const std::string part : {"families", "rivals", "farthest"}) {
    const std::string there = part_of(docs, part);
    std::istringstream lines(part_of(*page, part));
    for (std::string line; std::getline(lines, line);) {
      const bool is_worst = std::ranges::any_of(families, [&](const Accuracy& family) {
        return line.starts_with("| " + family.worst_id + " |");
      });
      const bool is_title = line.starts_with("| id ") || line.starts_with("|---");
      if (line.starts_with("| overall ")) continue;
      if (part == "farthest" && !is_worst && !is_title) continue;
      INFO(part << ": " << line);
      CHECK(there.find(line + "\n") != std::string::npos);
      ++seen;
    }
  }
  CHECK(seen >= 8 + 4 + 8);
  for (const Accuracy& family : families) {
    const std::size_t at = drawn.find(">" + family.family + "</text>");
    REQUIRE(at != std::string::npos);
    const auto row_of = [&](const std::string& text, std::size_t from) {
      const std::string cells = text.substr(from, text.find("</text>\n", from) - from);
      return cells.substr(cells.rfind('>'));
    };
    const std::size_t drawn_at = svg.find(">" + family.family + "</text>");
    INFO(family.family);
    REQUIRE(drawn_at != std::string::npos);
    CHECK(row_of(svg, drawn_at) == row_of(drawn, at));
  }
  const auto table = CsvTable::read(TANDEM_SOURCE_DIR "/validation/results/published.csv");
  REQUIRE(table.ok());
  CHECK(table->size() == static_cast<int>(all));
  int same = 0;
  for (int i = 0; i < table->size(); ++i) {
    for (const CaseRow& row : *rows) {
      if (row.run.id != table->text(i, "id")) continue;
      INFO(row.run.id);
      const auto predicted = table->number(i, "predicted_s");
      REQUIRE(predicted.ok());
      CHECK(*predicted == Approx(row.prediction->predicted_s).epsilon(1e-6));
      ++same;
    }
  }
  CHECK(same == static_cast<int>(rows->size()));
}
