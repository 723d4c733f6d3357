#include "report/text/profile_comparison_table.h"

#include <fmt/format.h>

#include "report/text/number_cells.h"

namespace tandem {
namespace {

std::string ms_or_none(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.3f}", 1e3 * *seconds) : "-";
}

std::string compared_values(const ProfileComparison& comparison, int width) {
  std::vector<Cells> rows;
  for (const ComparedValue& value : comparison.values) {
    if (value.is_share) {
      const auto difference = value.simulated && value.measured
                                  ? std::optional(*value.simulated - *value.measured)
                                  : std::nullopt;
      rows.push_back({value.name + " %", percent(value.simulated), percent(value.measured),
                      signed_percent(difference)});
    } else {
      const double difference = value.simulated.value_or(0) - value.measured.value_or(0);
      rows.push_back({value.name + " ms", ms_or_none(value.simulated), ms_or_none(value.measured),
                      ms_difference(difference),
                      signed_percent(relative_error(value.simulated, value.measured))});
    }
  }
  return laid_out({{"a step, mean of ranks", Place::Name},
                   {"simulated", Place::First},
                   {"measured", Place::First},
                   {"difference", Place::First},
                   {"error %", Place::First}},
                  rows, width);
}

std::string compared_comms(const ProfileComparison& comparison, int width) {
  std::vector<Cells> rows;
  const auto count = [](const std::optional<CommTotal>& comm) {
    return comm ? fmt::format("{}", comm->count) : "-";
  };
  const auto seconds = [](const std::optional<CommTotal>& comm) {
    return comm ? std::optional(to_seconds(comm->time_ns)) : std::nullopt;
  };
  const auto bus = [](const std::optional<CommTotal>& comm) {
    return comm && comm->sized_ns > 0 ? fmt::format("{:.1f}", 1e-9 * comm->bus_bytes_per_s()) : "-";
  };
  for (const ComparedComm& comm : comparison.comms)
    rows.push_back({comm.label.text(), count(comm.simulated), count(comm.measured),
                    ms_or_none(seconds(comm.simulated)), ms_or_none(seconds(comm.measured)),
                    signed_percent(relative_error(seconds(comm.simulated), seconds(comm.measured))),
                    bus(comm.simulated), bus(comm.measured)});
  if (rows.empty()) return "";
  return laid_out({{"communication of a rank", Place::Name},
                   {"count: simulated"},
                   {"measured", Place::Beside},
                   {"ms: simulated", Place::First},
                   {"measured", Place::Beside},
                   {"error %", Place::Beside},
                   {"busbw GB/s: simulated"},
                   {"measured", Place::Beside}},
                  rows, width);
}

std::string compared_phases(const ProfileComparison& comparison, int width) {
  std::vector<Cells> rows;
  for (const ComparedPhase& phase : comparison.phases)
    rows.push_back({std::string(phase_name(phase.phase)),
                    phase.stage < 0 ? "-" : fmt::format("{}", phase.stage),
                    ms_or_none(phase.simulated_s), ms_or_none(phase.measured_s),
                    signed_percent(relative_error(phase.simulated_s, phase.measured_s)),
                    ms_or_none(phase.simulated_pass_s), ms_or_none(phase.measured_pass_s),
                    signed_percent(relative_error(phase.simulated_pass_s, phase.measured_pass_s))});
  if (rows.empty()) return "";
  return laid_out({{"compute of", Place::Name},
                   {"stage", Place::First},
                   {"ms a rank: simulated", Place::First},
                   {"measured", Place::Beside},
                   {"error %", Place::Beside},
                   {"ms a pass: simulated", Place::First},
                   {"measured", Place::Beside},
                   {"error %", Place::Beside}},
                  rows, width);
}

// Writes the splits of the measured ranks as Holistic Trace Analysis computes them.
std::string measured_ranks(const ProfileComparison& comparison, int width) {
  constexpr std::size_t most = 16;  // rows; JSON has all ranks
  std::vector<Cells> rows;
  const std::vector<ProfileSplit>& splits = comparison.measured.hta_splits;
  for (std::size_t i = 0; i < splits.size() && i < most; ++i) {
    const ProfileSplit& split = splits[i];
    rows.push_back({fmt::format("{}", split.rank), ms_or_none(to_seconds(split.span_ns)),
                    ms_or_none(to_seconds(split.idle_ns)), percent(split.idle_fraction()),
                    ms_or_none(to_seconds(split.communication_ns)),
                    percent(split.overlap_fraction())});
  }
  std::string text = laid_out({{"measured rank", Place::Name},
                               {"span ms", Place::First},
                               {"idle ms", Place::First},
                               {"%", Place::Beside},
                               {"comm ms", Place::First},
                               {"overlapped %", Place::Beside}},
                              rows, width);
  if (splits.size() > most) text += fmt::format("{} of {} ranks.\n", most, splits.size());
  return text;
}

std::string side_line(const ComparedSide& side) {
  std::string text = fmt::format("{} ({}), {} rank{}", side.path, side.by, side.splits.size(),
                                 side.splits.size() == 1 ? "" : "s");
  if (side.window.steps > 1) text += fmt::format(", {} steps", side.window.steps);
  return text;
}

}  // namespace

std::string profile_comparison_table(const ProfileComparison& comparison, int width) {
  std::string text =
      wrapped(fmt::format("simulated  {}\nmeasured   {}\n\n", side_line(comparison.simulated),
                          side_line(comparison.measured)),
              width);
  for (const std::string& table :
       {compared_values(comparison, width), compared_comms(comparison, width),
        compared_phases(comparison, width), measured_ranks(comparison, width)}) {
    if (!table.empty()) text += table + '\n';
  }
  for (const std::string& note : comparison.notes) text += wrapped(note + '\n', width);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace tandem
