// ClassTimes: how long the ops of a profiled run take, against their simulation, by class. A class
// has the ops that one price of the cost model is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/program/program.h"
#include "validation/explain/op_durations.h"
#include "validation/explain/profiled_run.h"

namespace tandem {

// `ratio`: measured over simulated, the median of the class's ops.
struct ClassTime {
  std::string name;  // "backward, stage 3", "data AllReduce of 33554432 bytes between nodes"
  double ratio = 1;
  std::int64_t ops = 0;
};

// Returns the classes that were measured with a microsecond or more, always in the same order:
// compute by kind and stage, communication by group, link, operation and bytes. A rank's first op
// of the optimizer includes what stands between two steps and what delays the first op or the
// optimizer, as the simulated one includes the iteration's overhead.
std::vector<ClassTime> class_times(const Program& program, const OpDurations& simulated,
                                   const ProfiledRun& run);

}  // namespace tandem
