// ExplainPasses: says why a few passes in a profile take longer than simulated, without the rest of
// their step: a forward and a backward that run together, say.
#pragma once

#include "base/result.h"
#include "validation/compare/profile_comparison.h"
#include "validation/explain/explain.h"

namespace tandem {

// Explains a comparison whose simulated side is cut down to these passes (traces/profile/passes.h).
// Causes are the differences of kernels by pass, exposed communication by kind, copies and idle
// time. They add up to the difference of the spans: nothing is played again. Error(BadInput) if the
// profile tells no passes, or communicates or computes what these passes cannot.
Result<Explanation> explain_passes(const ProfileComparison& comparison);

}  // namespace tandem
