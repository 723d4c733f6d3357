// Log-normal factors by the thousand: approximately, with the processor's vector instructions.
#pragma once

#include <cstddef>

namespace tandem {

// What Jitter multiplies by for a pair of uniform draws in (0, 1), to a relative
// kNoiseFactorError: who needs the exact factor can tell whether the difference matters.
void noise_factors(const double* u1, const double* u2, std::size_t count, double sigma,
                   double* factors);

// Vector functions of glibc are within 4 units in the last place (2^-52); a sigma of at most 10
// multiplies the error of the normal draw, which is below 9, in the exponent.
constexpr double kNoiseFactorError = 1e-11;

}  // namespace tandem
