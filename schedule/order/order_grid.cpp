// Draws orders as text: replayed in time slots, or as lists with a bad step marked. Declared in
// schedule/order/order_text.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/terminal.h"
#include "schedule/order/order_fault.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"

namespace tandem {
namespace {

// Returns "2F0", or "F0" if the row already says the stage.
std::string label(const Action& action, bool with_stage) {
  std::string text = to_text(action);
  if (!with_stage) text.erase(0, text.find_first_not_of("0123456789"));
  return text;
}

std::string row_name(const Order& order, int rank) {
  const auto digits = std::to_string(order.pp() - 1).size();
  return fmt::format("rank {:>{}} ", rank, digits);
}

void trim_end(std::string* line) { line->erase(line->find_last_not_of(' ') + 1); }

// The most times that one cost may be as long as another. The shortest takes a column or more, so
// the grid would otherwise be too wide.
constexpr double kMostTimes = 1000;

// Returns the costs above 0 of the order's actions, each once.
std::vector<double> used_costs(const Order& order, const GridCosts& costs) {
  std::vector<double> used;
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      if (!is_compute(action.kind)) continue;
      const double cost = cost_of(costs, action.kind);
      if (cost > 0 && std::find(used.begin(), used.end(), cost) == used.end()) used.push_back(cost);
    }
  }
  return used;
}

// Returns the longest slot of which all the order's costs are multiples, if the shortest cost takes
// at most 8 of them. Otherwise returns the shortest cost, and the drawing rounds. Example: costs 2
// and 3 give a slot of 1.
double slot_length(const Order& order, const GridCosts& costs) {
  constexpr int kMostSlots = 8;
  const std::vector<double> used = used_costs(order, costs);
  if (used.empty()) return 1;
  const double shortest = *std::min_element(used.begin(), used.end());
  for (int slots = 1; slots <= kMostSlots; ++slots) {
    const double slot = shortest / slots;
    if (std::all_of(used.begin(), used.end(), [&](double cost) {
          return std::abs(cost / slot - std::round(cost / slot)) < 1e-6;
        }))
      return slot;
  }
  return shortest;
}

// Returns a line of times, above every slot, or above every 2nd, 5th, 10th, ... if the times are
// too wide.
std::string time_line(std::size_t begin, int slots, double slot, std::size_t width) {
  std::size_t widest = 0;
  for (int i = 0; i < slots; ++i) widest = std::max(widest, fmt::format("{:g}", i * slot).size());
  int step = 1;  // 1, 2, 5, 10, 20, 50, ...
  for (int i = 0; step * width <= widest; ++i) step = step * 2 + (i % 3 == 1 ? step / 2 : 0);
  std::string line = "time";
  for (int i = 0; i < slots; i += step) {
    line.resize(begin + i * width, ' ');
    line += fmt::format("{:g}", i * slot);
  }
  return line + '\n';
}

// Writes the action over its slots: "F0", "B0--" over several, "F0&" if it runs with the next one.
void draw(std::string* line, std::size_t begin, std::size_t end, std::size_t width,
          std::string text, bool with_next) {
  CHECK(end <= line->size());
  if (end <= begin) return;
  text.resize(end - begin - 1, end - begin > width ? '-' : ' ');
  line->replace(begin, end - begin, text + (with_next ? '&' : ' '));
}

// A drawn cell of a row, from begin to end, without the blank after it.
struct GridCell {
  std::size_t begin, end;
  ActionKind kind;
};

// Returns the background colour of the kind's cells.
Hue ground_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return Hue::SkyBlue;
    case ActionKind::Backward:
      return Hue::Orange;
    case ActionKind::BackwardInput:
      return Hue::Vermilion;
    case ActionKind::BackwardWeight:
      return Hue::Yellow;
    case ActionKind::OutputS:
      return Hue::Green;
    case ActionKind::OutputT:
      return Hue::Pink;
    case ActionKind::EmbeddingForward:
    case ActionKind::EmbeddingBackward:
      return Hue::Silver;
    default:
      return Hue::None;
  }
}

// Returns the line with its cells coloured. REQUIRES: cells in order.
std::string coloured(const std::string& line, const std::vector<GridCell>& cells) {
  std::string text;
  std::size_t at = 0;
  for (const GridCell& cell : cells) {
    const std::size_t end = std::min(cell.end, line.size());
    text += line.substr(at, cell.begin - at);
    text += painted(line.substr(cell.begin, end - cell.begin), Hue::Black, ground_of(cell.kind));
    at = end;
  }
  return text + line.substr(at);
}

// explain_fault() shows rows of up to kWholeRow actions whole. Of longer ones it shows the bad
// step, kBefore actions before it and kAfter behind it.
constexpr int kWholeRow = 24;
constexpr int kBefore = 8;
constexpr int kAfter = 5;

// Returns the row's actions, with the one at `marked` in brackets: " 0F0 [0B0] 0F1". A long row is
// cut around `marked`, or around `centre` if none is marked (-1).
std::string marked_row(const std::vector<Action>& actions, int marked, int centre,
                       std::size_t width) {
  const int size = static_cast<int>(actions.size());
  const bool whole = size <= kWholeRow;
  if (marked >= 0) centre = marked;
  const int begin = whole ? 0 : std::clamp(centre - kBefore, 0, size);
  const int end = whole ? size : std::clamp(centre + kAfter + 1, 0, size);
  std::string line = begin > 0 ? "... " : "";
  for (int i = begin; i < end; ++i) {
    std::string text = to_text(actions[i]);
    if (actions[i].with_next) text += '&';
    text = i == marked ? fmt::format("[{}]", text) : fmt::format(" {}", text);
    line += fmt::format("{:<{}}", text, width);
  }
  if (end < size) line += " ...";
  trim_end(&line);
  return line;
}

}  // namespace

Result<OrderCosts> order_costs(std::span<const double> times) {
  if (times.size() != 3 && times.size() != 4)
    return Error::at("--costs",
                     fmt::format("found {} numbers, expected F,I,W or F,I,W,C", times.size()));
  for (const double time : times) {
    if (!(time >= 0 && time < 1e300))
      return Error::at("--costs", fmt::format("found {}, expected numbers, not negative", time));
  }
  if (times[0] + times[1] + times[2] == 0)
    return Error::at("--costs", "found F, I and W of 0, expected times above 0");
  for (const double a : times.first(3)) {
    for (const double b : times.first(3)) {
      if (b > 0 && a > kMostTimes * b)
        return Error::at("--costs", fmt::format("found {} beside {}, expected none above {} times "
                                                "another",
                                                a, b, kMostTimes));
    }
  }
  return OrderCosts{times[0], times[1], times[2], times.size() == 4 ? times[3] : 0};
}

// One microbatch passes all stages one after another: `stages` slots. Each rank has stages / ranks
// of them and does a forward and a backward of every microbatch on each: 2 x stages / ranks x
// microbatches slots. The grid has at least the larger number of columns.
Status check_grid(double ranks, double stages, double microbatches) {
  constexpr double kMostCells = 2e7;  // some bytes and a tenth of a microsecond each
  const double slots = std::max(stages, 2 * stages / ranks * microbatches);
  if (ranks * slots <= kMostCells) return Done{};
  return Error{fmt::format(
      "found a grid of {} ranks and {} stages x {} microbatches, at least {:.0f} cells, "
      "expected at most {:.0f}; --format pytorch lists the actions",
      ranks, stages, microbatches, ranks * slots, kMostCells)};
}

Status check_grid(const Order& order, const GridCosts& costs) {
  RETURN_IF_ERROR(check_grid(order.pp(), order.stages, order.microbatches));
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      if (is_compute(action.kind) && !is_vocabulary(action.kind) &&
          cost_of(costs, action.kind) == 0)
        return Error::at("--costs", fmt::format("found a time of 0 for {}, expected one above 0: "
                                                "a grid cannot show it",
                                                to_text(action)));
    }
  }
  const std::vector<double> used = used_costs(order, costs);
  if (order.vocabulary == 0 || used.empty()) return Done{};
  const double shortest = *std::ranges::min_element(used),
               longest = *std::ranges::max_element(used);
  if (longest <= kMostTimes * shortest) return Done{};
  return Error::at("--costs",
                   fmt::format("found passes of {} beside {}, expected none above {} times "
                               "another: the vocabulary's S and T take 1",
                               longest, shortest, kMostTimes));
}

std::string to_grid(const Order& order, const GridCosts& costs, bool colour) {
  const OrderReplay played = replay_order(order, costs);
  const double slot = slot_length(order, costs);
  const int slots = static_cast<int>(std::llround(played.makespan / slot));
  const bool with_stage = order.stages > order.pp();
  std::size_t width = 2;
  for (const std::vector<Action>& actions : order.ranks)
    for (const Action& action : actions)
      if (is_compute(action.kind)) width = std::max(width, label(action, with_stage).size() + 1);
  const std::size_t begin = row_name(order, 0).size();
  std::string text = time_line(begin, slots, slot, width);
  for (int rank = 0; rank < order.pp(); ++rank) {
    std::string line = row_name(order, rank);
    for (int i = 0; i < slots; ++i) line += fmt::format("{:<{}}", '.', width);
    std::vector<GridCell> cells;
    for (std::size_t i = 0; i < order.ranks[rank].size(); ++i) {
      const Action& action = order.ranks[rank][i];
      if (!is_compute(action.kind)) continue;
      const OrderReplay::Span& span = played.spans[rank][i];
      CHECK(span.start >= 0);
      const std::size_t from = begin + width * std::llround(span.start / slot);
      const std::size_t to = begin + width * std::llround(span.end / slot);
      draw(&line, from, to, width, label(action, with_stage), action.with_next);
      if (from < to) cells.push_back({from, to - 1, action.kind});
    }
    trim_end(&line);
    text += (colour ? coloured(line, cells) : line) + '\n';
  }
  return text;
}

std::string explain_fault(const Order& order) {
  const auto fault = find_fault(order);
  if (!fault) return "";
  std::size_t width = 0;
  for (const std::vector<Action>& actions : order.ranks)
    for (const Action& action : actions)
      width = std::max(width, to_text(action).size() + (action.with_next ? 3 : 2));
  const int centre = fault->steps.empty() ? 0 : fault->steps.front().position;
  std::string text;
  for (int rank = 0; rank < order.pp(); ++rank) {
    const auto step =
        std::find_if(fault->steps.begin(), fault->steps.end(),
                     [&](const OrderFault::Step& other) { return other.rank == rank; });
    const int marked = step == fault->steps.end() ? -1 : step->position;
    text += row_name(order, rank) + marked_row(order.ranks[rank], marked, centre, width) + '\n';
  }
  return text;
}

}  // namespace tandem
