// ClassTimes: how long the ops of a profiled run take, against their simulation, by class. A class
// has the ops that one price of the cost model is for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedule/program/program.h"
#include "validation/explain/op_durations.h"
#include "validation/explain/profiled_run.h"

namespace tandem {

// The median time of a class's ops, of all of them together, and their number.
struct ClassOps {
  double median_ns = 0, all_ns = 0;
  std::int64_t ops = 0;
};

// By name: "fc1 forward", or, where a pass is one op, "backward, stage 3"; "data all-reduce of
// 33554432 bytes between nodes".
using ClassMap = std::map<std::string, ClassOps>;

// Returns the classes that were measured with a microsecond or more. A rank's first op of the
// optimizer includes what stands between two steps, as the simulated one includes the iteration's
// overhead.
ClassMap measured_classes(const Program& program, const ProfiledRun& run);

// Returns the classes of the same ranks, as simulated. Prices may change the order of ops, and so
// the Program: classes stay.
ClassMap simulated_classes(const Program& program, const OpDurations& durations,
                           const ProfiledRun& run);

// `ratio`: measured over simulated median. `share`: of all classes' measured time.
struct ClassTime {
  std::string name;
  double ratio = 1, share = 0;
  std::int64_t ops = 0;
};

// Returns the measured classes that the uncalibrated simulation has, against the calibrated one, or
// where that lacks a class, against the uncalibrated.
std::vector<ClassTime> class_times(const ClassMap& measured, const ClassMap& uncalibrated,
                                   const ClassMap& calibrated);

}  // namespace tandem
