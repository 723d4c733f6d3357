// Writes Chrome's trace event format in blocks. Times there (ts, dur) are in us, with three
// decimals for ns. pid and tid are the process and its lane.
#include "traces/perfetto_file.h"

#include <fmt/compile.h>

#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tandem {
namespace {

constexpr std::size_t kBlock = 1 << 20;  // bytes written at once

// Returns the letter that orders' text forms use for a kind; the kind's name where they have none.
std::string_view letter(OpKind kind) {
  constexpr std::string_view kFirst = "FBIW", kVocabulary = "ESTG";
  const auto from = [kind](OpKind first) {
    return static_cast<std::size_t>(kind) - static_cast<std::size_t>(first);
  };
  if (is_vocabulary(kind)) return kVocabulary.substr(from(OpKind::EmbeddingForward), 1);
  if (kind <= OpKind::BackwardWeight) return kFirst.substr(from(OpKind::Forward), 1);
  return op_kind_name(kind);
}

// Returns what a pipeline edge's lane carries: "F" (activations) on "0>1", towards later stages;
// "B" (gradients) on "1>0"; "" for a lane that is no edge.
std::string_view carried(std::string_view lane) {
  int from = 0, to = 0;
  const char* const end = lane.data() + lane.size();
  const auto [sign, from_error] = std::from_chars(lane.data(), end, from);
  if (from_error != std::errc{} || sign == end || *sign != '>') return "";
  const auto [rest, to_error] = std::from_chars(sign + 1, end, to);
  if (to_error != std::errc{} || rest != end) return "";
  return from < to ? "F" : "B";
}

}  // namespace

std::string json_string(std::string_view text) { return json_line(nlohmann::json(text)); }

Status check_perfetto_events(std::int64_t events, const std::string& path,
                             std::string_view instead) {
  if (events <= kPerfettoEventsMax) return Done{};
  return Error::at(
      path,
      fmt::format("found {} events, expected at most {} for a file that a browser can load: {}",
                  events, kPerfettoEventsMax, instead));
}

std::string event_name(OpKind kind, std::int32_t microbatch, std::string_view lane) {
  std::string text(letter(kind));
  if (is_compute(kind)) {
    if (microbatch >= 0) text += std::to_string(microbatch);
  } else if (kind == OpKind::Send || kind == OpKind::Recv) {
    if (const std::string_view what = carried(lane); !what.empty()) {
      if (microbatch >= 0) text += fmt::format(" {}{}", what, microbatch);
      text += fmt::format(" {}", lane);
    }
  }
  return text;
}

Result<PerfettoFile> PerfettoFile::open(const std::string& path, const Meta& meta) {
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(path));
  PerfettoFile json(std::move(file));
  const auto out = std::back_inserter(json.out_);
  fmt::format_to(out, "{}", R"({"displayTimeUnit":"ns","otherData":{)");
  std::string_view comma = "";
  for (const auto& [key, value] : meta)
    fmt::format_to(out, "{}{}:{}", std::exchange(comma, ","), json_string(key), json_string(value));
  fmt::format_to(out, "{}", R"(},"traceEvents":[)");
  return json;
}

void PerfettoFile::append_name(std::string_view what, std::int64_t process, int lane,
                               std::int64_t place, std::string_view name) {
  fmt::format_to(std::back_inserter(out_),
                 FMT_COMPILE(R"({}{{"ph":"M","name":"{}_name","pid":{},"tid":{},)"
                             R"("args":{{"name":{}}}}})"),
                 comma(), what, process, lane, json_string(name));
  fmt::format_to(std::back_inserter(out_),
                 FMT_COMPILE(R"(,{}{{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},)"
                             R"("args":{{"sort_index":{}}}}})"),
                 "\n", what, process, lane, place);
}

void PerfettoFile::name_process(std::int64_t process, std::string_view name) {
  append_name("process", process, 0, process, name);
}

void PerfettoFile::name_lane(std::int64_t process, int lane, std::string_view name) {
  append_name("thread", process, lane, lane, name);
}

void PerfettoFile::append(const PerfettoEvent& event) {
  fmt::format_to(std::back_inserter(out_),
                 FMT_COMPILE(R"({}{{"ph":"X","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},)"
                             R"("name":"{}","cat":"{}","args":{{{}}}}})"),
                 comma(), event.process, event.lane, event.start_ns / 1000, event.start_ns % 1000,
                 event.length_ns / 1000, event.length_ns % 1000, event.name, event.category,
                 event.args);
  if (out_.size() < kBlock) return;
  file_.write({out_.data(), out_.size()});
  out_.clear();
}

Status PerfettoFile::commit() {
  fmt::format_to(std::back_inserter(out_), "{}", "\n]}\n");
  file_.write({out_.data(), out_.size()});
  return file_.commit();
}

}  // namespace tandem
