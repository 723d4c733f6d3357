// Adds up what each side spends on kernels by pass, exposed communication by label, copies and idle
// time. The difference of each sum is a cause.
#include "validation/explain/explain_passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "validation/explain/changes.h"

namespace tandem {
namespace {

// The seconds that one side spends, as means over ranks and steps. Kernels' times are added up,
// also where kernels run beside one another.
struct Spent {
  double step_s = 0, compute_s = 0, copies_s = 0, idle_s = 0;
  std::map<PassPhase, double> kernels_s;  // a backward with its weight gradients
  std::map<CommLabel, double> comm_s, exposed_s;
};

Spent spent_by(const ComparedSide& side) {
  Spent spent;
  double ranks = 0;
  for (const ProfileSplit& split : side.splits) ranks += split.multiplicity;
  for (const ProfileSplit& split : side.splits) {
    const auto add = [&](Nanoseconds ns, double* to) {
      *to += split.multiplicity * to_seconds(ns) / ranks / side.window.steps;
    };
    add(split.step_ns, &spent.step_s);
    add(split.compute_ns, &spent.compute_s);
    add(split.memory_alone_ns, &spent.copies_s);
    add(split.bubble_ns, &spent.idle_s);
    for (const PhaseTotal& phase : split.phases) {
      const bool is_part =
          phase.phase == PassPhase::BackwardInput || phase.phase == PassPhase::BackwardWeight;
      add(phase.time_ns, &spent.kernels_s[is_part ? PassPhase::Backward : phase.phase]);
    }
    for (const CommTotal& comm : split.kinds) {
      add(comm.time_ns, &spent.comm_s[comm.label]);
      add(comm.exposed_ns, &spent.exposed_s[comm.label]);
    }
  }
  return spent;
}

template <class Key>
double in(const std::map<Key, double>& values, const Key& key) {
  const auto at = values.find(key);
  return at == values.end() ? 0 : at->second;
}

// Lists the kinds of communication, except a pipeline's transfers, which a profile of passes may
// lack.
std::string labels_text(const Spent& spent) {
  std::vector<std::string> labels;
  for (const auto& [label, seconds] : spent.comm_s) {
    if (label.kind != GroupKind::Pipeline) labels.push_back(label.text());
  }
  return labels.empty() ? "none" : fmt::format("{}", fmt::join(labels, ", "));
}

std::vector<Cause> causes_of(const Spent& simulated, const Spent& measured) {
  std::vector<Cause> causes;
  const auto add = [&](std::string what, double ours, double theirs, std::string evidence,
                       std::string advice) {
    if (evidence.empty())
      evidence = fmt::format("{:.2f} ms measured, {:.2f} ms simulated", 1e3 * theirs, 1e3 * ours);
    if (theirs != ours)
      causes.push_back({std::move(what), theirs - ours, std::move(evidence), std::move(advice)});
  };
  // Kernels that run beside one another save time: compute_s less the sum of kernels' times.
  double ours_beside = simulated.compute_s, theirs_beside = measured.compute_s;
  for (const PassPhase phase :
       {PassPhase::Forward, PassPhase::Backward, PassPhase::Step, PassPhase::Unknown}) {
    const double ours = in(simulated.kernels_s, phase), theirs = in(measured.kernels_s, phase);
    ours_beside -= ours;
    theirs_beside -= theirs;
    const std::string name = phase == PassPhase::Unknown ? "other" : std::string(phase_name(phase));
    add(ours > 0 ? fmt::format("{} kernels {}", name, times_text(theirs / ours))
                 : fmt::format("{} kernels, which the passes have not", name),
        ours, theirs, "", "see tandem trace --top, or --costs for prices by shape");
  }
  add("kernels of compute beside one another", ours_beside, theirs_beside,
      fmt::format("they save {:.2f} ms measured, {:.2f} ms simulated",
                  1e3 * std::abs(theirs_beside), 1e3 * std::abs(ours_beside)),
      "look which streams they run on");
  std::set<CommLabel> labels;
  for (const Spent* side : {&simulated, &measured}) {
    for (const auto& [label, seconds] : side->comm_s) labels.insert(label);
  }
  for (const CommLabel& label : labels) {
    const double ours = in(simulated.exposed_s, label), theirs = in(measured.exposed_s, label);
    add(fmt::format("{} communication without compute beside it", label.text()), ours, theirs,
        fmt::format("{:.2f} of its {:.2f} ms measured, {:.2f} of {:.2f} ms simulated", 1e3 * theirs,
                    1e3 * in(measured.comm_s, label), 1e3 * ours,
                    1e3 * in(simulated.comm_s, label)),
        "see its kernels in tandem trace --top: those that wait for other ranks are among them");
  }
  add("copies with nothing beside them", simulated.copies_s, measured.copies_s, "",
      "see tandem trace --top");
  add("nothing runs", simulated.idle_s, measured.idle_s, "", "see when kernels are launched");
  return causes;
}

}  // namespace

Result<Explanation> explain_passes(const ProfileComparison& comparison) {
  const std::string& path = comparison.measured.path;
  const Spent simulated = spent_by(comparison.simulated), measured = spent_by(comparison.measured);
  if (in(measured.kernels_s, PassPhase::Forward) + in(measured.kernels_s, PassPhase::Backward) == 0)
    return Error::at(path,
                     "found neither forward nor backward told, expected annotations of them: "
                     "tandem trace says the rest");
  const std::string ours = labels_text(simulated), theirs = labels_text(measured);
  if (ours != theirs)
    return Error::at(path, fmt::format("found communication of other kinds than the passes' ({} "
                                       "against {}), expected the same: tandem trace says the rest",
                                       theirs, ours));
  const double ratio = measured.compute_s / simulated.compute_s;
  if (ratio > kMostComputeRatio || ratio < 1 / kMostComputeRatio)
    return Error::at(path,
                     fmt::format("found {:.3g} s of compute, expected about the passes' {:.3g}",
                                 measured.compute_s, simulated.compute_s));
  Explanation explanation{.simulated_s = simulated.step_s,
                          .measured_s = measured.step_s,
                          .steps = comparison.measured.window.steps,
                          .ranks_in_all = static_cast<int>(comparison.measured.splits.size())};
  const double sum = add_causes(causes_of(simulated, measured), &explanation);
  // Two kinds of communication that are exposed at once both count, so the causes' sum may differ
  // from the difference of the steps. A rest below a nanosecond is rounding.
  const double rest = explanation.measured_s - explanation.simulated_s - sum;
  explanation.not_explained_s = std::abs(rest) < 1e-9 ? 0 : rest;
  for (const ProfileSplit& split : comparison.measured.splits)
    explanation.ranks.push_back(
        {split.rank, to_seconds(split.compute_ns) / explanation.steps / simulated.compute_s,
         to_seconds(split.bubble_ns) / explanation.steps});
  explanation.notes = comparison.notes;
  return explanation;
}

}  // namespace tandem
