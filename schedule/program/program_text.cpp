// Writes and reads a Program's file. The reader fills a Program row by row, checks that all numbers
// refer to something, then validates and replays the Program. An Error names the row's
// line, or the file if it is about no row.
#include "schedule/program/program_text.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "schedule/program/replay.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

template <class Range, class Number>
std::string join(const Range& items, const Number& number) {
  std::string text;
  for (const auto& item : items) text += fmt::format("{}{}", text.empty() ? "" : " ", number(item));
  return text;
}

void print_body(const Program& program, int number, fmt::memory_buffer* out) {
  const auto to = std::back_inserter(*out);
  const Body& body = program.bodies[number];
  for (const Lane& lane : body.lanes)
    fmt::format_to(to, "lane,{},{}\n", number, csv_cell(lane.name));
  for (const Slot& slot : body.slots)
    fmt::format_to(to, "slot,{},{},{}\n", number, group_kind_name(slot.group_kind), slot.lane);
  for (const Op& op : body.ops) {
    fmt::format_to(to, "op,{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", number,
                   op_kind_name(op.kind), op.lane, op.slot, op.stage, op.microbatch, op.part,
                   op.parts, op.bytes, op.sms, op.duration_ns, op.kernel, op.exchange,
                   join(body.waits_of(op), [](std::uint32_t wait) { return wait; }));
  }
}

// Reads the rows of one file into a Program.
class Reader {
 public:
  explicit Reader(const CsvFile& file) : file_(file) {}

  Result<Program> read() {
    for (const CsvRow& row : file_.rows) {
      row_ = &row;
      next_ = 1;
      if (row.cells[0] == "program" && has_name_)
        return file_.error(row.line, "found a second program row, expected one");
      if (!read_row() || next_ != row.cells.size()) return error();
    }
    if (!has_name_) return file_.error(1, "found no program row, expected one");
    if (program_.bodies.empty() || program_.ranks.empty())
      return file_.error(1, "found no body or no rank rows, expected a whole program");
    RETURN_IF_ERROR(check_references());
    if (const Validity valid = validity(program_); !valid.ok()) return placed(valid.error());
    if (const auto played = replay(program_, fold(program_)); !played.ok())
      return Error::at(file_.path, played.error().text());
    return std::move(program_);
  }

 private:
  // Moves a fault to the line of the op, communicator or rank that it is about.
  Error placed(const ProgramFault& fault) const {
    const std::string& message = fault.why.message;
    if (fault.op >= 0) return file_.error(op_lines_[fault.body][fault.op], message);
    if (fault.communicator >= 0)
      return file_.error(communicator_lines_[fault.communicator], message);
    if (fault.rank >= 0) return file_.error(rank_lines_[fault.rank], message);
    return Error::at(file_.path, message);
  }

  Error error() const {
    return file_.error(
        row_->line, fmt::format("found a '{}' row that is cut short or has a bad cell {}, expected "
                                "the columns that docs/formats.md lists",
                                row_->cells[0], next_));
  }

  bool read_row() {
    const std::string& row_kind = row_->cells[0];
    if (row_kind == "program") return program();
    if (row_kind == "device") return device();
    if (row_kind == "kernel") return kernel();
    if (row_kind == "lane") return body() && text(&body_->lanes.emplace_back().name);
    if (row_kind == "slot") return body() && slot();
    if (row_kind == "op") return body() && op();
    if (row_kind == "communicator") return communicator();
    if (row_kind == "rank") return rank();
    return false;
  }

  bool program() {
    has_name_ = true;
    return text(&program_.name);
  }

  bool device() {
    return !std::exchange(has_device_, true) && integer(&program_.device.sms) &&
           real(&program_.device.memory_bytes_per_s);
  }

  bool kernel() {
    Kernel& kernel = program_.kernels.emplace_back();
    std::string gemms;
    if (!text(&kernel.name) || !real(&kernel.memory_bytes) || !real(&kernel.launch_s) ||
        !text(&gemms))
      return false;
    auto parsed = parse_gemms(gemms);
    if (!parsed) return false;
    kernel.gemms = *std::move(parsed);
    // The cells from here on may be missing.
    const auto optional_real = [&](double* value) {
      return next_ >= row_->cells.size() || real(value);
    };
    if (!optional_real(&kernel.memory_share) || !optional_real(&kernel.attention_flops))
      return false;
    if (next_ >= row_->cells.size()) return true;
    AttentionShape& shape = kernel.attention;
    int backward = 0;
    if (!integer(&shape.keys) || !integer(&shape.head_size) || !integer(&backward)) return false;
    shape.backward = backward == 1;
    return backward == 0 || backward == 1;
  }

  // Reads the number of the body that the row is about, and sets body_. A number one above the last
  // body's makes a new body.
  bool body() {
    std::int64_t number = 0;
    if (!integer(&number) || number < 0 ||
        number > static_cast<std::int64_t>(program_.bodies.size()))
      return false;
    if (number == static_cast<std::int64_t>(program_.bodies.size())) program_.bodies.emplace_back();
    op_lines_.resize(program_.bodies.size());
    body_ = &program_.bodies[number];
    return true;
  }

  bool slot() {
    Slot& slot = body_->slots.emplace_back();
    return group_kind(&slot.group_kind) && integer(&slot.lane);
  }

  bool op() {
    Op op;
    std::string waits;
    if (!kind(&op.kind) || !integer(&op.lane) || !integer(&op.slot) || !integer(&op.stage) ||
        !integer(&op.microbatch) || !integer(&op.part) || !integer(&op.parts) ||
        !integer(&op.bytes) || !integer(&op.sms) || !integer(&op.duration_ns) ||
        !integer(&op.kernel) || !integer(&op.exchange) || !text(&waits))
      return false;
    op.first_wait = static_cast<std::uint32_t>(body_->waits.size());
    if (!numbers(waits, &body_->waits)) return false;
    const std::size_t count = body_->waits.size() - op.first_wait;
    if (count > kMostWaits) return false;
    op.waits = static_cast<std::uint32_t>(count);
    body_->ops.push_back(op);
    op_lines_[body_ - program_.bodies.data()].push_back(row_->line);
    return true;
  }

  bool communicator() {
    Communicator& communicator = program_.communicators.emplace_back();
    communicator_lines_.push_back(row_->line);
    std::string members;
    std::vector<std::int32_t> ranks;
    if (!group_kind(&communicator.group_kind) || !integer(&communicator.between_nodes) ||
        !text(&members) || !numbers(members, &ranks) || ranks.empty())
      return false;
    for (const std::int32_t rank : ranks) communicator.members.push_back(static_cast<Rank>(rank));
    return true;
  }

  bool rank() {
    RankRow& rank = program_.ranks.emplace_back();
    rank_lines_.push_back(row_->line);
    std::string communicators;
    return integer(&rank.body) && text(&communicators) &&
           numbers(communicators, &rank.communicators);
  }

  // Checks that all numbers of bodies, communicators, ranks and kernels are defined in the file.
  Status check_references() const {
    const auto bad = [&](int line, std::string_view what) {
      return file_.error(line, fmt::format("found {}, expected only what the file defines", what));
    };
    for (std::size_t i = 0; i < program_.ranks.size(); ++i) {
      const RankRow& rank = program_.ranks[i];
      if (rank.body < 0 || rank.body >= static_cast<int>(program_.bodies.size()))
        return bad(rank_lines_[i], fmt::format("a rank with body {}", rank.body));
      if (rank.communicators.size() != program_.bodies[rank.body].slots.size())
        return bad(rank_lines_[i],
                   fmt::format("a rank with {} communicators for {} slots",
                               rank.communicators.size(), program_.bodies[rank.body].slots.size()));
      for (const std::int32_t c : rank.communicators) {
        if (c < 0 || c >= static_cast<int>(program_.communicators.size()))
          return bad(rank_lines_[i], fmt::format("a rank with communicator {}", c));
      }
    }
    for (std::size_t i = 0; i < program_.communicators.size(); ++i) {
      for (const Rank member : program_.communicators[i].members) {
        if (index(member) < 0 || index(member) >= static_cast<int>(program_.ranks.size()))
          return bad(communicator_lines_[i],
                     fmt::format("a communicator with rank {}", index(member)));
      }
    }
    for (std::size_t body = 0; body < program_.bodies.size(); ++body) {
      for (std::size_t i = 0; i < program_.bodies[body].ops.size(); ++i) {
        const int kernel = program_.bodies[body].ops[i].kernel;
        if (kernel < -1 || kernel >= static_cast<int>(program_.kernels.size()))
          return bad(op_lines_[body][i], fmt::format("an op with kernel {}", kernel));
      }
    }
    return Done{};
  }

  // The functions below read the row's next cell. They return false if it is missing or wrong.
  bool text(std::string* to) {
    if (next_ >= row_->cells.size()) return false;
    *to = row_->cells[next_++];
    return true;
  }
  bool real(double* to) {
    std::string cell;
    if (!text(&cell)) return false;
    const auto value = parse_number(cell);
    if (value.ok()) *to = *value;
    return value.ok();
  }
  template <class Integer>
  bool integer(Integer* to) {
    std::string cell;
    return text(&cell) && parse(cell, to);
  }
  bool kind(OpKind* to) {
    std::string cell;
    if (!text(&cell)) return false;
    const auto found = op_kind_named(cell);
    if (found) *to = *found;
    return found.has_value();
  }
  bool group_kind(GroupKind* to) {
    std::string cell;
    if (!text(&cell)) return false;
    const auto found = group_kind_named(cell);
    if (found) *to = *found;
    return found.has_value();
  }

  // Parses the whole text as an integer that fits into its type.
  template <class Integer>
  static bool parse(std::string_view text, Integer* to) {
    const auto value = parse_integer(text);
    if (!value.ok() || static_cast<std::int64_t>(static_cast<Integer>(*value)) != *value)
      return false;
    *to = static_cast<Integer>(*value);
    return true;
  }
  template <class Integer>
  static bool numbers(std::string_view text, std::vector<Integer>* to) {
    for (const std::string_view word : split(text, ' ')) {
      if (!parse(word, &to->emplace_back())) return false;
    }
    return true;
  }
  static std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(separator), text.size());
      words.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
  }

  const CsvFile& file_;
  Program program_;
  const CsvRow* row_ = nullptr;
  std::size_t next_ = 0;                    // the row's next cell
  Body* body_ = nullptr;                    // the body that the row is about
  std::vector<std::vector<int>> op_lines_;  // by body and op
  std::vector<int> communicator_lines_, rank_lines_;
  bool has_name_ = false, has_device_ = false;
};

}  // namespace

std::string to_text(const Program& program) {
  fmt::memory_buffer out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "# tandem program, columns in docs/formats.md\nprogram,{}\n",
                 csv_cell(program.name));
  if (program.device != SharedDevice{})
    fmt::format_to(to, "device,{},{}\n", program.device.sms, program.device.memory_bytes_per_s);
  for (const Kernel& kernel : program.kernels) {
    fmt::format_to(to, "kernel,{},{},{},{},{},{}", csv_cell(kernel.name), kernel.memory_bytes,
                   kernel.launch_s, gemms_text(kernel.gemms), kernel.memory_share,
                   kernel.attention_flops);
    const AttentionShape& shape = kernel.attention;
    if (shape.keys > 0)
      fmt::format_to(to, ",{},{},{}", shape.keys, shape.head_size, shape.backward ? 1 : 0);
    fmt::format_to(to, "\n");
  }
  for (int body = 0; body < static_cast<int>(program.bodies.size()); ++body)
    print_body(program, body, &out);
  for (const Communicator& communicator : program.communicators)
    fmt::format_to(to, "communicator,{},{},{}\n", group_kind_name(communicator.group_kind),
                   communicator.between_nodes ? 1 : 0,
                   join(communicator.members, [](Rank rank) { return index(rank); }));
  for (const RankRow& rank : program.ranks)
    fmt::format_to(to, "rank,{},{}\n", rank.body,
                   join(rank.communicators, [](std::int32_t c) { return c; }));
  return fmt::to_string(out);
}

Result<Program> read_program(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvFile file, read_csv(path));
  return Reader(file).read();
}

}  // namespace tandem
