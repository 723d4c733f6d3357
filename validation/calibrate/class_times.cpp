// Sorts the ops of the measured ranks into classes by name, once with measured and once with
// simulated times, and divides the medians class by class.
#include "validation/calibrate/class_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quantile.h"

namespace tandem {
namespace {

// Shorter ops do not count. Measured below a microsecond, they show the profiler's clock rather
// than a price. Simulated ones count from 1 ns on, so a class with ops of 0.5 and 2 us has too high
// a ratio: its measured median lacks the short ones.
constexpr double kLeastMeasuredNs = 1000, kLeastSimulatedNs = 1;

std::string class_of(const Program& program, const RankRow& row, const Op& op) {
  if (op.slot >= 0) {
    const Communicator& comm = program.communicators[row.communicators[op.slot]];
    return fmt::format("{} {} of {} bytes {} nodes", group_kind_name(comm.group_kind),
                       op_kind_name(op.kind), op.bytes, comm.between_nodes ? "between" : "inside");
  }
  if (op.kernel >= 0 && op.kind != OpKind::Optimizer) return program.kernels[op.kernel].name;
  return op.stage < 0 ? std::string(op_kind_name(op.kind))
                      : fmt::format("{}, stage {}", op_kind_name(op.kind), op.stage);
}

// Puts the ops of the run's ranks into classes, but for those of less than `least_ns`. Times are
// compute_ns(rank, number of the op, op) and comm_ns(communicator, number of its operation).
template <class ComputeNs, class CommNs>
ClassMap classes_of(const Program& program, const ProfiledRun& run, double least_ns,
                    const ComputeNs& compute_ns, const CommNs& comm_ns) {
  std::map<std::string, std::vector<double>> times;
  for (const RankOfRun& rank : run.ranks) {
    const RankRow& row = program.ranks[rank.rank];
    const Body& body = program.bodies[row.body];
    const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const Op& op = body.ops[i];
      const double ns =
          op.slot < 0 ? compute_ns(rank, i, op) : comm_ns(row.communicators[op.slot], numbers[i]);
      if (ns >= least_ns) times[class_of(program, row, op)].push_back(ns);
    }
  }
  ClassMap classes;
  for (auto& [name, values] : times) {
    ClassOps& own = classes[name];
    own.ops = static_cast<std::int64_t>(values.size());
    for (const double ns : values) own.all_ns += ns;
    own.median_ns = median(std::move(values));
  }
  return classes;
}

}  // namespace

ClassMap measured_classes(const Program& program, const ProfiledRun& run) {
  std::map<int, bool> has_optimizer;
  const auto compute_ns = [&](const RankOfRun& rank, std::size_t i, const Op& op) {
    const double ns = rank.busy_ns[i];
    // The gap between steps counts once, as the simulated iteration's overhead does.
    const bool is_first =
        op.kind == OpKind::Optimizer && !std::exchange(has_optimizer[rank.rank], true);
    return is_first && rank.knows(i) ? ns + run.between_ns : ns;
  };
  const auto comm_ns = [&](std::size_t c, std::uint32_t n) { return run.comm_ns[c][n]; };
  return classes_of(program, run, kLeastMeasuredNs, compute_ns, comm_ns);
}

ClassMap simulated_classes(const Program& program, const OpDurations& durations,
                           const ProfiledRun& run) {
  const auto compute_ns = [&](const RankOfRun& rank, std::size_t i, const Op&) {
    return static_cast<double>(durations.compute[rank.rank][i]);
  };
  const auto comm_ns = [&](std::size_t c, std::uint32_t n) {
    return static_cast<double>(durations.comm[c][n]);
  };
  return classes_of(program, run, kLeastSimulatedNs, compute_ns, comm_ns);
}

std::vector<ClassTime> class_times(const ClassMap& measured, const ClassMap& uncalibrated,
                                   const ClassMap& calibrated) {
  double all_ns = 0;
  for (const auto& [name, ops] : measured) all_ns += ops.all_ns;
  std::vector<ClassTime> times;
  for (const auto& [name, ops] : measured) {
    const auto before = uncalibrated.find(name), after = calibrated.find(name);
    if (before == uncalibrated.end()) continue;
    const ClassOps& simulated = after == calibrated.end() ? before->second : after->second;
    times.push_back({name, ops.median_ns / simulated.median_ns, ops.all_ns / all_ns, ops.ops});
  }
  return times;
}

}  // namespace tandem
