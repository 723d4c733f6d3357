// Settings: a scenario file as a flat list of dotted keys. Each value knows the place it comes
// from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/key_value.h"
#include "base/outputs.h"
#include "base/result.h"

namespace tandem {

// A value and its place: "file:line", or "--set".
struct Setting {
  KeyValue value;
  std::string where;

  // Returns the Error "where: found KEY = VALUE, expected ...".
  Error error(std::string_view key, std::string_view expected) const;
  std::string text() const;
  // Returns the texts of a list, or the one text; none for any other value.
  std::vector<std::string> texts() const;
  // Returns the path of the file that the value names, relative to `folder`. Error: no file there
  // can be read.
  Result<std::string> file(std::string_view key, const std::string& folder,
                           std::string_view expected) const;
};

using Settings = std::map<std::string, Setting>;  // by dotted key, as "parallel.tp"

// One point of an axis: its name, and the keys that it sets. If it has several names, each is a
// column of the printed table. Names are stored as they are printed: a line break is "\\n".
struct Point {
  std::vector<std::string> names;
  Settings settings;
};

// A file describes several runs by axes: the runs are their product. Each [[variant]] is a point of
// the axis "variant". A key in [matrix] is an axis: a list of its values, or [[matrix.NAME]] tables
// of points.
struct Axis {
  std::string name;
  std::vector<Point> points;
};

struct ScenarioFile {
  std::string path;
  Settings base;
  std::vector<Axis> axes;  // in the file's order; the first changes slowest
};

// Returns the path of the file that a user means: `given` if it exists, else the scenario of that
// name that comes with Tandem: "megatron-sc21" or "megatron-sc21.toml".
std::string scenario_path(const std::string& given);

// Reads the file that scenario_path(path) returns.
Result<ScenarioFile> read_scenario_file(const std::string& path);

// Reads a scenario from text. If it is not from a file, `path` is only a name: Errors have it
// without a line, and paths in the text are relative to the working folder.
Result<ScenarioFile> parse_scenario(const std::string& text, const std::string& path, bool is_file);

// Returns the files that the settings and `sets` name (orders, tables, calibrations), with their
// keys.
std::vector<NamedFile> files_named(const ScenarioFile& file,
                                   const std::vector<std::pair<std::string, Setting>>& sets);

// Reads a list of runs as an axis, from a CSV with one run in a row. A column is a key, and its
// cells are values as --set takes them; an empty cell sets nothing. The column `name` names the
// run; without it, the name lists the keys and values that the run sets.
Result<Axis> read_list(const std::string& path);

// Parses "KEY=VALUE". The value is written as in TOML; a bare word is a string.
Result<std::pair<std::string, Setting>> parse_set(std::string_view text,
                                                  const std::string& where = "--set");

Result<std::vector<std::pair<std::string, Setting>>> parse_sets(
    const std::vector<std::string>& texts);

}  // namespace tandem
