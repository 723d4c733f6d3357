// A libtandem_cuda.so without a GPU: its devices play what is asked of them in virtual time, at
// once, so that the whole program can be tested where no GPU is. TANDEM_PLUGINS names its folder.
//
// A process knows its own calls only: communication with others takes its priced duration from
// when this process is there. TANDEM_FAKE_GPUS: how many GPUs there are, else 1.
// TANDEM_FAKE_FAULT=RANK:OP: an op whose payload is wrong. TANDEM_FAKE_HANG=RANK: the later half of
// the rank's events never happens. TANDEM_FAKE_QUEUE: how many calls fit behind the closed gate.
// TANDEM_FAKE_GRAPHS=0: no graph can be captured. TANDEM_FAKE_PRINTS: it prints to standard output,
// until the process ends, as NCCL does where NCCL_DEBUG is set.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "exec/cuda/gpu.h"
#include "exec/cuda/software.h"
#include "launch/clock.h"
#include "tests/exec/cuda/fake_gpu.h"

namespace tandem {
namespace {

constexpr int kSms = 132;

// What the variable says; `otherwise`: it is not set.
int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

void speak(const char* what) {
  if (std::getenv("TANDEM_FAKE_PRINTS") != nullptr) std::printf("fake NCCL: %s\n", what);
}

struct SpeaksLast {
  ~SpeaksLast() { speak("gone"); }
};
const SpeaksLast speaks_last;

class FakeCuda : public Gpu {
 public:
  const GpuFacts& facts() const override { return facts_; }

  Result<GpuCommId> make_id() override {
    GpuCommId id{};
    const int which[] = {getpid(), ++ids_};
    std::memcpy(id.data(), which, sizeof which);
    return id;
  }

  Result<GpuShare> open(GpuJob job) override {
    speak("open");
    job_ = std::move(job);
    for (const GpuCommunicator& each : job_.plan->communicators) {
      if (each.members == 1) continue;
      ASSIGN_OR_RETURN(const GpuCommId id, job_.id(each.communicator));
      if (id == GpuCommId{})
        return failed(fmt::format("found no id of communicator {}, which has {} members",
                                  each.communicator, each.members));
      job_.on_progress();
    }
    const int local_ranks = static_cast<int>(job_.plan->local_ranks.size());
    share_.sms.assign(local_ranks, std::max(1, kSms / local_ranks));
    share_.disjoint = local_ranks > 1 && local_ranks <= kSms;
    if (local_ranks > kSms) share_.note = "plain streams: more ranks than SMs";
    return share_;
  }

  std::int64_t launches(const GpuCall&) const override { return 1; }
  Status capture(std::span<const GpuCall>) override {
    if (number_of("TANDEM_FAKE_GRAPHS", 1) == 1) return Done{};
    return failed("has no graphs");
  }
  Status issue(std::span<const GpuCall> calls, int, bool by_graph) override {
    speak("issue");
    if (aborted_) return failed("asked for calls after the end");
    GpuPlan asked = *job_.plan;
    asked.calls.assign(calls.begin(), calls.end());
    FakeOptions options;
    options.alone = true;
    options.queues = kHardwareQueues;
    options.nccl_streams =
        !job_.plan->all_ranks_are_local() || job_.options.transfers == GpuTransfers::Nccl;
    options.duration_ns = [this](const GpuPlan&, const GpuCall& call) { return duration_ns(call); };
    ASSIGN_OR_RETURN(FakeRun run, play(*job_.program, {&asked, 1}, options));
    events_ = std::move(run.event_ns[0]);
    checked_ =
        std::ranges::any_of(calls, [](const GpuCall& c) { return c.verb == GpuVerb::Check; });
    find_hang();
    const bool fits = static_cast<int>(calls.size()) <= number_of("TANDEM_FAKE_QUEUE", 1'000'000);
    held_ = opened_ >= ++wanted_ || by_graph || fits;
    if (!held_) opened_ = wanted_;
    return Done{};
  }

  // The gate may be opened before anything is asked for.
  Result<Nanoseconds> open_gate() override {
    if (held_) opened_ = opened_ < wanted_ ? wanted_ : wanted_ + 1;
    return now_ns();
  }
  bool held() const override { return held_; }

  Result<bool> has_happened(std::int32_t event) override {
    return events_.at(event) < hang_ns_ || (event != job_.plan->done && !hangs(event));
  }

  Result<Nanoseconds> ns_since_gate(std::int32_t event) override { return events_.at(event); }

  Result<std::vector<GpuFault>> faults() override {
    std::vector<GpuFault> faults;
    const char* text = std::getenv("TANDEM_FAKE_FAULT");
    int rank = 0;
    unsigned op = 0;
    if (!checked_ || text == nullptr || std::sscanf(text, "%d:%u", &rank, &op) != 2) return faults;
    for (std::size_t i = 0; i < job_.plan->local_ranks.size(); ++i) {
      if (index(job_.plan->local_ranks[i]) == rank)
        faults.push_back({static_cast<std::int32_t>(i), op, 1, 16});
    }
    return faults;
  }

  void abort() override { aborted_ = true; }

 private:
  static Error failed(const std::string& what) { return Error{"fake GPU: " + what, Error::Failed}; }

  // Messages to others take what they are priced at; those of two ranks on this GPU are copied.
  Nanoseconds duration_ns(const GpuCall& call) const {
    const Op& op = job_.program->body_of(job_.plan->local_ranks[call.local_rank]).ops[call.op];
    if (call.verb == GpuVerb::Move && job_.options.transfers != GpuTransfers::Priced)
      return 5'000 + to_ns(static_cast<double>(op.bytes) / 150e9);
    if (call.verb != GpuVerb::Compute || job_.options.compute == Compute::Timed || op.kernel < 0)
      return op.duration_ns;
    const Kernel& kernel = job_.program->kernels[op.kernel];
    const double flops_per_s = 500e12 * share_.sms[call.local_rank] / kSms;
    const double seconds = kernel.flops() / flops_per_s + kernel.memory_bytes / 3e12;
    return to_ns(std::max(2e-6, seconds * std::pow(job_.options.gemm_scale, 3)));
  }

  // The middle one of the rank's events in time: from there on they do not happen.
  void find_hang() {
    hanging_.assign(events_.size(), false);
    hang_ns_ = std::numeric_limits<Nanoseconds>::max();
    const int rank = number_of("TANDEM_FAKE_HANG", -1);
    std::vector<Nanoseconds> times;
    for (std::size_t i = 0; i < job_.plan->local_ranks.size(); ++i) {
      if (index(job_.plan->local_ranks[i]) != rank) continue;
      for (const GpuOpEvents& events : job_.plan->op_events[i]) {
        for (const std::int32_t event : {events.begin, events.end}) {
          hanging_[event] = true;
          times.push_back(events_[event]);
        }
      }
    }
    if (times.empty()) return;
    std::ranges::sort(times);
    hang_ns_ = times[times.size() / 2];
  }
  bool hangs(std::int32_t event) const { return hanging_.at(event); }

  const GpuFacts facts_{.name = "fake GPU (virtual time)",
                        .sms = kSms,
                        .memory_bytes = 80'000'000'000,
                        .driver = "none",
                        .runtime = "none",
                        .nccl = "none",
                        .cublas = "none"};
  GpuJob job_;
  GpuShare share_;
  int ids_ = 0;
  bool aborted_ = false;
  bool checked_ = false;
  int wanted_ = 0, opened_ = 0;  // gates
  bool held_ = true;
  std::vector<Nanoseconds> events_;  // of the iteration
  std::vector<bool> hanging_;        // by event: of the rank that hangs
  Nanoseconds hang_ns_ = 0;
};

Result<int> count_gpus() {
  speak("count");
  const int gpus = number_of("TANDEM_FAKE_GPUS", 1);
  if (gpus > 0) return gpus;
  return Error{"found no fake GPU, expected TANDEM_FAKE_GPUS of at least 1", Error::Missing};
}

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) tandem::Result<int> tandem_gpu_count() {
  return tandem::count_gpus();
}

extern "C" __attribute__((visibility("default"))) tandem::GpuSoftware tandem_gpu_software() {
  tandem::GpuSoftware software{{{"NCCL", "2.28.9", ""}}, {}};
  const tandem::Result<int> gpus = tandem::count_gpus();
  for (int i = 0; gpus.ok() && i < *gpus; ++i) software.gpus.emplace_back("fake GPU");
  return software;
}

extern "C" __attribute__((visibility("default"))) tandem::Result<tandem::Gpu*> tandem_open_gpu(
    int number) {
  ASSIGN_OR_RETURN(const int gpus, tandem::count_gpus());
  if (number < 0 || number >= gpus)
    return tandem::Error{fmt::format("found no GPU {}, expected one below {}", number, gpus),
                         tandem::Error::Missing};
  return new tandem::FakeCuda();
}
