// Compare: a simulated trace held against a measured one of the same Program, op by op and in
// total. Differences are simulated less measured, errors simulated over measured less 1: what is
// above 0 was predicted too long.
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

// What is measured shorter than this has no relative error: it would tell of the clock.
constexpr Nanoseconds kLeastMeasured_ns = 1000;

// One op in both traces. Durations are from start to end: waiting for a peer is no part of them.
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

// Many ops in both traces, on all ranks that were played.
struct OpsSummary {
  std::int64_t count = 0;
  std::int64_t with_error = 0;  // of count: measured long enough
  double simulated_s = 0;       // durations added up
  double measured_s = 0;
  std::optional<double> median_error;  // of the errors without their signs
  std::optional<double> worst_error;
};

// One of the two traces in total.
struct TraceTotal {
  std::string path;
  std::vector<std::pair<std::string, std::string>> meta;
  Metrics metrics;  // but what the files do not tell: windows, bytes sent, between nodes
};

struct Comparison {
  TraceTotal simulated;
  TraceTotal measured;
  double iteration_error = 0;
  double bubble_difference = 0;                                         // of the fractions
  std::array<std::optional<double>, kGroupKinds> overlap_difference;    // where both communicate so
  std::array<std::optional<double>, kGroupKinds> exposed_difference_s;  // where either does
  OpsSummary ops;
  std::vector<std::pair<OpKind, OpsSummary>> kinds;  // those that occur
  std::vector<OpPair> worst;                         // by |difference|, the largest first
};

// `worst`: so many at most. Error(BadInput) where the traces are not both complete and of one
// Program.
Result<Comparison> compare(const TraceTable& simulated, const TraceTable& measured,
                           std::size_t worst = 10);

nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace tandem
