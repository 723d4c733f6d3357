// ExplainPasses: says why some passes, as a profile has them, take longer than simulated: a forward
// and a backward that run together, say, without the rest of their step.
#pragma once

#include "base/result.h"
#include "validation/compare/profile_comparison.h"
#include "validation/explain/explain.h"

namespace tandem {

// Explains a comparison whose simulated side is cut down to these passes (traces/profile/passes.h).
// Causes are the differences of kernels by pass, exposed communication by kind, copies and idle
// time, which add up to that of the spans: nothing is played again. Error(BadInput) if the profile
// tells no passes, or its communication or compute cannot be theirs.
Result<Explanation> explain_passes(const ProfileComparison& comparison);

}  // namespace tandem
