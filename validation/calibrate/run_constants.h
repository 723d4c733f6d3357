// RunConstants: the constants of a framework profile that a single run may move, and how much they
// differ between sites that have the same software.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "workload/frameworks/framework_profile.h"
#include "workload/model/plan.h"

namespace tandem {

// Keys that move together: multiplied by one factor, or, if is_sum, increased by one sum. `spread`
// is the standard deviation of the factor's logarithm, or of the sum in the key's unit.
struct RunConstant {
  std::vector<const char*> keys;
  double spread = 0;
  bool is_sum = false;
  bool told_by_iteration = false, told_by_ops = false;  // the evidence that may move it
};

// Returns the constants that an iteration's time (or ops, if `ops`) may move for a plan on nodes of
// so many GPUs. An iteration's time does not tell the optimizer from compute.
std::vector<RunConstant> run_constants(const Plan& plan, int gpus_per_node, bool ops);
// Returns the keys of all constants, whatever tells them.
std::vector<std::string> run_constant_keys();

// Returns the profile with its constants moved: `values` has a factor's logarithm, or a sum, for
// each constant.
FrameworkProfile moved_profile(FrameworkProfile profile, std::span<const RunConstant> constants,
                               std::span<const double> values);

// Returns the profile with these constants as files have them (profile_text.h).
FrameworkProfile rounded_profile(FrameworkProfile profile, std::span<const RunConstant> constants);

// Returns a key's value in the key's unit. REQUIRES: the key is one of profile_fields().
double value_of(const FrameworkProfile& profile, const char* key);

}  // namespace tandem
