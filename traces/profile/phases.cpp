// Finds which pass of training launched a kernel: by the annotations open when it was launched,
// else by those open on its stream when it starts, else by the thread that launched it. Declared in
// traces/profile/finish_rank.h.
#include <algorithm>
#include <map>
#include <numeric>
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

// Finds the passes that are open at a moment. The innermost one says the phase; the innermost one
// that names a stage or microbatch says those. Without such the pass is the outermost whole one of
// the phase: "forward_mlp" within "forward" is a part, as is an optimizer within another.
// REQUIRES: moments do not go back.
class OpenPasses {
 public:
  explicit OpenPasses(NamedPasses passes) : passes_(std::move(passes)) {
    std::ranges::stable_sort(passes_, {}, &NamedPass::start_ns);
  }

  // Sets *phase from the innermost open pass. Returns the number of the pass; -1: none is open.
  std::int32_t open_at(Nanoseconds moment_ns, PassPhase* phase) {
    for (; next_ < passes_.size() && passes_[next_].start_ns <= moment_ns; ++next_)
      lasting_.push_back(next_);
    std::erase_if(lasting_, [&](std::size_t i) { return passes_[i].end_ns <= moment_ns; });
    if (lasting_.empty()) return -1;
    *phase = passes_[lasting_.back()].action.phase;
    for (auto i = lasting_.rbegin(); i != lasting_.rend(); ++i) {
      const ProfileAction& action = passes_[*i].action;
      if (action.microbatch >= 0 || action.stage >= 0) return static_cast<std::int32_t>(*i);
    }
    std::optional<std::size_t> whole;
    for (auto i = lasting_.rbegin(); i != lasting_.rend(); ++i) {
      if (passes_[*i].action.phase != *phase || !passes_[*i].action.is_whole) continue;
      if (!whole || passes_[*i].end_ns >= passes_[*whole].end_ns) whole = *i;
    }
    return static_cast<std::int32_t>(whole.value_or(lasting_.back()));
  }
  const NamedPasses& passes() const { return passes_; }

 private:
  NamedPasses passes_;
  std::vector<std::size_t> lasting_;
  std::size_t next_ = 0;
};

// Adds the passes to the rank's actions, and returns the number of the first.
std::int32_t add_actions(const NamedPasses& passes, ProfileRank* rank) {
  const auto first = static_cast<std::int32_t>(rank->actions.size());
  for (const NamedPass& pass : passes) rank->actions.push_back(pass.action);
  return first;
}

void find_phases_by_stream(const std::map<std::int32_t, NamedPasses>& on_streams,
                           ProfileRank* rank) {
  std::map<std::int32_t, std::pair<OpenPasses, std::int32_t>> by_stream;
  for (const auto& [stream, passes] : on_streams) {
    OpenPasses open(passes);
    const std::int32_t first = add_actions(open.passes(), rank);
    by_stream.emplace(stream, std::pair(std::move(open), first));
  }
  for (ProfileKernel& kernel : rank->kernels) {
    const auto stream = by_stream.find(kernel.stream);
    if (stream == by_stream.end() || kernel.phase != PassPhase::Unknown) continue;
    auto& [passes, first] = stream->second;
    if (const std::int32_t pass = passes.open_at(kernel.start_ns, &kernel.phase); pass >= 0)
      kernel.action = first + pass;
  }
}

// Drops the training loop's thread from autograd's: it runs the few nodes of a backward that are
// the CPU's, and launches all else too. Its steps tell it, or else its optimizer, where autograd
// has another thread: an optimizer may run inside the backward.
void drop_loop_thread(ProfileRank* rank) {
  std::set<std::int32_t> with_steps, with_optimizer;
  for (const Annotation& annotation : rank->annotations) {
    if (annotation.on_gpu) continue;
    const std::string& name = rank->names.text(annotation.name);
    if (name.starts_with("ProfilerStep")) with_steps.insert(annotation.place);
    if (name.starts_with("Optimizer.")) with_optimizer.insert(annotation.place);
  }
  std::vector<std::int32_t> others = rank->backward_threads;
  std::erase_if(others, [&](std::int32_t thread) {
    return (with_steps.empty() ? with_optimizer : with_steps).contains(thread);
  });
  if (!with_steps.empty() || !others.empty()) rank->backward_threads = std::move(others);
}

// Finds phases of kernels that no annotation tells. Where forwards are annotated, what others than
// autograd's threads launched outside of them stays unknown: it brings batches, say.
void find_phases_by_thread(ProfileRank* rank) {
  const bool tells_forwards = std::ranges::any_of(rank->actions, [](const ProfileAction& action) {
    return action.phase == PassPhase::Forward && action.is_whole;
  });
  for (ProfileKernel& kernel : rank->kernels) {
    if (kernel.launch < 0 || kernel.phase != PassPhase::Unknown) continue;
    const bool is_backward =
        std::ranges::binary_search(rank->backward_threads, rank->launches[kernel.launch].thread);
    if (is_backward || !tells_forwards)
      kernel.phase = is_backward ? PassPhase::Backward : PassPhase::Forward;
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
  std::vector<std::optional<ProfileAction>>
      actions;  // by Annotation::name, a number in rank->names
  for (const Annotation& annotation : rank->annotations) {
    while (actions.size() <= annotation.name)
      actions.push_back(action_of(rank->names.text(static_cast<std::uint32_t>(actions.size()))));
    const auto& action = actions[annotation.name];
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
