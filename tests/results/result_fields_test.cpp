// The table of a result's fields against what docs/formats.md and the Python stub say of them.
#include "results/result_fields.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "base/file.h"
#include "planning/real/real_run.h"

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
  std::string rows = "| key | type, unit | meaning |\n|---|---|---|\n";
  for (const FieldText& field : fields)
    rows += fmt::format("| `{}` | {} | {} |\n", field.key, field.type, meaning_of(field));
  return rows + '\n';
}

std::string class_of(const std::string& name, const std::vector<FieldText>& fields) {
  std::string text = "class " + name + ":\n";
  for (const FieldText& field : fields)
    text += fmt::format("    {}: {}\n", field.key, field.python);
  return text;
}

void check_has(const std::string& path, const std::string& expected) {
  const auto file = read_file(TANDEM_SOURCE_DIR "/" + path);
  REQUIRE(file.ok());
  INFO("expected in " << path << ":\n" << expected);
  CHECK((file->find(expected) != std::string::npos));
}

}  // namespace

TEST_CASE("docs/formats.md has a row for each field of a result, in their order") {
  check_has("docs/formats.md", rows_of(fields_of<RunResult>().texts()));
  check_has("docs/formats.md", rows_of(real_run_fields()));
}

TEST_CASE("the Python stub has an attribute for each field of a result, with its type") {
  const std::vector<FieldText> fields = fields_of<RunResult>().texts();
  check_has("python/tandem/__init__.pyi", class_of("Result", fields) + "    @property\n");
  for (const FieldText& field : fields) {
    const std::string name = field.python.substr(0, field.python.find(" | None"));
    if (!field.parts.empty() && name.find("Numbers") == std::string::npos)
      check_has("python/tandem/__init__.pyi", class_of(name + "(Numbers)", field.parts) + '\n');
  }
}
