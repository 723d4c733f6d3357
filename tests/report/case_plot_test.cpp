// The picture of predicted against measured: a mark a prediction, in its place, for any values.
#include "report/page/case_plot.h"

#include <catch2/catch.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/text.h"
#include "tests/validation/case_rows.h"

using namespace tandem;

namespace {

struct Mark {
  int family = 0;
  double x = 0, y = 0;
};

std::vector<Mark> marks_of(const std::string& text) {
  static const std::regex kUse(R"re(<use xlink:href="#f(\d+)" x="([^"]+)" y="([^"]+)"/>)re");
  std::vector<Mark> marks;
  for (std::sregex_iterator it(text.begin(), text.end(), kUse), end; it != end; ++it)
    marks.push_back({std::stoi((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3])});
  return marks;
}

// All marks lie in the square, from 76 to 596 and from 44 to 564; no number is lost.
void check_sound(const std::string& text, int marks) {
  CHECK(marks_of(text).size() == static_cast<std::size_t>(marks));
  for (const Mark& mark : marks_of(text)) {
    CHECK(mark.x >= 76);
    CHECK(mark.x <= 596);
    CHECK(mark.y >= 44);
    CHECK(mark.y <= 564);
  }
  CHECK(count(text, "nan") == 0);
  CHECK(count(text, "inf") == 0);
  CHECK(text.ends_with("</svg>\n"));
}

}  // namespace

TEST_CASE("a plot has a mark a row with a prediction, and the same bytes each time") {
  const std::string text = case_plot(made_up_rows());  // five, one without
  check_sound(text, 4);
  CHECK(case_plot(made_up_rows()) == text);
  CHECK_THAT(text, Catch::Contains("measured: 4 runs of others"));
  CHECK_THAT(text, Catch::Contains(">measured iteration, s</text>"));
  CHECK_THAT(text, Catch::Contains(">predicted iteration, s</text>"));
  // Drawn first, the background hides what is behind the picture.
  CHECK(text.find("fill=\"#ffffff\"/>") < text.find("<path class="));
}

TEST_CASE("a plot's marks stand where the logarithms of both times say") {
  // The axes go from 1 to 100 over 520 pixels, so 10 is in the middle, at 76 + 260, and 20 is
  // log10(20)/2 x 520 = 338.27 above the lower end at 44 + 520.
  const std::string text =
      case_plot({made_up("a", "f", 1, 1), made_up("b", "f", 100, 100), made_up("c", "g", 10, 20)});
  const std::vector<Mark> marks = marks_of(text);
  REQUIRE(marks.size() == 3);
  CHECK(marks[0].x == 76);
  CHECK(marks[0].y == 564);
  CHECK(marks[1].x == 596);
  CHECK(marks[1].y == 44);
  CHECK(marks[2].family == 1);
  CHECK(marks[2].x == 336);
  CHECK(marks[2].y == Approx(225.7));
  // 10 % more is log10(1.1)/2 x 520 = 10.76 pixels up, 10 % less log10(0.9)/2 x 520 = 11.90 down.
  CHECK_THAT(text, Catch::Contains("d=\"M76.0 553.2L596.0 33.2 596.0 55.9 76.0 575.9z\""));
  CHECK_THAT(text, Catch::Contains("class=\"diagonal\" stroke=\"#555555\" d=\"M76 564L596 44\""));
  // Ticks at 1, 2, 5, 10, 20, 50 and 100, on both axes.
  for (const char* tick : {">1</text>", ">2</text>", ">5</text>", ">20</text>", ">100</text>"})
    CHECK(count(text, tick) >= 2);
}

TEST_CASE("a plot's legend has each family's rows and mean error") {
  const std::string text = case_plot(made_up_rows());
  // a: 10, 20 and 30 % off; b: 5 %, and a row without.
  CHECK(
      std::regex_search(text, std::regex(">a</text><text [^>]*>3</text><text [^>]*>20.0</text>")));
  CHECK(std::regex_search(text, std::regex(">b</text><text [^>]*>1</text><text [^>]*>5.0</text>")));
  CHECK(std::regex_search(
      text, std::regex(">all rows</text><text [^>]*>4</text><text [^>]*>16.[23]</text>")));
}

TEST_CASE("a plot escapes and shortens families' names") {
  const std::string text = case_plot({made_up("a", "a<b & \"c\"", 1, 1)});
  CHECK_THAT(text, Catch::Contains(">a&lt;b &amp; &quot;c&quot;</text>"));
  CHECK(count(text, "a<b") == 0);
  CHECK_THAT(case_plot({made_up("a", std::string(300, 'x').c_str(), 1, 1)}),
             Catch::Contains(">" + std::string(24, 'x') + "..</text>"));
}

TEST_CASE("a plot of one row, of equal ones, of tiny and of huge ones is sound") {
  const std::string one = case_plot({made_up("a", "f", 1, 1)});
  check_sound(one, 1);
  // From 0.5 to 2: in the middle.
  CHECK(marks_of(one)[0].x == 336);
  CHECK(marks_of(one)[0].y == 304);
  check_sound(case_plot({made_up("a", "f", 3, 3), made_up("b", "f", 3, 3)}), 2);
  check_sound(case_plot({made_up("a", "f", 1e-300, 1e-301)}), 1);
  const std::string wide =
      case_plot({made_up("a", "f", 1e-300, 2e-300), made_up("b", "f", 1e300, 7e299)});
  check_sound(wide, 2);
  CHECK(count(wide, "stroke-opacity=\"0.13\"") <= 13);
}

TEST_CASE("a plot without predictions has no mark") {
  const std::string text = case_plot({made_up("a", "f", 1, 0)});
  check_sound(text, 0);
  CHECK(std::regex_search(text, std::regex(">f</text><text [^>]*>0</text><text [^>]*>-</text>")));
}

TEST_CASE("a plot draws the largest family first, and its marks small") {
  std::vector<CaseRow> rows = {made_up("few", "few", 2, 2)};
  rows.resize(400, made_up("many", "many", 3, 4));
  const std::vector<Mark> marks = marks_of(case_plot(rows));
  REQUIRE(marks.size() == 400);
  CHECK(marks.front().family == 1);
  CHECK(marks.back().family == 0);
  CHECK_THAT(case_plot(rows), Catch::Contains("id=\"f1\" transform=\"scale(1.8)\""));
}

TEST_CASE("a plot of sixty families tells neighbours apart and makes room for the legend") {
  std::vector<CaseRow> rows;
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("family " + std::to_string(i));
  for (const std::string& name : names) rows.push_back(made_up("a", name.c_str(), 1, 2));
  const std::string text = case_plot(rows);
  check_sound(text, 60);
  CHECK_THAT(text, Catch::Contains("viewBox=\"0 0 920 1474\""));  // 44 + 65 x 22
}
