// A file in Chrome's trace event format, which Perfetto reads ("JSON trace format" at
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

// More events than this would not load in a browser.
constexpr std::int64_t kPerfettoEventsMax = 2'000'000;

// Error(BadInput) where that many events are too many for a file; `instead` says what to do.
Status check_perfetto_events(std::int64_t events, const std::string& path,
                             std::string_view instead);

// "F3", "send F3 0>1", "all-reduce"; `lane` by its name.
std::string event_name(OpKind kind, std::int32_t microbatch, std::string_view lane);

// One complete event, of a lane of a process.
struct PerfettoEvent {
  std::int64_t process = 0;
  int lane = 0;
  Nanoseconds start_ns = 0;
  Nanoseconds length_ns = 0;
  std::string_view name;      // what needs no escape in JSON
  std::string_view category;  // the same
  std::string_view args;      // the members of a JSON object
};

// The file as it grows: what is appended goes to it in blocks. It appears whole, at commit().
class PerfettoFile {
 public:
  using Meta = std::vector<std::pair<std::string, std::string>>;

  static Result<PerfettoFile> open(const std::string& path, const Meta& meta);

  // A process stands where its number says, and so does a lane in its process.
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
  std::string_view comma_ = "\n";  // what separates the elements of the traceEvents array
};

// Text as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace tandem
