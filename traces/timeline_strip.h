// TimelineStrip: an iteration cut into equal columns, and what each rank did in each column. A
// terminal draws it.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

inline constexpr int kComputeKinds = static_cast<int>(OpKind::Optimizer) + 1;

struct TimelineStrip {
  // Compute by OpKind, exposed communication by GroupKind; the rest of the column is bubble. Passes
  // of the vocabulary count as forwards (E, S) or weight gradients (T, G).
  struct Cell {
    std::array<Nanoseconds, kComputeKinds> compute_ns{};
    std::array<Nanoseconds, kGroupKinds> exposed_ns{};
  };
  struct Row {
    int rank = 0;
    std::vector<Cell> cells;
  };

  Nanoseconds iteration_ns = 0;
  std::vector<Row> rows;
  int left_out = 0;  // ranks for which there was no room

  int columns() const { return rows.empty() ? 0 : static_cast<int>(rows.front().cells.size()); }
};

// Returns a row for each pipeline rank: the first played rank of those that compute the same
// stages. Where ops have no stages, every played rank has a row. At most 64 rows. REQUIRES: columns
// > 0.
TimelineStrip timeline_strip(const Program& program, const Trace& trace, int columns);

std::string to_json(const TimelineStrip& strip);
// Reads what to_json writes.
TimelineStrip timeline_strip_from_json(const nlohmann::json& json);

}  // namespace tandem
