// Plays one pass alone, with its communication at the least prices, to bound its times from below.
// In: the steps of the pass and the prices. Out: the parts of a PassFloor:
//
//   input                        all is computed       output
//     |                          that it needs           |
//     |--- lead ---|-- lane_before --|------ rest ------>|
//                                    |- lane_after -|
//
// `computed` is lead + lane_before. In the lane's times the pass uses its rank's compute lane.
#include "schedule/lowering/pass_floor.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem {
namespace {

// The times of a pass that is played alone, from its input on.
struct PlayedPass {
  std::vector<double> ends;
  double first_compute = 0, last_compute = 0, last_gradient = 0;
};

double computed_ns(const Step& step, double slowdown) {
  return std::floor(static_cast<double>(step.duration_ns) * slowdown);
}

// Plays the pass from its input on. With `led` it begins with the first computation instead: at
// time 0 all communication before that has ended.
PlayedPass play_pass(const Pass& pass, const PassPrices& prices, double slowdown, bool led) {
  PlayedPass played;
  std::vector<bool> computes;  // by step: it computes, or waits for a step that does
  bool begun = false;
  for (const Step& step : pass.steps) {
    double start = step.computes ? played.last_compute : 0;
    bool behind_compute = step.computes;
    for (const int wait : step.waits) {
      start = std::max(start, played.ends[wait]);
      behind_compute = behind_compute || computes[wait];
    }
    if (step.computes && !begun) played.first_compute = start;
    begun = begun || step.computes;
    const double time = step.computes            ? computed_ns(step, slowdown)
                        : led && !behind_compute ? 0
                                                 : prices.of(step);
    played.ends.push_back(start + time);
    computes.push_back(behind_compute);
    if (!step.computes) continue;
    played.last_compute = start + time;
    if (step.unit >= 0) played.last_gradient = start + time;
  }
  if (played.last_gradient == 0) played.last_gradient = played.last_compute;
  return played;
}

// Returns the last computation that the output needs (it may be the output itself), or -1.
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
  const PlayedPass whole = play_pass(pass, prices, slowdown, false),
                   led = play_pass(pass, prices, slowdown, true);
  const int last = last_needed(pass);
  double output = led.ends[pass.output], end = std::ranges::max(led.ends);
  if (amax_ns > 0) {
    output = std::max(output, led.last_compute) + amax_ns;
    end = std::max(end, output);
  }
  // In cells, communication after the last computation does not keep the lane.
  if (sharing != LaneSharing::None) end = led.last_compute;
  TimedPass timed;
  PassFloor& floor = timed.floor;
  floor.lane_before = last < 0 ? 0 : led.ends[last];
  floor.lane_after = end - floor.lane_before;
  floor.lead = whole.first_compute;
  floor.computed = floor.lead + floor.lane_before;
  floor.rest = output - floor.lane_before;
  timed.trail = end - led.last_gradient;
  if (sharing != LaneSharing::Interleaved) return timed;
  // Others compute while this pass communicates: it uses the lane only while it computes.
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
          .ready = std::min(a.ready, b.ready),
          .reduced = std::min(a.reduced, b.reduced)};
}

}  // namespace tandem
