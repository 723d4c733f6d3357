// PassFloor of a priced pass: when its output can be there at the earliest, and how long it takes
// its rank's compute lane at least.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "schedule/order/lower_bound.h"
#include "schedule/program/program.h"
#include "workload/model/pass.h"

namespace tandem {

// What a body's communication takes, in nanoseconds; 0 for what it does not have.
class PassPrices {
 public:
  explicit PassPrices(const Body& body);

  double of(std::string_view lane, OpKind kind, Bytes bytes) const;
  double of(const Step& step) const;
  double least_of(std::string_view lane) const;  // of its ops
  // All that the pass has for a lane.
  double lane_ns(const Pass& pass, std::string_view lane) const;

 private:
  std::string_view lane_of(const Step& step) const;

  std::map<std::tuple<std::string, OpKind, Bytes>, Nanoseconds> prices_;
  bool has_expert_tensor_ = false;
};

struct TimedPass {
  PassFloor floor;
  // Of the lane's time, what is behind the last gradient of a parameter unit.
  double trail = 0;
};

// How the actions of a cell share the compute lane.
enum class LaneSharing : std::uint8_t {
  None,        // there are no cells: what an action's communication leaves open holds up the next
  Successive,  // one behind the other: what the last one leaves open holds up the next cell
  Interleaved  // others compute while one communicates
};

// Nanoseconds. Communication that waits for nothing in the pass may go on beside the action before
// it, and is left out of the lane's time; so is what it leaves open behind its last computation
// where there are cells, and all of it where passes interleave. A reduction of `amax_ns` follows
// the output and the last computation.
TimedPass pass_floor(const Pass& pass, const PassPrices& prices, LaneSharing sharing,
                     double slowdown, double amax_ns);

// The least of each.
PassFloor least_of(const PassFloor& a, const PassFloor& b);
StageFloor least_of(const StageFloor& a, const StageFloor& b);

}  // namespace tandem
