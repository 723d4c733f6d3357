// Takes the stretches that traces/metrics.h splits an iteration into, and adds up their parts in
// each column.
#include "traces/timeline_strip.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/check.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

constexpr std::size_t kRowsMost = 64;

// Chooses one rank, the first, for each set of stages that ranks compute, and every rank without
// stages. Returns numbers into trace.ranks, ordered by rank.
std::vector<std::size_t> one_a_pipeline_rank(const Program& program, const Trace& trace) {
  std::vector<std::size_t> chosen;
  std::set<std::set<int>> seen;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    std::set<int> stages = computed_stages(program.bodies[trace.ranks[r].body]);
    if (stages.empty() || seen.insert(std::move(stages)).second) chosen.push_back(r);
  }
  std::sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
    return index(trace.ranks[a].rank) < index(trace.ranks[b].rank);
  });
  return chosen;
}

// Adds to each column the part of the span that lies in it.
void add_span(const SplitSpan& span, const TimelineStrip& strip, TimelineStrip::Row* row) {
  const auto columns = static_cast<int>(row->cells.size());
  // Rounding may give the column after the one where the span begins: start one earlier.
  int column = static_cast<int>(static_cast<double>(span.begin_ns) /
                                static_cast<double>(strip.iteration_ns) * columns);
  column = std::clamp(column - 1, 0, columns - 1);
  // Returns iteration_ns * c / columns, rounded down in a way that does not overflow.
  const auto begin_of = [&](int c) {
    return strip.iteration_ns / columns * c + strip.iteration_ns % columns * c / columns;
  };
  for (; column < columns && begin_of(column) < span.end_ns; ++column) {
    const Nanoseconds part =
        std::min(span.end_ns, begin_of(column + 1)) - std::max(span.begin_ns, begin_of(column));
    if (part <= 0) continue;
    TimelineStrip::Cell& cell = row->cells[column];
    (span.exposed ? cell.exposed_ns[static_cast<int>(span.group_kind)]
                  : cell.compute_ns[static_cast<int>(drawn_as(span.kind))]) += part;
  }
}

}  // namespace

TimelineStrip timeline_strip(const Program& program, const Trace& trace, int columns) {
  CHECK(columns > 0);
  std::vector<std::size_t> chosen = one_a_pipeline_rank(program, trace);
  TimelineStrip strip;
  if (chosen.size() > kRowsMost) {
    strip.left_out = static_cast<int>(chosen.size() - kRowsMost);
    chosen.resize(kRowsMost);
  }
  const SplitSpans spans = split_spans(program, trace, chosen);
  strip.iteration_ns = spans.iteration_ns;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    TimelineStrip::Row& row = strip.rows.emplace_back();
    row.rank = index(trace.ranks[chosen[i]].rank);
    row.cells.resize(static_cast<std::size_t>(columns));
    for (const SplitSpan& span : spans.ranks[i]) add_span(span, strip, &row);
  }
  return strip;
}

std::string to_json(const TimelineStrip& strip) {
  nlohmann::json json = {{"iteration_ns", strip.iteration_ns}, {"left_out", strip.left_out}};
  json["rows"] = nlohmann::json::array();
  for (const TimelineStrip::Row& row : strip.rows) {
    nlohmann::json cells = nlohmann::json::array();
    for (const TimelineStrip::Cell& cell : row.cells)
      cells.push_back({cell.compute_ns, cell.exposed_ns});
    json["rows"].push_back({{"rank", row.rank}, {"cells", std::move(cells)}});
  }
  return json.dump();
}

TimelineStrip timeline_strip_from_json(const nlohmann::json& json) {
  TimelineStrip strip;
  json.at("iteration_ns").get_to(strip.iteration_ns);
  json.at("left_out").get_to(strip.left_out);
  for (const nlohmann::json& from : json.at("rows")) {
    TimelineStrip::Row& row = strip.rows.emplace_back();
    from.at("rank").get_to(row.rank);
    for (const nlohmann::json& cell : from.at("cells")) {
      TimelineStrip::Cell& to = row.cells.emplace_back();
      cell.at(0).get_to(to.compute_ns);
      cell.at(1).get_to(to.exposed_ns);
    }
  }
  return strip;
}

}  // namespace tandem
