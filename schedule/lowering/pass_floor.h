// Computes the PassFloor of a priced pass: the earliest time of its output, and the least time for
// which it occupies its rank's compute lane.
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

// The prices of a body's communication in nanoseconds; 0 for communication that it does not have.
class PassPrices {
 public:
  explicit PassPrices(const Body& body);

  double of(std::string_view lane, OpKind kind, Bytes bytes) const;
  double of(const Step& step) const;
  double least_of(std::string_view lane) const;  // of the lane's ops
  // Returns the sum of the pass's communication on a lane.
  double lane_ns(const Pass& pass, std::string_view lane) const;

 private:
  std::string_view lane_of(const Step& step) const;

  std::map<std::tuple<std::string, OpKind, Bytes>, Nanoseconds> prices_;
  bool has_expert_tensor_ = false;
};

struct TimedPass {
  PassFloor floor;
  // The part of the lane's time after the last gradient of a parameter unit.
  double trail = 0;
  // From the input's arrival to the end of the lane's time, if the pass has the rank for itself.
  double alone = 0;
};

// How the actions of a cell share the compute lane.
enum class LaneSharing : std::uint8_t {
  None,        // no cells: communication at an action's end delays the next action
  Successive,  // one after another: only the last action's communication delays the next cell
  Interleaved  // one action computes while another communicates
};

// Returns the floor in nanoseconds. Communication that waits for nothing in the pass may overlap
// the previous action, so it does not count as time on the lane. With cells, communication after
// the last computation does not count either; with interleaved passes no communication counts. An
// amax reduction of `amax_ns` follows the output and the last computation.
TimedPass pass_floor(const Pass& pass, const PassPrices& prices, LaneSharing sharing,
                     double slowdown, double amax_ns);

// Return the smaller of each of the numbers.
PassFloor least_of(const PassFloor& a, const PassFloor& b);
StageFloor least_of(const StageFloor& a, const StageFloor& b);

}  // namespace tandem
