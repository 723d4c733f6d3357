// Reads a log line by line (take), with at most one open table. Lines before a table give its
// program (all_reduce_perf), its ranks and their hosts. The line of column names opens the table,
// and a summary line ("Avg bus bandwidth") or the next table closes it. The operation is then
// inferred from the program's name and the first row, and each row's busbw is checked against its
// size and time. Formats: NVIDIA/nccl-tests, src/common.cu and src/util.cu from 2019 to a0b82b2
// (2026-07-09), and stas00/ml-engineering, network/benchmarks/all_reduce_bench.py from 20be3ff
// (2025-01-15) to 3b2d999 (2026-08-04), and torch-dist-bench.py, its successor, of fb75494.
#include "interop/log/comm_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/split.h"
#include "interop/log/log_line.h"
#include "interop/log/torch_bench.h"

namespace tandem {
namespace {

// An operation of nccl-tests, and the properties of its rows by which it is recognised.
struct LoggedOp {
  std::string_view name;
  bool reduces;                // column redop is a reduction such as sum
  bool rooted;                 // column root is a rank, not -1
  bool by_part;                // column count is of one rank's part of the array, not of all of it
  bool in_place;               // results of the in-place variant are checked
  int passes;                  // busbw = size / time x passes x (ranks - 1) / ranks; 0: size / time
  bool known_by_name = false;  // its rows look like another operation's
};
constexpr LoggedOp kLoggedOps[] = {{"all_reduce", true, false, false, true, 2},
                                   {"reduce_scatter", true, false, true, true, 1},
                                   {"all_gather", false, false, true, true, 1},
                                   {"alltoall", false, false, true, false, 1},
                                   {"sendrecv", true, false, false, false, 0},
                                   {"broadcast", false, true, false, true, 0},
                                   {"reduce", true, true, false, true, 0},
                                   {"gather", false, true, true, true, 1},
                                   {"scatter", false, true, true, true, 1},
                                   {"hypercube", false, false, true, false, 1, true},
                                   {"alltoallv", false, false, true, false, 1, true}};

const std::map<std::string, int, std::less<>> kTypeBytes = {
    {"int8", 1},   {"uint8", 1}, {"char", 1},    {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"f8e4m3", 1},
    {"f8e5m2", 1}, {"half", 2},  {"float16", 2}, {"bfloat16", 2}, {"int32", 4},    {"int", 4},
    {"uint32", 4}, {"float", 4}, {"int64", 8},   {"uint64", 8},   {"double", 8}};

// The cells of an nccl-tests row by which the operations differ (LoggedOp).
struct RowForm {
  Bytes bytes = 0, count = 0;
  int type_bytes = 0;
  bool reduces = false, rooted = false;
  bool checked = false, checked_in_place = false;
};

// The table whose rows are being read.
struct OpenTable {
  LoggedTable table;
  std::vector<std::string> columns;      // empty: a table of all_reduce_bench.py
  std::optional<RowForm> form;           // of the first row with more than 0 bytes
  std::vector<double> bus_GBps;          // one for each of the table's times
  int wrong_rows = 0, wrong_line = 0;    // rows with wrong values, and the first one's line
  int coarse_rows = 0, coarse_line = 0;  // rows whose rates have too few digits, likewise
};

std::optional<double> real_of(std::string_view word) {
  double value = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool is_digit_at(std::string_view text, std::size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

bool has_only_digits(std::string_view word) {
  return word.find_first_not_of("0123456789") == std::string_view::npos;
}

// Removes the labels that launchers add: "[3]" (MPICH) and "[1,3]<stdout>:" (mpirun) anywhere in
// the line, and "(worker, pid=7) " (Ray) or "host: " before a table's line.
std::string without_labels(std::string text) {
  constexpr std::string_view kStream = "<stdout>:";
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
    const std::size_t end = text.find_first_of(" ]", at);
    if (end == std::string::npos || text[end] == ' ') continue;
    const bool has_stream = text.compare(end + 1, kStream.size(), kStream) == 0;
    if (has_stream || has_only_digits(std::string_view(text).substr(at + 1, end - at - 1)))
      text.replace(at, end + 1 - at + (has_stream ? kStream.size() : 0), " ");
  }
  for (const std::string_view end : {") ", ": "}) {
    const std::size_t begin = text.find_first_not_of(' ');
    const std::size_t label = text.find(end);
    if (begin == std::string::npos || label == std::string::npos) continue;
    const std::size_t rest = text.find_first_not_of(' ', label + 1);
    const bool is_worker = end == ") " && text[begin] == '(';
    const bool is_host = end == ": " && text.find(' ', begin) > label &&
                         rest != std::string::npos &&
                         (text[rest] == '#' || text[rest] == '|' || is_digit_at(text, rest));
    if (is_worker || is_host) text.erase(0, std::min(rest, text.size()));
  }
  return text;
}

// The cells of an nccl-tests row, by their columns.
class RowCells {
 public:
  RowCells(const std::vector<std::string>& columns, const std::vector<std::string>& words)
      : columns_(columns),
        words_(words),
        redop_(column("redop")),
        blank_redop_(redop_ < columns.size() && redop_ < words.size() && real_of(words[redop_])) {}

  // Returns a cell; empty: the row has none. An operation that does not reduce may leave the redop
  // blank: then the cells behind it are one to the left.
  std::string_view at(std::size_t column) const {
    const std::size_t i = column - (blank_redop_ && column > redop_ ? 1 : 0);
    return column < columns_.size() && i < words_.size() ? words_[i] : std::string_view();
  }
  std::string_view at(std::string_view name) const { return at(column(name)); }
  // Return the columns of wrong values: out of place and, behind it under the same name, in place.
  std::size_t wrong() const {
    return column("#wrong") < columns_.size() ? column("#wrong") : column("error");
  }
  std::size_t wrong_in_place() const {
    const auto last = std::find(columns_.rbegin(), columns_.rend(), columns_[wrong()]);
    return static_cast<std::size_t>(columns_.rend() - last) - 1;
  }
  bool reduces() const { return !blank_redop_ && at(redop_) != kNoRedop && !at(redop_).empty(); }

 private:
  // Returns the first column of that name; the number of columns: there is none.
  std::size_t column(std::string_view name) const {
    return static_cast<std::size_t>(std::ranges::find(columns_, name) - columns_.begin());
  }
  const std::vector<std::string>&columns_, &words_;
  static constexpr std::string_view kNoRedop = "none";
  std::size_t redop_;
  bool blank_redop_;  // a number stands in its place
};

class CommLogReader {
 public:
  CommLogReader(const ImportSource& source, const CommLogHints& hints)
      : source_(source), hints_(hints) {}

  Result<std::vector<LoggedTable>> read() {
    for (std::size_t begin = 0; begin < source_.text.size();) {
      const std::size_t end = std::min(source_.text.find('\n', begin), source_.text.size());
      ++line_;
      RETURN_IF_ERROR(take(without_labels(
          log_line(std::string_view(source_.text).substr(begin, end - begin)).text)));
      begin = end + 1;
    }
    RETURN_IF_ERROR(end_table());
    if (tables_.empty())
      return Error::at(source_.path,
                       "found no table of nccl-tests or all_reduce_bench.py, expected their "
                       "output");
    return std::move(tables_);
  }

 private:
  Error fault(const std::string& message) const {
    return Error::at(fmt::format("{}:{}", source_.path, line_), message);
  }

  // Handles a line by its kind; lines of no known kind may still name the program.
  Status take(const std::string& text) {
    const std::vector<std::string> words = split_words(text);
    if (words.empty()) return Done{};
    const auto is_word = [&](std::string_view word) { return std::ranges::count(words, word) > 0; };
    if (words[0][0] == '|') return take_bench_line(text);  // "| 32KiB | 1.44GBps | 0.82GBps |"
    const auto is_rate = [](const std::string& word) {
      return word.find('.') != std::string::npos && real_of(word);
    };
    const bool is_row = has_only_digits(words[0]), is_comment = words[0][0] == '#';
    if (open_ && !is_row && !is_comment && std::ranges::count_if(words, is_rate) > 2)
      return fault(fmt::format("found '{:.60}' in a table, expected a row of it", text));
    if (text.find(" ranks (") != std::string::npos && text.find(" over ") != std::string::npos) {
      RETURN_IF_ERROR(end_table());
      bench_title_ = text;
      return Done{};
    }
    if (is_row) {
      if (open_) return take_row(words);
      if (words.size() > 5 && has_only_digits(words[1]) && kTypeBytes.contains(words[2]))
        return fault("found a row of nccl-tests without the head of its table, expected all lines");
      return Done{};
    }
    if (is_word("nThread") && is_word("nGpus")) {  // a program of nccl-tests begins
      RETURN_IF_ERROR(end_table());
      hosts_.clear();
      return Done{};
    }
    if (is_word("Rank") && is_word("device")) {  // "#  Rank  0 Pid 1234 on HOST device 0 ..."
      RETURN_IF_ERROR(end_table());
      if (std::exchange(hosts_are_used_, false)) hosts_.clear();
      return take_rank(words);
    }
    if (is_word("size") && is_word("count") && is_word("type") && is_word("algbw"))
      return take_head(words);
    const bool has_verdict = text.find("Out of bounds values") != std::string::npos;
    if (open_ && open_->wrong_rows == 0 && has_verdict && is_word("FAILED"))
      return fault("found wrong values (FAILED) and no row that has them, expected a table of OK");
    if (has_verdict || is_word("Avg")) return end_table();
    // "all_reduce_perf": the next program begins.
    if (text.find("_perf") != std::string::npos) RETURN_IF_ERROR(end_table());
    for (const LoggedOp& op : kLoggedOps) take_name(text, op.name);
    return Done{};
  }

  // Takes a line that names the program, such as "mpirun ... all_reduce_perf -b 8".
  void take_name(const std::string& text, std::string_view op) {
    const std::string name = std::string(op) + "_perf";
    const std::size_t at = text.find(name);
    if (at == std::string::npos) return;
    const char before = at == 0 ? ' ' : text[at - 1];
    // A run's last line, "# Collective test concluded: all_reduce_perf", does not begin another.
    if (std::isalnum(static_cast<unsigned char>(before)) == 0 && before != '_' &&
        text.find("concluded") == std::string::npos)
      named_.insert(std::string(op));
  }

  // Reads "#  Rank  0 Group  0 Pid 1234 on HOST device  0 [0x01] NVIDIA H100".
  Status take_rank(const std::vector<std::string>& words) {
    const auto word_after = [&](std::string_view word) {
      const auto at = std::ranges::find(words, word);
      return at == words.end() || at + 1 == words.end() ? std::string() : *(at + 1);
    };
    const auto rank = real_of(word_after("Rank"));
    if (!rank || *rank < 0 || *rank > 1e6 || word_after("on").empty())
      return fault("found a rank without number or host, expected '# Rank 0 ... on HOST device'");
    if (hosts_.contains(static_cast<int>(*rank)))
      return fault(
          fmt::format("found rank {} twice, expected each rank once: without MPI=1 every "
                      "process of nccl-tests runs alone",
                      *rank));
    if (const auto group = real_of(word_after("Group")); group && *group != 0)
      return fault("found ranks of several groups, which share links, expected one group");
    hosts_[static_cast<int>(*rank)] = word_after("on");
    return Done{};
  }

  Status begin_table() {
    RETURN_IF_ERROR(end_table());
    open_.emplace();
    open_->table.path = source_.path;
    open_->table.line = line_;
    return Done{};
  }

  // Opens a table at "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time ...".
  Status take_head(const std::vector<std::string>& words) {
    RETURN_IF_ERROR(begin_table());
    if (std::exchange(hosts_are_used_, false)) hosts_.clear();
    open_->columns.assign(std::ranges::find(words, "size"), words.end());
    for (const char* column : {"time", "busbw", "#wrong"}) {
      // Old versions print "error" in place of "#wrong".
      const bool has_error = std::ranges::count(words, "error") > 0 && *column == '#';
      if (!has_error && std::ranges::count(words, column) == 0)
        return fault(
            fmt::format("found a table without '{}', expected nccl-tests' columns", column));
    }
    return Done{};
  }

  Status take_row(const std::vector<std::string>& words) {
    const RowCells cells(open_->columns, words);
    const auto bytes = real_of(cells.at(0)), count = real_of(cells.at(1));
    const auto time_us = real_of(cells.at("time")), busbw = real_of(cells.at("busbw"));
    const auto type = kTypeBytes.find(cells.at(2));
    const std::string_view wrong = cells.at(cells.wrong()),
                           wrong_in_place = cells.at(cells.wrong_in_place());
    const auto root = real_of(cells.at("root")), wrong_values = real_of(wrong);
    const auto is_size = [](auto size) { return size && *size >= 0 && *size <= 0x1p50; };
    const auto is_check = [](std::string_view cell) { return cell == "N/A" || real_of(cell); };
    const bool has_rate = time_us && *time_us > 0 && busbw && *busbw >= 0;
    if (!is_size(bytes) || !is_size(count) || !has_rate || !is_check(wrong) ||
        !is_check(wrong_in_place))
      return fault(fmt::format("found '{:.60}', expected a row of {}", fmt::join(words, " "),
                               fmt::join(open_->columns, ", ")));
    if (type == kTypeBytes.end())
      return fault(fmt::format("found the type '{}', expected one of nccl-tests'", cells.at(2)));
    const RowForm form = {.bytes = static_cast<Bytes>(*bytes),
                          .count = static_cast<Bytes>(*count),
                          .type_bytes = type->second,
                          .reduces = cells.reduces(),
                          .rooted = root && *root >= 0,
                          .checked = wrong_values.has_value(),
                          .checked_in_place = real_of(wrong_in_place).has_value()};
    if (open_->columns[cells.wrong()] == "#wrong" && wrong_values && *wrong_values != 0) {
      if (open_->wrong_rows++ == 0) open_->wrong_line = line_;
      return Done{};
    }
    if (form.bytes == 0) return Done{};
    if (!open_->form) open_->form = form;
    open_->table.times.push_back({form.bytes, *time_us * 1e-6, line_});
    open_->bus_GBps.push_back(*busbw);
    return Done{};
  }

  Status take_bench_line(const std::string& text) {
    std::vector<std::string> cells;
    for (const std::string& part : split(text.substr(text.find('|') + 1), "|"))
      cells.push_back(fmt::format("{}", fmt::join(split_words(part), " ")));
    const auto cell = [&](std::size_t i) { return i < cells.size() ? cells[i] : std::string(); };
    if (cell(0) == "payload" && cell(1) == "busbw" && cell(2) == "algbw") return begin_table();
    if (cell(0) == "payload" && cell(1).ends_with(" busbw"))
      return fault(
          "found a table of several collectives, expected one of each (--separate-tables)");
    if (!open_ || !open_->columns.empty()) return Done{};
    if (cell(0).find_first_not_of("-: ") == std::string::npos) return Done{};
    if (!is_digit_at(cell(0), 0)) return end_table();
    if (cell(1).empty() && cell(2).empty()) return Done{};
    const auto payload = bench_payload(cell(0));
    const auto rate = [&](const std::string& word) {
      return word.ends_with("GBps") ? real_of(word.substr(0, word.size() - 4)) : std::nullopt;
    };
    const auto busbw = rate(cell(1)), algbw = rate(cell(2));
    if (!payload || !busbw || !algbw || *busbw < 0 || *algbw < 0)
      return fault(
          fmt::format("found '{:.60}', expected a row of payload, busbw and algbw such as "
                      "| 32KiB | 1.44GBps | 0.82GBps |",
                      text));
    // Rates have two decimals: below 0.1 GBps that may err by over 5 %.
    if (*algbw < 0.1) {
      if (open_->coarse_rows++ == 0) open_->coarse_line = line_;
      return Done{};
    }
    const auto bytes = static_cast<double>(payload->bytes);
    open_->table.times.push_back({payload->bytes, bytes / (*algbw * payload->GBps_unit), line_});
    open_->bus_GBps.push_back(*busbw * payload->GBps_unit / GB);
    return Done{};
  }

  // Returns the operations that print rows of this form, among `candidates` or, if there are none,
  // among all that rows tell apart.
  static std::vector<std::string> ops_like(const RowForm& form, int ranks,
                                           const std::set<std::string>& candidates = {}) {
    std::vector<std::string> ops;
    for (const LoggedOp& op : kLoggedOps) {
      const std::string name(op.name);
      const bool is_candidate = candidates.empty() ? !op.known_by_name : candidates.contains(name);
      if (!is_candidate) continue;
      const double bytes =
          static_cast<double>(form.count) * form.type_bytes * (op.by_part ? ranks : 1);
      // A run without checks (N/A) does not tell whether the in-place variant has them.
      const bool checks_match = !form.checked || form.checked_in_place == op.in_place;
      const bool matches = op.reduces == form.reduces && op.rooted == form.rooted && checks_match &&
                           static_cast<double>(form.bytes) == bytes;
      if (matches || op.known_by_name) ops.push_back(name);
    }
    return ops;
  }

  // Infers the operation from the programs named before the table, or the hint, and the first row.
  Status name_op(const OpenTable& open, LoggedTable* table) const {
    const std::set<std::string> stated =
        named_.empty() && !hints_.op.empty() ? std::set{hints_.op} : named_;
    const std::vector<std::string> ops = ops_like(*open.form, table->ranks, stated);
    if (ops.size() == 1) {
      table->op = ops.front();
      return Done{};
    }
    const std::string place = fmt::format("{}:{}", table->path, table->times.front().line);
    const auto similar = fmt::format(
        "{}", fmt::join(ops.empty() ? ops_like(*open.form, table->ranks) : ops, " or "));
    if (ops.empty())
      return Error::at(
          place,
          fmt::format("found a row of {} on {} ranks, expected one of {}",
                      similar.empty() ? "no known operation" : similar, table->ranks,
                      stated.empty() ? "some" : fmt::format("{}", fmt::join(stated, " or "))));
    return Error::at(place, fmt::format("found rows of {}, expected the name of their program in a "
                                        "line before them, or --op",
                                        similar));
  }

  // Checks each row's bus bandwidth against the one that its size, time and ranks give.
  Status check_rows(const OpenTable& open) const {
    const LoggedTable& table = open.table;
    const auto op = std::ranges::find(kLoggedOps, table.op, &LoggedOp::name);
    if (op == std::end(kLoggedOps) || op->known_by_name) return Done{};
    const double share = (table.ranks - 1.0) / table.ranks;
    const double factor = op->passes == 0 ? 1 : op->passes * share;
    for (std::size_t i = 0; i < table.times.size(); ++i) {
      const LoggedTime& time = table.times[i];
      const double expected = factor * static_cast<double>(time.bytes) / time.seconds / GB;
      const double found = open.bus_GBps[i];
      // The tolerance is for rounding: times of 10 s and more have fewer digits, busbw has two
      // decimals.
      const double tolerance = time.seconds >= 10 ? 0.06 : 0.02;
      if (found >= 0.05 && std::abs(found - expected) > tolerance * expected + 0.011)
        return Error::at(fmt::format("{}:{}", table.path, time.line),
                         fmt::format("found busbw {:.2f} GB/s, expected {:.2f} of {} on {} ranks",
                                     found, expected, table.op, table.ranks));
    }
    return Done{};
  }

  // Closes the open table, if any: names its operation, sets its ranks, checks and keeps it.
  Status end_table() {
    if (!open_) return Done{};
    OpenTable open = *std::move(open_);
    open_.reset();
    LoggedTable& table = open.table;
    const std::string place = fmt::format("{}:{}", table.path, table.line);
    const auto left_out = [&](int rows, int line, const char* why) {
      if (rows > 0)
        table.notes.push_back(fmt::format("{}:{}: {} row{} left out: {}", table.path, line, rows,
                                          rows > 1 ? "s" : "", why));
    };
    left_out(open.wrong_rows, open.wrong_line, "wrong values");
    left_out(open.coarse_rows, open.coarse_line, "below 0.1 GBps two decimals say too little");
    hosts_are_used_ = true;
    if (table.times.empty()) {
      named_.clear();
      table.notes.push_back(place + ": left out: a table without rows that count");
      tables_.push_back(std::move(table));
      return Done{};
    }
    if (open.columns.empty()) {
      take_title(&table);
    } else {
      RETURN_IF_ERROR(take_ranks(place, &table));
    }
    if (table.ranks == 0) table.ranks = hints_.ranks;
    if (table.ranks == 0)
      return Error::at(place, "found a table without its ranks, expected --ranks and --nodes");
    if (table.ranks == 1)
      return Error::at(place, "found a table of one rank, expected two or more");
    if (open.form) RETURN_IF_ERROR(name_op(open, &table));
    RETURN_IF_ERROR(check_rows(open));
    named_.clear();
    tables_.push_back(std::move(table));
    return Done{};
  }

  // Reads "The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):".
  void take_title(LoggedTable* table) {
    table->op = "all_reduce";
    if (const auto ranks = number_behind(bench_title_, " over "))
      table->ranks = static_cast<int>(std::min(*ranks, 1e6));
    const std::vector<std::string> words = split_words(
        bench_title_.substr(0, std::min(bench_title_.find(" over "), bench_title_.size())));
    if (!words.empty()) table->op = nccl_name(words.back());
    if (bench_title_.find("queued calls") == std::string::npos)
      table->notes.push_back(fmt::format(
          "{}:{}: one call a trial: each time holds what PyTorch takes for a call, some "
          "20 to 30 us",
          table->path, table->line));
    bench_title_.clear();
  }

  // Takes the ranks, and how many of them each host has, from the lines before the table, if any.
  Status take_ranks(const std::string& place, LoggedTable* table) const {
    std::vector<std::string> hosts;  // in the order of their first ranks
    for (const auto& [rank, host] : hosts_) {
      if (rank != table->ranks++)
        return Error::at(place, fmt::format("found no rank {}, expected all ranks up to {}",
                                            table->ranks - 1, hosts_.rbegin()->first));
      const auto at = std::ranges::find(hosts, host) - hosts.begin();
      if (at == std::ssize(hosts)) {
        hosts.push_back(host);
        table->ranks_of_host.push_back(0);
      }
      ++table->ranks_of_host[static_cast<std::size_t>(at)];
    }
    return Done{};
  }

  const ImportSource& source_;
  const CommLogHints& hints_;
  int line_ = 0;
  std::map<int, std::string> hosts_;  // by rank
  bool hosts_are_used_ = false;       // a table had them: the next line of a rank begins a new list
  std::set<std::string> named_;       // operations of programs named since the last table
  std::string bench_title_;           // the line before a table of all_reduce_bench.py
  std::optional<OpenTable> open_;
  std::vector<LoggedTable> tables_;
};

}  // namespace

Result<std::vector<LoggedTable>> read_comm_log(const ImportSource& source,
                                               const CommLogHints& hints) {
  return CommLogReader(source, hints).read();
}

}  // namespace tandem
