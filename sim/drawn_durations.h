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

  // Writes the durations of the rank's ops, by op of its body, to `durations`. Compute ops get, to
  // the nanosecond, what Jitter::apply gives.
  void draw(std::int32_t rank, Nanoseconds* durations) const;
  Nanoseconds of(std::int32_t rank, std::uint32_t op) const;

 private:
  struct Drawn {
    std::uint32_t op = 0;
    double duration_ns = 0;
  };
  struct BodyDurations {
    std::vector<Nanoseconds> undisturbed;
    std::vector<Drawn> drawn;
  };
  void draw_some(std::int32_t rank, const Drawn* drawn, std::size_t count,
                 Nanoseconds* durations) const;

  const Program& program_;
  const Jitter jitter_;
  std::vector<BodyDurations> bodies_;
};

}  // namespace tandem
