// The tables of keys in keys/: what is made of them.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>

#include "base/file.h"
#include "keys/key.h"
#include "scenarios/scenario.h"
#include "tests/text.h"

using namespace tandem;

namespace {

const std::string kPage = TANDEM_SOURCE_DIR "/docs/scenario.md";

// Returns the rows of docs/scenario.md for [table], in the order of the tables in keys/.
std::string rows_of(const std::string& table) {
  const auto list = scenario_keys();
  const std::map<std::string, std::string> helps(list.begin(), list.end());
  std::string rows;
  for (const std::span<const KeyRow> keys : kKeyTables) {
    for (const KeyRow& key : keys) {
      if (key.name.starts_with(table + '.'))
        rows += fmt::format("| `{}` | {} |\n", key.name, helps.at(std::string(key.name)));
    }
  }
  return rows;
}

// Returns the page with the rows of its tables of keys made anew. Such a table has the columns key
// and value.
std::string with_made_tables(const std::string& page) {
  std::string made;
  enum { Outside, Head, Rows } place = Outside;
  for (const std::string& line : lines_of(page)) {
    if (line == "| key | value |") place = Head;
    if (place == Head && line.starts_with("| `")) {
      made += rows_of(line.substr(3, line.find('.') - 3));
      place = Rows;
    }
    if (place == Rows && !line.starts_with('|')) place = Outside;
    if (place != Rows) made += line + '\n';
  }
  return made;
}

}  // namespace

TEST_CASE("every key of the tables sets a member of a Scenario, and stands once") {
  std::set<std::string> bound;
  for (const auto& [key, help] : scenario_keys()) {
    INFO(key);
    CHECK(!help.empty());
    CHECK(bound.insert(key).second);
  }
  for (const std::span<const KeyRow> rows : kKeyTables) {
    for (const KeyRow& row : rows) {
      INFO(row.name);
      CHECK(bound.erase(std::string(row.name)) == 1);
    }
  }
  CHECK(bound.empty());
}

// With TANDEM_WRITE_DOCS set the page is written.
TEST_CASE("docs/scenario.md has every key, in tables that are made from those in keys/") {
  const std::string page = contents(kPage), made = with_made_tables(page);
  if (std::getenv("TANDEM_WRITE_DOCS") != nullptr) REQUIRE(write_file(kPage, made).ok());
  const auto here = lines_of(page), wanted = lines_of(made);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    INFO("docs/scenario.md:" << i + 1 << ", expected: " << wanted[i]);
    REQUIRE((i < here.size() && here[i] == wanted[i]));
  }
  for (const auto& [key, help] : scenario_keys()) {
    INFO(key);
    CHECK((made.find(fmt::format("| `{}` | {} |\n", key, help)) != std::string::npos));
  }
}
