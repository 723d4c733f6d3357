// Reads a scenario's TOML as flat settings: "parallel.tp" -> 8, with the line where it is set.
// [matrix] and [[variant]] become axes. Also reads lists of runs (CSV) and KEY=VALUE arguments.
#include "scenarios/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/csv.h"
#include "base/data_dir.h"
#include "base/file.h"
#include "base/toml/parse_toml.h"
#include "base/xml.h"
#include "interop/import.h"

namespace tandem {
namespace {

std::string dotted(const std::string& prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

Result<Setting> to_setting(const toml::node& node, const std::string& where,
                           const std::string& key) {
  if (const auto* value = node.as_boolean()) return Setting{value->get(), where};
  if (const auto* value = node.as_integer()) return Setting{value->get(), where};
  if (const auto* value = node.as_floating_point()) return Setting{value->get(), where};
  if (const auto* value = node.as_string()) return Setting{value->get(), where};
  if (const auto* array = node.as_array()) {
    if (array->is_array_of_tables())
      return Error::at(where, fmt::format("found [[{0}]], expected [{0}], or for several runs "
                                          "[[matrix.{0}]] with a name each",
                                          key));
    if (!array->empty() && array->is_homogeneous<std::string>()) {
      std::vector<std::string> texts;
      for (const toml::node& item : *array) texts.push_back(item.as_string()->get());
      return Setting{std::move(texts), where};
    }
    std::vector<std::int64_t> list;
    for (const toml::node& item : *array) {
      const auto* number = item.as_integer();
      if (number == nullptr)
        return Error::at(
            where, fmt::format("found '{}' with a list of other things, expected integers", key));
      list.push_back(number->get());
    }
    return Setting{std::move(list), where};
  }
  return Error::at(
      where, fmt::format("found '{}' with {}, expected a number, a text, true, false or a list",
                         key, node.is_table() ? "a table" : "a date or time"));
}

// Turns the TOML of a file into flat settings. If the text is not from a file, places have no line
// numbers.
class Flattener {
 public:
  Flattener(std::string path, bool is_file) : path_(std::move(path)), is_file_(is_file) {}

  std::string place(const toml::node& node) const {
    return is_file_ ? fmt::format("{}:{}", path_, node.source().begin.line) : path_;
  }

  // Adds the settings of a table to `to`, except its key `skipped`.
  Status settings(const toml::table& table, const std::string& prefix, Settings* to,
                  std::string_view skipped = {}) const {
    for (auto&& [key, node] : table) {
      const std::string name = dotted(prefix, key.str());
      if (name == skipped) continue;
      if (const toml::table* inner = node.as_table()) {
        RETURN_IF_ERROR(settings(*inner, name, to));
        continue;
      }
      ASSIGN_OR_RETURN((*to)[name], to_setting(node, place(node), name));
    }
    return Done{};
  }

  // Adds the axes of [matrix] to `to`, each with its line. A key has a list of values, or of
  // tables.
  Status axes(const toml::table& table, const std::string& prefix,
              std::vector<std::pair<std::uint32_t, Axis>>* to) const {
    for (auto&& [key, node] : table) {
      const std::string name = dotted(prefix, key.str());
      if (const toml::table* inner = node.as_table()) {
        RETURN_IF_ERROR(axes(*inner, name, to));
        continue;
      }
      const toml::array* array = node.as_array();
      if (array == nullptr || array->empty())
        return Error::at(
            place(node),
            fmt::format("found matrix.{} without a list, expected the values to run", name));
      ASSIGN_OR_RETURN(Axis axis,
                       array->is_array_of_tables() ? points(*array, name) : values(*array, name));
      to->emplace_back((*array)[0].source().begin.line, std::move(axis));
    }
    return Done{};
  }

  Result<Axis> points(const toml::array& array, const std::string& name) const {
    Axis axis{printable(name), {}};
    for (const toml::node& node : array) {
      const toml::table* table = node.as_table();
      if (table == nullptr)
        return Error::at(
            place(node),
            fmt::format("found [[{}]] with other things than tables, expected tables", name));
      Point point;
      if (const toml::node* given = table->get("name")) {
        ASSIGN_OR_RETURN(point.names, names(*given));
      }
      RETURN_IF_ERROR(settings(*table, "", &point.settings, "name"));
      if (point.names.empty())
        return Error::at(place(node),
                         fmt::format("found [[{}]] without a name, expected name = \"...\"", name));
      RETURN_IF_ERROR(add(point, node, &axis));
    }
    return axis;
  }

 private:
  Result<Axis> values(const toml::array& array, const std::string& name) const {
    Axis axis{name, {}};
    for (const toml::node& node : array) {
      ASSIGN_OR_RETURN(const Setting setting, to_setting(node, place(node), name));
      RETURN_IF_ERROR(
          add({{printable(fmt::format("{}={}", name, setting.text()))}, {{name, setting}}}, node,
              &axis));
    }
    return axis;
  }

  // Adds a point to the axis. Error: the axis has its name, by which a user tells runs apart.
  Status add(const Point& point, const toml::node& node, Axis* axis) const {
    if (std::ranges::find(axis->points, point.names, &Point::names) != axis->points.end())
      return Error::at(place(node), fmt::format("found '{}' twice, expected another run",
                                                fmt::join(point.names, ", ")));
    axis->points.push_back(point);
    return Done{};
  }

  // Reads a name, or a list of names, in printable form, as --only is compared with that form.
  Result<std::vector<std::string>> names(const toml::node& node) const {
    std::vector<std::string> list;
    const toml::array* array = node.as_array();
    if (array == nullptr && node.is_string()) list.push_back(printable(node.as_string()->get()));
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
      if (const auto* text = array->get_as<std::string>(i)) list.push_back(printable(text->get()));
    }
    if (list.empty() || (array != nullptr && list.size() != array->size()))
      return Error::at(place(node),
                       "found a name that is no text, expected name = \"...\" or a list of texts");
    return list;
  }

  std::string path_;
  bool is_file_;
};

}  // namespace

Error Setting::error(std::string_view key, std::string_view expected) const {
  // Shows the quotes of a text that stands in place of a number or flag, since they are the fault.
  const auto begins = [&](std::string_view word) { return expected.starts_with(word); };
  const bool is_quoted = std::holds_alternative<std::string>(value) &&
                         (begins("a number") || begins("an integer") || begins("true or false"));
  const std::string found = is_quoted ? fmt::format("\"{}\"", text()) : text();
  return {fmt::format("found {} = {}, expected {}", key, found, expected),
          Error::BadInput,
          {.keys = {std::string(key)}, .source = where}};
}

Result<std::string> Setting::file(std::string_view key, const std::string& folder,
                                  std::string_view expected) const {
  const auto* name = std::get_if<std::string>(&value);
  if (name == nullptr || name->empty()) return error(key, expected);
  const std::string path = (std::filesystem::path(folder) / *name).string();
  if (const std::string why = why_unreadable(path); !why.empty())
    return Error::at(where,
                     fmt::format("found {} = {}: {}, expected {}", key, *name, why, expected));
  return path;
}

std::string Setting::text() const {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ", "));
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ", "));
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  return fmt::format("{}", std::get<double>(value));
}

std::vector<std::string> Setting::texts() const {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return *list;
  if (const auto* word = std::get_if<std::string>(&value)) return {*word};
  return {};
}

std::string scenario_path(const std::string& given) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const bool is_file = fs::exists(given, unknown) && !fs::is_directory(given, unknown);
  if (is_file || given.find('/') != std::string::npos) return given;
  const std::string name = given.ends_with(".toml") ? given : given + ".toml";
  const std::string ours = data_dir() + "/scenarios/" + name;
  return fs::is_regular_file(ours, unknown) ? ours : given;
}

Result<ScenarioFile> read_scenario_file(const std::string& path) {
  constexpr const char* kExpected = "a scenario (TOML)";
  const std::string found = scenario_path(path);
  ASSIGN_OR_RETURN(const std::string text, read_file(found, kExpected));
  if (text.empty()) return Error::at(found, fmt::format("is empty, expected {}", kExpected));
  auto file = parse_scenario(text, found, /*is_file=*/true);
  if (!file.ok() && !found.ends_with(".toml") && import_files({found}).ok())
    return Error::at(found, fmt::format("found a file of another tool, expected {0}: tandem import "
                                        "{1} --cluster PRESET --gpus N -o job.toml writes one",
                                        kExpected, path));
  return file;
}

Result<ScenarioFile> parse_scenario(const std::string& text, const std::string& path,
                                    bool is_file) {
  ASSIGN_OR_RETURN(toml::table table, parse_toml_table(text, path));
  ScenarioFile file{path, {}, {}};
  const Flattener flattener(path, is_file);
  std::vector<std::pair<std::uint32_t, Axis>> axes;
  if (const toml::node* variants = table.get("variant")) {
    const toml::array* array = variants->as_array();
    if (array == nullptr || !array->is_array_of_tables())
      return Error::at(flattener.place(*variants),
                       "found variant that is no list of tables, expected [[variant]]");
    ASSIGN_OR_RETURN(Axis axis, flattener.points(*array, "variant"));
    axes.emplace_back(variants->source().begin.line, std::move(axis));
    table.erase("variant");
  }
  if (const toml::node* matrix = table.get("matrix")) {
    if (!matrix->is_table())
      return Error::at(flattener.place(*matrix),
                       "found matrix that is no table, expected [matrix]");
    RETURN_IF_ERROR(flattener.axes(*matrix->as_table(), "", &axes));
    table.erase("matrix");
  }
  RETURN_IF_ERROR(flattener.settings(table, "", &file.base));
  // TOML tables are sorted by key. The file's own order of axes is restored by their lines.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [line, axis] : axes) file.axes.push_back(std::move(axis));
  return file;
}

std::vector<NamedFile> files_named(const ScenarioFile& file,
                                   const std::vector<std::pair<std::string, Setting>>& sets) {
  const std::string folder = std::filesystem::path(file.path).parent_path().string();
  std::vector<NamedFile> files;
  const auto add = [&](const std::string& key, const Setting& setting) {
    for (const std::string& text : setting.texts()) {
      // A text without a dot names a preset or the like, and no file, except a hostfile.
      if (text.find('.') == std::string::npos && key != "cluster.hostfile") continue;
      const auto path = Setting{text, setting.where}.file(key, folder, "");
      if (!path.ok()) continue;
      files.push_back({key, *path});
      if (key != "cluster.from") continue;
      // Lists the files that this file names as well.
      auto cluster = read_scenario_file(*path);
      if (!cluster.ok()) continue;
      cluster->base.erase(key);  // a file named by cluster.from must not have that key itself
      for (const NamedFile& named : files_named({*path, cluster->base, {}}, {}))
        files.push_back(named);
    }
  };
  for (const auto& [key, setting] : file.base) add(key, setting);
  for (const Axis& axis : file.axes) {
    for (const Point& point : axis.points) {
      for (const auto& [key, setting] : point.settings) add(key, setting);
    }
  }
  for (const auto& [key, setting] : sets) add(key, setting);
  return files;
}

Result<Axis> read_list(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvFile file, read_csv(path));
  if (file.rows.size() < 2)
    return file.error(1, "found no rows, expected a header row of keys and a row a run");
  RETURN_IF_ERROR(file.check_columns());
  const std::vector<std::string>& keys = file.rows.front().cells;
  Axis axis{"list", {}};
  for (const CsvRow& row : std::span(file.rows).subspan(1)) {
    if (row.cells.size() != keys.size())
      return file.error(row.line, fmt::format("found {} cells, expected {} as in the header",
                                              row.cells.size(), keys.size()));
    Point& point = axis.points.emplace_back();
    std::string name;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (row.cells[i].empty()) continue;
      if (keys[i] == "name") {
        point.names = {row.cells[i]};
        continue;
      }
      ASSIGN_OR_RETURN(
          auto set, parse_set(keys[i] + '=' + row.cells[i], fmt::format("{}:{}", path, row.line)));
      name += fmt::format("{}{}={}", name.empty() ? "" : ", ", set.first, set.second.text());
      point.settings.insert(std::move(set));
    }
    if (point.names.empty()) point.names = {name};
  }
  return axis;
}

Result<std::pair<std::string, Setting>> parse_set(std::string_view text, const std::string& where) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return Error::at(where, fmt::format("found '{}', expected KEY=VALUE", text));
  const std::string key(text.substr(0, equals));
  const std::string value(text.substr(equals + 1));
  const auto table = parse_toml_table("value = " + value, where);
  // A value that is not TOML is a bare word. If TOML finds several keys, the value is a text of
  // several lines, and its further lines only look like keys.
  if (!table.ok() || table->size() != 1) return std::pair{key, Setting{value, where}};
  ASSIGN_OR_RETURN(Setting setting, to_setting(*table->get("value"), where, key));
  return std::pair{key, std::move(setting)};
}

Result<std::vector<std::pair<std::string, Setting>>> parse_sets(
    const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, Setting>> sets;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(sets.emplace_back(), parse_set(text));
  }
  return sets;
}

}  // namespace tandem
