// Writes a rank's profile in the form of torch.profiler's JSON (Kineto): process 0 is the GPU, with
// a thread for each stream, and process 1 the CPU.
#include "traces/profile/kineto_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "traces/perfetto_file.h"
#include "traces/profile/read_profile.h"
#include "traces/profile/simulated_profile.h"

namespace tandem {
namespace {

constexpr std::size_t kKinetoBlock = 1 << 20;  // bytes written at once
constexpr int kCpuProcess = 1;

// Returns microseconds with three decimals.
std::string us(Nanoseconds ns) {
  const Nanoseconds size = ns < 0 ? -ns : ns;
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

class KinetoFile {
 public:
  KinetoFile(FileWriter file, const ProfileRank& rank)
      : file_(std::move(file)), rank_(rank), waits_(rank.waits) {
    std::ranges::sort(waits_);
  }

  void begin() {
    fmt::format_to(at(),
                   "{{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{}],\n"
                   "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, "
                   "\"world_size\": {}, \"pg_count\": {}, \"pg_config\": [",
                   rank_.device.empty()
                       ? ""
                       : fmt::format("{{\"id\": 0, \"name\": {}}}", json_string(rank_.device)),
                   rank_.rank, std::max(rank_.world, 1), rank_.groups.size());
    std::string_view comma = "";
    for (const ProcessGroup& group : rank_.groups)
      fmt::format_to(at(),
                     "{}\n{{\"pg_name\": {}, \"pg_desc\": {}, \"backend_config\": \"cuda:nccl\", "
                     "\"pg_size\": {}, \"ranks\": [{}]}}",
                     std::exchange(comma, ","), json_string(group.name),
                     json_string(group.description), group.ranks.size(),
                     fmt::join(group.ranks, ", "));
    fmt::format_to(at(),
                   "], \"nccl_version\": \"\"}},\n\"displayTimeUnit\": \"ms\",\n"
                   "\"tandem\": {{\"ranks_alike\": {}, \"tells_waits\": {}}},\n"
                   "\"baseTimeNanoseconds\": 0,\n\"traceName\": {},\n\"traceEvents\": [",
                   rank_.multiplicity, rank_.tells_waits,
                   json_string(fmt::format("rank-{}.json", rank_.rank)));
  }

  void add(const Annotation& annotation) {
    row();
    fmt::format_to(at(),
                   R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, )"
                   R"("dur": {}, "args": {{"External id": {}}}}})",
                   annotation.on_gpu ? "gpu_user_annotation" : "user_annotation",
                   json_string(rank_.names.text(annotation.name)),
                   annotation.on_gpu ? 0 : kCpuProcess, annotation.place, us(annotation.start_ns),
                   us(annotation.end_ns - annotation.start_ns), ++external_);
  }

  void add(const ProfileKernel& kernel) {
    row();
    const std::string& name = rank_.name_of(kernel);
    std::string_view category = "kernel";
    if (kernel.activity == Activity::Memory)
      category = name.starts_with("Memset") ? "gpu_memset" : "gpu_memcpy";
    fmt::format_to(at(),
                   R"({{"ph": "X", "cat": "{}", "name": {}, "pid": 0, "tid": {}, "ts": {}, )"
                   R"("dur": {}, "args": {{"device": 0, "context": 1, "stream": {}, )"
                   R"("correlation": {})",
                   category, json_string(name), kernel.stream, us(kernel.start_ns),
                   us(kernel.end_ns - kernel.start_ns), kernel.stream, kernel.correlation);
    if (kernel.collective >= 0) add_args(rank_.collectives[kernel.collective]);
    add_waits(kernel.correlation);
    fmt::format_to(at(), "}}}}");
    if (out_.size() > kKinetoBlock) flush();
  }

  void name_streams(const std::set<std::int32_t>& streams) {
    name_row("process_name", 0, 0, fmt::format("rank {}", rank_.rank));
    name_row("process_name", kCpuProcess, 0, "python");
    for (const std::int32_t stream : streams)
      name_row("thread_name", 0, stream, fmt::format("stream {}", stream));
  }

  Status commit() {
    fmt::format_to(at(), "\n]}}\n");
    flush();
    return file_.commit();
  }

 private:
  std::back_insert_iterator<fmt::memory_buffer> at() { return std::back_inserter(out_); }
  void row() { fmt::format_to(at(), "{}\n", std::exchange(comma_, ",")); }
  void flush() {
    file_.write({out_.data(), out_.size()});
    out_.clear();
  }

  void name_row(std::string_view what, int process, int thread, const std::string& name) {
    row();
    fmt::format_to(at(),
                   R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"name": {}}}}})",
                   what, process, thread, json_string(name));
  }

  void add_args(const CollectiveArgs& args) {
    const auto text = [&](std::uint32_t id) { return json_string(rank_.names.text(id)); };
    fmt::format_to(at(),
                   R"(, "Collective name": {}, "In msg nelems": {}, "Out msg nelems": {}, )"
                   R"("Group size": {}, "dtype": {}, "In split size": "[]", )"
                   R"("Out split size": "[]", "Process Group Name": {}, )"
                   R"("Process Group Description": {}, "Process Group Ranks": {})",
                   text(args.collective), args.in_elements, args.out_elements, args.group_size,
                   text(args.dtype), text(args.group), text(args.description), text(args.ranks));
    if (args.from >= 0)
      fmt::format_to(at(), R"(, "Src Rank": {}, "Dst Rank": {})", args.from, args.to);
    if (args.sequence >= 0) fmt::format_to(at(), R"(, "Seq": {})", args.sequence);
  }

  // Adds the kernels of other streams that this one waits for. No other tool reads this field.
  void add_waits(std::int64_t correlation) {
    const auto first =
        std::lower_bound(waits_.begin(), waits_.end(), std::pair(correlation, std::int64_t{0}));
    auto wait = first;
    std::string_view before = R"(, "Waits for": [)";
    for (; wait != waits_.end() && wait->first == correlation; ++wait)
      fmt::format_to(at(), "{}{}", std::exchange(before, ", "), wait->second);
    if (wait != first) out_.push_back(']');
  }

  FileWriter file_;
  const ProfileRank& rank_;
  std::vector<std::pair<std::int64_t, std::int64_t>> waits_;  // by correlation
  fmt::memory_buffer out_;
  std::string_view comma_ = "";
  std::int64_t external_ = 0;
};

std::string file_of(const std::string& folder, int rank) {
  return (std::filesystem::path(folder) / fmt::format("rank-{}.json", rank)).string();
}

}  // namespace

Status write_kineto_rank(const ProfileRank& rank, const std::string& path) {
  ASSIGN_OR_RETURN(FileWriter opened, FileWriter::open(path));
  KinetoFile file(std::move(opened), rank);
  file.begin();
  std::set<std::int32_t> streams;
  for (const ProfileKernel& kernel : rank.kernels) streams.insert(kernel.stream);
  file.name_streams(streams);
  for (const Annotation& annotation : rank.annotations) file.add(annotation);
  for (const ProfileKernel& kernel : rank.kernels) file.add(kernel);
  return file.commit();
}

Status check_kineto_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (folder.empty() || !fs::exists(folder, error)) return Done{};
  if (!fs::is_directory(folder, error))
    return Error::at(folder, "found a file, expected a folder for a profile a rank");
  for (fs::directory_iterator at(folder, error), end; at != end && !error; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (has_profile_name(name))
      return Error::at(folder, fmt::format("found {} in it, expected a folder without profiles: "
                                           "those of two runs would be read as one",
                                           name));
  }
  return Done{};
}

Result<KinetoWritten> write_kineto(const Program& program, const Trace& trace,
                                   const std::string& folder) {
  RETURN_IF_ERROR(check_kineto_folder(folder));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error::at(folder, error.message() + ", expected a folder that can be made");
  KinetoWritten written;
  for (const RankTrace& rank : trace.ranks) {
    const ProfileRank profile = profile_rank_of(program, trace, rank);
    RETURN_IF_ERROR(write_kineto_rank(profile, file_of(folder, profile.rank)));
    for (const ProfileKernel& kernel : profile.kernels) {
      ++written.kernels;
      if (kernel.end_ns - kernel.start_ns < 1000) ++written.below_us;
    }
  }
  return written;
}

}  // namespace tandem
