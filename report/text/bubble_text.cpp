#include "report/text/bubble_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "report/text/number_cells.h"

namespace tandem {
namespace {

struct BubblePart {
  double time = 0;
  std::string cause;
};

// Returns "1 rank", "4 ranks" or "8 microbatches".
std::string counted(int count, std::string_view noun) {
  const char* const plural = count == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, noun, plural);
}

// Returns the parts of the bubble that are more than rounding errors.
std::vector<BubblePart> bubble_parts(const Bubble& b) {
  const std::string rank = fmt::format("rank {}", b.rank);
  std::string stage =
      fmt::format("stage {} takes {:.3g} times the mean stage", b.stage, b.longest_stage_ratio);
  if (b.longest_stage_ratio < 1 + 1e-9) stage = "it has more of the stages";
  std::vector<BubblePart> parts = {
      {b.fill, "fill: until the first microbatch comes to " + rank},
      {b.drain, "drain: behind the last action of " + rank + ", until the others have ended"},
      {b.imbalance, fmt::format("imbalance: {} works {:.3g} times as long as the mean rank; {}",
                                rank, b.work > 0 ? b.own_work / b.work : 1, stage)},
      {b.memory, "memory limit: a forward is ready on " + rank +
                     ", which holds as many activations as it ever does"},
      {b.postponed, "sequence: " + rank +
                        " waits for what is next in the order, and could do "
                        "something behind it"},
      {b.waiting, "dependencies: nothing is ready on " + rank},
      {b.transfers, "transfers: what the order ends earlier where they take no time"}};
  std::erase_if(parts,
                [&](const BubblePart& part) { return std::abs(part.time) <= 1e-9 * b.makespan; });
  return parts;
}

}  // namespace

std::string bubble_text(const Order& order, const Bubble& bubble, const LowerBound& bound,
                        double seconds_a_unit, int width) {
  const bool in_seconds = seconds_a_unit > 0;
  const auto time = [&](double value) {
    return in_seconds ? fmt::format("{:.4g} s", value) : fmt::format("{:.4g}", value);
  };
  std::string text = fmt::format(
      "{}: {}, {}, {}. It takes {}, of which the mean rank works {}: a "
      "bubble of {}, {} % of the time.\n",
      order.name, counted(order.pp(), "rank"), counted(order.stages, "stage"),
      counted(order.chains * order.microbatches, "microbatch"), time(bubble.makespan),
      time(bubble.work), time(bubble.total()),
      percent(bubble.makespan > 0 ? bubble.total() / bubble.makespan : 0));
  if (in_seconds)
    text += fmt::format("A unit is the mean stage's forward, {:.4g} s.\n", seconds_a_unit);
  text = wrapped(text, width);
  const double unit = in_seconds ? seconds_a_unit : 1;
  std::vector<Column<BubblePart>> columns = {
      {"units", [=](const BubblePart& part) { return fmt::format("{:.4g}", part.time / unit); },
       Place::First}};
  if (in_seconds)
    columns.push_back({"s", [](const BubblePart& part) { return fmt::format("{:.4g}", part.time); },
                       Place::First});
  columns.push_back({"% of the bubble",
                     [&](const BubblePart& part) { return percent(part.time / bubble.total()); },
                     Place::First});
  columns.push_back({"where it comes from", [](const BubblePart& part) { return part.cause; },
                     Place::First, Align::Left});
  const std::vector<BubblePart> parts = bubble_parts(bubble);
  if (!parts.empty()) text += "\n" + text_table(columns, parts, width) + "\n";
  const double above = std::max(0.0, bubble.makespan / bound.makespan - 1);
  text += wrapped(
      fmt::format("It is at most {} % above the best possible with these stages on these ranks "
                  "and as many activations held: {}, by {}.\n",
                  percent(rounded_up(above)), time(bound.makespan), words_of(bound)),
      width);
  return text;
}

}  // namespace tandem
