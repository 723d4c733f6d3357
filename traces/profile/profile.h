// Profile: what a GPU profiler recorded of a training run, on one rank or many: kernels, copies and
// communication on streams, the CPU's calls that launched them, and where iterations begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"

namespace tandem {

// The kind of a row on a GPU's stream: a kernel that computes, one that communicates, a copy or
// fill.
enum class Activity : std::uint8_t { Compute, Communication, Memory };
constexpr int kActivities = 3;

// The part of a training step that launched a kernel, where the profile says.
enum class PassPhase : std::uint8_t {
  Unknown,
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Step
};
std::string_view phase_name(PassPhase phase);  // Step: "optimizer"

// Interns names: rows hold a name's number, as the same kernels run again and again.
class KernelNames {
 public:
  KernelNames() = default;
  KernelNames(KernelNames&&) = default;  // texts stay where they are
  KernelNames& operator=(KernelNames&&) = default;

  std::uint32_t id(std::string_view text);
  const std::string& text(std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // never moved, so that ids_ can point into them
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

// Keeps what `compute` says of each name. Looks at a name once, when it is first asked for.
template <class Value>
class ByName {
 public:
  ByName(const KernelNames& names, Value (*compute)(std::string_view))
      : names_(names), compute_(compute) {}

  const Value& of(std::uint32_t name) {
    while (values_.size() <= name)
      values_.push_back(compute_(names_.text(static_cast<std::uint32_t>(values_.size()))));
    return values_[name];
  }

 private:
  const KernelNames& names_;
  Value (*compute_)(std::string_view);
  std::vector<Value> values_;
};

// The arguments of a collective that torch.profiler records with its kernel; names by their ids.
struct CollectiveArgs {
  std::uint32_t collective = 0;   // "allreduce", "_allgather_base", "send"
  std::uint32_t dtype = 0;        // "BFloat16"
  std::uint32_t group = 0;        // the process group's name: "0"
  std::uint32_t description = 0;  // "TENSOR_MODEL_PARALLEL_GROUP"
  std::uint32_t ranks = 0;        // "[0, 1]", shortened where there are many
  int group_size = 0;
  std::int64_t in_elements = -1, out_elements = -1;
  std::int64_t sequence = -1;  // number on the group; -1: not given
  int from = -1, to = -1;      // global ranks of a transfer, where given
};

// A row of a GPU's stream. Times are in ns.
struct ProfileKernel {
  Nanoseconds start_ns = 0, end_ns = 0;
  // Start of the transfer: the last participant's start, where all are known (align.h).
  Nanoseconds transfer_start_ns = 0;
  std::int64_t correlation = -1;  // CUPTI's number, shared with the launch on the CPU
  std::int32_t launch = -1;       // into ProfileRank::launches; -1: not recorded
  std::int32_t collective = -1;   // into ProfileRank::collectives
  std::uint32_t name = 0;
  std::int32_t stream = 0;
  std::int32_t action = -1;  // its pass, into ProfileRank::actions; -1: none
  Activity activity = Activity::Compute;
  PassPhase phase = PassPhase::Unknown;
};

// A call on the CPU that put a kernel or copy on a stream.
struct Launch {
  std::int64_t correlation = -1;
  Nanoseconds at_ns = 0;
  std::int32_t thread = 0;
};

// A call of PyTorch on the CPU whose arguments were recorded (record_shapes), as the profile's JSON
// texts (TorchArguments in torch_calls.h).
struct ShapedCall {
  std::uint32_t name = 0;  // "aten::mm"
  std::uint32_t shapes = 0, types = 0, values = 0;
  std::int32_t thread = 0;
  Nanoseconds start_ns = 0, end_ns = 0;
};

// A named span of time on a CPU thread or (on_gpu) on a stream.
struct Annotation {
  std::uint32_t name = 0;
  bool on_gpu = false;
  std::int32_t place = 0;  // the thread, or the stream
  Nanoseconds start_ns = 0, end_ns = 0;
};

// One pass of one microbatch through a stage, as an annotation names it: "PP:1F3".
struct ProfileAction {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1;         // -1: not given
  int microbatch = -1;    // -1: not given
  bool is_whole = false;  // the whole pass, and not a part such as "mlp(B)"
};

// A training step: its ProfilerStep annotation, and when that begins on the CPU.
struct ProfileStep {
  std::uint32_t name = 0;
  Nanoseconds start_ns = 0;
};

struct ProcessGroup {
  std::string name, description;
  std::vector<int> ranks;
};

struct ProfileRank {
  std::string path;      // of its file
  std::string profiler;  // "torch.profiler", "Nsight Systems"
  std::string device;    // "NVIDIA H800"; empty: not given
  int rank = 0;
  bool rank_is_given = false;  // false: numbered by its place among the files
  int world = 0;               // number of ranks; 0: not given
  int multiplicity = 1;        // number of ranks that it stands for; above 1 only when simulated
  KernelNames names;
  std::vector<ProfileKernel> kernels;  // by start, then stream
  std::vector<CollectiveArgs> collectives;
  std::vector<Launch> launches;   // by correlation
  std::vector<ShapedCall> calls;  // by thread, start, longest first; all is_priced_call()
  std::vector<Annotation> annotations;
  std::vector<ProfileAction> actions;
  std::vector<ProfileStep> steps;              // by start
  std::vector<std::int32_t> backward_threads;  // threads of autograd's engine, sorted
  std::vector<ProcessGroup> groups;
  // Pairs of correlations: a kernel's, and that of a kernel on another stream for which it waits.
  // Only files that Tandem wrote have these.
  std::vector<std::pair<std::int64_t, std::int64_t>> waits;
  bool tells_waits = false;        // whether `waits` is recorded
  Nanoseconds clock_shift_ns = 0;  // already added to all times to align clocks (align.h)
  int clock_set = 0;  // ranks with the same number are on one clock; 0: the first rank's
  std::vector<std::string> notes;  // what its reader left out or could not know, as sentences

  const std::string& name_of(const ProfileKernel& kernel) const { return names.text(kernel.name); }
};

// All ranks, in order. Times count from the microsecond in which the first kernel starts.
struct Profile {
  std::vector<ProfileRank> ranks;
};

}  // namespace tandem
