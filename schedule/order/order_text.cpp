// Writes and reads PyTorch's text form of an order: cells such as 2F0 and (0F3;3B1)OVERLAP_F_B, in
// rows of CSV.
#include "schedule/order/order_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>

#include "base/csv.h"
#include "schedule/order/order_fault.h"

namespace tandem {
namespace {

// Larger numbers of stages and microbatches mean a garbled file.
constexpr int kMaxId = 999'999;

constexpr std::string_view kOverlap = "OVERLAP_F_B";

struct KindName {
  ActionKind kind;
  std::string_view name;
};

constexpr KindName kKinds[] = {
    {ActionKind::Forward, "F"},
    {ActionKind::Backward, "B"},
    {ActionKind::BackwardInput, "I"},
    {ActionKind::BackwardWeight, "W"},
    {ActionKind::Unshard, "UNSHARD"},
    {ActionKind::Reshard, "RESHARD"},
    {ActionKind::ReduceGrad, "REDUCE_GRAD"},
    {ActionKind::SendForward, "SEND_F"},
    {ActionKind::RecvForward, "RECV_F"},
    {ActionKind::SendBackward, "SEND_B"},
    {ActionKind::RecvBackward, "RECV_B"},
    {ActionKind::EmbeddingForward, "E"},
    {ActionKind::OutputS, "S"},
    {ActionKind::OutputT, "T"},
    {ActionKind::EmbeddingBackward, "G"},
};

std::string_view name_of(ActionKind kind) {
  return std::find_if(std::begin(kKinds), std::end(kKinds),
                      [&](const KindName& known) { return known.kind == kind; })
      ->name;
}

// Removes the leading part of `text` that consists of `letters` and returns it.
std::string_view take(std::string_view* text, std::string_view letters) {
  const std::string_view taken =
      text->substr(0, std::min(text->find_first_not_of(letters), text->size()));
  text->remove_prefix(taken.size());
  return taken;
}

// Returns the number, or -1 if there is none or it is beyond kMaxId.
int id_of(std::string_view digits) {
  int id = -1;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  return ec == std::errc{} && id <= kMaxId ? id : -1;
}

Result<Action> parse_action(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  std::string_view rest = text;
  const std::string_view stage = take(&rest, kDigits);
  const std::string_view name = take(&rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
  const std::string_view microbatch = take(&rest, kDigits);
  if (name == "BW")
    return Error{fmt::format(
        "found '{}', expected B or I: older PyTorch wrote BW for the full backward, which is B "
        "today, and B for the input gradient, which is I",
        text)};
  const auto* const known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [&](const KindName& kind) { return kind.name == name; });
  if (stage.empty() || known == std::end(kKinds) || !rest.empty())
    return Error{fmt::format(
        "found '{}', expected a stage, one of F, B, I, W, UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, "
        "RECV_F, SEND_B, RECV_B, E, S, T, G, and a microbatch, as in 2F0",
        text)};
  const bool counted = has_microbatch(known->kind), has_number = !microbatch.empty();
  if (has_number != counted)
    return Error{fmt::format("found '{}', expected {} microbatch after {}", text,
                             counted ? "a" : "no", name)};
  Action action{Stage{id_of(stage)}, known->kind, Microbatch{counted ? id_of(microbatch) : 0}};
  if (index(action.stage) < 0 || index(action.microbatch) < 0)
    return Error{fmt::format("found '{}', expected numbers up to {}", text, kMaxId)};
  return action;
}

// Parses "(a;b)OVERLAP_F_B". All its actions compute, and each but the last is marked with_next.
Result<std::vector<Action>> parse_compound(std::string_view cell) {
  const auto close = cell.find(')');
  if (close == std::string_view::npos || cell.substr(close + 1) != kOverlap)
    return Error{fmt::format("found '{}', expected (ACTION;ACTION){}", cell, kOverlap)};
  std::string_view inside = cell.substr(1, close - 1);
  std::vector<Action> actions;
  for (bool more = true; more;) {
    const auto semicolon = inside.find(';');
    more = semicolon != std::string_view::npos;
    ASSIGN_OR_RETURN(Action action, parse_action(inside.substr(0, semicolon)));
    if (!is_compute(action.kind) || is_vocabulary(action.kind))
      return Error{
          fmt::format("found {} in '{}', expected F, B, I or W there", to_text(action), cell)};
    action.with_next = more;
    actions.push_back(action);
    if (more) inside.remove_prefix(semicolon + 1);
  }
  if (actions.size() < 2)
    return Error{fmt::format("found one action in '{}', expected two or more", cell)};
  return actions;
}

// Makes the Error of a row, or of one of its cells, counted from 1 (0: of the whole row).
using RowError = std::function<Error(int row, int cell, const std::string& message)>;

constexpr const char* kNoRows = "found no rows, expected a row of actions a rank";

// Reads a comment such as "chains: 2". Returns `otherwise` if there is none.
Result<int> stated(const CsvFile& file, std::string_view key, int otherwise,
                   const RowError& row_error) {
  std::optional<int> number;
  for (std::size_t i = 0; i < file.comments.size(); ++i) {
    std::string_view value = file.comments[i];
    if (!value.starts_with(key) || !value.substr(key.size()).starts_with(':')) continue;
    value.remove_prefix(key.size() + 1);
    take(&value, " \t");
    // The comments are a file's first lines.
    const auto fault = [&](const std::string& message) {
      return row_error(static_cast<int>(i) + 1, 0, message);
    };
    if (value != "1" && value != "2")
      return fault(fmt::format("found {} {}, expected 1 or 2", value, key));
    if (number) return fault(fmt::format("found '# {}' a second time, expected it once", key));
    number = value == "1" ? 1 : 2;
  }
  return number.value_or(otherwise);
}

Result<std::vector<Action>> parse_row(const CsvRow& row, const RowError& row_error) {
  std::vector<Action> actions;
  actions.reserve(row.cells.size());
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    auto parsed = parse_cell(row.cells[i]);
    if (!parsed.ok()) return row_error(row.line, static_cast<int>(i) + 1, parsed.error().text());
    actions.insert(actions.end(), parsed->begin(), parsed->end());
  }
  return actions;
}

// Makes the order of rows of cells, and validates it. REQUIRES: there are rows.
Result<Order> order_of_rows(const CsvFile& file, const RowError& row_error,
                            std::string* fault_text) {
  Order order;
  ASSIGN_OR_RETURN(order.chains, stated(file, "chains", 1, row_error));
  ASSIGN_OR_RETURN(order.vocabulary, stated(file, "vocabulary", 0, row_error));
  for (const CsvRow& row : file.rows) {
    ASSIGN_OR_RETURN(std::vector<Action> actions, parse_row(row, row_error));
    for (const Action& action : actions) {
      order.stages = std::max(order.stages, index(action.stage) + 1);
      order.microbatches = std::max(order.microbatches, index(action.microbatch) + 1);
    }
    order.ranks.push_back(std::move(actions));
  }
  if (const auto fault = find_fault(order)) {
    if (fault_text != nullptr) *fault_text = explain_fault(order);
    return row_error(file.rows[std::max(fault->rank, 0)].line, 0, fault->message);
  }
  return order;
}

}  // namespace

std::string to_text(const Action& action) {
  std::string text = fmt::format("{}{}", index(action.stage), name_of(action.kind));
  if (has_microbatch(action.kind)) text += std::to_string(index(action.microbatch));
  return text;
}

Result<std::vector<Action>> parse_cell(std::string_view cell) {
  if (cell.empty()) return std::vector<Action>{};
  if (cell.front() == '(') return parse_compound(cell);
  ASSIGN_OR_RETURN(const Action action, parse_action(cell));
  return std::vector<Action>{action};
}

std::string to_pytorch(const Order& order) {
  std::string text;
  if (order.chains > 1) text += fmt::format("# chains: {}\n", order.chains);
  if (order.vocabulary > 0) text += fmt::format("# vocabulary: {}\n", order.vocabulary);
  for (const std::vector<Action>& actions : order.ranks) {
    bool inside = false;  // a compound cell
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (i > 0) text += inside ? ';' : ',';
      if (!inside && actions[i].with_next) text += '(';
      text += to_text(actions[i]);
      if (inside && !actions[i].with_next) text += fmt::format("){}", kOverlap);
      inside = actions[i].with_next;
    }
    text += '\n';
  }
  return text;
}

Result<Order> read_pytorch(const std::string& path, std::string* fault_text) {
  ASSIGN_OR_RETURN(const CsvFile file, read_csv(path));
  if (file.rows.empty()) return file.error(1, kNoRows);
  const auto row_error = [&](int row, int cell, const std::string& message) {
    return file.error(row, cell > 0 ? fmt::format("cell {}: {}", cell, message) : message);
  };
  ASSIGN_OR_RETURN(Order order, order_of_rows(file, row_error, fault_text));
  order.name = std::filesystem::path(path).stem().string();
  return order;
}

Result<Order> order_in_rows(const std::vector<std::vector<std::string>>& rows) {
  CsvFile file;
  for (const std::vector<std::string>& cells : rows) {
    if (cells.size() == 1 && cells[0].starts_with('#')) {
      std::string_view comment = std::string_view(cells[0]).substr(1);
      take(&comment, " \t");
      file.comments.emplace_back(comment);
    } else {
      file.rows.push_back({static_cast<int>(&cells - rows.data()) + 1, cells});
    }
  }
  if (file.rows.empty()) return Error{kNoRows};
  const auto row_error = [](int row, int cell, const std::string& message) {
    return Error{cell > 0 ? fmt::format("row {}, cell {}: {}", row, cell, message)
                          : fmt::format("row {}: {}", row, message)};
  };
  ASSIGN_OR_RETURN(Order order, order_of_rows(file, row_error, nullptr));
  order.name = "rows";
  return order;
}

}  // namespace tandem
