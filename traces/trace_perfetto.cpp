// Writes a trace in Chrome's trace event format, which Perfetto reads ("JSON trace format" at
// https://perfetto.dev/docs): complete events "X", and "M" for the names of processes and threads.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

constexpr std::size_t kBlock = 1 << 20;  // bytes written at once

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The letters of the orders' text forms.
std::string_view letter(OpKind kind) {
  switch (kind) {
    case OpKind::Forward:
      return "F";
    case OpKind::Backward:
      return "B";
    case OpKind::BackwardInput:
      return "I";
    case OpKind::BackwardWeight:
      return "W";
    default:
      return name(kind);
  }
}

// What a pipeline edge's lane carries: activations up the chain of stages, gradients down; "" for a
// lane that is no edge.
std::string_view carried(std::string_view lane) {
  int from = 0, to = 0;
  const char* const end = lane.data() + lane.size();
  const auto [sign, from_error] = std::from_chars(lane.data(), end, from);
  if (from_error != std::errc{} || sign == end || *sign != '>') return "";
  const auto [rest, to_error] = std::from_chars(sign + 1, end, to);
  if (to_error != std::errc{} || rest != end) return "";
  return from < to ? "F" : "B";
}

// "F3", "send F3 0>1", "all-reduce 1/2".
std::string event_name(const Body& body, const Op& op) {
  std::string text(letter(op.kind));
  if (is_compute(op.kind)) {
    if (op.microbatch >= 0) text += std::to_string(op.microbatch);
  } else if (op.kind == OpKind::Send || op.kind == OpKind::Recv) {
    const std::string& lane = body.lanes[op.lane].name;
    if (const std::string_view what = carried(lane); !what.empty()) {
      if (op.microbatch >= 0) text += fmt::format(" {}{}", what, op.microbatch);
      text += " " + lane;
    }
  }
  if (op.parts > 1) text += fmt::format(" {}/{}", op.part + 1, op.parts);
  return text;
}

// "rank 3 (stage 3, x48 ranks)"
std::string process_name(const Body& body, const RankTrace& rank) {
  std::vector<int> stages;
  for (const Op& op : body.ops) {
    if (is_compute(op.kind) && op.stage >= 0 &&
        std::find(stages.begin(), stages.end(), op.stage) == stages.end())
      stages.push_back(op.stage);
  }
  std::sort(stages.begin(), stages.end());
  std::string what;
  if (!stages.empty())
    what = fmt::format("stage{} {}", stages.size() > 1 ? "s" : "", fmt::join(stages, " "));
  if (rank.multiplicity > 1)
    what += fmt::format("{}x{} ranks", what.empty() ? "" : ", ", rank.multiplicity);
  return fmt::format("rank {}{}", index(rank.rank), what.empty() ? "" : " (" + what + ")");
}

// A JSON file that grows: what is appended goes to the file in blocks.
class JsonWriter {
 public:
  explicit JsonWriter(FileWriter file) : file_(std::move(file)) {}

  template <class Format, class... Args>
  void append(const Format& format, const Args&... args) {
    fmt::format_to(std::back_inserter(out_), format, args...);
    if (out_.size() < kBlock) return;
    file_.write({out_.data(), out_.size()});
    out_.clear();
  }

  // What separates the elements of the traceEvents array.
  std::string_view comma() { return std::exchange(comma_, ",\n"); }

  Status commit() {
    file_.write({out_.data(), out_.size()});
    return file_.commit();
  }

 private:
  FileWriter file_;
  fmt::memory_buffer out_;
  std::string_view comma_ = "\n";
};

void append_name(std::string_view what, int rank, int lane, std::string_view text,
                 JsonWriter* json) {
  json->append(FMT_COMPILE(R"({}{{"ph":"M","name":"{}_name","pid":{},"tid":{},)"
                           R"("args":{{"name":{}}}}})"),
               json->comma(), what, rank, lane, json_string(text));
  json->append(FMT_COMPILE(R"(,{}{{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},)"
                           R"("args":{{"sort_index":{}}}}})"),
               "\n", what, rank, lane, what == "process" ? rank : lane);
}

void append_event(const Program& program, const RankTrace& rank, const Op& op,
                  const EventTimes& event, JsonWriter* json) {
  const Body& body = program.bodies[rank.body];
  const Nanoseconds length = event.end_ns - event.start_ns;
  const std::string_view category =
      is_compute(op.kind) ? "compute" : name(body.slots[op.slot].scope);
  json->append(FMT_COMPILE(R"({}{{"ph":"X","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},)"
                           R"("name":"{}","cat":"{}","args":{{"stage":{},"microbatch":{})"),
               json->comma(), index(rank.rank), op.lane, event.start_ns / 1000,
               event.start_ns % 1000, length / 1000, length % 1000, event_name(body, op), category,
               op.stage, op.microbatch);
  if (!is_compute(op.kind))
    json->append(FMT_COMPILE(R"(,"bytes":{},"wait_ns":{})"), op.bytes,
                 event.start_ns - event.arrive_ns);
  if (op.kernel >= 0)
    json->append(FMT_COMPILE(R"(,"kernel":{})"), json_string(program.kernels[op.kernel].name));
  json->append(FMT_COMPILE("{}"), "}}");
}

bool is_shown(const EventTimes& event) { return event.end_ns > event.start_ns; }

void append_rank(const Program& program, const RankTrace& rank, std::span<const EventTimes> events,
                 JsonWriter* json) {
  const Body& body = program.bodies[rank.body];
  std::vector<bool> lanes(body.lanes.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (is_shown(events[i])) lanes[body.ops[i].lane] = true;
  }
  append_name("process", index(rank.rank), 0, process_name(body, rank), json);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane])
      append_name("thread", index(rank.rank), static_cast<int>(lane), body.lanes[lane].name, json);
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (is_shown(events[i])) append_event(program, rank, body.ops[i], events[i], json);
  }
}

}  // namespace

Status write_perfetto(const Program& program, const Trace& trace, const std::string& path) {
  const std::int64_t count = std::count_if(trace.events.begin(), trace.events.end(), is_shown);
  if (count > kPerfettoEventsMax)
    return Error{
        fmt::format("{}: found {} events, expected at most {} for a file that a browser can "
                    "load: write the trace as CSV (--trace)",
                    path, count, kPerfettoEventsMax)};
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(path));
  JsonWriter json(std::move(file));
  json.append(FMT_COMPILE("{}"), R"({"displayTimeUnit":"ns","otherData":{)");
  std::string_view comma = "";
  for (const auto& [key, value] : trace.meta)
    json.append(FMT_COMPILE("{}{}:{}"), std::exchange(comma, ","), json_string(key),
                json_string(value));
  json.append(FMT_COMPILE("{}"), R"(},"traceEvents":[)");
  for (const RankTrace& rank : trace.ranks)
    append_rank(program, rank, trace.events_of(program, rank), &json);
  json.append(FMT_COMPILE("{}"), "\n]}\n");
  return json.commit();
}

}  // namespace tandem
