// Settings: a scenario file as a flat list of dotted keys, each value with the place it comes from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/key.h"
#include "base/outputs.h"
#include "base/result.h"

namespace tandem {

// One value and where it stands: "file:line", or "--set".
struct Setting {
  KeyValue value;
  std::string where;

  // The Error "where: found what, expected ..."
  Error error(std::string_view key, std::string_view expected) const;
  std::string text() const;
  // The text, or those of a list; none where it is neither.
  std::vector<std::string> texts() const;
  // The path of a file that it names, relative to the folder; an Error where none can be read.
  Result<std::string> file(std::string_view key, const std::string& folder,
                           std::string_view expected) const;
};

// Puts a setting in its place, by the key of that name or of a part with it: "PREFIX.NAME".
template <class Target>
Status set_by(const Key<Target>& key, const std::string& name, const Setting& setting,
              Target* target) {
  if (const auto expected = key.set(setting.value, target)) return setting.error(name, *expected);
  return Done{};
}

using Settings = std::map<std::string, Setting>;  // by dotted key, "parallel.tp"

// One point of an axis: its name (or several, a column of the table each), and what it sets. Names
// are as they are printed: a line break in one is "\\n".
struct Point {
  std::vector<std::string> names;
  Settings settings;
};

// Several runs in one file: each [[variant]] is a point of the axis "variant"; [matrix] has an axis
// a key: a list of values for it, or [[matrix.NAME]] tables of points. The runs are the product of
// the axes.
struct Axis {
  std::string name;
  std::vector<Point> points;
};

struct ScenarioFile {
  std::string path;
  Settings base;
  std::vector<Axis> axes;  // in the file's order, the first outermost
};

// The file that a user means: the one so called or, where there is none, a scenario that Tandem
// brings, by its name: "megatron-sc21" or "megatron-sc21.toml".
std::string scenario_path(const std::string& given);

// Reads the file scenario_path(path).
Result<ScenarioFile> read_scenario_file(const std::string& path);

// The same of a file's text. Of what is no file, `path` is a name: Errors give it without a line,
// and files that the text names are relative to the working folder.
Result<ScenarioFile> parse_scenario(const std::string& text, const std::string& path, bool is_file);

// The files that its settings and `sets` name, by their keys: orders, tables, calibrations.
std::vector<NamedFile> files_named(const ScenarioFile& file,
                                   const std::vector<std::pair<std::string, Setting>>& sets);

// A list of runs as an axis: a CSV with a row a run. Its columns are keys, their cells values as
// those of --set, and an empty cell sets nothing; a column `name` names the runs, else what they
// set does.
Result<Axis> read_list(const std::string& path);

// "KEY=VALUE", the value as TOML has it; a bare word is a string.
Result<std::pair<std::string, Setting>> parse_set(std::string_view text,
                                                  const std::string& where = "--set");

Result<std::vector<std::pair<std::string, Setting>>> parse_sets(
    const std::vector<std::string>& texts);

}  // namespace tandem
