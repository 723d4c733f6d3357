// Finds which pass of training launched a kernel: by the annotations open when it was launched,
// else by those open on its stream when it starts, else by the thread that launched it. Declared in
// traces/profile/finish_rank.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "traces/profile/finish_rank.h"
#include "traces/profile/kernel_names.h"

namespace tandem {
namespace {

// An annotation that names a pass.
struct NamedPass {
  Nanoseconds start_ns = 0, end_ns = 0;
  ProfileAction action;
};

using NamedPasses = std::vector<NamedPass>;

// Finds the pass at a moment among nested annotations. The innermost open one gives the phase. The
// pass is the innermost one that names a stage or microbatch; if none does, it is the outermost
// whole one of that phase. Example: inside of "forward", "forward_mlp" is only a part.
// REQUIRES: moments do not go back.
class OpenPasses {
 public:
  explicit OpenPasses(NamedPasses passes) : passes_(std::move(passes)) {
    std::ranges::stable_sort(passes_, {}, &NamedPass::start_ns);
  }

  // Sets *phase from the innermost open pass. Returns the number of the pass; -1: none is open.
  std::int32_t open_at(Nanoseconds moment_ns, PassPhase* phase) {
    for (; next_ < passes_.size() && passes_[next_].start_ns <= moment_ns; ++next_)
      open_.push_back(next_);
    std::erase_if(open_, [&](std::size_t i) { return passes_[i].end_ns <= moment_ns; });
    if (open_.empty()) return -1;
    *phase = passes_[open_.back()].action.phase;
    for (auto i = open_.rbegin(); i != open_.rend(); ++i) {
      const ProfileAction& action = passes_[*i].action;
      if (action.microbatch >= 0 || action.stage >= 0) return static_cast<std::int32_t>(*i);
    }
    return static_cast<std::int32_t>(outermost_whole(*phase).value_or(open_.back()));
  }
  const NamedPasses& passes() const { return passes_; }

 private:
  std::optional<std::size_t> outermost_whole(PassPhase phase) const {
    std::optional<std::size_t> outermost;
    for (auto i = open_.rbegin(); i != open_.rend(); ++i) {
      if (passes_[*i].action.phase != phase || !passes_[*i].action.is_whole) continue;
      if (!outermost || passes_[*i].end_ns >= passes_[*outermost].end_ns) outermost = *i;
    }
    return outermost;
  }

  NamedPasses passes_;
  std::vector<std::size_t> open_;  // places in passes_, the innermost last
  std::size_t next_ = 0;           // the first pass that has not begun
};

// Adds the passes to the rank's actions, and returns the number of the first.
std::int32_t add_actions(const NamedPasses& passes, ProfileRank* rank) {
  const auto first = static_cast<std::int32_t>(rank->actions.size());
  for (const NamedPass& pass : passes) rank->actions.push_back(pass.action);
  return first;
}

void find_phases_by_stream(const std::map<std::int32_t, NamedPasses>& on_streams,
                           ProfileRank* rank) {
  struct StreamPasses {
    OpenPasses open;
    std::int32_t first_action;
  };
  std::map<std::int32_t, StreamPasses> by_stream;
  for (const auto& [stream, passes] : on_streams) {
    OpenPasses open(passes);
    const std::int32_t first = add_actions(open.passes(), rank);
    by_stream.emplace(stream, StreamPasses{std::move(open), first});
  }
  for (ProfileKernel& kernel : rank->kernels) {
    const auto stream = by_stream.find(kernel.stream);
    if (stream == by_stream.end() || kernel.phase != PassPhase::Unknown) continue;
    const std::int32_t pass = stream->second.open.open_at(kernel.start_ns, &kernel.phase);
    if (pass >= 0) kernel.action = stream->second.first_action + pass;
  }
}

// Drops the training loop's thread from autograd's threads. It runs some of a backward's nodes,
// those on the CPU, but it also launches everything else. It is the thread with the ProfilerSteps;
// without those it is the optimizer's, if autograd has a thread beside it (some optimizers run
// inside of the backward).
void drop_loop_thread(ProfileRank* rank) {
  std::set<std::int32_t> with_steps, with_optimizer;
  for (const Annotation& annotation : rank->annotations) {
    if (annotation.on_gpu) continue;
    const std::string& name = rank->names.text(annotation.name);
    if (name.starts_with("ProfilerStep")) with_steps.insert(annotation.place);
    if (name.starts_with("Optimizer.")) with_optimizer.insert(annotation.place);
  }
  const bool has_steps = !with_steps.empty();
  const std::set<std::int32_t>& of_loop = has_steps ? with_steps : with_optimizer;
  std::vector<std::int32_t> others = rank->backward_threads;
  std::erase_if(others, [&](std::int32_t thread) { return of_loop.contains(thread); });
  if (has_steps || !others.empty()) rank->backward_threads = std::move(others);
}

// Finds phases of kernels that no annotation tells: Backward if one of autograd's threads launched
// them, else Forward. If forwards are annotated, kernels outside of them are no forwards and stay
// Unknown: they may load batches.
void find_phases_by_thread(ProfileRank* rank) {
  const bool tells_forwards = std::ranges::any_of(rank->actions, [](const ProfileAction& action) {
    return action.phase == PassPhase::Forward && action.is_whole;
  });
  for (ProfileKernel& kernel : rank->kernels) {
    if (kernel.launch < 0 || kernel.phase != PassPhase::Unknown) continue;
    const bool is_backward =
        std::ranges::binary_search(rank->backward_threads, rank->launches[kernel.launch].thread);
    if (is_backward)
      kernel.phase = PassPhase::Backward;
    else if (!tells_forwards)
      kernel.phase = PassPhase::Forward;
  }
}

// Returns kernels in the order of their launches, without those that have none.
std::vector<ProfileKernel*> launched(ProfileRank* rank) {
  std::vector<ProfileKernel*> kernels;
  for (ProfileKernel& kernel : rank->kernels) {
    if (kernel.launch >= 0) kernels.push_back(&kernel);
  }
  std::ranges::stable_sort(kernels, {}, [rank](const ProfileKernel* kernel) {
    return rank->launches[kernel->launch].at_ns;
  });
  return kernels;
}

}  // namespace

void find_phases(ProfileRank* rank) {
  std::map<std::int32_t, NamedPasses> on_streams;
  NamedPasses on_cpu;
  ByName<std::optional<ProfileAction>> actions(rank->names, action_of);
  for (const Annotation& annotation : rank->annotations) {
    const auto& action = actions.of(annotation.name);
    if (!action) continue;
    const NamedPass pass{annotation.start_ns, annotation.end_ns, *action};
    (annotation.on_gpu ? on_streams[annotation.place] : on_cpu).push_back(pass);
  }
  OpenPasses passes(std::move(on_cpu));
  const std::int32_t first = add_actions(passes.passes(), rank);
  for (ProfileKernel* kernel : launched(rank)) {
    const std::int32_t pass = passes.open_at(rank->launches[kernel->launch].at_ns, &kernel->phase);
    if (pass >= 0) kernel->action = first + pass;
  }
  find_phases_by_stream(on_streams, rank);
  drop_loop_thread(rank);
  if (!rank->backward_threads.empty()) find_phases_by_thread(rank);
}

}  // namespace tandem
