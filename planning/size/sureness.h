// Sureness: the probability that the recommended machine turns out to be the best.
#pragma once

#include <optional>
#include <vector>

#include "planning/size/size.h"

namespace tandem {

// Monte Carlo: draws the errors of the predicted iteration times (seed: size.seed), and takes the
// cheapest machine that is then in time and within the limits. The error of a prediction is the sum
// of three causes of equal variance: the software, the GPU with the precision, and the job on that
// machine. Predictions with the same software, or the same GPU and precision, share that cause's
// error. If several machines are the cheapest, each gets an equal share of the draw. Nothing: no
// machine is recommended.
std::optional<Sureness> sureness(const std::vector<SizeCase>& cases, const SizeResult& result);

}  // namespace tandem
