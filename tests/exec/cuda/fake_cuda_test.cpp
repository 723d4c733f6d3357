// The local rank of a GPU, on the fake one that the program opens as a plugin.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/plugin.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/gpu_executor.h"
#include "exec/recording.h"
#include "sim/engines.h"
#include "tests/exec/cuda/gpu_programs.h"
#include "tests/made_program.h"
#include "tests/variable.h"

using namespace tandem;

namespace {

std::unique_ptr<Gpu> fake_gpu() {
  const Variable folder("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const auto symbol = plugin_symbol("libtandem_cuda.so", kGpuSymbol);
  INFO((symbol.ok() ? "" : symbol.error().text()));
  REQUIRE(symbol.ok());
  auto gpu = reinterpret_cast<OpenGpu>(*symbol)(0);
  REQUIRE(gpu.ok());
  return std::unique_ptr<Gpu>(*gpu);
}

// Rank 0 of two, whose other one agrees to all.
class FirstRank : public Control {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  Status broadcast(std::span<std::byte>) override { return Done{}; }
  Status barrier() override {
    ++barriers;
    return Done{};
  }
  Result<bool> any(bool own) override { return own; }
  Result<ClockReading> compare_clocks() override { return ClockReading{}; }

  int barriers = 0;
};

struct PlayedGpu {
  Status status = Done{};
  Recording recording;  // of the last iteration
  std::string note;
  std::int64_t payloads_checked = 0;
};

PlayedGpu played(const Program& program, const std::vector<Rank>& local_ranks,
                 const ExecOptions& options, Control* control = nullptr) {
  std::vector<std::unique_ptr<RunState>> states;
  std::vector<RunState*> all;
  for (const Rank local_rank : local_ranks) {
    states.push_back(std::make_unique<RunState>(program, program.ranks[index(local_rank)].body,
                                                options.iterations));
    all.push_back(states.back().get());
  }
  const std::unique_ptr<Gpu> gpu = fake_gpu();
  const GpuPlan plan = gpu_plan(program, local_ranks);
  PlayedGpu played;
  played.status = play_gpu(program, options, plan, gpu.get(), control, all);
  played.note = all[0]->header().note;
  for (RunState* state : all) {
    const auto times = state->times(options.iterations - 1);
    played.recording.emplace_back(times.begin(), times.end());
    played.payloads_checked += state->header().payloads_checked;
  }
  return played;
}

Program order_job(const char* name, int pp, int vpp, int dp = 1) {
  const auto order = make_order({name, pp, vpp, 2 * pp, 0});
  REQUIRE(order.ok());
  LowerOptions options;
  options.dp = dp;
  options.overlap_p2p = overlaps_p2p_by_default(*order);
  return order_program(*order, options, 300'000);
}

ExecOptions priced(GpuLaunch launch = GpuLaunch::Gated) {
  ExecOptions options;
  options.share_gpu = true;
  options.transfers = GpuTransfers::Priced;
  options.launch = launch;
  options.iterations = 2;
  return options;
}

}  // namespace

TEST_CASE("what the executor of a shared GPU reads off its events is the ideal's trace") {
  for (const auto& [name, pp, vpp] :
       {std::tuple{"1f1b", 4, 1}, {"zbv", 2, 2}, {"dualpipe", 2, 1}}) {
    for (const GpuLaunch launch : {GpuLaunch::Gated, GpuLaunch::Direct, GpuLaunch::Graph}) {
      const Program program = order_job(name, pp, vpp, 2);
      const PlayedGpu run = played(program, all_ranks(program), priced(launch));
      INFO(name << (run.status.ok() ? "" : run.status.error().text()));
      REQUIRE(run.status.ok());
      const Trace trace = trace_of(program, run.recording);
      SimOptions unfolded;
      unfolded.fold = false;
      const auto expected = ideal(program, unfolded);
      REQUIRE(expected.ok());
      REQUIRE(trace.events.size() == expected->events.size());
      int unlike = 0;
      for (std::size_t i = 0; i < trace.events.size(); ++i) {
        const EventTimes &a = trace.events[i], &b = expected->events[i];
        unlike += a.arrive_ns != b.arrive_ns || a.start_ns != b.start_ns || a.end_ns != b.end_ns;
      }
      CHECK(unlike == 0);
      CHECK(run.note.find("fake GPU (virtual time)") != std::string::npos);
      CHECK(run.payloads_checked > 0);
    }
  }
}

TEST_CASE("a rank of many asks for ids of its communicators, and is played without the others") {
  const Program program = order_job("1f1b", 2, 1);
  const PlayedGpu without = played(program, {Rank{0}}, priced());
  REQUIRE(!without.status.ok());
  CHECK(without.status.error().text() ==
        "fake GPU: found no id of communicator 0, which has 2 members");
  FirstRank control;
  const PlayedGpu run = played(program, {Rank{0}}, priced(), &control);
  INFO((run.status.ok() ? "" : run.status.error().text()));
  REQUIRE(run.status.ok());
  CHECK(control.barriers > 0);
  // Four forwards of 2 ms and backwards of 3 ms, and no longer than if nothing overlapped.
  const std::vector<OwnTimes>& times = run.recording[0];
  Nanoseconds last = 0;
  for (const OwnTimes& each : times) last = std::max(last, each.end_ns);
  Nanoseconds in_line = 0;
  for (const Op& op : program.body_of(Rank{0}).ops) in_line += op.duration_ns;
  CHECK(last - times[0].arrive_ns <= in_line);
  CHECK(last - times[0].arrive_ns >= 4 * (2'000'000 + 3'000'000));
}

TEST_CASE(
    "products take a time that goes with their FLOPs, and with the third power of the scale") {
  // One kernel of 2 x 4096^3 = 1.374e11 FLOPs: at 500 TFLOP/s 274.878 us, and at half of it
  // 549.756.
  const auto time_of = [](int ranks, double scale) {
    Program program =
        made_program(ranks == 1 ? "rank 0: F 1ns kernel0" : "ranks 0 1: F 1ns kernel0");
    program.kernels.push_back({"product", {{1, 4096, 4096, 4096}}});
    ExecOptions options = priced();
    options.compute = Compute::Gemm;
    options.gemm_scale = scale;
    const PlayedGpu run = played(program, all_ranks(program), options);
    REQUIRE(run.status.ok());
    const OwnTimes& times = run.recording[0][0];
    return times.end_ns - times.arrive_ns;
  };
  CHECK(time_of(1, 1) == 274'878);
  CHECK(time_of(2, 1) == 549'756);
  CHECK(time_of(1, 2) == 2'199'023);
  CHECK(time_of(1, 0.01) == 2'000);
}

TEST_CASE("a fault that the device finds ends the run with its op") {
  const Variable fault("TANDEM_FAKE_FAULT", "1:0");
  const Program program = order_job("1f1b", 2, 1);
  const PlayedGpu run = played(program, all_ranks(program), priced());
  REQUIRE(!run.status.ok());
  CHECK(
      run.status.error().text() ==
      "received other bytes in recv 0 of stage 1 (lane 0>1) of rank 1 than should have been sent: "
      "1 of 16 words checked are wrong");
}

TEST_CASE("a rank that hangs ends the run after the time-out, and is named") {
  const Variable hang("TANDEM_FAKE_HANG", "1");
  const Program program = order_job("1f1b", 2, 1);
  ExecOptions options = priced();
  options.timeout_ns = 100'000'000;
  const PlayedGpu run = played(program, all_ranks(program), options);
  REQUIRE(!run.status.ok());
  CHECK(run.status.error().text().find("no op ended within 0.1 s: ") == 0);
  CHECK(run.status.error().text().find("rank 1") != std::string::npos);
}

TEST_CASE("a full queue opens the gate early: the iteration is played again, launched otherwise") {
  const Variable queue("TANDEM_FAKE_QUEUE", "20");
  const Program program = order_job("1f1b", 2, 1);
  const PlayedGpu shared = played(program, all_ranks(program), priced());
  REQUIRE(shared.status.ok());
  CHECK(shared.note.find(", launched directly: its queues were full before all was asked for") !=
        std::string::npos);
  FirstRank control;
  const PlayedGpu alone = played(program, {Rank{0}}, priced(), &control);
  REQUIRE(alone.status.ok());
  CHECK(alone.note.find(", launched as a graph: its queues were full") != std::string::npos);
  const Variable graphs("TANDEM_FAKE_GRAPHS", "0");
  const PlayedGpu without = played(program, {Rank{0}}, priced(), &control);
  REQUIRE(without.status.ok());
  CHECK(without.note.find(", launched directly, without a graph (fake GPU: has no graphs): its "
                          "queues were full") != std::string::npos);
}

TEST_CASE("there are as many fake GPUs as are asked for") {
  const Variable folder("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const auto count = plugin_symbol("libtandem_cuda.so", kGpuCountSymbol);
  const auto open = plugin_symbol("libtandem_cuda.so", kGpuSymbol);
  REQUIRE((count.ok() && open.ok()));
  const auto gpus = [&] { return reinterpret_cast<GpuCount>(*count)(); };
  REQUIRE(gpus().ok());
  CHECK(*gpus() == 1);
  const auto second = reinterpret_cast<OpenGpu>(*open)(1);
  REQUIRE(!second.ok());
  CHECK(second.error().kind == Error::Missing);
  {
    const Variable four("TANDEM_FAKE_GPUS", "4");
    CHECK(*gpus() == 4);
  }
  const Variable none("TANDEM_FAKE_GPUS", "0");
  REQUIRE(!gpus().ok());
  CHECK(gpus().error().kind == Error::Missing);
}
