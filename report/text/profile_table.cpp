// Writes the tables of a profile. Times of communication and passes are divided by the ranks that
// have some, times of kernels by all ranks; counts are sums.
#include "report/text/profile_table.h"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/text/number_cells.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/profile_notes.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

std::string profile_ms(double ns) { return fmt::format("{:.3f}", 1e-6 * ns); }
std::string profile_ms(Nanoseconds ns) { return profile_ms(static_cast<double>(ns)); }

double share(Nanoseconds part, Nanoseconds whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// A total over ranks, and how many ranks have some. A rank that stands for several counts once.
template <class Total>
struct Summed {
  Total total;
  int ranks = 0;
};

std::map<CommLabel, Summed<CommTotal>> comms_by_label(const std::vector<ProfileSplit>& splits) {
  std::map<CommLabel, Summed<CommTotal>> sums;
  for (const ProfileSplit& split : splits) {
    for (const CommTotal& comm : split.comms) {
      auto& [total, ranks] = sums[comm.label];
      total.label = comm.label;
      for (std::int64_t CommTotal::*number :
           {&CommTotal::count, &CommTotal::time_ns, &CommTotal::overlap_ns, &CommTotal::exposed_ns,
            &CommTotal::waiting_ns, &CommTotal::sized, &CommTotal::sized_ns})
        total.*number += comm.*number;
      total.bytes += comm.bytes;
      total.bus_bytes += comm.bus_bytes;
      ++ranks;
    }
  }
  return sums;
}

// Adds up one of the ranks' lists of totals by name; the longest come first.
std::vector<KernelTotal> kernels_by_name(const std::vector<ProfileSplit>& splits,
                                         std::vector<KernelTotal> ProfileSplit::*list) {
  std::map<std::string, KernelTotal> sums;
  for (const ProfileSplit& split : splits) {
    for (const KernelTotal& kernel : split.*list) {
      KernelTotal& sum = sums[kernel.name];
      sum.name = kernel.name;
      sum.count += kernel.count;
      sum.time_ns += kernel.time_ns;
    }
  }
  std::vector<KernelTotal> totals;
  for (auto& [name, sum] : sums) totals.push_back(std::move(sum));
  std::ranges::stable_sort(totals, std::greater<>(), &KernelTotal::time_ns);
  return totals;
}

std::string counted_ranks(std::size_t ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

// Names the annotations that mark the steps.
std::string_view step_annotations(const Profile& profile) {
  for (const ProfileRank& rank : profile.ranks) {
    if (!rank.steps.empty())
      return rank.names.text(rank.steps.front().name).starts_with("ProfilerStep") ? "ProfilerStep"
                                                                                  : "NVTX ranges";
  }
  return "";
}

std::string steps_text(const ProfileReport& report) {
  const ProfileWindow& window = report.window;
  const auto steps = fmt::format("{} step{}", window.steps, window.steps == 1 ? "" : "s");
  switch (window.by) {
    case StepsBy::ProfilerStep:
      return fmt::format("{} by {}, without the last one", steps,
                         step_annotations(*report.profile));
    case StepsBy::Repetition:
      return steps + ": the kernels repeat so often, and no ProfilerStep says";
    case StepsBy::Whole:
      return "the whole profile, as one step";
  }
  return "";
}

// Says what was profiled, which steps count, and how long a step takes.
std::string first_line(const ProfileReport& report) {
  const std::vector<ProfileRank>& ranks = report.profile->ranks;
  std::set<std::string> devices, profilers;
  int world = 0;
  for (const ProfileRank& rank : ranks) {
    if (!rank.device.empty()) devices.insert(rank.device);
    profilers.insert(rank.profiler);
    world = std::max(world, rank.world);
  }
  std::string text =
      fmt::format("{} of {}{}", fmt::join(profilers, ", "), counted_ranks(ranks.size()),
                  world > 0 ? fmt::format(" (of {})", world) : "");
  if (!devices.empty()) text += fmt::format(" on {}", fmt::join(devices, ", "));
  Nanoseconds step_ns = 0;
  for (const ProfileSplit& split : report.splits) step_ns = std::max(step_ns, split.step_ns);
  return fmt::format(
      "{}; {}; a step takes {} ms {}.\n", text, steps_text(report),
      profile_ms(step_ns / report.window.steps),
      is_on_one_clock(*report.profile) ? "over all ranks" : "at most by a rank's own clock");
}

// Returns the means of the numbers that the table of ranks shows.
ProfileSplit mean_of(const std::vector<ProfileSplit>& splits) {
  ProfileSplit mean;
  const auto ranks = static_cast<std::int64_t>(splits.size());
  for (std::int64_t ProfileSplit::*number :
       {&ProfileSplit::kernels, &ProfileSplit::span_ns, &ProfileSplit::compute_ns,
        &ProfileSplit::communication_ns, &ProfileSplit::overlap_ns, &ProfileSplit::memory_alone_ns,
        &ProfileSplit::idle_ns, &ProfileSplit::exposed_ns, &ProfileSplit::step_ns,
        &ProfileSplit::bubble_ns}) {
    for (const ProfileSplit& split : splits) mean.*number += split.*number;
    mean.*number /= ranks;
  }
  return mean;
}

Cells rank_cells(const std::string& name, const ProfileSplit& split) {
  const auto percent_of_span = [&](Nanoseconds part) {
    return percent(share(part, split.span_ns));
  };
  return {name,
          fmt::format("{}", split.kernels),
          profile_ms(split.span_ns),
          profile_ms(split.compute_ns),
          percent_of_span(split.compute_ns),
          profile_ms(split.exposed_ns),
          percent_of_span(split.exposed_ns),
          profile_ms(split.memory_alone_ns),
          percent_of_span(split.memory_alone_ns),
          profile_ms(split.idle_ns),
          percent_of_span(split.idle_ns),
          profile_ms(split.communication_ns),
          percent(split.overlap_fraction()),
          profile_ms(split.bubble_ns),
          percent(share(split.bubble_ns, split.step_ns))};
}

std::string rank_table(const ProfileReport& report, int width) {
  std::vector<Cells> rows;
  for (const ProfileSplit& split : report.splits)
    rows.push_back(rank_cells(fmt::format("{}", split.rank), split));
  if (rows.size() > 1) rows.push_back(rank_cells("mean", mean_of(report.splits)));
  return laid_out({{"rank", Place::Name},
                   {"kernels"},
                   {"span ms", Place::First},
                   {"compute ms", Place::First},
                   {"%", Place::Beside},
                   {"exposed comm ms", Place::First},
                   {"%", Place::Beside},
                   {"copies alone ms"},
                   {"%", Place::Beside},
                   {"idle ms", Place::First},
                   {"%", Place::Beside},
                   {"comm ms", Place::First},
                   {"overlapped %", Place::Beside},
                   {"bubble of the step ms", Place::Second},
                   {"%", Place::Beside}},
                  rows, width);
}

std::string communication_table(const ProfileReport& report, int width) {
  std::vector<Cells> rows;
  for (const auto& [label, sum] : comms_by_label(report.splits)) {
    const CommTotal& comm = sum.total;  // its size is known for `sized` of `count`
    const std::string none = "-";
    rows.push_back(
        {label.text(), fmt::format("{}", comm.count),
         profile_ms(static_cast<double>(comm.time_ns) / sum.ranks),
         percent(share(comm.overlap_ns, comm.time_ns)),
         profile_ms(static_cast<double>(comm.exposed_ns) / sum.ranks),
         comm.waiting_ns > 0 ? profile_ms(static_cast<double>(comm.waiting_ns) / sum.ranks) : none,
         comm.sized > 0 ? fmt::format("{:.1f}", 1e-6 * comm.bytes / static_cast<double>(comm.sized))
                        : none,
         comm.sized_ns > 0 ? fmt::format("{:.1f}", 1e-9 * comm.bus_bytes_per_s()) : none});
  }
  if (rows.empty()) return "";
  return laid_out({{"communication", Place::Name},
                   {"count", Place::First},
                   {"ms a rank", Place::First},
                   {"overlapped %", Place::First},
                   {"exposed ms", Place::First},
                   {"waiting ms", Place::Second},
                   {"MB each", Place::First},
                   {"busbw GB/s", Place::First}},
                  rows, width);
}

// Returns compute by pass (forward, backward, ...) and stage. Empty: the profile tells none apart.
std::string pass_table(const ProfileReport& report, int width) {
  struct Row {
    PhaseTotal total;
    int ranks = 0;
    std::vector<Nanoseconds> medians_ns;  // of one pass, by rank
  };
  std::map<std::pair<PassPhase, int>, Row> rows_by_phase;
  for (const ProfileSplit& split : report.splits) {
    for (const PhaseTotal& phase : split.phases) {
      Row& row = rows_by_phase[{phase.phase, phase.stage}];
      row.total.time_ns += phase.time_ns;
      row.total.passes += phase.passes;
      if (phase.passes > 0) row.medians_ns.push_back(phase.median_ns);
      ++row.ranks;
    }
  }
  const auto is_known = [](const auto& row) { return row.first.first != PassPhase::Unknown; };
  if (rows_by_phase.size() <= 1 && std::ranges::none_of(rows_by_phase, is_known)) return "";
  std::vector<Cells> rows;
  for (auto& [key, row] : rows_by_phase) {
    const auto& [phase, stage] = key;
    std::ranges::sort(row.medians_ns);
    rows.push_back({std::string(phase == PassPhase::Unknown ? "not told" : phase_name(phase)),
                    stage < 0 ? "-" : fmt::format("{}", stage),
                    profile_ms(static_cast<double>(row.total.time_ns) / row.ranks),
                    row.total.passes > 0 ? fmt::format("{}", row.total.passes) : "-",
                    row.medians_ns.empty()
                        ? "-"
                        : profile_ms(row.medians_ns[(row.medians_ns.size() - 1) / 2])});
  }
  return laid_out({{"compute of", Place::Name},
                   {"stage", Place::First},
                   {"ms a rank", Place::First},
                   {"passes", Place::First},
                   {"ms a pass (median)", Place::First}},
                  rows, width);
}

constexpr auto kAllKernels = std::numeric_limits<std::size_t>::max();

// Returns the first `most` totals, a row each.
std::string kernel_totals_table(const std::string& title, const std::vector<KernelTotal>& totals,
                                std::size_t most, std::size_t ranks, int width) {
  Nanoseconds all_ns = 0;
  for (const KernelTotal& total : totals) all_ns += total.time_ns;
  std::vector<Cells> rows;
  for (std::size_t i = 0; i < totals.size() && i < most; ++i) {
    const KernelTotal& total = totals[i];
    rows.push_back({short_name(total.name), fmt::format("{}", total.count),
                    profile_ms(static_cast<double>(total.time_ns) / static_cast<double>(ranks)),
                    percent(share(total.time_ns, all_ns)),
                    fmt::format("{:.1f}", 1e-3 * static_cast<double>(total.time_ns) /
                                              static_cast<double>(total.count))});
  }
  return laid_out({{title, Place::Name},
                   {"count", Place::First},
                   {"ms a rank", Place::First},
                   {"%", Place::First},
                   {"us each", Place::First}},
                  rows, width);
}

// Warns of short kernels, and of what the profile does not record.
std::string missing_notes(const ProfileReport& report) {
  std::string text;
  std::int64_t below_1us = 0, kernels = 0, comms_with_arguments = 0, comms = 0;
  bool any_phase_known = false;
  for (const ProfileSplit& split : report.splits) {
    below_1us += split.below_us;
    kernels += split.kernels + split.copies;
    for (const CommTotal& comm : split.comms) {
      comms_with_arguments += comm.with_arguments;
      comms += comm.count;
    }
    for (const PhaseTotal& phase : split.phases)
      any_phase_known |= phase.phase != PassPhase::Unknown;
  }
  if (report.view.as_hta)
    text +=
        "As Holistic Trace Analysis computes it: starts rounded up and ends down to whole us, "
        "communication by the names that it knows.\n";
  if (below_1us > 0)
    text +=
        fmt::format("{} of {} kernels and copies are shorter than 1 us{}.\n", below_1us, kernels,
                    report.view.as_hta ? " and may vanish here"
                                       : "; Holistic Trace Analysis drops what rounds to nothing");
  if (comms > 0 && comms_with_arguments == 0)
    text +=
        "The profile does not tell the sizes of collectives, nor whose they are: no bytes, no "
        "bandwidth, no waiting for peers.\n";
  if (!any_phase_known)
    text +=
        "The profile does not tell forward from backward: it has no annotations of passes, "
        "and no calls of autograd's threads.\n";
  return text;
}

// Warns if steps marked by ProfilerStep begin at other distances than the time of the first line.
std::string step_distance_note(const ProfileReport& report) {
  if (report.window.by != StepsBy::ProfilerStep) return "";
  const ProfileRank& first = report.profile->ranks.front();
  const StepsBeside beside = steps_beside(first);
  const Nanoseconds step_ns = report.splits.front().step_ns / report.window.steps;
  const bool differs = std::abs(beside.every_ns - step_ns) > beside.every_ns / 50;  // by over 2 %
  if (beside.every_ns <= 0 || !differs) return "";
  return fmt::format(
      "Rank {}'s steps begin every {} ms{}: the first line's time is the span over their "
      "number.\n",
      first.rank, profile_ms(beside.every_ns),
      beside.overlap_ns > 0
          ? fmt::format(", and overlap by up to {} ms", profile_ms(beside.overlap_ns))
          : "");
}

// Warns if the profile, taken as one step, may be several: its optimizer ran so often.
std::string unmarked_steps_note(const ProfileReport& report) {
  const ProfileRank& first = report.profile->ranks.front();
  if (report.window.by != StepsBy::Whole || !first.steps.empty()) return "";
  const int rounds = optimizer_rounds(first);
  if (rounds <= 1) return "";
  return fmt::format(
      "The optimizer ran {} times, each time behind a backward, and no ProfilerStep says where "
      "steps begin: the one step may be so many.\n",
      rounds);
}

std::string clock_notes(const ProfileReport& report) {
  std::string text;
  for (const ProfileRank& rank : report.profile->ranks) {
    if (rank.clock_shift_ns != 0 && rank.clock_set == 0)  // 0: it is on the first rank's clock
      text += fmt::format(
          "Rank {}'s clock was moved by {:+.3f} us, to end collectives and transfers with rank "
          "{}'s.\n",
          rank.rank, 1e-3 * static_cast<double>(rank.clock_shift_ns),
          report.profile->ranks.front().rank);
  }
  return text;
}

// Warns of what the reader could wrongly take for granted.
std::string notes_of(const ProfileReport& report) {
  std::string text =
      missing_notes(report) + step_distance_note(report) + unmarked_steps_note(report);
  for (const std::string& note : profile_notes(*report.profile)) text += note + '\n';
  return text + clock_notes(report);
}

Json json_ns(Nanoseconds ns) { return to_seconds(ns); }

Json json_of(const CommTotal& comm) {
  return {{"kind", comm.label.kind ? Json(std::string(group_kind_name(*comm.label.kind))) : Json()},
          {"collective", comm.label.collective},
          {"count", comm.count},
          {"s", json_ns(comm.time_ns)},
          {"overlapped_s", json_ns(comm.overlap_ns)},
          {"exposed_s", json_ns(comm.exposed_ns)},
          {"waiting_s", json_ns(comm.waiting_ns)},
          {"bytes", comm.sized > 0 ? Json(comm.bytes) : Json()},
          {"busbw_GBps", comm.sized_ns > 0 ? Json(1e-9 * comm.bus_bytes_per_s()) : Json()}};
}

Json json_of(const std::vector<KernelTotal>& totals, std::size_t most) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < totals.size() && i < most; ++i)
    rows.push_back(
        {{"name", totals[i].name}, {"count", totals[i].count}, {"s", json_ns(totals[i].time_ns)}});
  return rows;
}

Json json_of(const ProfileRank& rank, const ProfileSplit& split, std::size_t most) {
  const auto overlap = split.overlap_fraction();
  Json json{{"rank", split.rank},
            {"stands_for", split.multiplicity},
            {"file", rank.path},
            {"kernels", split.kernels},
            {"copies", split.copies},
            {"below_1us", split.below_us},
            {"clock_shift_s", json_ns(rank.clock_shift_ns)},
            {"clock_aligned", rank.clock_set == 0},
            {"span_s", json_ns(split.span_ns)},
            {"compute_s", json_ns(split.compute_ns)},
            {"comm_s", json_ns(split.communication_ns)},
            {"exposed_s", json_ns(split.exposed_ns)},
            {"step_s", json_ns(split.step_ns)},
            {"bubble_s", json_ns(split.bubble_ns)},
            {"bubble_fraction", share(split.bubble_ns, split.step_ns)},
            {"memory_alone_s", json_ns(split.memory_alone_ns)},
            {"idle_s", json_ns(split.idle_ns)},
            {"idle_fraction", split.idle_fraction()},
            {"overlap_fraction", overlap ? Json(*overlap) : Json()},
            {"waiting_s", json_ns(split.waiting_ns)}};
  json["communication"] = Json::array();
  for (const CommTotal& comm : split.comms) json["communication"].push_back(json_of(comm));
  json["kinds"] = Json::array();
  for (const CommTotal& kind : split.kinds) json["kinds"].push_back(json_of(kind));
  json["passes"] = Json::array();
  for (const PhaseTotal& phase : split.phases)
    json["passes"].push_back({{"phase", std::string(phase_name(phase.phase))},
                              {"stage", phase.stage},
                              {"s", json_ns(phase.time_ns)},
                              {"passes", phase.passes},
                              {"median_s", phase.passes > 0 ? json_ns(phase.median_ns) : Json()}});
  json["categories"] = json_of(split.categories, split.categories.size());
  json["kernels_longest"] = json_of(split.names, most);
  return json;
}

}  // namespace

std::string profile_table(const ProfileReport& report, std::size_t most, int width) {
  std::string text = wrapped(first_line(report), width) + '\n' + rank_table(report, width) + '\n';
  const std::size_t ranks = report.splits.size();
  for (const std::string& table :
       {communication_table(report, width), pass_table(report, width),
        kernel_totals_table("compute by kind",
                            kernels_by_name(report.splits, &ProfileSplit::categories), kAllKernels,
                            ranks, width),
        kernel_totals_table("longest kernels", kernels_by_name(report.splits, &ProfileSplit::names),
                            most, ranks, width)}) {
    if (!table.empty()) text += table + '\n';
  }
  text += wrapped(notes_of(report), width);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

Json to_json(const ProfileReport& report, std::size_t most) {
  constexpr std::string_view kNames[] = {"whole", "profiler_step", "repetition"};  // of StepsBy
  Json json{{"steps", report.window.steps},
            {"steps_by", std::string(kNames[static_cast<std::size_t>(report.window.by)])},
            {"as_hta", report.view.as_hta}};
  json["ranks"] = Json::array();
  for (std::size_t i = 0; i < report.splits.size(); ++i)
    json["ranks"].push_back(json_of(report.profile->ranks[i], report.splits[i], most));
  json["notes"] = profile_notes(*report.profile);
  return json;
}

}  // namespace tandem
