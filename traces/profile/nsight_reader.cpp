// Reads SQLite of `nsys export`: kernels and copies (CUPTI_ACTIVITY_KIND_*), the CUDA calls that
// launched them, and NVTX ranges. Each process and GPU with kernels becomes a rank.
#include "traces/profile/nsight_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/file.h"
#include "traces/profile/finish_rank.h"
#include "traces/profile/kernel_names.h"

#include <sqlite3.h>

namespace tandem {

namespace {

// The table of launches of whole CUDA graphs, where nsys was not told to trace their kernels.
constexpr const char* kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

// The result of a SELECT, row by row. A value that is not of the expected type is kept as fault().
class Selected {
 public:
  Selected(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement, sqlite3_finalize) {}

  bool next() {
    code_ = sqlite3_step(statement_.get());
    return code_ == SQLITE_ROW;
  }
  // Returns 0 for NULL.
  std::int64_t number(int column) const {
    if (type(column) != SQLITE_INTEGER && type(column) != SQLITE_NULL)
      note(column, "that is no integer, expected one");
    return sqlite3_column_int64(statement_.get(), column);
  }
  std::int32_t small_number(int column) const {
    const std::int64_t found = number(column);
    if (found < INT32_MIN || found > INT32_MAX) note(column, "beyond 32 bits, expected less");
    return static_cast<std::int32_t>(found);
  }
  Nanoseconds time(int column) const {
    const std::int64_t found = sqlite3_column_int64(statement_.get(), column);
    if (type(column) != SQLITE_INTEGER || found < -kMostTime || found > kMostTime)
      note(column, "that is no time, expected nanoseconds");
    return found;
  }
  bool has(int column) const { return type(column) != SQLITE_NULL; }
  std::string_view text(int column) const {
    const auto* text = sqlite3_column_text(statement_.get(), column);
    if (text == nullptr) return "";
    return {reinterpret_cast<const char*>(text),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }
  // Returns why no row followed; "" if all rows were read.
  std::string why_ended() const { return code_ == SQLITE_DONE ? "" : sqlite3_errmsg(database_); }
  // Says which value was not of the expected type; "" if all were.
  const std::string& fault() const { return fault_; }

 private:
  int type(int column) const { return sqlite3_column_type(statement_.get(), column); }
  void note(int column, std::string_view what) const {
    if (fault_.empty())
      fault_ = fmt::format("a {} {}", sqlite3_column_name(statement_.get(), column), what);
  }

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
  int code_ = SQLITE_DONE;
  mutable std::string fault_;  // the first one
};

class NsightFile {
 public:
  explicit NsightFile(std::string path) : path_(std::move(path)) {}
  NsightFile(const NsightFile&) = delete;
  NsightFile& operator=(const NsightFile&) = delete;
  ~NsightFile() { sqlite3_close(database_); }

  Status open() {
    RETURN_IF_ERROR(check_readable(path_, "SQLite of nsys export"));
    if (sqlite3_open_v2(path_.c_str(), &database_, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK)
      return error(database_ == nullptr ? "no memory" : sqlite3_errmsg(database_));
    Status named = read_table_names();
    if (named.ok() && !has_table("CUPTI_ACTIVITY_KIND_KERNEL") && !has_table(kGraphs))
      return Error::at(path_,
                       "found no table CUPTI_ACTIVITY_KIND_KERNEL, expected SQLite of nsys export "
                       "with CUDA kernels (nsys profile --trace=cuda,nvtx)");
    return named;
  }

  bool has_table(std::string_view table) const { return tables_.contains(table); }

  // Calls use(row) for each row of a table; for none if the file does not have the table.
  template <class Use>
  Status select(std::string_view columns, std::string_view table, std::string_view in_order,
                const Use& use) const {
    if (!has_table(table)) return Done{};
    const std::string what = fmt::format("SELECT {} FROM {} {}", columns, table, in_order);
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, what.c_str(), -1, &statement, nullptr) != SQLITE_OK)
      return error(sqlite3_errmsg(database_));
    Selected row(database_, statement);
    while (row.next()) {
      use(row);
      if (!row.fault().empty())
        return Error::at(path_, fmt::format("found in {} {}", table, row.fault()));
    }
    if (const std::string why = row.why_ended(); !why.empty()) return error(why);
    return Done{};
  }

 private:
  Status read_table_names() {
    // Leaves out views and virtual tables, which have no pages: computing them may never end.
    return select("name", "sqlite_master", "WHERE type = 'table' AND rootpage > 0",
                  [&](const Selected& row) { tables_.emplace(row.text(0)); });
  }
  Error error(std::string_view why) const {
    return Error::at(path_, fmt::format("found SQLite that cannot be read ({}), expected what nsys "
                                        "export writes",
                                        why));
  }

  std::string path_;
  sqlite3* database_ = nullptr;
  std::set<std::string, std::less<>> tables_ = {"sqlite_master"};  // which every file has
};

// Returns the process of a globalTid or globalPid, which have it in bits 24 to 47. A globalTid has
// the thread below.
std::int32_t process_of(std::int64_t global_id) {
  return static_cast<std::int32_t>(global_id >> 24 & 0xFFFFFF);
}

// Returns the name of a copy by CUPTI's number of its kind.
std::string_view copy_name(std::int64_t kind) {
  if (kind == 1) return "Memcpy HtoD";
  if (kind == 2) return "Memcpy DtoH";
  if (kind == 8) return "Memcpy DtoD";
  return kind == 10 ? "Memcpy PtoP" : "Memcpy";
}

// The columns of a stream's row that place_of() and add_kernel() read by their positions.
constexpr const char* kStreamColumns = "start, end, streamId, correlationId, deviceId, globalPid";

struct GpuPlace {
  std::int64_t device = 0;
  std::int32_t process = 0;

  auto operator<=>(const GpuPlace&) const = default;
};
using RanksByPlace = std::map<GpuPlace, ProfileRank>;

GpuPlace place_of(const Selected& row) { return {row.number(4), process_of(row.number(5))}; }

void add_kernel(const Selected& row, std::string_view name, Activity activity,
                RanksByPlace* ranks) {
  ProfileRank& rank = (*ranks)[place_of(row)];
  ProfileKernel kernel;
  kernel.start_ns = row.time(0);
  kernel.end_ns = row.time(1);
  kernel.stream = row.small_number(2);
  kernel.correlation = row.number(3);
  kernel.name = rank.names.id(name);
  kernel.activity = activity;
  rank.kernels.push_back(kernel);
}

Status read_kernels(const NsightFile& file, const std::map<std::int64_t, std::string>& strings,
                    RanksByPlace* ranks) {
  RETURN_IF_ERROR(file.select(fmt::format("{}, demangledName", kStreamColumns),
                              "CUPTI_ACTIVITY_KIND_KERNEL", "ORDER BY start",
                              [&](const Selected& row) {
                                const auto at = strings.find(row.number(6));
                                std::string_view name = "unnamed kernel";
                                if (at != strings.end()) name = at->second;
                                add_kernel(row, name, activity_of(name), ranks);
                              }));
  RETURN_IF_ERROR(file.select(kStreamColumns, kGraphs, "ORDER BY start", [&](const Selected& row) {
    add_kernel(row, kGraphName, Activity::Compute, ranks);
  }));
  // Copies on devices without kernels belong to no rank.
  const auto add_memory = [&](const Selected& row, std::string_view name) {
    if (ranks->contains(place_of(row))) add_kernel(row, name, Activity::Memory, ranks);
  };
  RETURN_IF_ERROR(file.select(
      fmt::format("{}, copyKind", kStreamColumns), "CUPTI_ACTIVITY_KIND_MEMCPY", "ORDER BY start",
      [&](const Selected& row) { add_memory(row, copy_name(row.number(6))); }));
  return file.select(kStreamColumns, "CUPTI_ACTIVITY_KIND_MEMSET", "ORDER BY start",
                     [&](const Selected& row) { add_memory(row, "Memset"); });
}

// Reads the CPU's rows. Each row goes to all ranks of its process.
Status read_cpu(const NsightFile& file, const std::map<std::int64_t, std::string>& strings,
                RanksByPlace* ranks) {
  const auto for_ranks_of = [&](std::int64_t global_tid, const auto& use) {
    for (auto& [place, rank] : *ranks) {
      if (place.process == process_of(global_tid)) use(rank);
    }
  };
  const auto thread_of = [](std::int64_t global_tid) {
    return static_cast<std::int32_t>(global_tid & 0xFFFFFF);
  };
  RETURN_IF_ERROR(file.select(
      "start, correlationId, globalTid", "CUPTI_ACTIVITY_KIND_RUNTIME", "ORDER BY start",
      [&](const Selected& row) {
        const Launch launch{row.number(1), row.time(0), thread_of(row.number(2))};
        for_ranks_of(row.number(2), [&](ProfileRank& rank) { rank.launches.push_back(launch); });
      }));
  // Types 59 and 60 are ranges: pushed and popped, and started and ended.
  return file.select(
      "start, end, globalTid, text, textId", "NVTX_EVENTS",
      "WHERE eventType IN (59, 60) AND end IS NOT NULL ORDER BY start", [&](const Selected& row) {
        std::string text(row.text(3));
        if (!row.has(3)) {
          const auto at = strings.find(row.number(4));
          if (at == strings.end()) return;
          text = at->second;
        }
        const std::int32_t thread = thread_of(row.number(2));
        const Nanoseconds start_ns = row.time(0), end_ns = row.time(1);
        for_ranks_of(row.number(2), [&](ProfileRank& rank) {
          rank.annotations.push_back({rank.names.id(text), false, thread, start_ns, end_ns});
          auto& threads = rank.backward_threads;
          if (text.starts_with("autograd::engine::evaluate_function") &&
              std::find(threads.begin(), threads.end(), thread) == threads.end())
            threads.push_back(thread);
        });
      });
}

// Adds a note on launches of whole graphs, whose kernels are not known.
void note_graphs(const std::string& path, RanksByPlace* ranks) {
  std::ptrdiff_t launches = 0;
  for (auto& [place, rank] : *ranks) {
    const std::uint32_t name = rank.names.id(kGraphName);
    launches += std::ranges::count(rank.kernels, name, &ProfileKernel::name);
  }
  if (launches > 0)
    ranks->begin()->second.notes.push_back(fmt::format(
        "{}: {} launches of CUDA graphs count as compute, though communication may have run in "
        "them too: nsys profile --cuda-graph-trace=node tells their kernels.",
        path, launches));
}

}  // namespace

Result<std::vector<ProfileRank>> read_nsight(const std::string& path) {
  NsightFile file(path);
  RETURN_IF_ERROR(file.open());
  std::map<std::int64_t, std::string> strings;
  RETURN_IF_ERROR(file.select("id, value", "StringIds", "", [&](const Selected& row) {
    strings.emplace(row.number(0), row.text(1));
  }));
  RanksByPlace by_place;
  RETURN_IF_ERROR(read_kernels(file, strings, &by_place));
  if (by_place.empty())
    return Error::at(path, "found no kernel in CUPTI_ACTIVITY_KIND_KERNEL, expected some");
  note_graphs(path, &by_place);
  RETURN_IF_ERROR(read_cpu(file, strings, &by_place));
  Nanoseconds begin_ns = 0;
  RETURN_IF_ERROR(file.select("utcEpochNs", "TARGET_INFO_SESSION_START_TIME", "",
                              [&](const Selected& row) { begin_ns = row.time(0); }));
  std::string device;
  RETURN_IF_ERROR(file.select("name", "TARGET_INFO_GPU", "ORDER BY id LIMIT 1",
                              [&](const Selected& row) { device = row.text(0); }));
  std::vector<ProfileRank> ranks;
  for (auto& [place, rank] : by_place) {
    rank.path = path;
    rank.profiler = "Nsight Systems";
    rank.device = device;
    std::ranges::sort(rank.backward_threads);
    RETURN_IF_ERROR(check_times(rank, begin_ns));
    shift(begin_ns, &rank);
    finish_rank(&rank);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace tandem
