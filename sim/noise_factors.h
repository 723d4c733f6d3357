// Log-normal factors by the thousand: approximate, with the processor's vector instructions.
#pragma once

#include <cstddef>

namespace tandem {

// Computes the factors by which Jitter multiplies, from pairs of uniform draws in (0, 1), with a
// relative error of at most kNoiseFactorError. Callers that need the exact factor can tell where
// that error matters.
void noise_factors(const double* u1, const double* u2, std::size_t count, double sigma,
                   double* factors);

// glibc's vector functions are within 4 units in the last place (2^-52). The factor is the
// exponential of sigma (at most 10) x a normal draw (below 9), so the draw's relative error grows
// to at most 90 times as much in the factor. The bound leaves room.
constexpr double kNoiseFactorError = 1e-11;

}  // namespace tandem
