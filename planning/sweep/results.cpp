// Writes and reads the rows of a sweep's CSV. A row is found again by its run's name and by a hash
// of the run's settings; its last cell is a checksum, which shows whether somebody has edited it.
#include "planning/sweep/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <span>

#include "base/csv.h"
#include "base/file.h"
#include "base/random.h"
#include "keys/key.h"
#include "results/result_fields.h"
#include "scenarios/routing_file.h"

namespace tandem {
namespace {

constexpr std::array kFirstColumns = {"name", "settings", "error",
                                      "engine"};  // `settings`: the hash
// The last column of each row: a hash of the cells before it.
constexpr std::string_view kChecksum = "checksum";

// Returns a value as a cell's text. Lists are joined by "; "; objects give an empty cell.
std::string cell(const Json& value) {
  if (value.is_null() || value.is_object()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string joined;
  for (const Json& each : value) joined += (joined.empty() ? "" : "; ") + cell(each);
  return joined;
}

struct OutputColumn {
  std::string name;  // "memory_bytes.total"
  int position = 0;  // FieldText::column
  bool is_text = false;
};

void add_columns(const std::vector<FieldText>& fields, const std::string& prefix,
                 std::vector<OutputColumn>* columns) {
  for (const FieldText& field : fields) {
    if (field.column == kNoColumn) continue;
    // found_order, an object, has one column, which is always empty.
    if (field.parts.empty() || field.key == "found_order") {
      const bool is_text = field.python.find("str") != std::string::npos;  // as "str | None"
      columns->push_back({prefix + field.key, field.column, is_text});
    } else {
      add_columns(field.parts, prefix + field.key + '.', columns);
    }
  }
}

std::vector<OutputColumn> output_columns() {
  std::vector<OutputColumn> columns;
  add_columns(fields_of<RunResult>().texts(), "", &columns);
  std::ranges::stable_sort(columns, {}, &OutputColumn::position);
  return columns;
}

std::vector<std::string> output_cells(const RunResult& result,
                                      const std::vector<std::string>& columns) {
  const Json json = to_json(result);
  std::vector<std::string> cells;
  for (std::string column : columns) {
    std::ranges::replace(column, '.', '/');
    const Json::json_pointer path('/' + column);
    cells.push_back(json.contains(path) ? cell(json[path]) : "");
  }
  return cells;
}

// Hashes the settings of runs. If a setting names a file, the file's content is hashed as well, so
// that a changed file makes another run.
class SettingsHash {
 public:
  explicit SettingsHash(const std::string& scenario_path)
      : folder_(std::filesystem::path(scenario_path).parent_path()) {}

  std::string of(const Settings& settings, std::string_view engine) {
    std::uint64_t hash = fnv1a(engine);
    for (const auto& [key, setting] : settings) {
      const std::string text = setting.text();
      hash = fnv1a(fmt::format("\n{}={}", key, text), hash);
      for (const std::string& name : setting.texts()) hash = fnv1a(content(name), hash);
    }
    return fmt::format("{:016x}", hash);
  }

 private:
  // Returns the content of the file of this name, or "" if there is none. A trace of routing stands
  // for those of all ranks beside it. Texts without a dot are taken for no file's name.
  const std::string& content(const std::string& name) {
    const auto [known, is_new] = contents_.try_emplace(name);
    if (!is_new || name.find('.') == std::string::npos) return known->second;
    for (const std::string& path : routing_files((folder_ / name).string())) {
      const auto file = read_file(path);
      if (file.ok()) known->second += *file;
    }
    return known->second;
  }

  std::filesystem::path folder_;
  std::map<std::string, std::string> contents_;
};

std::string joined(const std::vector<std::string>& cells) {
  std::string line = csv_cell(cells.front());
  for (const std::string& each : std::span(cells).subspan(1)) line += ',' + csv_cell(each);
  return line;
}

std::string checksum_of(const std::vector<std::string>& cells) {
  return fmt::format("{:016x}", fnv1a(joined(cells)));
}

// Returns where the run sets a key that its double sets elsewhere: a row of a list, say, or a
// point's line. If there is none, returns the file.
std::string place_beside(const RunSettings& run, const RunSettings& its_double,
                         const ScenarioFile& file) {
  for (const auto& [key, setting] : run.settings) {
    const auto other = its_double.settings.find(key);
    if (other != its_double.settings.end() && other->second.where != setting.where)
      return setting.where;
  }
  return file.path;
}

// Whether a row is as it was written, by its checksum.
bool is_unchanged(const CsvTable& table, int row) {
  std::vector<std::string> cells;
  for (const std::string& column : table.columns()) {
    if (column != kChecksum) cells.emplace_back(table.text(row, column));
  }
  return checksum_of(cells) == table.text(row, kChecksum);
}

}  // namespace

bool holds_texts(const std::string& column) {
  if (column == kChecksum || std::ranges::find(kFirstColumns, column) != kFirstColumns.end())
    return true;
  const bool is_of_kind = column.starts_with("model.kinds.");
  const std::string key = is_of_kind ? "model" + column.substr(column.rfind('.')) : column;
  if (const KeyRow* row = keys::find(key)) return row->type() == KeyType::Text;
  return std::ranges::any_of(output_columns(), [&](const OutputColumn& output) {
    return output.is_text && output.name == column;
  });
}

Result<Results> Results::of(const ScenarioFile& file, std::vector<RunSettings> runs,
                            Engine engine) {
  Results results;
  results.runs_ = std::move(runs);
  results.engine_ = engine_name(engine);
  for (const OutputColumn& column : output_columns()) results.outputs_.push_back(column.name);
  SettingsHash hash(file.path);
  std::set<std::string> inputs;
  for (const RunSettings& run : results.runs_) {
    for (const auto& [key, setting] : run.settings) inputs.insert(key);
    const int number = static_cast<int>(results.hashes_.size());
    results.hashes_.push_back(hash.of(run.settings, results.engine_));
    const auto [same, is_new] =
        results.by_key_.try_emplace({run.name, results.hashes_.back()}, number);
    if (is_new) continue;
    const RunSettings& first = results.runs_[same->second];
    return Error::at(place_beside(run, first, file),
                     fmt::format("found the run '{}' twice (first in {}), expected each once",
                                 run.name, place_beside(first, run, file)));
  }
  results.inputs_.assign(inputs.begin(), inputs.end());
  return results;
}

std::string Results::header() const {
  std::vector<std::string> columns(kFirstColumns.begin(), kFirstColumns.end());
  columns.insert(columns.end(), inputs_.begin(), inputs_.end());
  columns.insert(columns.end(), outputs_.begin(), outputs_.end());
  columns.emplace_back(kChecksum);
  return joined(columns);
}

std::string Results::line(int run, const std::string& error,
                          const std::vector<std::string>& outputs) const {
  const RunSettings& settings = runs_[run];
  std::vector<std::string> cells = {settings.name, hashes_[run], error, engine_};
  for (const std::string& key : inputs_) {
    const auto setting = settings.settings.find(key);
    cells.push_back(setting == settings.settings.end() ? "" : setting->second.text());
  }
  cells.insert(cells.end(), outputs.begin(), outputs.end());
  cells.push_back(checksum_of(cells));
  return joined(cells);
}

std::string Results::row(int run, const Result<RunResult>& result) const {
  if (result.ok()) return line(run, "", output_cells(*result, outputs_));
  // An Error has no text if its reason is already printed. The cell must not be empty, though.
  const std::string why = result.error().text();
  return line(run, why.empty() ? "failed" : why, std::vector<std::string>(outputs_.size()));
}

Status Results::check_form(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return Done{};
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const std::string begin = joined({kFirstColumns.begin(), kFirstColumns.end()}) + ',';
  if (text.empty() || text.starts_with(begin)) return Done{};
  return Error::at(
      fmt::format("{}:1", path),
      fmt::format(
          "found another file than a sweep's results, expected none or one that begins with {}",
          begin));
}

Result<Results::RowsFound> Results::read(const std::string& path) const {
  std::error_code unknown;
  RowsFound found;
  if (!std::filesystem::exists(path, unknown) || std::filesystem::file_size(path, unknown) == 0)
    return found;
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  // The columns of settings may differ from this sweep's, since rows are found by their hash.
  std::vector<std::string> needed(kFirstColumns.begin(), kFirstColumns.end());
  needed.insert(needed.end(), outputs_.begin(), outputs_.end());
  needed.emplace_back(kChecksum);
  for (const std::string& column : needed) {
    if (!table.has(column))
      return Error::at(fmt::format("{}:1", path),
                       fmt::format("found no column '{}', expected the results of this version of "
                                   "tandem; move the file away to begin anew",
                                   column));
  }
  for (int i = 0; i < table.size(); ++i) {
    if (!is_unchanged(table, i)) {
      ++found.changed;
      continue;
    }
    const auto run = by_key_.find(
        RunKey{std::string(table.text(i, "name")), std::string(table.text(i, "settings"))});
    if (run == by_key_.end()) {
      ++found.of_no_run;
      continue;
    }
    std::vector<std::string> outputs;
    for (const std::string& column : outputs_) outputs.emplace_back(table.text(i, column));
    const std::string error(table.text(i, "error"));
    // The line is written anew with this sweep's columns of settings. If a run has two rows, the
    // later one counts.
    found.rows[run->second] = {line(run->second, error, outputs), !error.empty(),
                               !table.text(i, "warnings").empty()};
  }
  return found;
}

}  // namespace tandem
