// Profile: what a GPU profiler saw of a training run: kernels, copies and communication on streams,
// what the CPU launched them in, and where iterations begin. Of one rank or of many.
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

// What a row of a GPU's stream is: a kernel that computes, one that communicates, a copy or fill.
enum class Activity : std::uint8_t { Compute, Communication, Memory };
constexpr int kActivities = 3;

// What part of a training step launched a kernel, where the profile tells.
enum class PassPhase : std::uint8_t {
  Unknown,
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Step
};
std::string_view name(PassPhase phase);  // Step: "optimizer"

// KernelNames that rows share: kernels are called again and again.
class KernelNames {
 public:
  KernelNames() = default;
  KernelNames(KernelNames&&) = default;  // texts stay where they are
  KernelNames& operator=(KernelNames&&) = default;

  std::uint32_t id(std::string_view text);
  const std::string& text(std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // where they stay
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

// What torch.profiler says of a collective beside its kernel; names by their ids.
struct CollectiveArgs {
  std::uint32_t collective = 0;   // "allreduce", "_allgather_base", "send"
  std::uint32_t dtype = 0;        // "BFloat16"
  std::uint32_t group = 0;        // the process group's name: "0"
  std::uint32_t description = 0;  // "TENSOR_MODEL_PARALLEL_GROUP"
  std::uint32_t ranks = 0;        // "[0, 1]", cut where there are many
  int group_size = 0;
  std::int64_t in_elements = -1, out_elements = -1;
  std::int64_t sequence = -1;  // counted on the group; -1: not said
  int from = -1, to = -1;      // of a transfer, where it is said: global ranks
};

// A row of a GPU's stream. Times in ns, on the clock that Profile says.
struct ProfileKernel {
  Nanoseconds start_ns = 0, end_ns = 0;
  // When the transfer begins: the last participant's start, where all of them are known (align.h).
  Nanoseconds transfer_ns = 0;
  std::int64_t correlation = -1;  // with the CPU's call that launched it
  std::int32_t launch = -1;       // into ProfileRank::launches; -1: not recorded
  std::int32_t collective = -1;   // into ProfileRank::collectives
  std::uint32_t name = 0;
  std::int32_t stream = 0;
  std::int32_t action = -1;  // into ProfileRank::actions: the pass that it belongs to
  Activity activity = Activity::Compute;
  PassPhase phase = PassPhase::Unknown;
};

// A call on the CPU that put something on a stream.
struct Launch {
  std::int64_t correlation = -1;
  Nanoseconds at_ns = 0;
  std::int32_t thread = 0;
};

// A call of PyTorch on the CPU whose arguments the profile tells (record_shapes); texts as they
// stand in it (torch_calls.h).
struct ShapedCall {
  std::uint32_t name = 0;  // "aten::mm"
  std::uint32_t shapes = 0, types = 0, values = 0;
  std::int32_t thread = 0;
  Nanoseconds start_ns = 0, end_ns = 0;
};

// A named span of time, of a CPU thread or (on_gpu) of a stream.
struct Annotation {
  std::uint32_t name = 0;
  bool on_gpu = false;
  std::int32_t place = 0;  // the thread, or the stream
  Nanoseconds start_ns = 0, end_ns = 0;
};

// One pass of one microbatch through a stage, as an annotation names it: "PP:1F3".
struct ProfileAction {
  PassPhase phase = PassPhase::Unknown;
  int stage = -1;         // -1: not said
  int microbatch = -1;    // the same
  bool is_whole = false;  // all of the pass, and not one of its parts, as "mlp(B)" is
};

// Where a step of training begins on the CPU, as ProfilerStep tells.
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
  std::string device;    // "NVIDIA H800"; empty: not said
  int rank = 0;
  bool rank_is_said = false;  // else it was counted
  int world = 0;              // 0: not said
  int multiplicity = 1;       // ranks that it stands for: 1 but for simulated ones
  KernelNames names;
  std::vector<ProfileKernel> kernels;  // by start, then stream
  std::vector<CollectiveArgs> collectives;
  std::vector<Launch> launches;   // by correlation
  std::vector<ShapedCall> calls;  // by thread, then start: those that cost tables are made of
  std::vector<Annotation> annotations;
  std::vector<ProfileAction> actions;
  std::vector<ProfileStep> steps;              // by start
  std::vector<std::int32_t> backward_threads;  // that autograd's engine ran on, sorted
  std::vector<ProcessGroup> groups;
  // By correlation: a kernel, and one of another stream that it waits for. Tandem's files tell it.
  std::vector<std::pair<std::int64_t, std::int64_t>> waits;
  bool tells_waits = false;
  Nanoseconds clock_shift_ns = 0;  // was added to its times, to align it (align.h)

  const std::string& name_of(const ProfileKernel& kernel) const { return names.text(kernel.name); }
};

// Ranks in their order. Times are counted from the microsecond that the first kernel starts in.
struct Profile {
  std::vector<ProfileRank> ranks;
};

}  // namespace tandem
