#include "validation/calibrate/class_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/quantile.h"

namespace tandem {
namespace {

constexpr double kLeastNs = 1000;  // a shorter op is nearer to a profiler's clock than to a price

// Compute: false, kind, stage, 0. Communication: true, kind, group and link, bytes.
using ClassKey = std::tuple<bool, OpKind, int, Bytes>;

std::string name_of(const ClassKey& key) {
  const auto& [is_comm, kind, part, bytes] = key;
  if (!is_comm)
    return part < 0 ? std::string(op_kind_name(kind))
                    : fmt::format("{}, stage {}", op_kind_name(kind), part);
  return fmt::format("{} {} of {} bytes {} nodes",
                     group_kind_name(static_cast<GroupKind>(part / 2)), op_kind_name(kind), bytes,
                     part % 2 == 1 ? "between" : "inside");
}

// Returns what an iteration has beyond its ops: gaps between steps, late data, a wait before the
// optimizer.
double overhead_ns(const ProfiledRun& run) {
  double delays_ns = 0;
  for (const RankOfRun& rank : run.ranks) {
    for (const Delay& delay : rank.delays) {
      if (delay.kind == DelayKind::Input || delay.kind == DelayKind::Synchronisation)
        delays_ns += static_cast<double>(delay.ns);
    }
  }
  return run.between_ns + delays_ns / static_cast<double>(run.ranks.size());
}

}  // namespace

std::vector<ClassTime> class_times(const Program& program, const OpDurations& simulated,
                                   const ProfiledRun& run) {
  const double beyond_ns = overhead_ns(run);
  std::map<ClassKey, std::vector<double>> ratios;
  for (const RankOfRun& rank : run.ranks) {
    const RankRow& row = program.ranks[rank.rank];
    const Body& body = program.bodies[row.body];
    const std::vector<std::uint32_t> numbers = numbers_in_slots(body);
    bool is_first_optimizer = true;
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const Op& op = body.ops[i];
      double measured_ns = rank.busy_ns[i];
      ClassKey key{false, op.kind, op.stage, 0};
      Nanoseconds ns = simulated.compute[rank.rank][i];
      if (op.slot >= 0) {
        const std::int32_t number = row.communicators[op.slot];
        const Communicator& comm = program.communicators[number];
        key = {true, op.kind, 2 * static_cast<int>(comm.group_kind) + (comm.between_nodes ? 1 : 0),
               op.bytes};
        ns = simulated.comm[number][numbers[i]];
        measured_ns = run.comm_ns[number][numbers[i]];
      } else if (op.kind == OpKind::Optimizer && std::exchange(is_first_optimizer, false)) {
        measured_ns += measured_ns < 0 ? 0 : beyond_ns;
      }
      if (measured_ns < kLeastNs) continue;
      ratios[key].push_back(measured_ns / static_cast<double>(std::max<Nanoseconds>(ns, 1)));
    }
  }
  std::vector<ClassTime> classes;
  for (auto& [key, values] : ratios) {
    const auto ops = static_cast<std::int64_t>(values.size());
    classes.push_back({name_of(key), median(std::move(values)), ops});
  }
  return classes;
}

}  // namespace tandem
