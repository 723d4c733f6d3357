// What is made of the tables of a result's fields: the tables of docs/formats.md, the Python stub.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "planning/real/real_run.h"
#include "results/result_fields.h"
#include "tests/text.h"

using namespace tandem;

namespace {

// Returns a field's help, then its parts with theirs: "of the fullest GPU: `weights`, ...".
std::string meaning_of(const FieldText& field) {
  if (field.type.starts_with("by kind")) return field.help;
  std::string text = field.help;
  for (const FieldText& part : field.parts) {
    const std::string help = meaning_of(part);
    text += &part != field.parts.data() ? ", " : text.empty() ? "" : ": ";
    text += fmt::format("`{}`{}", part.key, help.empty() ? "" : " (" + help + ")");
  }
  return text;
}

std::string rows_of(const std::vector<FieldText>& fields) {
  std::string rows;
  for (const FieldText& field : fields)
    rows += fmt::format("\n| `{}` | {} | {} |", field.key, field.type, meaning_of(field));
  return rows;
}

// Adds "memory_bytes.total" and its like, of which `wanted` is true, by their columns.
void add_names(const std::vector<FieldText>& fields, const std::string& prefix,
               bool (*wanted)(int column), std::map<int, std::string>* names) {
  for (const FieldText& field : fields) {
    if (wanted(field.column)) (*names)[field.column] += fmt::format(", `{}{}`", prefix, field.key);
    if (field.column != kNoColumn) add_names(field.parts, prefix + field.key + '.', wanted, names);
  }
}

std::string names_where(bool (*wanted)(int column)) {
  std::map<int, std::string> names;
  add_names(fields_of<RunResult>().texts(), "", wanted, &names);
  std::string text;
  for (const auto& [column, of_column] : names) text += of_column;
  return text.substr(2);
}

std::string attributes_of(const std::vector<FieldText>& fields) {
  std::string lines;
  for (const FieldText& field : fields)
    lines += fmt::format("\n    {}: {}", field.key, field.python);
  return lines;
}

// Puts the lines between the head, a line or the begin of one, and the next tail.
void replace_lines(std::string* page, const std::string& head, const std::string& lines,
                   const std::string& tail) {
  INFO(head);
  const std::size_t begin = page->find(head);
  REQUIRE((begin != std::string::npos));
  const std::size_t end = page->find(tail, begin);
  REQUIRE((end != std::string::npos));
  page->replace(begin, end - begin, head.substr(0, head.rfind('\n')) + lines);
}

// Compares a file with what it should hold. With TANDEM_WRITE_DOCS set the file is written.
void check_file(const std::string& path, const std::string& made) {
  const std::string page = contents(path);
  if (std::getenv("TANDEM_WRITE_DOCS") != nullptr) REQUIRE(write_file(path, made).ok());
  const auto here = lines_of(page), wanted = lines_of(made);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    INFO(path << ':' << i + 1 << ", expected: " << wanted[i]);
    REQUIRE((i < here.size() && here[i] == wanted[i]));
  }
  CHECK(here.size() == wanted.size());
}

}  // namespace

TEST_CASE("docs/formats.md has a row for each field of a result, as the tables have them") {
  const std::string path = TANDEM_SOURCE_DIR "/docs/formats.md";
  std::string page = contents(path);
  const std::string head = "| key | type, unit | meaning |\n|---|---|---|\n";
  replace_lines(&page, head + "| `name`", rows_of(fields_of<RunResult>().texts()), "\n\n");
  replace_lines(&page, head + "| `backend`", rows_of(real_run_fields()), "\n\n");
  check_file(path, page);
}

TEST_CASE(
    "docs/formats.md lists the fields that a sweep's CSV leaves out, and those that stand last") {
  const std::string path = TANDEM_SOURCE_DIR "/docs/formats.md";
  std::string page = contents(path);
  const auto list = [&](const std::string& head, const std::string& names,
                        const std::string& tail) {
    const std::size_t begin = page.find(head);
    REQUIRE((begin != std::string::npos));
    const std::size_t from = begin + head.size();
    page.replace(from, page.find(tail, from) - from, names);
  };
  // The first columns of a row have the name and the engine.
  list("Left out or first: ", names_where([](int column) { return column == kNoColumn; }), ". ");
  list("stand last: ", names_where([](int column) { return column > 0; }), " |");
  check_file(path, page);
}

TEST_CASE("the Python stub has an attribute for each field of a result, with its type") {
  const std::string path = TANDEM_SOURCE_DIR "/python/tandem/__init__.pyi";
  std::string stub = contents(path);
  const std::vector<FieldText> fields = fields_of<RunResult>().texts();
  replace_lines(&stub, "class Result:\n", attributes_of(fields), "\n    @property");
  replace_lines(&stub, "class RealRun(Result):\n", attributes_of(real_run_fields()), "\n\n");
  for (const FieldText& field : fields) {
    const std::string name = field.python.substr(0, field.python.find(" | None"));
    if (!field.parts.empty() && name.find("Numbers") == std::string::npos)
      replace_lines(&stub, "class " + name + "(Numbers):\n", attributes_of(field.parts), "\n\n");
  }
  check_file(path, stub);
}
