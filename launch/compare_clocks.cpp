#include "launch/compare_clocks.h"

#include <array>
#include <cstdlib>
#include <limits>

#include "launch/clock.h"

namespace tandem {
namespace {

constexpr int kPings = 64;  // readings of each clock

// Takes one reading of `other`'s clock, on rank 0's side.
Status read_other_clock(int other, const NumberConnection& connection) {
  std::array<Nanoseconds, 2> stamps{now_ns(), 0};  // times of sending and of receiving, on rank 0
  RETURN_IF_ERROR(connection.send(other, std::span(stamps).first(1)));
  Nanoseconds read = 0;
  RETURN_IF_ERROR(connection.receive(other, std::span(&read, 1)));
  stamps[1] = now_ns();
  return connection.send(other, stamps);
}

// Takes one reading of this rank's clock, on this rank's side.
Result<ClockReading> read_own_clock(const NumberConnection& connection) {
  std::array<Nanoseconds, 2> stamps{};
  RETURN_IF_ERROR(connection.receive(0, std::span(stamps).first(1)));
  const Nanoseconds read = now_ns();
  RETURN_IF_ERROR(connection.send(0, std::span(&read, 1)));
  RETURN_IF_ERROR(connection.receive(0, stamps));
  return ClockReading{read, read - (stamps[0] + stamps[1]) / 2, stamps[1] - stamps[0]};
}

}  // namespace

Result<ClockReading> compare_clocks(int rank, int ranks, const NumberConnection& connection) {
  if (rank == 0) {
    for (int other = 1; other < ranks; ++other) {
      for (int i = 0; i < kPings; ++i) RETURN_IF_ERROR(read_other_clock(other, connection));
    }
    return ClockReading{now_ns(), 0, 0};
  }
  ClockReading best;
  best.round_trip_ns = std::numeric_limits<Nanoseconds>::max();
  for (int i = 0; i < kPings; ++i) {
    ASSIGN_OR_RETURN(const ClockReading reading, read_own_clock(connection));
    if (reading.round_trip_ns < best.round_trip_ns) best = reading;
  }
  // A difference within the reading's error counts as none, so that ranks of one host agree
  // exactly.
  if (2 * std::abs(best.ahead_ns) <= best.round_trip_ns + 1) best.ahead_ns = 0;
  return best;
}

}  // namespace tandem
