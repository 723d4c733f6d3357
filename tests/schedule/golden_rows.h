// The rows of tests/golden/summary.csv: what orders that others make come to.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/csv.h"
#include "schedule/order/named_orders.h"

namespace tandem {

struct GoldenRow {
  OrderSpec spec;    // our name of the order, its sizes, and the stages' costs
  std::string file;  // of the reference
  double makespan = 0;
  int peak_live = 0;  // activations of a stage on the fullest rank, from F to I
};

inline std::vector<GoldenRow> golden_rows() {
  const auto table = CsvTable::read(
      (std::filesystem::path(TANDEM_SOURCE_DIR) / "tests" / "golden" / "summary.csv").string());
  REQUIRE(table.ok());
  std::vector<GoldenRow> rows;
  for (int row = 0; row < table->size(); ++row) {
    const auto number = [&](const char* column) { return table->number(row, column).value(); };
    const auto size = [&](const char* column) { return static_cast<int>(number(column)); };
    GoldenRow& golden = rows.emplace_back();
    golden.spec = {std::string(table->text(row, "order")), size("pp"), size("vpp"),
                   size("microbatches")};
    golden.spec.costs = {number("F"), number("I"), number("W")};
    golden.file = table->text(row, "file");
    golden.makespan = number("makespan");
    golden.peak_live = size("peak_live_F_to_dgrad");
  }
  REQUIRE(rows.size() == 214);
  return rows;
}

}  // namespace tandem
