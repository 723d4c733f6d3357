#include "report/comparison_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/table.h"

namespace tandem {
namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t kMostRanks = 16;  // in the table; JSON has all

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }
// Never "-0.000".
std::string ms_difference(double seconds) {
  return std::abs(seconds) < 0.5e-6 ? "0.000" : fmt::format("{:+.3f}", 1e3 * seconds);
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : "-";
}

std::string percent_difference(const std::optional<double>& share) {
  if (!share) return "-";
  return std::abs(*share) < 0.0005 ? "0.0" : fmt::format("{:+.1f}", 100 * *share);
}

std::optional<double> error(double simulated, double measured) {
  return measured > 0 ? std::optional(simulated / measured - 1) : std::nullopt;
}

// A part of the iteration; all add up to it.
struct Part {
  std::string name;
  double simulated_s = 0;
  double measured_s = 0;

  double longer_s() const { return measured_s - simulated_s; }
};

std::vector<Part> parts_of(const Comparison& comparison) {
  const Metrics &simulated = comparison.simulated.metrics, &measured = comparison.measured.metrics;
  std::vector<Part> parts = {{"compute", simulated.compute_s, measured.compute_s},
                             {"bubble", simulated.bubble_s, measured.bubble_s}};
  for (int i = 0; i < kScopes; ++i) {
    if (comparison.exposed_difference_s[i])
      parts.push_back({fmt::format("exposed {} communication", name(static_cast<Scope>(i))),
                       simulated.exposed_s[i], measured.exposed_s[i]});
  }
  return parts;
}

std::string totals(const Comparison& comparison) {
  const Metrics &simulated = comparison.simulated.metrics, &measured = comparison.measured.metrics;
  std::vector<Cells> rows = {{"", "simulated", "measured", "difference", "error %"}};
  const auto add = [&rows](const Part& part) {
    rows.push_back({part.name + " ms", ms(part.simulated_s), ms(part.measured_s),
                    ms_difference(-part.longer_s()),
                    percent_difference(error(part.simulated_s, part.measured_s))});
  };
  add({"iteration", simulated.iteration_s, measured.iteration_s});
  for (const Part& part : parts_of(comparison)) add(part);
  rows.push_back({"bubble %", percent(simulated.bubble_fraction), percent(measured.bubble_fraction),
                  percent_difference(comparison.bubble_difference)});
  for (int i = 0; i < kScopes; ++i) {
    if (simulated.overlap_fraction[i] || measured.overlap_fraction[i])
      rows.push_back({fmt::format("overlapped {} communication %", name(static_cast<Scope>(i))),
                      percent(simulated.overlap_fraction[i]), percent(measured.overlap_fraction[i]),
                      percent_difference(comparison.overlap_difference[i])});
  }
  return aligned(rows, 1);
}

std::string kinds(const Comparison& comparison) {
  std::vector<Cells> rows = {{"ops", "count", "simulated ms", "measured ms", "error %",
                              "median |error| %", "worst |error| %"}};
  const auto add = [&rows](std::string_view what, const OpsSummary& ops) {
    rows.push_back({std::string(what), fmt::format("{}", ops.count), ms(ops.simulated_s),
                    ms(ops.measured_s), percent_difference(error(ops.simulated_s, ops.measured_s)),
                    percent(ops.median_error), percent(ops.worst_error)});
  };
  for (const auto& [kind, ops] : comparison.kinds) add(name(kind), ops);
  if (comparison.kinds.size() > 1) add("all", comparison.ops);
  std::string text = aligned(rows, 1);
  if (const auto without = comparison.ops.count - comparison.ops.with_error; without > 0)
    text += fmt::format("{} of them were measured shorter than {} ns and have no |error|.\n",
                        without, kLeastMeasured_ns);
  return text;
}

double exposed_s(const RankSplit& split) {
  return to_seconds(
      std::accumulate(split.exposed_ns.begin(), split.exposed_ns.end(), Nanoseconds{0}));
}

// The numbers of the ranks in the table, by rank: those that differ most, where there are many.
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

std::string ranks(const Comparison& comparison) {
  const std::vector<RankSplit>& simulated = comparison.simulated.metrics.ranks;
  const std::vector<RankSplit>& measured = comparison.measured.metrics.ranks;
  std::vector<Cells> rows = {{"rank", "compute ms: simulated", "measured", "bubble ms: simulated",
                              "measured", "exposed ms: simulated", "measured"}};
  for (const std::size_t i : ranks_shown(simulated, measured)) {
    const RankSplit &a = simulated[i], &b = measured[i];
    rows.push_back({fmt::format("{}", index(a.rank)), ms(to_seconds(a.compute_ns)),
                    ms(to_seconds(b.compute_ns)), ms(to_seconds(a.bubble_ns)),
                    ms(to_seconds(b.bubble_ns)), ms(exposed_s(a)), ms(exposed_s(b))});
  }
  std::string text = aligned(rows, 1);
  if (simulated.size() > kMostRanks)
    text += fmt::format("{} of {} ranks: those that differ most.\n", kMostRanks, simulated.size());
  return text;
}

std::string worst(const Comparison& comparison) {
  std::vector<Cells> rows = {{"worst ops", "lane", "kind", "stage", "microbatch", "part",
                              "simulated ms", "measured ms", "difference ms", "error %"}};
  const auto number = [](int value) { return value < 0 ? "-" : fmt::format("{}", value); };
  for (const OpPair& pair : comparison.worst)
    rows.push_back(
        {fmt::format("rank {} op {}", index(pair.rank), pair.op), pair.lane,
         std::string(name(pair.kind)), number(pair.stage), number(pair.microbatch),
         number(pair.part), ms(to_seconds(pair.simulated_ns)), ms(to_seconds(pair.measured_ns)),
         ms_difference(to_seconds(pair.difference_ns())), percent_difference(pair.error())});
  return aligned(rows, 3);
}

// What the measured iteration has more or less, and which parts account for it.
std::string sentence(const Comparison& comparison) {
  const double longer_s =
      comparison.measured.metrics.iteration_s - comparison.simulated.metrics.iteration_s;
  if (std::abs(longer_s) < 0.5e-6)
    return fmt::format("Both iterations take {} ms.\n",
                       ms(comparison.measured.metrics.iteration_s));
  const double sign = longer_s > 0 ? 1 : -1;
  std::vector<Part> parts = parts_of(comparison);
  std::stable_sort(parts.begin(), parts.end(), [sign](const Part& a, const Part& b) {
    return sign * a.longer_s() > sign * b.longer_s();
  });
  std::string text = fmt::format("The measured iteration takes {} ms {} than the simulated one; ",
                                 ms(std::abs(longer_s)), sign > 0 ? "more" : "less");
  text += fmt::format("{} accounts for {} ms", parts[0].name, ms(sign * parts[0].longer_s()));
  // The next one where it counts, and one that goes the other way.
  const Part &next = parts[1], &other = parts.back();
  if (sign * next.longer_s() > 0.1 * std::abs(longer_s))
    text += fmt::format(", {} for {} ms", next.name, ms(sign * next.longer_s()));
  if (sign * other.longer_s() < -0.1 * std::abs(longer_s))
    text += fmt::format("; {} takes {} ms {}", other.name, ms(-sign * other.longer_s()),
                        sign > 0 ? "less" : "more");
  return text + ".\n";
}

// The file, and who made it: "m.csv (host; real: communication)".
std::string maker(const TraceTotal& side) {
  std::string engine = "unknown", real;
  for (const auto& [key, value] : side.meta) {
    if (key == "engine" || key == "backend") engine = value;
    if (key == "real" && !value.starts_with("nothing")) real = "; real: " + value;
  }
  return fmt::format("{} ({}{})", side.path, engine, real);
}

}  // namespace

std::string comparison_table(const Comparison& comparison) {
  std::string text = fmt::format("simulated  {}\nmeasured   {}\n\n", maker(comparison.simulated),
                                 maker(comparison.measured));
  for (const std::string& table : {totals(comparison), kinds(comparison), ranks(comparison)})
    text += table + '\n';
  if (!comparison.worst.empty()) text += worst(comparison) + '\n';
  return text + sentence(comparison);
}

}  // namespace tandem
