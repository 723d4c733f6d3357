// A GPU plays two ranks through its socket: what happens, in what order, and that messages arrive.
// Skipped where there is no GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "base/plugin.h"
#include "exec/cuda/gpu.h"
#include "exec/payload/payload.h"
#include "launch/clock.h"
#include "tests/made_program.h"

using namespace tandem;

namespace {

constexpr Nanoseconds kOp_ns = 2'000'000;
constexpr Bytes kBytes = 1 << 20;

// Null where there is none. ctest counts a test as skipped that prints why.
std::unique_ptr<Gpu> first_gpu() {
  const auto symbol = plugin_symbol("libtandem_cuda.so", kGpuSymbol);
  if (!symbol.ok()) {
    WARN("skipped: " << symbol.error().text());
    return nullptr;
  }
  const Result<Gpu*> gpu = reinterpret_cast<OpenGpu>(*symbol)(0);
  if (gpu.ok()) return std::unique_ptr<Gpu>(*gpu);
  WARN("skipped: no GPU: " << gpu.error().text());
  return nullptr;
}

template <class T>
T value_of(Result<T> result) {
  INFO((result.ok() ? "" : result.error().text()));
  REQUIRE(result.ok());
  return std::move(result).value();
}

// Events of the plan below.
enum Event : std::int32_t { Open, Begin0, End0, Sent, Arrived, Begin1, End1, Joined, All, kEvents };

// Rank 0 computes and sends, rank 1 receives and computes:
//
//   stream 0 (rank 0)    gate | compute |                          all
//   stream 1 (0>1)                      | move |
//   stream 2 (rank 1)                          | compute |
struct Pipeline {
  Program program = made_program(fmt::format(R"(
    rank 0: F0 {0}ns, send0 0>1 100us {1}B after F0
    rank 1: recv0 0>1 100us {1}B, F0 {0}ns after recv0
  )",
                                             kOp_ns, kBytes));
  GpuPlan plan;

  Pipeline() {
    // Numbers of ops in their bodies.
    constexpr std::uint32_t first = 0, sent = 1, received = 0, second = 1;
    plan.local_ranks = {Rank{0}, Rank{1}};
    const std::int64_t words = payload_words(kBytes);
    plan.streams = {{0, 0, 0, 0}, {0, 1, words, words}, {1, 0, 0, 0}};
    plan.communicators = {{0, 0, 1, 0}};
    plan.event_streams = {0, 0, 0, 1, 1, 2, 2, 1, 0};
    plan.gate = Open;
    plan.done = All;
    plan.op_events = {{{Begin0, End0}, {Sent, Arrived}}, {{Sent, Arrived}, {Begin1, End1}}};
    plan.calls.push_back({GpuVerb::Gate, 0});
    record(Open);
    wait(1, Open);
    wait(2, Open);
    carry_out(GpuVerb::Compute, 0, Begin0, 0, first);
    wait(1, End0);
    plan.calls.push_back({GpuVerb::Fill, 1, -1, 0, sent});
    carry_out(GpuVerb::Move, 1, Sent, 0, sent);
    plan.calls.push_back({GpuVerb::Check, 1, -1, 1, received});
    wait(2, Arrived);
    carry_out(GpuVerb::Compute, 2, Begin1, 1, second);
    record(Joined);
    wait(0, Joined);
    wait(0, End1);
    record(All);
  }

  // All members play here: no ids are needed.
  GpuJob gpu_job(const ExecOptions& options) const {
    return {&program, &plan, options, [](std::int32_t) { return GpuCommId{}; }, [] {}};
  }

  std::vector<GpuCall> unchecked() const {
    std::vector<GpuCall> calls = plan.calls;
    std::erase_if(calls, [](const GpuCall& call) {
      return call.verb == GpuVerb::Fill || call.verb == GpuVerb::Check;
    });
    return calls;
  }

 private:
  void record(std::int32_t event) {
    plan.calls.push_back({GpuVerb::Record, plan.event_streams[event], event});
  }
  void wait(std::int32_t stream, std::int32_t event) {
    plan.calls.push_back({GpuVerb::Wait, stream, event});
  }
  // The event after `begin` is its end.
  void carry_out(GpuVerb verb, std::int32_t stream, std::int32_t begin, std::int32_t local_rank,
                 std::uint32_t op) {
    record(begin);
    plan.calls.push_back({verb, stream, -1, local_rank, op});
    record(begin + 1);
  }
};

// One iteration, to its end; when its events happened.
std::vector<Nanoseconds> play(Gpu* gpu, const std::vector<GpuCall>& calls, int iteration,
                              GpuLaunch launch) {
  if (launch == GpuLaunch::Direct) value_of(gpu->open_gate());
  value_of(gpu->issue(calls, iteration, launch == GpuLaunch::Graph && iteration > 1));
  if (launch != GpuLaunch::Direct) {
    usleep(2000);
    CHECK(!value_of(gpu->has_happened(All)));  // the gate holds it
    CHECK(!value_of(gpu->has_happened(End0)));
    value_of(gpu->open_gate());
  }
  const Nanoseconds until_ns = now_ns() + 20'000'000'000;
  while (!value_of(gpu->has_happened(All))) REQUIRE(now_ns() < until_ns);
  std::vector<Nanoseconds> times;
  for (std::int32_t event = 0; event < kEvents; ++event) {
    CHECK(value_of(gpu->has_happened(event)));
    times.push_back(value_of(gpu->ns_since_gate(event)));
  }
  return times;
}

// Whether the chain went as it stands above. Events are told to about 0.5 us, and the clock that
// kernels spin by may tick every microsecond.
void check_times(const std::vector<Nanoseconds>& times, bool timed) {
  const std::vector<std::int32_t> chain = {Open, Begin0, End0, Sent, Arrived, Begin1, End1, All};
  constexpr Nanoseconds kTold_ns = 3000;
  for (std::size_t i = 1; i < chain.size(); ++i)
    CHECK(times[chain[i]] + kTold_ns >= times[chain[i - 1]]);
  if (!timed) return;
  for (const auto& [begin, end] : {std::pair(Begin0, End0), std::pair(Begin1, End1)}) {
    CHECK(times[end] - times[begin] >= kOp_ns - kTold_ns);
    CHECK(times[end] - times[begin] <= 2 * kOp_ns - kTold_ns);  // its blocks ran side by side
  }
}

void play_all(Gpu* gpu, const Pipeline& pipeline, const ExecOptions& options) {
  const GpuShare share = value_of(gpu->open(pipeline.gpu_job(options)));
  WARN(gpu->facts().name << ": " << share.sms[0] << " and " << share.sms[1] << " SMs"
                         << (share.disjoint ? "" : ", shared") << "; " << share.note);
  REQUIRE(share.sms.size() == 2);
  CHECK(share.sms[0] + share.sms[1] <= gpu->facts().sms);
  for (int iteration = 0; iteration < 4; ++iteration) {
    const bool checked = iteration < 2;
    const auto times =
        play(gpu, checked ? pipeline.plan.calls : pipeline.unchecked(), iteration, options.launch);
    check_times(times, options.compute == Compute::Timed);
    CHECK(value_of(gpu->faults()).empty());
  }
}

}  // namespace

TEST_CASE("a GPU plays two ranks, by every kind of transfer and launch") {
  const auto transfers = GENERATE(GpuTransfers::Nccl, GpuTransfers::Copy, GpuTransfers::Priced);
  const auto launch = GENERATE(GpuLaunch::Gated, GpuLaunch::Direct, GpuLaunch::Graph);
  Pipeline pipeline;
  const auto gpu = first_gpu();
  if (!gpu) return;
  ExecOptions options;
  options.share_gpu = true;
  options.transfers = transfers;
  options.launch = launch;
  options.full_payload = launch == GpuLaunch::Direct;
  CAPTURE(static_cast<int>(transfers), static_cast<int>(launch));
  play_all(gpu.get(), pipeline, options);
}

TEST_CASE("a GPU multiplies matrices in every precision that it has") {
  const std::string precision = GENERATE("fp32", "fp16", "bf16", "fp8");
  Pipeline pipeline;
  const auto gpu = first_gpu();
  if (!gpu) return;
  // The sides of 100 are no multiple of 16.
  pipeline.program.kernels.push_back(
      {.name = "layer",
       .gemms = {{1, 512, 1024, 256}, {3, 100, 100, 100, true}, {2, 100, 100, 100}},
       .attention_flops = 3e10,
       .memory_bytes = 1e8});
  for (Body& body : pipeline.program.bodies) {
    for (Op& op : body.ops) op.kernel = is_compute(op.kind) ? 0 : -1;
  }
  ExecOptions options;
  options.share_gpu = true;
  options.compute = Compute::Gemm;
  options.precision = precision;
  CAPTURE(precision);
  play_all(gpu.get(), pipeline, options);
}

TEST_CASE("a GPU finds a message that did not arrive") {
  Pipeline pipeline;
  const auto gpu = first_gpu();
  if (!gpu) return;
  ExecOptions options;
  options.transfers = GpuTransfers::Copy;
  std::vector<GpuCall> calls = pipeline.plan.calls;
  std::erase_if(calls, [](const GpuCall& call) { return call.verb == GpuVerb::Fill; });
  value_of(gpu->open(pipeline.gpu_job(options)));
  play(gpu.get(), calls, 0, GpuLaunch::Gated);
  const std::vector<GpuFault> faults = value_of(gpu->faults());
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].local_rank == 1);
  CHECK(faults[0].op == 0);
  CHECK(faults[0].checked == 512);  // the first and the last 256 words
  // Zeros came: one word in 256 is one.
  CHECK(faults[0].wrong > 450);
}
