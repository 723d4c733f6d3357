// Reads a torch.profiler trace: its rows one by one with simdjson, the other members with nlohmann.
// A profile has millions of rows, so reading a row ends as soon as its phase, category or name
// shows that it is not needed.
#include "traces/profile/kineto_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "traces/profile/finish_rank.h"
#include "traces/profile/json_rows.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/torch_calls.h"

#include <simdjson.h>

namespace tandem {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kNone = -1;

// Reads microseconds with decimals as whole nanoseconds. It goes digit by digit, since a double is
// not exact for times since 1970.
std::optional<Nanoseconds> nanoseconds(std::string_view text) {
  while (!text.empty() && (text.back() <= ' ')) text.remove_suffix(1);
  if (text.size() > 1 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  std::int64_t whole = 0;
  const char* const end = text.data() + text.size();
  const auto [point, error] = std::from_chars(text.data(), end, whole);
  if (error != std::errc{} || whole > kMostTime / 1000 || whole < -kMostTime / 1000)
    return std::nullopt;
  Nanoseconds ns = whole * 1000;
  if (point == end) return ns;
  if (*point == '.') {
    Nanoseconds part = 0, scale = 100;
    const char* at = point + 1;
    for (; at != end && *at >= '0' && *at <= '9'; ++at, scale /= 10) part += scale * (*at - '0');
    if (at == end) return text.front() == '-' ? ns - part : ns + part;
  }
  double value = 0;  // "1.5e+03"
  const auto [last, bad] = std::from_chars(text.data(), end, value);
  if (bad != std::errc{} || last != end || std::abs(value) > kMostTime / 1e3) return std::nullopt;
  return static_cast<Nanoseconds>(std::llround(value * 1000));
}

// The fields of a row that are read; views into the parser's text.
struct KinetoRow {
  std::string_view phase, category, name;
  std::int64_t process = kNone, thread = kNone;
  std::optional<Nanoseconds> at_ns, length_ns;
  std::string_view at_text, length_text;  // as they stand in the file
  std::int64_t stream = kNone, correlation = kNone, device = kNone;
  std::vector<std::int64_t> waits;
  std::string_view shapes, types, values;  // of a call's arguments
  // The arguments of a collective.
  std::string_view collective, dtype, group, description, ranks;
  std::int64_t in_elements = kNone, out_elements = kNone, group_size = 0, sequence = kNone,
               from = kNone, to = kNone;
};

enum class RowKind { Other, Kernel, Copy, Call, Annotation, GpuAnnotation, CpuOp };

RowKind kind_of(std::string_view category) {
  if (category == "cpu_op" || category == "Operator") return RowKind::CpuOp;
  if (category == "kernel" || category == "Kernel") return RowKind::Kernel;
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime" ||
      category.ends_with("_runtime") || category.ends_with("_driver"))
    return RowKind::Call;
  if (category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" ||
      category == "Memset")
    return RowKind::Copy;
  if (category == "user_annotation") return RowKind::Annotation;
  if (category == "gpu_user_annotation") return RowKind::GpuAnnotation;
  return RowKind::Other;
}

bool is_annotation(std::optional<RowKind> kind) {
  return kind == RowKind::Annotation || kind == RowKind::GpuAnnotation;
}

// Before 2022 annotations were "Operator" rows as calls are. PyTorch's own have these names.
bool is_early_annotation(std::string_view category, std::string_view name) {
  return category == "Operator" &&
         (name.starts_with("ProfilerStep#") || name.starts_with("Optimizer."));
}

// Says whether a call is of autograd's engine: "autograd::engine::evaluate_function: MulBackward0",
// in those early files "MulBackward0".
bool is_of_autograd(std::string_view category, std::string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function")) return true;
  if (category != "Operator" || name.find(':') != std::string_view::npos) return false;
  const std::size_t last = name.find_last_not_of("0123456789");
  return last != std::string_view::npos && name.substr(0, last + 1).ends_with("Backward");
}

using Value = simdjson::ondemand::value;

std::int64_t whole(Value value) {
  std::int64_t number = kNone;
  if (value.get_int64().get(number) == simdjson::SUCCESS) return number;
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) {
    std::int64_t read = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
    if (error == std::errc{} && end == text.data() + text.size()) return read;
  }
  return kNone;
}

std::string_view text_of(Value value) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// Returns a list's text as it stands in the file.
std::string_view list_text(Value value) {
  simdjson::ondemand::array list;
  std::string_view text;
  if (value.get_array().get(list) != simdjson::SUCCESS) return text;
  return list.raw_json().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// The arguments ("args") of a row that are read, by the kind of their values.
constexpr std::pair<std::string_view, std::int64_t KinetoRow::*> kNumberArgs[] = {
    {"stream", &KinetoRow::stream},
    {"device", &KinetoRow::device},
    {"correlation", &KinetoRow::correlation},
    {"In msg nelems", &KinetoRow::in_elements},
    {"Group size", &KinetoRow::group_size},
    {"Out msg nelems", &KinetoRow::out_elements},
    {"Seq", &KinetoRow::sequence},
    {"Src Rank", &KinetoRow::from},
    {"Dst Rank", &KinetoRow::to}};
constexpr std::pair<std::string_view, std::string_view KinetoRow::*> kTextArgs[] = {
    {"Collective name", &KinetoRow::collective},
    {"dtype", &KinetoRow::dtype},
    {"Process Group Name", &KinetoRow::group},
    {"Process Group Description", &KinetoRow::description},
    {"Process Group Ranks", &KinetoRow::ranks}};
constexpr std::pair<std::string_view, std::string_view KinetoRow::*> kListArgs[] = {
    {"Input Dims", &KinetoRow::shapes},
    {"Input type", &KinetoRow::types},
    {"Concrete Inputs", &KinetoRow::values}};

void read_arg(std::string_view key, Value value, KinetoRow* row) {
  for (const auto& [name, number] : kNumberArgs) {
    if (key == name) row->*number = whole(value);
  }
  for (const auto& [name, text] : kTextArgs) {
    if (key == name) row->*text = text_of(value);
  }
  for (const auto& [name, list] : kListArgs) {
    if (key == name) row->*list = list_text(value);
  }
  simdjson::ondemand::array waits;
  if (key == "Waits for" && value.get_array().get(waits) == simdjson::SUCCESS) {
    for (auto wait : waits) row->waits.push_back(whole(wait.value()));
  }
}

void read_args(Value value, KinetoRow* row) {
  simdjson::ondemand::object args;
  if (value.get_object().get(args) != simdjson::SUCCESS) return;
  for (auto field : args) {
    const std::string_view key = field.unescaped_key();
    read_arg(key, field.value(), row);
  }
}

// Returns the object's integer of that name; nothing if it has none from `least` to 100 million.
std::optional<int> count_in(const Json& object, const char* key, int least) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_integer()) return std::nullopt;
  if (*at < least || *at >= 100'000'000) return std::nullopt;
  return at->get<int>();
}

// Gathers the file's rows and members into one rank, and at the end splits that by GPU.
class KinetoRows {
 public:
  explicit KinetoRows(const std::string& path) { rank_.path = path; }

  Status add_row(std::string_view text) {
    ++rows_;
    try {
      const KinetoRow row = parsed(text);
      return add(row);
    } catch (const simdjson::simdjson_error& error) {
      return Error{fmt::format("what is no JSON ({})", error.what())};
    }
  }

  Status add_member(std::string_view key, std::string_view text) {
    const std::string& path = rank_.path;
    const bool is_needed = key == "schemaVersion" || key == "distributedInfo" ||
                           key == "deviceProperties" || key == "baseTimeNanoseconds" ||
                           key == "tandem";
    if (!is_needed) return Done{};
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded())
      return Error::at(path, fmt::format("found no JSON in {}, expected some", key));
    if (key == "schemaVersion" && json != 1)
      return Error::at(path, fmt::format("found schemaVersion {}, expected 1", json.dump()));
    if (key == "baseTimeNanoseconds" && json.is_number_integer()) base_ns_ = json;
    if (key == "deviceProperties") devices_ = json;
    if (key == "tandem") add_tandem_member(json);
    if (key == "distributedInfo") return add_distribution(json);
    return Done{};
  }

  // Returns a rank for each GPU.
  Result<std::vector<ProfileRank>> finish() {
    if (rank_.kernels.empty())
      return Error::at(rank_.path,
                       fmt::format("found no kernel of a GPU among {} rows, expected a profile of "
                                   "torch.profiler with GPU activity (rows of category kernel)",
                                   rows_));
    name_device();
    rank_.backward_threads.assign(backward_threads_.begin(), backward_threads_.end());
    if (rank_.profiler.empty()) rank_.profiler = "torch.profiler";
    RETURN_IF_ERROR(check_times(rank_, base_ns_));
    shift(base_ns_, &rank_);
    ASSIGN_OR_RETURN(std::vector<ProfileRank> ranks, by_device());
    for (ProfileRank& rank : ranks) finish_rank(&rank);
    return ranks;
  }

 private:
  // Stops early at a row that is not needed: add() ignores it by its phase, category or name.
  KinetoRow parsed(std::string_view text) {
    KinetoRow row;
    std::optional<RowKind> kind;  // nothing until the category is read
    auto document = parser_.iterate(text.data(), text.size(), text.size() + JsonRows::kPadding);
    for (auto field : document.get_object()) {
      const std::string_view key = field.unescaped_key();
      if (key == "ph") {
        row.phase = text_of(field.value());
        if (row.phase != "X") return row;
      } else if (key == "cat") {
        row.category = text_of(field.value());
        kind = kind_of(row.category);
        if (kind == RowKind::Other) return row;
      } else if (key == "name") {
        row.name = text_of(field.value());
        const bool is_read = is_of_autograd(row.category, row.name) || is_priced_call(row.name) ||
                             is_early_annotation(row.category, row.name);
        if (kind == RowKind::CpuOp && !is_read) return row;
      } else if (key == "tid") {
        row.thread = whole(field.value());
      } else if (key == "pid") {
        row.process = whole(field.value());
      } else if (key == "ts") {
        row.at_text = field.value().raw_json_token();
        row.at_ns = nanoseconds(row.at_text);
      } else if (key == "dur") {
        row.length_text = field.value().raw_json_token();
        row.length_ns = nanoseconds(row.length_text);
      } else if (key == "args") {
        if (!is_annotation(kind)) read_args(field.value(), &row);
      }
    }
    return row;
  }

  Status add(const KinetoRow& row) {
    if (row.phase != "X") return Done{};
    const RowKind kind =
        is_early_annotation(row.category, row.name) ? RowKind::Annotation : kind_of(row.category);
    switch (kind) {
      case RowKind::Other:
        break;
      case RowKind::CpuOp:
        add_cpu_op(row);
        break;
      case RowKind::Call:
        if (row.correlation < 0) break;
        RETURN_IF_ERROR(check_time(row));
        rank_.launches.push_back(
            {row.correlation, *row.at_ns, static_cast<std::int32_t>(row.thread)});
        break;
      case RowKind::Annotation:
      case RowKind::GpuAnnotation:
        RETURN_IF_ERROR(check_span(row));
        add_annotation(row, kind == RowKind::GpuAnnotation);
        break;
      case RowKind::Kernel:
      case RowKind::Copy:
        RETURN_IF_ERROR(check_span(row));
        add_kernel(row, kind);
        break;
    }
    return Done{};
  }

  static Error no_microseconds(const KinetoRow& row, const char* what, std::string_view text) {
    if (text.empty()) return Error{fmt::format("a {} without its {}", row.category, what)};
    constexpr std::size_t kMostShown = 30;
    const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    const std::string_view value = line.substr(0, line.find_last_not_of(" \t") + 1);
    const bool is_number = value.find_first_not_of("0123456789.+-eE") == std::string_view::npos;
    return Error{fmt::format("a {} with a {} of {}{}", row.category, what,
                             value.substr(0, kMostShown), is_number ? " us" : "")};
  }

  static Status check_time(const KinetoRow& row) {
    if (!row.at_ns) return no_microseconds(row, "time (ts)", row.at_text);
    return Done{};
  }

  static Status check_span(const KinetoRow& row) {
    RETURN_IF_ERROR(check_time(row));
    if (!row.length_ns || *row.length_ns < 0)
      return no_microseconds(row, "length (dur)", row.length_text);
    return Done{};
  }

  void add_annotation(const KinetoRow& row, bool on_gpu) {
    rank_.annotations.push_back({rank_.names.id(row.name), on_gpu,
                                 static_cast<std::int32_t>(row.thread), *row.at_ns,
                                 *row.at_ns + *row.length_ns});
    annotation_processes_.push_back(row.process);
  }

  void add_cpu_op(const KinetoRow& row) {
    if (is_of_autograd(row.category, row.name))
      backward_threads_.insert(static_cast<std::int32_t>(row.thread));
    if (!row.shapes.empty() && row.at_ns && row.length_ns && is_priced_call(row.name))
      rank_.calls.push_back({.name = rank_.names.id(row.name),
                             .shapes = rank_.names.id(row.shapes),
                             .types = rank_.names.id(row.types),
                             .values = rank_.names.id(row.values),
                             .thread = static_cast<std::int32_t>(row.thread),
                             .start_ns = *row.at_ns,
                             .end_ns = *row.at_ns + *row.length_ns});
  }

  void add_kernel(const KinetoRow& row, RowKind kind) {
    ProfileKernel kernel;
    kernel.start_ns = *row.at_ns;
    kernel.end_ns = *row.at_ns + *row.length_ns;
    kernel.correlation = row.correlation;
    kernel.name = rank_.names.id(row.name);
    kernel.stream = static_cast<std::int32_t>(row.stream >= 0 ? row.stream : row.thread);
    kernel.activity = kind == RowKind::Copy ? Activity::Memory : activities_.of(kernel.name);
    if (!row.collective.empty()) {
      kernel.activity = Activity::Communication;
      kernel.collective = static_cast<std::int32_t>(rank_.collectives.size());
      rank_.collectives.push_back({.collective = rank_.names.id(row.collective),
                                   .dtype = rank_.names.id(row.dtype),
                                   .group = rank_.names.id(row.group),
                                   .description = rank_.names.id(row.description),
                                   .ranks = rank_.names.id(row.ranks),
                                   .group_size = static_cast<int>(row.group_size),
                                   .in_elements = row.in_elements,
                                   .out_elements = row.out_elements,
                                   .sequence = row.sequence,
                                   .from = static_cast<int>(row.from),
                                   .to = static_cast<int>(row.to)});
    }
    for (const std::int64_t wait : row.waits) rank_.waits.emplace_back(row.correlation, wait);
    rank_.kernels.push_back(kernel);
    kernel_devices_.push_back(row.device >= 0 ? row.device : row.process);
  }

  // Reads the member that only files written by Tandem have.
  void add_tandem_member(const Json& json) {
    if (!json.is_object()) return;
    rank_.multiplicity = count_in(json, "ranks_alike", 1).value_or(rank_.multiplicity);
    const auto waits = json.find("tells_waits");
    rank_.tells_waits = waits != json.end() && *waits == true;
    rank_.profiler = "Tandem";
  }

  Status add_distribution(const Json& json) {
    if (!json.is_object()) return Done{};
    if (const auto rank = count_in(json, "rank", 0)) {
      rank_.rank = *rank;
      rank_.rank_is_given = true;
    }
    rank_.world = count_in(json, "world_size", 1).value_or(0);
    const auto groups = json.find("pg_config");
    if (groups == json.end() || !groups->is_array()) return Done{};
    for (const Json& group : *groups) {
      if (!group.is_object()) continue;
      ProcessGroup read;
      const auto text = [&](const char* key) {
        const auto at = group.find(key);
        return at != group.end() && at->is_string() ? at->get<std::string>() : std::string();
      };
      read.name = text("pg_name");
      read.description = text("pg_desc");
      const auto ranks = group.find("ranks");
      if (ranks != group.end() && ranks->is_array()) {
        for (const Json& rank : *ranks) {
          if (rank.is_number_integer()) read.ranks.push_back(rank);
        }
      }
      rank_.groups.push_back(std::move(read));
    }
    return Done{};
  }

  // Splits the rank where kernels ran on several GPUs. A file that is one of several ranks must not
  // have several: their ranks are not known.
  Result<std::vector<ProfileRank>> by_device() {
    std::set<std::int64_t> devices;
    for (std::size_t i = 0; i < rank_.kernels.size(); ++i) {
      if (rank_.kernels[i].activity != Activity::Memory) devices.insert(kernel_devices_[i]);
    }
    if (devices.size() > 1 && rank_.rank_is_given && rank_.world > 1)
      return Error::at(rank_.path, fmt::format("found kernels of {} GPUs ({}) on rank {} of {}, "
                                               "expected a GPU a rank",
                                               devices.size(), fmt::join(devices, ", "), rank_.rank,
                                               rank_.world));
    std::vector<ProfileRank> ranks;
    if (devices.size() > 1) {
      for (const std::int64_t device : devices) ranks.push_back(rank_on(device));
    } else {
      ranks.push_back(std::move(rank_));
    }
    return ranks;
  }

  // Returns what ran on that GPU, and all that the CPU did.
  ProfileRank rank_on(std::int64_t device) const {
    ProfileRank rank;
    rank.path = rank_.path;
    rank.profiler = rank_.profiler;
    rank.device = rank_.device;
    for (std::size_t id = 0; id < rank_.names.size(); ++id)
      rank.names.id(rank_.names.text(static_cast<std::uint32_t>(id)));
    for (std::size_t i = 0; i < rank_.kernels.size(); ++i) {
      if (kernel_devices_[i] == device) rank.kernels.push_back(rank_.kernels[i]);
    }
    for (std::size_t i = 0; i < rank_.annotations.size(); ++i) {
      if (!rank_.annotations[i].on_gpu || annotation_processes_[i] == device)
        rank.annotations.push_back(rank_.annotations[i]);
    }
    rank.collectives = rank_.collectives;
    rank.launches = rank_.launches;
    rank.calls = rank_.calls;
    rank.backward_threads = rank_.backward_threads;
    rank.groups = rank_.groups;
    rank.waits = rank_.waits;
    return rank;
  }

  // Takes the name of the first device: all of a node are alike.
  void name_device() {
    if (!devices_.is_array() || devices_.empty() || !devices_.front().is_object()) return;
    const auto name = devices_.front().find("name");
    if (name != devices_.front().end() && name->is_string()) rank_.device = *name;
  }

  ProfileRank rank_;
  simdjson::ondemand::parser parser_;
  ByName<Activity> activities_{rank_.names, activity_of};
  std::vector<std::int64_t> kernel_devices_;        // by kernel
  std::vector<std::int64_t> annotation_processes_;  // by annotation; for one on a GPU, its number
  std::set<std::int32_t> backward_threads_;
  Json devices_;
  Nanoseconds base_ns_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace

Result<std::vector<ProfileRank>> read_kineto(const std::string& path) {
  ASSIGN_OR_RETURN(JsonRows file, JsonRows::open(path));
  KinetoRows rows(path);
  RETURN_IF_ERROR(file.read(
      "traceEvents",
      [&](std::string_view key, std::string_view text) { return rows.add_member(key, text); },
      [&](std::string_view text) { return rows.add_row(text); }));
  return rows.finish();
}

}  // namespace tandem
