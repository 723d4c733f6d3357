// SharedTrace: a run's events and its picture, in memory shared by this process and the one that
// simulates the run. So nothing is copied on the way to Python.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// The bytes are the length of a JSON object (64 bits), the object, blanks up to a multiple of 64
// bytes, then an EventRecord for each event (traces/event_records.h). The object has `lanes`,
// `kinds` and `groups` (the names behind a record's numbers), `svg` (the timeline, or null) and
// `no_svg` (the reason for null).
class SharedTrace {
 public:
  static Result<SharedTrace> make();
  SharedTrace(SharedTrace&& other) noexcept;
  SharedTrace& operator=(SharedTrace&&) = delete;
  ~SharedTrace();

  // Writes all events. REQUIRES: called in the process that simulates.
  Status write(const Program& program, const Trace& trace) const;
  // Maps the bytes for reading. REQUIRES: the process that writes has ended.
  Status map();
  // REQUIRES: mapped.
  std::span<const char> bytes() const { return {memory_, size_}; }

 private:
  explicit SharedTrace(int file) : file_(file) {}

  int file_ = -1;
  const char* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem
