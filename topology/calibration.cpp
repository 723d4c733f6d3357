// Reads calibrations with toml++: [[fit]] tables, and above them how they were measured.
#include "topology/calibration.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/file.h"
#include "base/nearest.h"
#include "base/toml/parse_toml.h"
#include "base/units.h"

namespace tandem {
namespace {

// The keys above the rows, which say where those come from. No time depends on them.
const std::vector<std::string> kOrigin = {"backend",    "real",   "cluster", "placement",
                                          "iterations", "warmup", "fit"};
const std::vector<std::string> kRowKeys = {
    "op", "ranks", "nodes", "latency_us", "busbw_GBps", "worst_error_percent", "sizes"};

// One table of the file, read key by key.
class CheckedTable {
 public:
  CheckedTable(const std::string& path, const toml::table& table) : path_(path), table_(table) {}

  Status knows_only(const std::vector<std::string>& keys) const {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(keys, key.str()) == keys.end())
        return at(node, fmt::format("found key '{}', expected a known key; the nearest is '{}'",
                                    key.str(), nearest(key.str(), keys)));
    }
    return Done{};
  }

  Result<CommKind> op() const {
    std::string names;
    for (int i = 0; i < kCommKinds; ++i)
      names += fmt::format(" {}", comm_kind_name(static_cast<CommKind>(i)));
    const auto word = table_["op"].value<std::string>();
    const auto kind = word ? comm_kind_named(*word) : std::nullopt;
    if (!kind) return wrong("op", "one of" + names);
    return *kind;
  }

  Result<int> count(const char* key, int least) const {
    const auto value = table_[key].value_exact<std::int64_t>();
    if (!value || *value < least || *value > 1'000'000)
      return wrong(key, fmt::format("an integer from {} to 1000000", least));
    return static_cast<int>(*value);
  }

  // Reads a number above 0, or from 0 on with `or_zero`.
  Result<double> number(const char* key, bool or_zero) const {
    const auto value = table_[key].value<double>();
    if (!value || !std::isfinite(*value) || !(or_zero ? *value >= 0 : *value > 0))
      return wrong(key, or_zero ? "a number of at least 0" : "a number above 0");
    return *value;
  }

  Error wrong(const char* key, const std::string& expected) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr)
      return at(table_, fmt::format("found a [[fit]] without '{}', expected {}", key, expected));
    std::string found = "something else";
    if (const auto text = node->value_exact<std::string>()) found = *text;
    if (const auto number = node->value<double>()) found = fmt::format("{:g}", *number);
    return at(*node, fmt::format("found {} = {}, expected {}", key, found, expected));
  }

  Error at(const toml::node& node, const std::string& message) const {
    return Error::at(fmt::format("{}:{}", path_, node.source().begin.line), message);
  }

 private:
  const std::string& path_;
  const toml::table& table_;
};

Result<CalibrationRow> row_of(const CheckedTable& table) {
  RETURN_IF_ERROR(table.knows_only(kRowKeys));
  CalibrationRow row;
  ASSIGN_OR_RETURN(row.kind, table.op());
  ASSIGN_OR_RETURN(row.ranks, table.count("ranks", 2));
  ASSIGN_OR_RETURN(row.nodes, table.count("nodes", 1));
  if (row.kind == CommKind::SendRecv && row.ranks != 2)
    return table.wrong("ranks", "2 with op = p2p");
  if (row.nodes > row.ranks) return table.wrong("nodes", "no more nodes than ranks");
  ASSIGN_OR_RETURN(const double latency_us, table.number("latency_us", /*or_zero=*/true));
  ASSIGN_OR_RETURN(const double busbw_GBps, table.number("busbw_GBps", /*or_zero=*/false));
  row.latency_s = latency_us * 1e-6;
  row.bus_bytes_per_s = busbw_GBps * GB;
  return row;
}

}  // namespace

const CalibrationRow* find_row(std::span<const CalibrationRow> rows, CommKind kind, int ranks,
                               int nodes) {
  const auto at = std::ranges::find_if(rows, [&](const CalibrationRow& row) {
    return row.kind == kind && row.ranks == ranks && row.nodes == nodes;
  });
  return at == rows.end() ? nullptr : &*at;
}

Result<std::vector<CalibrationRow>> read_calibration(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(const toml::table file, parse_toml_table(text, path));
  const CheckedTable whole(path, file);
  RETURN_IF_ERROR(whole.knows_only(kOrigin));
  const toml::array* fits = file["fit"].as_array();
  if (fits == nullptr)
    return Error::at(fmt::format("{}:1", path),
                     "found no [[fit]], expected one a measured operation");
  std::vector<CalibrationRow> rows;
  for (const toml::node& node : *fits) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return whole.at(node, "found a value, expected [[fit]] tables");
    const CheckedTable fit(path, *table);
    ASSIGN_OR_RETURN(CalibrationRow row, row_of(fit));
    row.cluster = file["cluster"].value_or(std::string());
    if (find_row(rows, row.kind, row.ranks, row.nodes) != nullptr)
      return whole.at(node, fmt::format("found a second {} of {} ranks on {} nodes, expected one",
                                        comm_kind_name(row.kind), row.ranks, row.nodes));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tandem
