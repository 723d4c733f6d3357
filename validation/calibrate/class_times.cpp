#include "validation/calibrate/class_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quantile.h"

namespace tandem {
namespace {

// A shorter measured op is nearer to a profiler's clock than to a price. All simulated ops count
// that take any time, so a class on both sides of a microsecond has too high a ratio.
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

// Puts the ops of the run's ranks into classes, but for those of less than `least_ns` by
// time_of(rank, number of its op, op).
template <class TimeOf>
ClassMap classes_of(const Program& program, const ProfiledRun& run, double least_ns,
                    const TimeOf& time_of) {
  std::map<std::string, std::vector<double>> times;
  for (const RankOfRun& rank : run.ranks) {
    const RankRow& row = program.ranks[rank.rank];
    const Body& body = program.bodies[row.body];
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const double ns = time_of(rank, i, body.ops[i]);
      if (ns >= least_ns) times[class_of(program, row, body.ops[i])].push_back(ns);
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

// Returns by rank and op: the op's number among its communicator's operations, by which
// ProfiledRun::comm_ns and OpDurations::comm have their times.
std::map<int, std::vector<std::uint32_t>> numbers_of(const Program& program,
                                                     const ProfiledRun& run) {
  std::map<int, std::vector<std::uint32_t>> numbers;
  for (const RankOfRun& rank : run.ranks)
    numbers[rank.rank] = numbers_in_slots(program.body_of(Rank{rank.rank}));
  return numbers;
}

}  // namespace

ClassMap measured_classes(const Program& program, const ProfiledRun& run) {
  const auto numbers = numbers_of(program, run);
  std::map<int, bool> has_optimizer;
  return classes_of(
      program, run, kLeastMeasuredNs, [&](const RankOfRun& rank, std::size_t i, const Op& op) {
        if (op.slot >= 0) {
          const std::int32_t number = program.ranks[rank.rank].communicators[op.slot];
          return run.comm_ns[number][numbers.at(rank.rank)[i]];
        }
        const double ns = rank.busy_ns[i];
        // The gap between steps counts once, as the simulated iteration's overhead does.
        const bool is_first =
            op.kind == OpKind::Optimizer && !std::exchange(has_optimizer[rank.rank], true);
        return is_first && ns >= 0 ? ns + run.between_ns : ns;
      });
}

ClassMap simulated_classes(const Program& program, const OpDurations& durations,
                           const ProfiledRun& run) {
  const auto numbers = numbers_of(program, run);
  return classes_of(program, run, kLeastSimulatedNs,
                    [&](const RankOfRun& rank, std::size_t i, const Op& op) {
                      if (op.slot < 0) return static_cast<double>(durations.compute[rank.rank][i]);
                      const std::int32_t number = program.ranks[rank.rank].communicators[op.slot];
                      return static_cast<double>(durations.comm[number][numbers.at(rank.rank)[i]]);
                    });
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
