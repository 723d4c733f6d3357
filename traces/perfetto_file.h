// Writes a file in Chrome's trace event format, which Perfetto reads ("JSON trace format" at
// https://perfetto.dev/docs): complete events "X", and "M" for the names of processes and threads.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// A file with more events would not load in a browser.
constexpr std::int64_t kPerfettoEventsMax = 2'000'000;

// Returns Error(BadInput) if a file with so many events would be too large; `instead` says what to
// do.
Status check_perfetto_events(std::int64_t events, const std::string& path,
                             std::string_view instead);

// Returns an event's name: "F3", "send F3 0>1", "all-reduce". `lane` is the lane's name.
std::string event_name(OpKind kind, std::int32_t microbatch, std::string_view lane);

// A complete event on one lane of a process.
struct PerfettoEvent {
  std::int64_t process = 0;
  int lane = 0;
  Nanoseconds start_ns = 0;
  Nanoseconds length_ns = 0;
  std::string_view name;      // needs no escape in JSON
  std::string_view category;  // needs no escape in JSON
  std::string_view args;      // members of a JSON object
};

// Writes events in blocks as they are appended. The file appears, whole, at commit().
class PerfettoFile {
 public:
  using Meta = std::vector<std::pair<std::string, std::string>>;

  static Result<PerfettoFile> open(const std::string& path, const Meta& meta);

  // Processes are shown in the order of their numbers, and so are lanes within a process.
  void name_process(std::int64_t process, std::string_view name);
  void name_lane(std::int64_t process, int lane, std::string_view name);
  void append(const PerfettoEvent& event);
  Status commit();

 private:
  explicit PerfettoFile(FileWriter file) : file_(std::move(file)) {}

  void append_name(std::string_view what, std::int64_t process, int lane, std::int64_t place,
                   std::string_view name);
  std::string_view comma() { return std::exchange(comma_, ",\n"); }

  FileWriter file_;
  fmt::memory_buffer out_;
  std::string_view comma_ = "\n";  // separates the elements of the traceEvents array
};

// Returns the text as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace tandem
