// This file is compiled with -ffast-math, so that the loop uses glibc's vector functions (libmvec).
// It may include no header with inline functions: the whole program would get their fast-math
// version.
#include "sim/noise_factors.h"

#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=haswell", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

namespace tandem {

FOR_EACH_PROCESSOR
void noise_factors(const double* u1, const double* u2, std::size_t count, double sigma,
                   double* factors) {
  constexpr double kTwoPi = 6.283185307179586;
  for (std::size_t i = 0; i < count; ++i) {
    const double normal = sqrt(-2 * log(u1[i])) * cos(kTwoPi * u2[i]);
    factors[i] = exp(sigma * normal - sigma * sigma / 2);
  }
}

}  // namespace tandem
