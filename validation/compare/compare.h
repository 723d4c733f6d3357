// Compare: compares a simulated trace with a measured one of the same Program, op by op and in
// total. Differences are simulated minus measured, errors are simulated over measured minus 1.
// Above 0 means that the prediction was too long.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"
#include "traces/metrics.h"
#include "traces/trace_files.h"

namespace tandem {

// Ops that are measured shorter than this have no relative error: it would show the clock's error.
constexpr Nanoseconds kLeastMeasured_ns = 1000;

// One op in both traces. Durations are from start to end, without waiting for a peer.
struct OpPair {
  Rank rank{};
  std::string lane;
  std::int64_t op = 0;
  OpKind kind = OpKind::Forward;
  std::int16_t stage = -1;
  std::int32_t microbatch = -1;
  std::int16_t part = 0;
  Nanoseconds simulated_ns = 0;
  Nanoseconds measured_ns = 0;

  Nanoseconds difference_ns() const { return simulated_ns - measured_ns; }
  std::optional<double> error() const;
};

// A summary of many ops in both traces, on all ranks that were played.
struct OpsSummary {
  std::int64_t count = 0;
  std::int64_t with_error = 0;  // those that were measured long enough
  double simulated_s = 0;       // sum of durations
  double measured_s = 0;
  std::optional<double> median_error;  // median of the absolute errors
  std::optional<double> worst_error;
};

// The totals of one of the two traces.
struct TraceTotal {
  std::string path;
  std::vector<std::pair<std::string, std::string>> meta;
  Metrics metrics;  // except windows, bytes sent and between nodes, which are not in the files
};

struct Comparison {
  TraceTotal simulated;
  TraceTotal measured;
  double iteration_error = 0;
  double bubble_difference = 0;                                         // of the fractions
  std::array<std::optional<double>, kGroupKinds> overlap_difference;    // if both have it
  std::array<std::optional<double>, kGroupKinds> exposed_difference_s;  // if either has it
  OpsSummary ops;
  std::vector<std::pair<OpKind, OpsSummary>> kinds;  // those that occur
  std::vector<OpPair> worst;                         // largest absolute difference first
};

// Compares two traces. `worst`: the most pairs in Comparison::worst. Error(BadInput): the traces
// are not both complete, or not of one Program.
Result<Comparison> compare(const TraceTable& simulated, const TraceTable& measured,
                           std::size_t worst = 10);

nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace tandem
