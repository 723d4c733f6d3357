// Writes and reads the trace CSV. Declared in traces/trace_files.h.
#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/csv.h"
#include "base/file.h"
#include "traces/event_order.h"
#include "traces/split_text.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 11> kColumns = {"rank",      "lane",       "op",    "kind",
                                                       "stage",     "microbatch", "part",  "bytes",
                                                       "arrive_ns", "start_ns",   "end_ns"};
constexpr std::string_view kSplitKey = "split ";  // followed by a rank
constexpr std::size_t kWriteBytes = 1 << 20;      // bytes written at once

// Text that the rows of all ranks with the same body share.
struct BodyText {
  std::int64_t first_op = 0;       // the column `op` counts through all bodies
  std::vector<std::string> lanes;  // names, quoted as CSV where needed
};

std::vector<BodyText> texts_of(const Program& program) {
  std::vector<BodyText> texts;
  const std::vector<std::int64_t> first = first_ops(program);
  for (const Body& body : program.bodies) {
    BodyText& text = texts.emplace_back();
    text.first_op = first[texts.size() - 1];
    for (const Lane& lane : body.lanes) text.lanes.push_back(csv_cell(lane.name));
  }
  return texts;
}

// Returns the splits by rank; none if some event has not ended.
std::vector<RankSplit> splits_of(const Program& program, const Trace& trace) {
  const auto ended = [](const EventTimes& event) {
    return 0 <= event.start_ns && event.start_ns <= event.end_ns;
  };
  if (!std::all_of(trace.events.begin(), trace.events.end(), ended)) return {};
  std::vector<RankSplit> splits = measure(program, trace).ranks;
  std::sort(splits.begin(), splits.end(),
            [](const RankSplit& a, const RankSplit& b) { return a.rank < b.rank; });
  return splits;
}

void append_header(const Program& program, const Trace& trace, fmt::memory_buffer* out) {
  for (const auto& [key, value] : trace.meta) {
    CHECK(!key.empty() && key.find_first_of(":\n\r") == std::string::npos);
    std::string line = value;
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    fmt::format_to(std::back_inserter(*out), "# {}: {}\n", key, line);
  }
  for (const RankSplit& split : splits_of(program, trace))
    fmt::format_to(std::back_inserter(*out), "# {}{}: {}\n", kSplitKey, index(split.rank),
                   split_text(split));
  fmt::format_to(std::back_inserter(*out), "{}\n", fmt::join(kColumns, ","));
}

void append_row(Rank rank, const BodyText& text, std::size_t number, const Op& op,
                const EventTimes& event, fmt::memory_buffer* out) {
  fmt::format_to(std::back_inserter(*out), FMT_COMPILE("{},{},{},{},{},{},{},{},{},{},{}\n"),
                 index(rank), text.lanes[op.lane],
                 text.first_op + static_cast<std::int64_t>(number), op_kind_name(op.kind), op.stage,
                 op.microbatch, op.part, op.bytes, event.arrive_ns, event.start_ns, event.end_ns);
}

Status check_columns(const CsvFile& file, const CsvRow& header) {
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::string_view found =
        i < header.cells.size() ? std::string_view(header.cells[i]) : "no more cells";
    if (found != kColumns[i])
      return file.error(header.line,
                        fmt::format("found '{}', expected column {} to be '{}' of {}", found, i + 1,
                                    kColumns[i], fmt::join(kColumns, ",")));
  }
  if (header.cells.size() > kColumns.size())
    return file.error(header.line,
                      fmt::format("found the unknown column '{}', expected {}",
                                  header.cells[kColumns.size()], fmt::join(kColumns, ",")));
  return Done{};
}

// Reads cell `column` as an integer from `least` to the largest T.
template <class T>
Status read_cell(const CsvFile& file, const CsvRow& row, std::size_t column, T least, T* value) {
  const Result<std::int64_t> number = parse_integer(row.cells[column]);
  if (!number.ok())
    return file.error(row.line,
                      fmt::format("column '{}': {}", kColumns[column], number.error().text()));
  if (*number < least || *number > std::numeric_limits<T>::max())
    return file.error(
        row.line, fmt::format("column '{}': found {}, expected {} to {}", kColumns[column], *number,
                              least, std::numeric_limits<T>::max()));
  *value = static_cast<T>(*number);
  return Done{};
}

// Reads the comments: `split RANK: ...` and other `key: value`.
Status read_header(const CsvFile& file, TraceTable* table) {
  for (const std::string& comment : file.comments) {
    const std::size_t colon = comment.find(':');
    if (colon == 0 || colon == std::string::npos) continue;
    const std::string key = comment.substr(0, colon);
    const std::size_t begin = comment.find_first_not_of(' ', colon + 1);
    const std::string value = begin == std::string::npos ? "" : comment.substr(begin);
    if (!key.starts_with(kSplitKey)) {
      table->meta.emplace_back(key, value);
      continue;
    }
    const Result<std::int64_t> rank = parse_integer(key.substr(kSplitKey.size()));
    if (!rank.ok() || *rank < 0 || *rank > std::numeric_limits<std::int32_t>::max())
      return Error::at(file.path, fmt::format("found '# {}', expected '# split ' and a rank", key));
    const Result<RankSplit> split = parse_split(static_cast<Rank>(*rank), value);
    if (!split.ok())
      return Error::at(file.path, fmt::format("'# {}': {}", key, split.error().text()));
    table->splits.push_back(*split);
  }
  return Done{};
}

Result<TraceRow> read_row(const CsvFile& file, const CsvRow& cells) {
  if (cells.cells.size() != kColumns.size())
    return file.error(cells.line, fmt::format("found {} cells, expected {}", cells.cells.size(),
                                              kColumns.size()));
  TraceRow row;
  std::int32_t rank = 0;
  RETURN_IF_ERROR(read_cell<std::int32_t>(file, cells, 0, 0, &rank));
  row.rank = Rank{rank};
  row.lane = cells.cells[1];
  RETURN_IF_ERROR(read_cell<std::int64_t>(file, cells, 2, 0, &row.op));
  const std::optional<OpKind> kind = op_kind_named(cells.cells[3]);
  if (!kind)
    return file.error(cells.line, fmt::format("column 'kind': found '{}', expected an op's kind, "
                                              "as 'forward' or 'send'",
                                              cells.cells[3]));
  row.kind = *kind;
  RETURN_IF_ERROR(read_cell<std::int16_t>(file, cells, 4, -1, &row.stage));
  RETURN_IF_ERROR(read_cell<std::int32_t>(file, cells, 5, -1, &row.microbatch));
  RETURN_IF_ERROR(read_cell<std::int16_t>(file, cells, 6, 0, &row.part));
  RETURN_IF_ERROR(read_cell<Bytes>(file, cells, 7, 0, &row.bytes));
  RETURN_IF_ERROR(read_cell<Nanoseconds>(file, cells, 8, 0, &row.arrive_ns));
  RETURN_IF_ERROR(read_cell<Nanoseconds>(file, cells, 9, 0, &row.start_ns));
  RETURN_IF_ERROR(read_cell<Nanoseconds>(file, cells, 10, 0, &row.end_ns));
  if (row.start_ns < row.arrive_ns || row.end_ns < row.start_ns)
    return file.error(
        cells.line, fmt::format("found an arrival at {}, a start at {} and an end at {}, expected "
                                "them in this order",
                                row.arrive_ns, row.start_ns, row.end_ns));
  return row;
}

}  // namespace

std::pair<std::string, std::string> program_line(const Program& program) {
  return {"program", fmt::format("{} {:016x}", program.name, hash(program))};
}

Status write_trace_csv(const Program& program, const Trace& trace, const std::string& path) {
  const std::vector<const RankTrace*> ranks = ranks_in_order(trace);
  const std::vector<BodyText> texts = texts_of(program);

  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(path));
  fmt::memory_buffer out;
  append_header(program, trace, &out);
  for (const EventPlace& place : places_of(program, trace, ranks)) {
    const RankTrace& rank = *ranks[place.rank()];
    append_row(rank.rank, texts[rank.body], place.op(), program.bodies[rank.body].ops[place.op()],
               trace.events[rank.first + place.op()], &out);
    if (out.size() >= kWriteBytes) {
      file.write({out.data(), out.size()});
      out.clear();
    }
  }
  file.write({out.data(), out.size()});
  return file.commit();
}

Result<TraceTable> read_trace_csv(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvFile file, read_csv(path));
  TraceTable table{path, {}, {}, {}};
  RETURN_IF_ERROR(read_header(file, &table));
  if (file.rows.empty())
    return file.error(
        1, fmt::format("found no rows, expected the columns {}", fmt::join(kColumns, ",")));
  RETURN_IF_ERROR(check_columns(file, file.rows.front()));
  table.rows.reserve(file.rows.size() - 1);
  for (std::size_t i = 1; i < file.rows.size(); ++i) {
    ASSIGN_OR_RETURN(TraceRow row, read_row(file, file.rows[i]));
    table.rows.push_back(std::move(row));
  }
  return table;
}

GroupKind group_kind_of_lane(std::string_view lane) {
  if (const auto named = group_kind_named(lane)) return *named;
  // Lane "replicas": gradients are summed over ranks that hold the same shard, in data parallelism.
  // All names left are the pipeline's edges.
  return lane == "replicas" ? GroupKind::Data : GroupKind::Pipeline;
}

std::string_view meta_value(const TraceTable& table, std::string_view key) {
  const auto at = std::find_if(table.meta.begin(), table.meta.end(),
                               [key](const auto& line) { return line.first == key; });
  return at == table.meta.end() ? std::string_view() : at->second;
}

}  // namespace tandem
