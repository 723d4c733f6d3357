// Plays one pass alone, with its communication at the least prices, to bound its times from below.
// In: the steps of the pass and the prices. Out: the parts of a PassFloor (schedule/order/):
//
//   input                        all is computed       output
//     |                          that it needs           |
//     |--- lead ---|-- lane_before --|------ rest ------>|
//                                    |- lane_after -|
//
// `computed` is lead + lane_before. The pass occupies its rank's compute lane for lane_before and
// lane_after. If passes interleave, these two leave communication out. `trail` is the part of that
// time after the last gradient of a parameter.
#include "schedule/lowering/pass_floor.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace tandem {
namespace {

// The times of a pass that is played alone, from its input on.
struct PlayedPass {
  std::vector<double> ends;             // by step
  std::optional<double> first_compute;  // start of the first computation
  double last_compute = 0;              // end of the last computation
  std::optional<double> last_gradient;  // end of a backward's last gradient of a parameter unit
};

double computed_ns(const Step& step, double slowdown) {
  return std::floor(static_cast<double>(step.duration_ns) * slowdown);
}

// Plays the pass from its input on. With `inputs_are_there`, communication that waits for no
// computation takes no time, so the first computation starts at 0.
PlayedPass play_pass(const Pass& pass, const PassPrices& prices, double slowdown,
                     bool inputs_are_there) {
  PlayedPass played;
  std::vector<bool> after_compute;  // by step: it computes, or waits for a step that does
  for (const Step& step : pass.steps) {
    double start = step.computes ? played.last_compute : 0;
    bool follows_compute = step.computes;
    for (const int wait : step.waits) {
      start = std::max(start, played.ends[wait]);
      follows_compute = follows_compute || after_compute[wait];
    }
    double time = 0;
    if (step.computes)
      time = computed_ns(step, slowdown);
    else if (follows_compute || !inputs_are_there)
      time = prices.of(step);
    played.ends.push_back(start + time);
    after_compute.push_back(follows_compute);
    if (!step.computes) continue;
    if (!played.first_compute) played.first_compute = start;
    played.last_compute = start + time;
    const bool makes_gradient = step.unit >= 0;  // in a backward
    if (makes_gradient) played.last_gradient = played.last_compute;
  }
  return played;
}

// Returns the index of the last compute step that the output needs, or -1. It may be the output
// itself.
int last_needed(const Pass& pass) {
  std::vector<bool> awaited(pass.steps.size());
  awaited[pass.output] = true;
  for (int i = pass.output; i >= 0; --i) {
    if (!awaited[i]) continue;
    if (pass.steps[i].computes) return i;
    for (const int wait : pass.steps[i].waits) awaited[wait] = true;
  }
  return -1;
}

}  // namespace

PassPrices::PassPrices(const Body& body) {
  for (const Op& op : body.ops) {
    if (is_compute(op.kind)) continue;
    const auto [at, is_new] =
        prices_.try_emplace({body.lanes[op.lane].name, op.kind, op.bytes}, op.duration_ns);
    if (!is_new) at->second = std::min(at->second, op.duration_ns);
  }
  for (const Lane& lane : body.lanes) has_expert_tensor_ |= lane.name == "expert tensor";
}

double PassPrices::of(std::string_view lane, OpKind kind, Bytes bytes) const {
  const auto at = prices_.find({std::string(lane), kind, bytes});
  return at == prices_.end() ? 0 : static_cast<double>(at->second);
}

double PassPrices::of(const Step& step) const {
  return of(lane_of(step), op_kind(step.collective), step.bytes);
}

double PassPrices::least_of(std::string_view lane) const {
  double least = 1e300;
  for (const auto& [key, price] : prices_) {
    if (std::get<0>(key) == lane) least = std::min(least, static_cast<double>(price));
  }
  return least == 1e300 ? 0 : least;
}

double PassPrices::lane_ns(const Pass& pass, std::string_view lane) const {
  double sum = 0;
  for (const Step& step : pass.steps) {
    if (!step.computes && lane_of(step) == lane) sum += of(step);
  }
  return sum;
}

std::string_view PassPrices::lane_of(const Step& step) const {
  return step.among_experts && has_expert_tensor_ ? "expert tensor"
                                                  : group_kind_name(step.group_kind);
}

TimedPass pass_floor(const Pass& pass, const PassPrices& prices, LaneSharing sharing,
                     double slowdown, double amax_ns) {
  const PlayedPass from_input = play_pass(pass, prices, slowdown, false);
  const PlayedPass from_compute = play_pass(pass, prices, slowdown, true);
  const int last = last_needed(pass);
  double output = from_compute.ends[pass.output];
  double lane_end = std::ranges::max(from_compute.ends);
  if (amax_ns > 0) {
    output = std::max(output, from_compute.last_compute) + amax_ns;
    lane_end = std::max(lane_end, output);
  }
  // With cells, communication after the last computation does not occupy the lane.
  if (sharing != LaneSharing::None) lane_end = from_compute.last_compute;
  TimedPass timed;
  PassFloor& floor = timed.floor;
  floor.lane_before = last < 0 ? 0 : from_compute.ends[last];
  floor.lane_after = lane_end - floor.lane_before;
  floor.lead = from_input.first_compute.value_or(0);
  floor.computed = floor.lead + floor.lane_before;
  floor.rest = output - floor.lane_before;
  timed.alone = floor.lead + lane_end;
  timed.trail = lane_end - from_compute.last_gradient.value_or(from_compute.last_compute);
  if (sharing != LaneSharing::Interleaved) return timed;
  // Other passes compute while this one communicates: it occupies the lane only while it computes.
  floor.lane_before = floor.lane_after = 0;
  for (int i = 0; i < static_cast<int>(pass.steps.size()); ++i) {
    if (pass.steps[i].computes)
      (i <= last ? floor.lane_before : floor.lane_after) += computed_ns(pass.steps[i], slowdown);
  }
  return timed;
}

PassFloor least_of(const PassFloor& a, const PassFloor& b) {
  return {.lead = std::min(a.lead, b.lead),
          .computed = std::min(a.computed, b.computed),
          .rest = std::min(a.rest, b.rest),
          .lane_before = std::min(a.lane_before, b.lane_before),
          .lane_after = std::min(a.lane_after, b.lane_after)};
}

StageFloor least_of(const StageFloor& a, const StageFloor& b) {
  return {.forward = least_of(a.forward, b.forward),
          .input = least_of(a.input, b.input),
          .backward = std::min(a.backward, b.backward),
          .backward_alone = std::min(a.backward_alone, b.backward_alone),
          .ready = std::min(a.ready, b.ready),
          .reduced = std::min(a.reduced, b.reduced)};
}

}  // namespace tandem
