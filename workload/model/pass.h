// Pass: the steps of one action on its GPU: kernels on the compute lane, and communication beside
// them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "topology/comm_kind.h"

namespace tandem {

// The purpose of a communication, and so the group in which it runs. Metrics are split by it.
enum class GroupKind : std::uint8_t { Tensor, Pipeline, Data, Context, Expert };
constexpr int kGroupKinds = 5;
std::string_view group_kind_name(GroupKind group_kind);
std::optional<GroupKind> group_kind_named(std::string_view word);  // nothing: no kind has the name

// Part `part` of `parts` of one communication, and the SMs that it takes from compute.
struct CommSettings {
  std::int16_t part = 0, parts = 1;
  std::int16_t sms = 0;

  bool operator==(const CommSettings&) const = default;
};

// The steps that a step waits for, by their numbers in the pass; seldom more than two.
using Waits = boost::container::small_vector<int, 2>;

// A kernel, or a communication of one of the GPU's groups (Tensor, Context or Expert; lowering adds
// the others). Compute steps run one after another on the compute lane. A communication starts when
// all steps in `waits` have ended. A step without `waits` waits for the action's inputs.
struct Step {
  bool computes = true;
  int kernel = -1;  // compute: into Workload::kernels; -1: no kernel, only `duration_ns`
  Nanoseconds duration_ns = 0;               // compute
  GroupKind group_kind = GroupKind::Tensor;  // this and the next three: communication
  CommKind collective = CommKind::AllReduce;
  Bytes bytes = 0;
  CommSettings settings;
  int unit = -1;               // compute: the unit (StageWork::units) of its parameters; -1: none
  Waits waits;                 // numbers of earlier steps in the pass
  bool among_experts = false;  // communication of the tensor group that shares an expert

  bool operator==(const Step&) const = default;
};

// The steps of one action. `output` is the step that produces what the action sends on, usually the
// last one: the activation, or the gradient of the stage's input. The rank's next action waits for
// any communication that no step waits for.
struct Pass {
  std::vector<Step> steps;
  int output = -1;  // REQUIRES: a step

  bool operator==(const Pass&) const = default;
};

// Builds a pass. By itself it is a chain: compute waits for the communication before it, and
// communication for what is before it. Example: of compute(a), communicate(b), compute(c), b waits
// for a, and c for b.
class PassBuilder {
 public:
  bool empty() const { return pass_.steps.empty(); }
  int last() const { return last_; }  // the step that the next one follows; -1: none

  int compute(int kernel, Nanoseconds duration_ns, int unit = -1) {
    return compute_after({}, kernel, duration_ns, unit);
  }
  int communicate(GroupKind group_kind, CommKind kind, Bytes bytes, CommSettings settings = {}) {
    return last_ = beside(group_kind, kind, bytes, settings, after_last());
  }
  // Adds a communication of the tensor group that shares an expert.
  int communicate_among_experts(CommKind kind, Bytes bytes) {
    const int step = communicate(GroupKind::Tensor, kind, bytes);
    pass_.steps[step].among_experts = true;
    return step;
  }
  // Returns what the next step of the chain waits for: the last one, or nothing at the beginning.
  Waits after_last() const { return last_ < 0 ? Waits{} : Waits{last_}; }
  // Appends a pass that another builder made to the chain; its kernels use this unit's parameters.
  void append(const Pass& pass, int unit);

  // Adds a communication beside the chain: it waits for the steps given, and the chain goes on from
  // where it was.
  int beside(GroupKind group_kind, CommKind kind, Bytes bytes, CommSettings settings, Waits waits) {
    return add({.computes = false,
                .group_kind = group_kind,
                .collective = kind,
                .bytes = bytes,
                .settings = settings,
                .waits = std::move(waits)});
  }
  // Adds compute to the chain, which waits for these steps as well.
  int compute_after(Waits waits, int kernel, Nanoseconds duration_ns, int unit = -1) {
    if (last_ >= 0 && !pass_.steps[last_].computes) waits.push_back(last_);
    return last_ = add({.kernel = kernel,
                        .duration_ns = duration_ns,
                        .unit = unit,
                        .waits = std::move(waits)});
  }
  // Makes the next step follow this one, which is in the pass already.
  void follow(int step) { last_ = step; }

  // Return the pass; the last step of the chain, or `output`, is its output. REQUIRES: !empty().
  Pass take() { return take(last_); }
  Pass take(int output) {
    pass_.output = output;
    return std::move(pass_);
  }

 private:
  int add(Step step) {
    pass_.steps.push_back(std::move(step));
    return static_cast<int>(pass_.steps.size()) - 1;
  }

  Pass pass_;
  int last_ = -1;
};

// Adds idle time of `ns` in total to the compute lane. Before each compute step comes the part that
// belongs to the bytes communicated since the compute step before it. Example: two communications
// of 1 and 3 MB, ns = 8: 2 ns after the first, 6 after the second. Without communication the whole
// wait comes first.
Pass with_waits(const Pass& pass, Nanoseconds ns);

// Returns the time of the pass's compute.
Nanoseconds compute_ns(const Pass& pass);

}  // namespace tandem
