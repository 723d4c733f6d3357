// Log-normal factors by the thousand: approximate, with the processor's vector instructions.
#pragma once

#include <cstddef>

namespace tandem {

// Computes the factors by which Jitter multiplies, from pairs of uniform draws in (0, 1), with a
// relative error of at most kNoiseFactorError. Callers that need the exact factor can tell where
// that error matters.
void noise_factors(const double* u1, const double* u2, std::size_t count, double sigma,
                   double* factors);

// glibc's vector functions are within 4 units in the last place (2^-52). A sigma of at most 10
// multiplies the error of the normal draw, which is below 9, in the exponent.
constexpr double kNoiseFactorError = 1e-11;

}  // namespace tandem
