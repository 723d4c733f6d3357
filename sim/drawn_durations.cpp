// Draws the durations of all compute ops of a rank in blocks, with an approximate factor that
// compilers vectorize. The result is still exact to the nanosecond: where the approximation could
// round differently, an op gets Jitter::apply's duration.
#include "sim/drawn_durations.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/noise_factors.h"

namespace tandem {

DrawnDurations::DrawnDurations(const Program& program, const Jitter& jitter)
    : program_(program), jitter_(jitter) {
  for (const Body& body : program.bodies) {
    BodyDurations& own = bodies_.emplace_back();
    for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
      const Op& op = body.ops[i];
      own.priced.push_back(op.duration_ns);
      if (jitter.sigma != 0 && is_compute(op.kind) && op.duration_ns != 0)
        own.jittered.push_back({i, static_cast<double>(op.duration_ns)});
    }
  }
}

void DrawnDurations::draw(std::int32_t rank, Nanoseconds* durations) const {
  const BodyDurations& body = bodies_[program_.ranks[rank].body];
  std::ranges::copy(body.priced, durations);
  for (std::size_t i = 0; i < body.jittered.size(); i += kBlock)
    draw_block(rank, &body.jittered[i], std::min(kBlock, body.jittered.size() - i), durations);
}

Nanoseconds DrawnDurations::of(std::int32_t rank, std::uint32_t op) const {
  const Op& own = program_.bodies[program_.ranks[rank].body].ops[op];
  return is_compute(own.kind) ? jitter_.apply(own.duration_ns, rank, op) : own.duration_ns;
}

// Multiplies by an approximate factor and rounds. If the product is so close to the middle between
// two nanoseconds that the factor's error could change the rounding, takes the exact duration.
void DrawnDurations::draw_block(std::int32_t rank, const JitteredOp* ops, std::size_t count,
                                Nanoseconds* durations) const {
  std::array<double, kBlock> u1{}, u2{}, factors{};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t key = jitter_.key(rank, ops[i].op);
    u1[i] = uniform(key);
    u2[i] = uniform(scatter(key) + 1);
  }
  noise_factors(u1.data(), u2.data(), count, jitter_.sigma, factors.data());
  for (std::size_t i = 0; i < count; ++i) {
    const double product = ops[i].priced_ns * factors[i], rounded = std::floor(product + 0.5);
    const double ns_to_middle = 0.5 - std::abs(product - rounded);
    durations[ops[i].op] = ns_to_middle > 2 * kNoiseFactorError * product
                               ? static_cast<Nanoseconds>(rounded)
                               : of(rank, ops[i].op);
  }
}

}  // namespace tandem
