// Event records: a trace's events as one array of plain records, for readers of raw memory such as
// numpy. They are the rows of the trace CSV with numbers in place of names.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// A record has no padding: its layout is part of the Python module's interface.
struct EventRecord {
  std::int32_t rank = 0;
  std::uint16_t lane = 0;   // into lane_names()
  std::uint8_t kind = 0;    // an OpKind
  std::int8_t group = -1;   // a GroupKind; -1: compute
  std::int64_t op = 0;      // counted through all bodies of the Program
  std::int16_t stage = -1;  // -1: none
  std::int16_t part = 0;
  std::int32_t microbatch = -1;  // -1: none
  std::int64_t bytes = 0;
  std::int64_t arrive_ns = 0, start_ns = 0, end_ns = 0;
};
static_assert(sizeof(EventRecord) == 56);

// Returns the names of all bodies' lanes, each once. REQUIRES: at most 65,536 names.
std::vector<std::string> lane_names(const Program& program);

// Calls take() with some thousand records at a time, in the order of the trace CSV's rows. Events
// that never ended are left out.
void stream_records(const Program& program, const Trace& trace,
                    const std::function<void(std::span<const EventRecord>)>& take);

}  // namespace tandem
