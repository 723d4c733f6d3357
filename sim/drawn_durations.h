// DrawnDurations: what the ops of a rank take with jitter, all at once.
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

  // By op of the rank's body, into as many `durations`: compute's as Jitter::apply draws them, to
  // the nanosecond.
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
