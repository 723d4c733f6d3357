// Averages both sides' splits (ProfileSplit) over ranks and steps, and pairs the means: figures by
// name, communication by label, passes by phase and stage.
#include "validation/compare/profile_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/quantile.h"
#include "results/field_table.h"

namespace tandem {
namespace {

// Means over ranks of one side. A rank counts as often as the ranks that it stands for; seconds are
// of one step.
struct Means {
  explicit Means(const ComparedSide& from) : side(from) {
    for (const ProfileSplit& split : side.splits) ranks += split.multiplicity;
  }

  template <class Get>
  double mean(const Get& get) const {
    double sum = 0;
    for (const ProfileSplit& split : side.splits) sum += split.multiplicity * get(split);
    return sum / ranks;
  }
  double seconds(Nanoseconds ProfileSplit::*part) const {
    return mean([&](const ProfileSplit& split) { return to_seconds(split.*part); }) /
           side.window.steps;
  }
  double share(Nanoseconds ProfileSplit::*part, Nanoseconds ProfileSplit::*whole) const {
    return mean([&](const ProfileSplit& split) {
      return split.*whole > 0 ? static_cast<double>(split.*part) / static_cast<double>(split.*whole)
                              : 0;
    });
  }

  const ComparedSide& side;
  double ranks = 0;
};

using CommsByLabel = std::map<CommLabel, CommTotal>;

constexpr std::int64_t CommTotal::*kMeanNumbers[] = {
    &CommTotal::count, &CommTotal::time_ns, &CommTotal::overlap_ns, &CommTotal::exposed_ns};

// Returns one side's communication by label. `which`: ProfileSplit::comms (labels such as "tensor
// all-gather") or kinds ("tensor", whatever the collective). Counts and times are means of a rank
// and step; bus_bytes and sized_ns are sums, from which only a rate is made.
CommsByLabel comms_of_side(const ComparedSide& side, std::vector<CommTotal> ProfileSplit::*which) {
  CommsByLabel sums;
  for (const ProfileSplit& split : side.splits) {
    for (const CommTotal& comm : split.*which) {
      CommTotal& sum = sums[comm.label];
      sum.label = comm.label;
      for (const auto number : kMeanNumbers) sum.*number += split.multiplicity * comm.*number;
      sum.bus_bytes += split.multiplicity * comm.bus_bytes;
      sum.sized_ns += split.multiplicity * comm.sized_ns;
    }
  }
  const auto per_step = [&, ranks = Means(side).ranks](std::int64_t sum) {
    return static_cast<std::int64_t>(
        std::llround(static_cast<double>(sum) / ranks / side.window.steps));
  };
  for (auto& [label, sum] : sums) {
    for (const auto number : kMeanNumbers) sum.*number = per_step(sum.*number);
  }
  return sums;
}

const CommTotal* found_in(const CommsByLabel& comms, const CommLabel& label) {
  const auto at = comms.find(label);
  return at == comms.end() ? nullptr : &at->second;
}

// Returns the keys that one of the maps has, or both.
template <class Key, class Value>
std::set<Key> keys_of_both(const std::map<Key, Value>& a, const std::map<Key, Value>& b) {
  std::set<Key> keys;
  for (const auto* each : {&a, &b}) {
    for (const auto& [key, value] : *each) keys.insert(key);
  }
  return keys;
}

std::optional<double> overlap_of(const CommTotal* comm) {
  if (comm == nullptr || comm->time_ns == 0) return std::nullopt;
  return static_cast<double>(comm->overlap_ns) / static_cast<double>(comm->time_ns);
}

void add_values(ProfileComparison* comparison) {
  const Means simulated(comparison->simulated), measured(comparison->measured);
  std::vector<ComparedValue>& values = comparison->values;
  const auto seconds = [&](const char* what, Nanoseconds ProfileSplit::*part) {
    values.push_back({what, false, simulated.seconds(part), measured.seconds(part)});
  };
  const auto share = [&](const char* what, Nanoseconds ProfileSplit::*part,
                         Nanoseconds ProfileSplit::*whole) {
    values.push_back({what, true, simulated.share(part, whole), measured.share(part, whole)});
  };
  const CommsByLabel ours = comms_of_side(comparison->simulated, &ProfileSplit::kinds);
  const CommsByLabel theirs = comms_of_side(comparison->measured, &ProfileSplit::kinds);
  const std::set<CommLabel> labels = keys_of_both(ours, theirs);
  seconds("step", &ProfileSplit::step_ns);
  seconds("compute", &ProfileSplit::compute_ns);
  // If one side does not have a kind of communication, nothing of it is exposed there.
  for (const CommLabel& label : labels) {
    const auto exposed = [&](const CommsByLabel& comms) {
      const CommTotal* const comm = found_in(comms, label);
      return comm == nullptr ? 0 : to_seconds(comm->exposed_ns);
    };
    values.push_back({fmt::format("exposed {} communication", label.text()), false, exposed(ours),
                      exposed(theirs)});
  }
  seconds("copies alone", &ProfileSplit::memory_alone_ns);
  seconds("bubble", &ProfileSplit::bubble_ns);
  share("bubble", &ProfileSplit::bubble_ns, &ProfileSplit::step_ns);
  share("idle of a rank's span", &ProfileSplit::idle_ns, &ProfileSplit::span_ns);
  for (const CommLabel& label : labels)
    values.push_back({fmt::format("overlapped {} communication", label.text()), true,
                      overlap_of(found_in(ours, label)), overlap_of(found_in(theirs, label))});
}

void add_comms(ProfileComparison* comparison) {
  const CommsByLabel ours = comms_of_side(comparison->simulated, &ProfileSplit::comms);
  const CommsByLabel theirs = comms_of_side(comparison->measured, &ProfileSplit::comms);
  const auto copy = [](const CommTotal* comm) {
    return comm == nullptr ? std::nullopt : std::optional(*comm);
  };
  for (const CommLabel& label : keys_of_both(ours, theirs))
    comparison->comms.push_back(
        {label, copy(found_in(ours, label)), copy(found_in(theirs, label))});
}

struct PhaseSums {
  double seconds = 0;  // of a rank that has the phase, in a step
  double ranks = 0;
  std::vector<double> passes;
};
using PhasesByStage = std::map<std::pair<PassPhase, int>, PhaseSums>;

// Says how finely passes are compared: by stage, and with weight gradients by themselves. Both
// sides must have such passes.
struct PhaseDetail {
  bool stages = true, weight = true;
};

bool tells_stages(const ComparedSide& side) {
  bool has_passes = false;
  for (const ProfileSplit& split : side.splits) {
    for (const PhaseTotal& phase : split.phases) {
      if (phase.phase == PassPhase::Unknown || phase.phase == PassPhase::Step) continue;
      has_passes = true;
      if (phase.stage < 0) return false;
    }
  }
  return has_passes;
}

bool tells_weight(const ComparedSide& side) {
  for (const ProfileSplit& split : side.splits) {
    for (const PhaseTotal& phase : split.phases) {
      if (phase.phase == PassPhase::BackwardWeight) return true;
    }
  }
  return false;
}

// Adds up one side's passes. Without detail.weight, input and weight gradients are one backward;
// without detail.stages, the stage is -1.
PhasesByStage phases_of(const ComparedSide& side, const PhaseDetail& detail) {
  const bool has_weight = tells_weight(side);
  PhasesByStage sums;
  for (const ProfileSplit& split : side.splits) {
    std::set<std::pair<PassPhase, int>> counted;
    for (const PhaseTotal& total : split.phases) {
      if (total.phase == PassPhase::Unknown) continue;
      // In a schedule with weight gradients of their own, a "backward" is the input gradient alone.
      const bool is_input = total.phase == PassPhase::BackwardInput ||
                            (total.phase == PassPhase::Backward && has_weight);
      const bool is_weight = total.phase == PassPhase::BackwardWeight;
      const bool is_merged = (is_input || is_weight) && !detail.weight;
      PassPhase phase = is_input ? PassPhase::BackwardInput : total.phase;
      if (is_merged) phase = PassPhase::Backward;
      const std::pair key(phase, detail.stages ? total.stage : -1);
      PhaseSums& sum = sums[key];
      sum.seconds += split.multiplicity * to_seconds(total.time_ns);
      // A rank counts once, also where several of its totals are one here.
      if (counted.insert(key).second) sum.ranks += split.multiplicity;
      // Medians of input and weight gradients do not add up to one of the whole backward.
      if (total.passes > 0 && !is_merged) sum.passes.push_back(to_seconds(total.median_ns));
    }
  }
  for (auto& [key, sum] : sums) {
    sum.seconds /= sum.ranks * side.window.steps;
  }
  return sums;
}

void add_phases_of_both(ProfileComparison* comparison) {
  const PhaseDetail detail{
      tells_stages(comparison->simulated) && tells_stages(comparison->measured),
      tells_weight(comparison->simulated) && tells_weight(comparison->measured)};
  const PhasesByStage ours = phases_of(comparison->simulated, detail);
  const PhasesByStage theirs = phases_of(comparison->measured, detail);
  for (const auto& key : keys_of_both(ours, theirs)) {
    ComparedPhase phase{.phase = key.first, .stage = key.second};
    const auto take = [&](const PhasesByStage& from, std::optional<double>* seconds,
                          std::optional<double>* pass) {
      const auto at = from.find(key);
      if (at == from.end()) return;
      *seconds = at->second.seconds;
      const std::vector<double>& passes = at->second.passes;
      if (!passes.empty()) *pass = lower_median(passes);
    };
    take(ours, &phase.simulated_s, &phase.simulated_pass_s);
    take(theirs, &phase.measured_s, &phase.measured_pass_s);
    comparison->phases.push_back(phase);
  }
}

void add_notes(ProfileComparison* comparison) {
  bool tells_phases = false, has_comms = false, tells_groups = false, has_waiting = false;
  for (const ProfileSplit& split : comparison->measured.splits) {
    for (const PhaseTotal& phase : split.phases) tells_phases |= phase.phase != PassPhase::Unknown;
    for (const CommTotal& comm : split.comms) {
      has_comms = true;
      tells_groups |= comm.with_arguments > 0;
    }
    has_waiting |= split.waiting_ns > 0;
  }
  if (!tells_phases)
    comparison->notes.push_back(
        "The profile does not tell forward from backward, so that no passes are compared.");
  if (has_comms && !tells_groups)
    comparison->notes.push_back(
        "The profile does not tell collectives' groups and sizes: waiting for a peer counts as "
        "communication.");
  if (has_waiting)
    comparison->notes.push_back(
        "Waiting for a peer counts as bubble where all ranks of the group are in the profile, "
        "else as communication.");
}

// Returns the mean number of a rank's forwards in a step; 0: passes are not told apart.
double forwards_of(const ComparedSide& side) {
  const auto forwards = [](const ProfileSplit& split) {
    double passes = 0;
    for (const PhaseTotal& phase : split.phases)
      passes += phase.phase == PassPhase::Forward ? static_cast<double>(phase.passes) : 0;
    return passes;
  };
  return Means(side).mean(forwards) / side.window.steps;
}

// Returns the kinds of communication on one side, except data: all plans have that, and only those
// that cut layers, sequences or experts have the others.
std::set<GroupKind> cuts_of(const ComparedSide& side) {
  std::set<GroupKind> kinds;
  for (const ProfileSplit& split : side.splits) {
    for (const CommTotal& comm : split.kinds) {
      if (comm.label.kind && *comm.label.kind != GroupKind::Data) kinds.insert(*comm.label.kind);
    }
  }
  return kinds;
}

bool tells_kinds(const ComparedSide& side) {
  return std::ranges::all_of(side.splits, [](const ProfileSplit& split) {
    return std::ranges::all_of(split.kinds,
                               [](const CommTotal& c) { return c.label.kind.has_value(); });
  });
}

// Returns the bytes of the largest transfer between stages; 0: not known.
double transfer_bytes(const ComparedSide& side) {
  double largest = 0;
  for (const ProfileSplit& split : side.splits) {
    for (const CommTotal& comm : split.comms) {
      if (comm.label.kind == GroupKind::Pipeline) largest = std::max(largest, comm.largest);
    }
  }
  return largest;
}

// Says whether transfers of one job may have these sizes: equal, or half or double with another
// data type.
bool may_be_alike(double bytes, double other) {
  constexpr double kNear = 0.02;
  const double ratio = bytes / other;
  return std::ranges::any_of(std::array{0.5, 1.0, 2.0},
                             [&](double of) { return std::abs(ratio / of - 1) < kNear; });
}

// Says that both sides know a figure, which is above 0 then.
bool both_know(double simulated, double measured) { return simulated > 0 && measured > 0; }

// Adds the kinds of communication that one side alone has, if both tell kinds.
void add_kinds_alone(const ComparedSide& ours, const ComparedSide& theirs,
                     std::vector<std::string>* why) {
  if (!tells_kinds(ours) || !tells_kinds(theirs)) return;
  const std::set<GroupKind> simulated = cuts_of(ours), measured = cuts_of(theirs);
  for (int i = 0; i < kGroupKinds; ++i) {
    const auto kind = static_cast<GroupKind>(i);
    if (simulated.contains(kind) != measured.contains(kind))
      why->push_back(fmt::format("{} communication {} alone", group_kind_name(kind),
                                 simulated.contains(kind) ? "simulated" : "measured"));
  }
}

// Returns why the two sides cannot be the same job; empty: they can. A job and its profile have the
// same ranks, kinds of communication, microbatches, sizes of transfers, and FLOPs, which show in
// the time of compute.
std::string why_another_job(const ProfileComparison& comparison) {
  const ComparedSide &ours = comparison.simulated, &theirs = comparison.measured;
  std::vector<std::string> why;
  if (both_know(ours.world, theirs.world) && ours.world != theirs.world)
    why.push_back(fmt::format("{} ranks against {}", ours.world, theirs.world));
  add_kinds_alone(ours, theirs, &why);
  const double forwards = forwards_of(ours), measured_forwards = forwards_of(theirs);
  if (both_know(forwards, measured_forwards) &&
      std::abs(forwards - measured_forwards) > 1e-6 * forwards)
    why.push_back(
        fmt::format("{:.4g} forwards a rank and step against {:.4g}", forwards, measured_forwards));
  const double bytes = transfer_bytes(ours), measured_bytes = transfer_bytes(theirs);
  if (both_know(bytes, measured_bytes) && !may_be_alike(bytes, measured_bytes))
    why.push_back(fmt::format("transfers between stages of {:.3g} MB against {:.3g} MB",
                              1e-6 * bytes, 1e-6 * measured_bytes));
  const double compute = Means(ours).seconds(&ProfileSplit::compute_ns);
  const double measured_compute = Means(theirs).seconds(&ProfileSplit::compute_ns);
  const double ratio = compute / measured_compute;
  const bool is_far = ratio > kMostComputeRatio || ratio < 1 / kMostComputeRatio;
  if (both_know(compute, measured_compute) && is_far)
    why.push_back(
        fmt::format("{:.3g} s of compute a step against {:.3g} s", compute, measured_compute));
  return fmt::format("{}", fmt::join(why, ", "));
}

Json json_of_comm(const std::optional<CommTotal>& comm) {
  if (!comm) return nullptr;
  return {{"count", comm->count},
          {"s", to_seconds(comm->time_ns)},
          {"exposed_s", to_seconds(comm->exposed_ns)},
          {"overlap_fraction", overlap_of(&*comm)},
          {"busbw_GBps", comm->sized_ns > 0 ? Json(1e-9 * comm->bus_bytes_per_s()) : Json()}};
}

Json json_of_side(const ComparedSide& side) {
  Json json{{"input", side.path}, {"by", side.by}, {"steps", side.window.steps}};
  json["ranks"] = Json::array();
  for (const ProfileSplit& split : side.hta_splits) {
    const auto overlap = split.overlap_fraction();
    json["ranks"].push_back({{"rank", split.rank},
                             {"stands_for", split.multiplicity},
                             {"span_s", to_seconds(split.span_ns)},
                             {"idle_fraction", split.idle_fraction()},
                             {"overlap_fraction", overlap}});
  }
  return json;
}

}  // namespace

Result<ComparedSide> side_of(const Profile& profile, const std::string& path,
                             const std::string& by) {
  ComparedSide side{.path = path, .by = by, .window = window_of(profile)};
  for (const ProfileRank& rank : profile.ranks) side.world = std::max(side.world, rank.world);
  ASSIGN_OR_RETURN(side.splits, splits_of(profile, side.window, {.without_waiting = true}));
  ASSIGN_OR_RETURN(side.hta_splits, splits_of(profile, side.window));
  return side;
}

ProfileComparison compare_profiles(ComparedSide simulated, ComparedSide measured, bool whole) {
  ProfileComparison comparison{.simulated = std::move(simulated), .measured = std::move(measured)};
  add_values(&comparison);
  add_comms(&comparison);
  add_phases_of_both(&comparison);
  add_notes(&comparison);
  if (whole) comparison.another_job = why_another_job(comparison);
  return comparison;
}

Json to_json(const ProfileComparison& comparison) {
  Json json;
  json["rows"] = Json::array();
  for (const ComparedValue& value : comparison.values)
    json["rows"].push_back({{"name", value.name},
                            {"unit", value.is_share ? "fraction" : "s"},
                            {"simulated", value.simulated},
                            {"measured", value.measured}});
  json["communication"] = Json::array();
  for (const ComparedComm& comm : comparison.comms)
    json["communication"].push_back({{"name", comm.label.text()},
                                     {"simulated", json_of_comm(comm.simulated)},
                                     {"measured", json_of_comm(comm.measured)}});
  json["passes"] = Json::array();
  for (const ComparedPhase& phase : comparison.phases)
    json["passes"].push_back({{"phase", std::string(phase_name(phase.phase))},
                              {"stage", phase.stage},
                              {"simulated_s", phase.simulated_s},
                              {"measured_s", phase.measured_s},
                              {"simulated_pass_s", phase.simulated_pass_s},
                              {"measured_pass_s", phase.measured_pass_s}});
  json["simulated"] = json_of_side(comparison.simulated);
  json["measured"] = json_of_side(comparison.measured);
  json["another_job"] = comparison.another_job.empty() ? Json() : Json(comparison.another_job);
  json["notes"] = comparison.notes;
  return json;
}

}  // namespace tandem
