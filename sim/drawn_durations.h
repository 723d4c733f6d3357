// DrawnDurations: draws the durations of all ops of a rank at once, with jitter.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

class DrawnDurations {
 public:
  DrawnDurations(const Program& program, const Jitter& jitter);

  // Writes the durations of the rank's ops, by op of its body, to `durations`. Those of compute ops
  // are, to the nanosecond, what Jitter::apply gives.
  void draw(std::int32_t rank, Nanoseconds* durations) const;
  // Returns the duration of one op.
  Nanoseconds of(std::int32_t rank, std::uint32_t op) const;

 private:
  static constexpr std::size_t kBlock = 256;  // ops that are drawn together
  struct JitteredOp {
    std::uint32_t op = 0;
    double priced_ns = 0;
  };
  struct BodyDurations {
    std::vector<Nanoseconds> priced;  // of all ops, without jitter
    std::vector<JitteredOp> jittered;
  };
  void draw_block(std::int32_t rank, const JitteredOp* ops, std::size_t count,
                  Nanoseconds* durations) const;

  const Program& program_;
  const Jitter jitter_;
  std::vector<BodyDurations> bodies_;
};

}  // namespace tandem
