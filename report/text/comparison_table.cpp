#include "report/text/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/text/number_cells.h"

namespace tandem {
namespace {

constexpr std::size_t kMostRanks = 16;  // in the table; JSON has all

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

// A part of the iteration, for example the bubble. Measured or simulated, the parts add up to the
// iteration.
struct TimePart {
  std::string name;
  double simulated_s = 0;
  double measured_s = 0;

  double longer_s() const { return measured_s - simulated_s; }
};

std::vector<TimePart> parts_of(const Comparison& comparison) {
  const Metrics &simulated = comparison.simulated.metrics, &measured = comparison.measured.metrics;
  std::vector<TimePart> parts = {{"compute", simulated.compute_s, measured.compute_s},
                                 {"bubble", simulated.bubble_s, measured.bubble_s}};
  for (int i = 0; i < kGroupKinds; ++i) {
    if (comparison.exposed_difference_s[i])
      parts.push_back(
          {fmt::format("exposed {} communication", group_kind_name(static_cast<GroupKind>(i))),
           simulated.exposed_s[i], measured.exposed_s[i]});
  }
  return parts;
}

std::string parts_table(const Comparison& comparison, int width) {
  const Metrics &simulated = comparison.simulated.metrics, &measured = comparison.measured.metrics;
  std::vector<Cells> rows;
  const auto add = [&rows](const TimePart& part) {
    rows.push_back({part.name + " ms", ms(part.simulated_s), ms(part.measured_s),
                    ms_difference(-part.longer_s()),
                    signed_percent(relative_error(part.simulated_s, part.measured_s))});
  };
  add({"iteration", simulated.iteration_s, measured.iteration_s});
  for (const TimePart& part : parts_of(comparison)) add(part);
  rows.push_back({"bubble %", percent(simulated.bubble_fraction), percent(measured.bubble_fraction),
                  signed_percent(comparison.bubble_difference)});
  for (int i = 0; i < kGroupKinds; ++i) {
    if (simulated.overlap_fraction[i] || measured.overlap_fraction[i])
      rows.push_back(
          {fmt::format("overlapped {} communication %", group_kind_name(static_cast<GroupKind>(i))),
           percent(simulated.overlap_fraction[i]), percent(measured.overlap_fraction[i]),
           signed_percent(comparison.overlap_difference[i])});
  }
  return laid_out({{"", Place::Name},
                   {"simulated", Place::First},
                   {"measured", Place::First},
                   {"difference", Place::First},
                   {"error %", Place::First}},
                  rows, width);
}

std::string kinds_table(const Comparison& comparison, int width) {
  std::vector<Cells> rows;
  const auto add = [&rows](std::string_view kind, const OpsSummary& ops) {
    rows.push_back({std::string(kind), fmt::format("{}", ops.count), ms(ops.simulated_s),
                    ms(ops.measured_s),
                    signed_percent(relative_error(ops.simulated_s, ops.measured_s)),
                    percent(ops.median_error), percent(ops.worst_error)});
  };
  for (const auto& [kind, ops] : comparison.kinds) add(op_kind_name(kind), ops);
  if (comparison.kinds.size() > 1) add("all", comparison.ops);
  std::string text = laid_out({{"ops", Place::Name},
                               {"count", Place::First},
                               {"simulated ms", Place::First},
                               {"measured ms", Place::First},
                               {"error %", Place::First},
                               {"median |error| %"},
                               {"worst |error| %", Place::Beside}},
                              rows, width);
  if (const auto without_error = comparison.ops.count - comparison.ops.with_error;
      without_error > 0)
    text += fmt::format("{} of them were measured shorter than {} ns and have no |error|.\n",
                        without_error, kLeastMeasured_ns);
  return text;
}

double exposed_s(const RankSplit& split) {
  return to_seconds(
      std::accumulate(split.exposed_ns.begin(), split.exposed_ns.end(), Nanoseconds{0}));
}

// Returns the ranks that the table shows, in order. If there are many, they are those that differ
// most.
std::vector<std::size_t> ranks_shown(const std::vector<RankSplit>& simulated,
                                     const std::vector<RankSplit>& measured) {
  const auto difference = [&](std::size_t i) {
    const RankSplit &a = simulated[i], &b = measured[i];
    return std::abs(to_seconds(a.compute_ns - b.compute_ns)) +
           std::abs(to_seconds(a.bubble_ns - b.bubble_ns)) + std::abs(exposed_s(a) - exposed_s(b));
  };
  std::vector<std::size_t> ranks(simulated.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::size_t a, std::size_t b) { return difference(a) > difference(b); });
  ranks.resize(std::min(ranks.size(), kMostRanks));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string ranks_table(const Comparison& comparison, int width) {
  const std::vector<RankSplit>& simulated = comparison.simulated.metrics.ranks;
  const std::vector<RankSplit>& measured = comparison.measured.metrics.ranks;
  using I = std::size_t;  // of a rank
  const std::vector<Column<I>> columns = {
      {"rank", [&](I i) { return fmt::format("{}", index(simulated[i].rank)); }, Place::Name},
      {"compute ms: simulated", [&](I i) { return ms(to_seconds(simulated[i].compute_ns)); }},
      {"measured", [&](I i) { return ms(to_seconds(measured[i].compute_ns)); }, Place::Beside},
      {"bubble ms: simulated", [&](I i) { return ms(to_seconds(simulated[i].bubble_ns)); }},
      {"measured", [&](I i) { return ms(to_seconds(measured[i].bubble_ns)); }, Place::Beside},
      {"exposed ms: simulated", [&](I i) { return ms(exposed_s(simulated[i])); }},
      {"measured", [&](I i) { return ms(exposed_s(measured[i])); }, Place::Beside}};
  std::string text = text_table(columns, ranks_shown(simulated, measured), width);
  if (simulated.size() > kMostRanks)
    text += fmt::format("{} of {} ranks: those that differ most.\n", kMostRanks, simulated.size());
  return text;
}

std::string worst_ops_table(const Comparison& comparison, int width) {
  using Pair = const OpPair&;
  const auto number = [](int value) { return value < 0 ? "-" : fmt::format("{}", value); };
  const std::vector<Column<OpPair>> columns = {
      {"worst ops", [](Pair p) { return fmt::format("rank {} op {}", index(p.rank), p.op); },
       Place::Name},
      {"lane", [](Pair p) { return p.lane; }, Place::Second, Align::Left},
      {"kind", [](Pair p) { return std::string(op_kind_name(p.kind)); }, Place::First, Align::Left},
      {"stage", [=](Pair p) { return number(p.stage); }, Place::First},
      {"microbatch", [=](Pair p) { return number(p.microbatch); }, Place::First},
      {"part", [=](Pair p) { return number(p.part); }},
      {"simulated ms", [](Pair p) { return ms(to_seconds(p.simulated_ns)); }},
      {"measured ms", [](Pair p) { return ms(to_seconds(p.measured_ns)); }, Place::Beside},
      {"difference ms", [](Pair p) { return ms_difference(to_seconds(p.difference_ns())); },
       Place::First},
      {"error %", [](Pair p) { return signed_percent(p.error()); }, Place::First}};
  return text_table(columns, comparison.worst, width);
}

// Says how much longer or shorter the measured iteration is, and which parts account for that.
std::string sentence(const Comparison& comparison) {
  const double longer_s =
      comparison.measured.metrics.iteration_s - comparison.simulated.metrics.iteration_s;
  if (std::abs(longer_s) < 0.5e-6)
    return fmt::format("Both iterations take {} ms.\n",
                       ms(comparison.measured.metrics.iteration_s));
  const bool is_longer = longer_s > 0;
  const auto change_s = [is_longer](const TimePart& part) {  // in the iteration's direction
    return is_longer ? part.longer_s() : -part.longer_s();
  };
  std::vector<TimePart> parts = parts_of(comparison);
  std::ranges::stable_sort(parts, std::ranges::greater{}, change_s);
  std::string text = fmt::format("The measured iteration takes {} ms {} than the simulated one; ",
                                 ms(std::abs(longer_s)), is_longer ? "more" : "less");
  text += fmt::format("{} accounts for {} ms", parts[0].name, ms(change_s(parts[0])));
  // Names a second part, and the part that compensates most, if over 10 % of the difference.
  const TimePart &second = parts[1], &opposite = parts.back();
  if (change_s(second) > 0.1 * std::abs(longer_s))
    text += fmt::format(", {} for {} ms", second.name, ms(change_s(second)));
  if (change_s(opposite) < -0.1 * std::abs(longer_s))
    text += fmt::format("; {} takes {} ms {}", opposite.name, ms(-change_s(opposite)),
                        is_longer ? "less" : "more");
  return text + ".\n";
}

// Returns the file and the engine or backend that made it: "m.csv (host; real: communication)".
std::string file_and_engine(const TraceTotal& side) {
  std::string engine = "unknown", real;
  for (const auto& [key, value] : side.meta) {
    if (key == "engine" || key == "backend") engine = value;
    if (key == "real" && !value.starts_with("nothing")) real = "; real: " + value;
  }
  return fmt::format("{} ({}{})", side.path, engine, real);
}

}  // namespace

std::string comparison_table(const Comparison& comparison, int width) {
  std::string text =
      wrapped(fmt::format("simulated  {}\nmeasured   {}\n\n", file_and_engine(comparison.simulated),
                          file_and_engine(comparison.measured)),
              width);
  for (const std::string& table : {parts_table(comparison, width), kinds_table(comparison, width),
                                   ranks_table(comparison, width)})
    text += table + '\n';
  if (!comparison.worst.empty()) text += worst_ops_table(comparison, width) + '\n';
  return text + wrapped(sentence(comparison), width);
}

}  // namespace tandem
