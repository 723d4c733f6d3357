// Sorts kernels into steps, passes and communications, and matches each one's kernels with its ops.
#include "validation/explain/measured_ops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "traces/profile/op_keys.h"

namespace tandem {
namespace {

using Nanospan = std::pair<Nanoseconds, Nanoseconds>;
using OpNumbers = std::vector<std::uint32_t>;

// The kernels of one step, in the order of their starts.
struct StepKernels {
  std::map<PassKey, Intervals> passes;
  KernelsByComm comms;
  Intervals active, computing, copies;
  Nanoseconds first_ns = -1, last_ns = -1;
  // Microbatches of annotations that name none: by phase and stage (the key's microbatch is -1),
  // then by index into ProfileRank::actions. The n-th annotation that has kernels counts as
  // microbatch n.
  std::map<PassKey, std::map<std::int32_t, int>> numbers;
  // Kernels of compute on a rank without annotations of passes, except the optimizer's; each with
  // the pass that pass_of() tells.
  std::vector<std::pair<PassPhase, Nanospan>> unnamed;
};

// How a rank's annotations name passes, and so by what they match the body's.
struct PassNames {
  bool annotated = false;         // some annotation names a forward or a backward
  bool has_stages = false;        // else all passes are of stage -1
  bool has_microbatches = false;  // else the n-th pass of a phase and stage has microbatch n
};

PassNames names_of(const ProfileRank& profile) {
  PassNames names;
  for (const ProfileAction& action : profile.actions) {
    if (!action.is_whole || action.phase == PassPhase::Step) continue;
    names.annotated = true;
    names.has_stages |= action.stage >= 0;
    names.has_microbatches |= action.microbatch >= 0;
  }
  return names;
}

// Returns the key's number. Keys are numbered 0, 1, ... in the order in which they first come.
template <class Key>
int number_of(const std::type_identity_t<Key>& key, std::map<Key, int>* numbers) {
  return numbers->try_emplace(key, static_cast<int>(numbers->size())).first->second;
}

// Returns the training loop's thread: the one with ProfilerStep annotations; -1: there is none.
std::int32_t loop_thread(const ProfileRank& rank) {
  for (const Annotation& annotation : rank.annotations) {
    if (!annotation.on_gpu && rank.names.text(annotation.name).starts_with("ProfilerStep"))
      return annotation.place;
  }
  return -1;
}

// Returns whether a kernel is of a forward or a backward. Without PyTorch's calls the launching
// thread tells: the loop's thread launches forwards, any other (autograd's) backwards.
PassPhase pass_of(const ProfileRank& rank, const ProfileKernel& kernel, std::int32_t loop) {
  if (kernel.phase != PassPhase::Unknown) return kernel.phase;
  const bool knows_threads = kernel.launch >= 0 && loop >= 0;
  if (!knows_threads) return PassPhase::Unknown;
  return rank.launches[kernel.launch].thread == loop ? PassPhase::Forward : PassPhase::Backward;
}

// Adds the passes of a rank that has no annotations of them: runs of forward and of backward
// kernels, one after the other, as ranks without a pipeline have them. A run shorter than a
// fiftieth of its phase's longest is ignored.
void add_runs(StepKernels* step) {
  std::map<PassPhase, std::vector<Intervals>> runs;
  PassPhase last = PassPhase::Unknown;
  for (const auto& [told, span] : step->unnamed) {
    // A kernel whose launch was not recorded belongs to the current run.
    const PassPhase phase = told == PassPhase::Unknown ? last : told;
    if (phase != PassPhase::Forward && phase != PassPhase::Backward) continue;
    if (phase != last) runs[phase].emplace_back();
    runs[phase].back().push_back(span);
    last = phase;
  }
  // After the last backward the loop's thread launches no forward, but clipping and the optimizer.
  if (last == PassPhase::Forward && runs.contains(PassPhase::Backward))
    runs[PassPhase::Forward].pop_back();
  for (auto& [phase, of_phase] : runs) {
    Nanoseconds longest = 0;
    for (const Intervals& run : of_phase) longest = std::max(longest, length_of(union_of(run)));
    int number = 0;
    for (Intervals& run : of_phase) {
      if (length_of(union_of(run)) >= longest / 50)
        step->passes[{phase, -1, number++}] = std::move(run);
    }
  }
}

// Adds a kernel of compute to the pass of its annotation, if that names a whole pass ("PP:1F3") and
// not a part of one ("mlp(B)").
void add_annotated(const ProfileRank& rank, const ProfileKernel& kernel, StepKernels* step) {
  if (kernel.action < 0) return;
  const ProfileAction& action = rank.actions[kernel.action];
  if (!action.is_whole || action.phase != kernel.phase) return;
  PassKey key{kernel.phase, action.stage, action.microbatch};
  if (kernel.phase == PassPhase::Step)
    key = {PassPhase::Step, -1, -1};
  else if (key.microbatch < 0)
    key.microbatch = number_of(kernel.action, &step->numbers[key]);
  step->passes[key].emplace_back(kernel.start_ns, kernel.end_ns);
}

// Sorts a rank's kernels into steps. `annotated`: some annotation names a forward or a backward.
std::map<int, StepKernels> kernels_by_step(const ProfileRank& rank, bool annotated) {
  const std::int32_t loop = loop_thread(rank);
  std::map<int, StepKernels> steps;
  for (const ProfileKernel& kernel : rank.kernels) {
    const int number = step_of(rank, kernel);
    if (number == 0 && !rank.steps.empty()) continue;
    StepKernels& step = steps[number];
    const Nanospan span{kernel.start_ns, kernel.end_ns};
    if (step.first_ns < 0) step.first_ns = kernel.start_ns;
    step.last_ns = std::max(step.last_ns, kernel.end_ns);
    step.active.push_back(span);
    if (kernel.activity == Activity::Memory) {
      step.copies.push_back(span);
    } else if (kernel.activity == Activity::Communication) {
      step.comms[{label_of(rank, kernel), ranks_of(rank, kernel)}].push_back(&kernel);
    } else {
      step.computing.push_back(span);
      if (!annotated && kernel.phase != PassPhase::Step)
        step.unnamed.emplace_back(pass_of(rank, kernel, loop), span);
      add_annotated(rank, kernel, &step);
    }
  }
  for (auto& [number, step] : steps) {
    step.active = union_of(std::move(step.active));
    add_runs(&step);
  }
  return steps;
}

// Lists a rank's ops by pass, in the order of the body, with keys like the profile's.
std::map<PassKey, OpNumbers> ops_by_pass(const Body& body, const PassNames& names) {
  std::map<PassKey, OpNumbers> passes;
  std::map<std::pair<PassPhase, int>, std::map<std::pair<int, int>, int>> numbers;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    const Op& op = body.ops[i];
    if (!is_compute(op.kind)) continue;
    PassKey key{phase_of(op.kind), names.has_stages ? op.stage : -1, op.microbatch};
    if (!names.has_microbatches)
      key.microbatch = number_of({op.stage, op.microbatch}, &numbers[{key.phase, key.stage}]);
    if (key.phase == PassPhase::Step) key = {PassPhase::Step, -1, -1};
    passes[key].push_back(i);
  }
  return passes;
}

OpsByComm ops_by_comm(const Program& program, int rank, std::span<const EventTimes> simulated) {
  const Body& body = program.body_of(Rank{rank});
  OpsByComm comms;
  for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
    if (is_compute(body.ops[i].kind)) continue;
    comms[{label_of(body, body.ops[i]), ranks_of(program, rank, body.ops[i])}].push_back(i);
  }
  for (auto& [key, ops] : comms)
    std::ranges::stable_sort(ops, {}, [&](std::uint32_t op) { return simulated[op].start_ns; });
  return comms;
}

// Returns the part of the kernels' running time from `from` to `to`, both in ns of that time.
// Example: kernels run from 10 to 14 and from 20 to 26. The part from 3 to 6 is from 13 to 22.
MeasuredOp part_of(const Intervals& running, double from, double to) {
  MeasuredOp op;
  double before = 0;  // running time of the intervals before this one
  for (std::size_t i = 0; i < running.size(); ++i) {
    const auto& [begin, end] = running[i];
    const double after = before + static_cast<double>(end - begin);
    if (op.start_ns < 0 && (from < after || i + 1 == running.size()))
      op.start_ns = begin + std::llround(std::max(0.0, from - before));
    if (to <= after + 0.5) {  // sums of shares of the time are not exact
      op.end_ns = begin + std::llround(to - before);
      break;
    }
    before = after;
  }
  if (op.end_ns < 0) op.end_ns = running.back().second;
  op.busy_ns = std::llround(to) - std::llround(from);
  return op;
}

// Gives each op of a pass its own kernel if there are as many, else its share of their running
// time.
void match_pass(const Intervals& kernels, const OpNumbers& ops,
                std::span<const EventTimes> simulated, std::vector<MeasuredOp>* measured) {
  if (kernels.size() == ops.size()) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto& [start, end] = kernels[i];
      (*measured)[ops[i]] = {start, end, end - start};
    }
    return;
  }
  const Intervals running = union_of(kernels);
  if (running.empty()) return;  // kernels of no length tell nothing
  const auto all = static_cast<double>(length_of(running));
  const auto simulated_ns = [&](std::uint32_t op) {
    return static_cast<double>(simulated[op].end_ns - simulated[op].start_ns);
  };
  double priced = 0, before = 0;
  for (const std::uint32_t op : ops) priced += simulated_ns(op);
  for (const std::uint32_t op : ops) {
    const double share =
        priced > 0 ? simulated_ns(op) / priced : 1.0 / static_cast<double>(ops.size());
    (*measured)[op] = part_of(running, all * before, all * (before + share));
    before += share;
  }
}

// Matches a step's kernels of compute with ops, by pass.
std::vector<MeasuredOp> matched_passes(const Body& body, const std::map<PassKey, OpNumbers>& passes,
                                       const StepKernels& kernels,
                                       std::span<const EventTimes> simulated) {
  std::vector<MeasuredOp> measured(body.ops.size());
  for (const auto& [key, ops] : passes) {
    auto at = kernels.passes.find(key);
    // If weight gradients are passes of their own, a profile's "backward" is the input's.
    if (at == kernels.passes.end() && key.phase == PassPhase::BackwardInput)
      at = kernels.passes.find({PassPhase::Backward, key.stage, key.microbatch});
    if (at != kernels.passes.end()) match_pass(at->second, ops, simulated, &measured);
  }
  return measured;
}

}  // namespace

std::vector<MeasuredStep> measured_steps(const Program& program, int rank,
                                         std::span<const EventTimes> simulated,
                                         const ProfileRank& profile) {
  const Body& body = program.body_of(Rank{rank});
  const PassNames names = names_of(profile);
  const auto passes = ops_by_pass(body, names);
  const auto comms = ops_by_comm(program, rank, simulated);
  std::vector<MeasuredStep> steps;
  for (const auto& [number, kernels] : kernels_by_step(profile, names.annotated)) {
    const auto forwards = std::ranges::count_if(
        kernels.passes, [](const auto& pass) { return pass.first.phase == PassPhase::Forward; });
    MeasuredStep step{.forward_runs = names.annotated ? 0 : static_cast<int>(forwards),
                      .first_ns = kernels.first_ns,
                      .last_ns = kernels.last_ns,
                      .copies = union_of(kernels.copies),
                      .computing = union_of(kernels.computing),
                      .active = kernels.active};
    if (number > 0) step.begin_ns = profile.steps[number - 1].start_ns;
    step.ops = matched_passes(body, passes, kernels, simulated);
    MatchedComms matched = matched_comms(body, comms, profile, kernels.comms);
    for (const auto& [op, kernel] : matched.pairs)
      step.ops[op] = {kernel->start_ns, kernel->end_ns, kernel->end_ns - kernel->transfer_start_ns};
    step.comms = std::move(matched.counts);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace tandem
