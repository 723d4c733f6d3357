// The plugin's own objects on mocks of CUDA, NCCL and cuBLASLt: what is called in what order, and
// what happens when any one call fails.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "exec/cuda/device.h"
#include "exec/cuda/gpu_executor.h"
#include "launch/clock.h"
#include "tests/exec/cuda/mock_cuda.h"
#include "tests/made_program.h"
#include "tests/text.h"

using namespace tandem;

namespace {

MockCuda& mock() { return MockCuda::get(); }

// Rank 0 of several, whose others agree to all.
class MockedPeers : public Control {
 public:
  explicit MockedPeers(int ranks) : ranks_(ranks) {}
  int rank() const override { return 0; }
  int ranks() const override { return ranks_; }
  Status broadcast(std::span<std::byte> bytes) override {
    told_bytes.push_back(bytes.size());
    return Done{};
  }
  Status barrier() override { return Done{}; }
  Result<bool> any(bool own) override { return own; }
  Result<ClockReading> compare_clocks() override { return ClockReading{}; }

  std::vector<std::size_t> told_bytes;  // by broadcast

 private:
  int ranks_;
};

constexpr Nanoseconds kOp_ns = 1000;

// Two ranks that compute and send to each other, twice; kernels multiply 16 x 16.
Program two_ranks() {
  Program program = made_program(R"(
    rank 0, 2 times: F# 1us kernel0, send# 0>1 1us after F#, recv# 1>0 1us
    rank 1, 2 times: recv# 0>1 1us, F# 1us kernel0 after recv#, send# 1>0 1us after F#
  )");
  program.kernels.push_back({.name = "small", .gemms = {{1, 16, 16, 16}}, .memory_bytes = 512});
  return program;
}

// Every kind of message among three ranks, and an exchange in one group.
Program every_message() {
  std::string all = "F0 1us";
  for (const char* kind :
       {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "ring-shift"})
    all += fmt::format(", {}0 data 120B 1us after F0", kind);
  return made_program(fmt::format(R"(
    rank 0: {0}, send1 0>1 1us exchange0, recv1 1>0 1us exchange0
    rank 1: {0}, recv1 0>1 1us exchange0, send1 1>0 1us exchange0
    rank 2: {0}
  )",
                                  all));
}

struct MockedRun {
  Status status = Done{};
  std::string note;
  std::size_t calls = 0;  // before the device was closed
  bool was_made = false;  // the device
  std::uint64_t steps = 0;
  std::vector<std::size_t> told_bytes;
  Nanoseconds took_ns = 0;
};

struct MockedJob {
  std::string name;
  Program program;
  ExecOptions options;
  bool alone = false;  // rank 0 plays, and the others elsewhere

  MockedRun run() const {
    std::vector<Rank> local_ranks;
    for (std::size_t i = 0; i < (alone ? 1 : program.ranks.size()); ++i)
      local_ranks.push_back(static_cast<Rank>(i));
    std::vector<std::unique_ptr<RunState>> states;
    std::vector<RunState*> all;
    for (const Rank rank : local_ranks) {
      states.push_back(
          std::make_unique<RunState>(program, program.ranks[index(rank)].body, options.iterations));
      all.push_back(states.back().get());
    }
    MockedPeers peers(static_cast<int>(program.ranks.size()));
    const GpuPlan plan = gpu_plan(program, local_ranks);
    MockedRun run;
    const Nanoseconds begin_ns = now_ns();
    auto device = Device::make(0);
    if (device.ok()) {
      run.status = play_gpu(program, options, plan, device->get(), alone ? &peers : nullptr, all);
    } else {
      run.status = device.error();
    }
    run.note = all[0]->header().note;
    run.calls = mock().all_calls();
    if (device.ok()) device->reset();
    run.was_made = device.ok();
    run.steps = all[0]->header().steps;
    run.told_bytes = peers.told_bytes;
    run.took_ns = now_ns() - begin_ns;
    return run;
  }
};

ExecOptions small_options() {
  ExecOptions options;
  options.share_gpu = true;
  options.iterations = 1;
  return options;
}

MockedJob shared_job(GpuLaunch launch = GpuLaunch::Gated) {
  MockedJob job{"two ranks on one GPU", two_ranks(), small_options()};
  job.options.launch = launch;
  return job;
}

MockedJob products() {
  MockedJob job = shared_job();
  job.name = "matrix products on one GPU";
  job.options.compute = Compute::Gemm;
  job.options.precision = "bf16";
  return job;
}

MockedJob rank_of_three(GpuLaunch launch = GpuLaunch::Gated) {
  MockedJob job{"rank 0 of three", every_message(), small_options(), true};
  job.options.share_gpu = false;
  job.options.launch = launch;
  return job;
}

constexpr Nanoseconds kSoon_ns = 30'000'000'000;  // on a busy machine, and before the time-out

MockedJob impatient(MockedJob job) {
  job.options.timeout_ns = 1'000'000'000;
  return job;
}

void check_faults() {
  for (const std::string& fault : mock().faults) FAIL_CHECK(fault);
}

void reset(const MockedJob& job) {
  mock().reset();
  mock().has_peers = job.alone;
}

std::string text(const Status& status) { return status.ok() ? "" : status.error().text(); }
}  // namespace

TEST_CASE("a run asks for nothing that CUDA or NCCL forbids, and gives all back") {
  for (const MockedJob& job :
       {shared_job(), shared_job(GpuLaunch::Direct), shared_job(GpuLaunch::Graph), products(),
        rank_of_three(), rank_of_three(GpuLaunch::Graph)}) {
    reset(job);
    const MockedRun run = job.run();
    INFO(job.name << ", launch " << static_cast<int>(job.options.launch) << ": "
                  << text(run.status));
    CHECK(run.status.ok());
    check_faults();
    CHECK(mock().made > 30);
    CHECK(mock().left().empty());
    CHECK(MockCuda::depth() == 0);
  }
}

namespace {

// What a run can do without: it gives back what it can, asks for fewer SMs, and an event of a graph
// that has no time yet has not happened.
bool can_do_without(const std::string& call) {
  return has(call, "Destroy") || call.starts_with("cudaFree") ||
         call == "cuDevSmResourceSplitByCount" || call == "cudaEventElapsedTime";
}

}  // namespace

// Whatever else fails, the run ends with an Error that names the call and, where several ranks play
// here, theirs.
TEST_CASE("any one call may fail: the run says which, ends, and gives all back") {
  for (const MockedJob& job : {shared_job(), shared_job(GpuLaunch::Graph), products(),
                               rank_of_three(), rank_of_three(GpuLaunch::Graph)}) {
    reset(job);
    REQUIRE(job.run().status.ok());
    const std::size_t calls = mock().calls.size();
    for (std::size_t i = 0; i < calls; ++i) {
      reset(job);
      mock().fails_at = static_cast<std::int64_t>(i);
      const MockedRun run = job.run();
      if (mock().calls.size() <= i) continue;  // the time decides how often some are asked
      const std::string failed = mock().calls[i].name;
      INFO(job.name << ": call " << i << " of " << calls << ", " << failed << ": "
                    << text(run.status) << run.note);
      const bool when_closing = i >= run.calls;
      CHECK((when_closing || (run.status.ok() && can_do_without(failed)) ||
             has(text(run.status), failed) || has(run.note, failed)));
      CHECK((run.status.ok() || job.alone || !run.was_made || has(text(run.status), "rank")));
      check_faults();
      CHECK(mock().left().empty());
      CHECK(MockCuda::depth() == 0);
      CHECK(run.took_ns < kSoon_ns);
    }
  }
}

namespace {

std::vector<std::size_t> places(const std::string& name) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < mock().calls.size(); ++i) {
    if (mock().calls[i].name == name) at.push_back(i);
  }
  return at;
}

}  // namespace

TEST_CASE("all communicators with peers are aborted in one group, those without are left alone") {
  const MockedJob alone = rank_of_three();
  reset(alone);
  mock().fails_named = "cudaEventElapsedTime";
  const MockedRun run = alone.run();
  REQUIRE(!run.status.ok());
  const std::vector<std::size_t> aborts = places("ncclCommAbort");
  REQUIRE(aborts.size() == 3);
  for (std::size_t i = 0; i < aborts.size(); ++i) {
    CHECK(aborts[i] == aborts[0] + i);  // one behind the other
    CHECK(mock().calls[aborts[i]].depth == 1);
  }
  CHECK(mock().calls[aborts[0] - 1].name == "ncclGroupStart");
  CHECK(mock().calls[aborts[2] + 1].name == "ncclGroupEnd");
  check_faults();
  const MockedJob shared = impatient(shared_job());
  reset(shared);
  mock().hangs_at = 8;
  CHECK(!shared.run().status.ok());
  CHECK(mock().count("ncclCommInitRankConfig") == 2);
  CHECK(mock().count("ncclCommAbort") == 0);
}

TEST_CASE("a GPU that hangs is told, even where NCCL's abort hangs as well") {
  const MockedJob shared = impatient(shared_job());
  reset(shared);
  mock().hangs_at = 8;
  const MockedRun here = shared.run();
  INFO(text(here.status));
  CHECK(has(text(here.status), "no op ended within 1 s: rank "));
  CHECK(here.took_ns < kSoon_ns);

  const MockedJob alone = rank_of_three();
  reset(alone);
  mock().fails_named = "cudaEventElapsedTime";
  mock().abort_blocks = true;
  const MockedRun run = alone.run();
  CHECK(has(text(run.status), "cudaEventElapsedTime: a mocked failure"));
  CHECK(run.took_ns < kSoon_ns);
  mock().abort_blocks = false;
  while (mock().live("ncclComm") > 0) std::this_thread::yield();
}

TEST_CASE("a communicator that never answers ends the run after the time-out, with its ranks") {
  for (const MockedJob& job : {impatient(rank_of_three())}) {
    reset(job);
    mock().never_settles = true;
    const MockedRun run = job.run();
    CHECK(text(run.status) ==
          "ncclCommInitRankConfig: found communicator 0 still waiting after 1 s, expected all of "
          "ranks 0, 1, 2 to call");
    CHECK(mock().left().empty());
    CHECK(run.took_ns < kSoon_ns);
  }
}

TEST_CASE("a communicator that has to wait is asked until it has done what it was asked for") {
  for (const int polls : {0, 1, 50}) {
    const MockedJob job = rank_of_three();
    reset(job);
    mock().polls = polls;
    CHECK(job.run().status.ok());
    check_faults();  // nothing more is asked of it before
    CHECK(mock().count("ncclCommGetAsyncError") > 3 * polls);
  }
}

TEST_CASE("a communicator that fails by itself ends the run, with its ranks") {
  const MockedJob job = rank_of_three();
  reset(job);
  REQUIRE(job.run().status.ok());
  const int asked = mock().count("ncclCommGetAsyncError");
  for (int at = 0; at < asked; ++at) {
    reset(job);
    mock().breaks_at = at;
    const MockedRun run = job.run();
    INFO(at << " of " << asked << ": " << text(run.status));
    check_faults();
    CHECK(mock().left().empty());
    if (run.status.ok()) continue;  // it failed when it was closed, or was asked less often
    CHECK(has(text(run.status), "nccl"));
    CHECK(has(text(run.status), ": a mocked failure (communicator "));
    CHECK(has(text(run.status), " of ranks "));
  }
}

TEST_CASE("communicators with one member block, so that NCCL starts no threads for them") {
  const MockedJob shared = shared_job(), alone = rank_of_three();
  reset(shared);
  CHECK(shared.run().status.ok());
  CHECK(mock().count("ncclCommInitRankConfig") == 2);
  CHECK(mock().not_blocking == 0);
  reset(alone);
  CHECK(alone.run().status.ok());
  CHECK(mock().not_blocking == 3);
}

TEST_CASE("ids of many communicators are told at once, and each that has been opened is progress") {
  constexpr int kCommunicators = 130;
  Program program = made_program(fmt::format(R"(
    rank 0: F0 1us
    rank 0, {0} times: send0 0>1 on lane# 1us after F0
    rank 1, {0} times: recv0 0>1 on lane# 1us
  )",
                                             kCommunicators));
  MockedJob many{"many communicators", std::move(program), small_options(), true};
  many.options.share_gpu = false;
  reset(many);
  const MockedRun run = many.run();
  INFO(text(run.status));
  REQUIRE(run.status.ok());
  CHECK(mock().count("ncclGetUniqueId") == kCommunicators);
  REQUIRE(run.told_bytes.size() > 3);
  CHECK(run.told_bytes[0] == 64 * sizeof(GpuCommId));
  CHECK(run.told_bytes[1] == 64 * sizeof(GpuCommId));
  CHECK(run.told_bytes[2] == 2 * sizeof(GpuCommId));
  CHECK(run.told_bytes[3] == sizeof(Nanoseconds));  // when to start
  // 131 streams' kernels, 130 opened, as many first messages, 131 ops in each of 2 iterations.
  CHECK(run.steps == 131 + 130 + 130 + 2 * 131);
}

TEST_CASE("gradients are added up in their own numbers, and so are partial sums") {
  const auto asked = [](const std::string& name) {
    std::set<std::string> all;
    for (const MockedCall& call : mock().calls) {
      if (call.name == name) all.insert(call.what);
    }
    return all;
  };
  MockedJob job = rank_of_three();
  // 120 bytes: 30 numbers of 32 bits, or 60 of 16; of three members' a third.
  using All = std::set<std::string>;
  for (const auto& [type, number, third] : {std::tuple{"", "30 fp32", "10 fp32"},
                                            {"fp32", "30 fp32", "10 fp32"},
                                            {"bf16", "60 bf16", "20 bf16"},
                                            {"fp16", "60 fp16", "20 fp16"}}) {
    job.options.reductions = {type, "fp32"};
    reset(job);
    CHECK(job.run().status.ok());
    CHECK(asked("ncclAllReduce") == All{number});
    CHECK(asked("ncclReduceScatter") == All{third});
    CHECK(asked("ncclAllGather") == All{"10 fp32"});
  }
  job.program.communicators[0].group_kind = GroupKind::Tensor;
  job.options.reductions = {"fp32", "bf16"};
  reset(job);
  CHECK(job.run().status.ok());
  CHECK(asked("ncclAllReduce") == All{"60 bf16"});
  // A norm is a number of 32 bits.
  job.program.communicators[0].group_kind = GroupKind::Data;
  for (Body& body : job.program.bodies) {
    for (Op& op : body.ops) op.bytes = op.kind == OpKind::AllReduce ? 4 : op.bytes;
  }
  job.options.reductions = {"bf16", "bf16"};
  reset(job);
  CHECK(job.run().status.ok());
  CHECK(asked("ncclAllReduce") == All{"1 fp32"});
}

TEST_CASE("what does not fit behind the gate is launched otherwise, with a note, and goes on") {
  MockedJob shared = impatient(shared_job()), alone = impatient(rank_of_three());
  for (MockedJob* job : {&shared, &alone}) {
    const std::string how = job->alone ? "launched as a graph: " : "launched directly: ";
    // Known beforehand: nothing is held.
    job->options.gate_calls = 5;
    reset(*job);
    const MockedRun known = job->run();
    INFO(text(known.status) << known.note);
    CHECK(known.status.ok());
    CHECK(has(known.note, ", " + how + "its queues hold 5 calls"));
    // Found out: the gate is opened early, and the iteration played once more.
    job->options.gate_calls = kGateCalls;
    reset(*job);
    mock().queue_room = 3;
    const MockedRun full = job->run();
    INFO(text(full.status) << full.note);
    CHECK(full.status.ok());
    CHECK(has(full.note, ", " + how + "its queues were full before all was asked for"));
    check_faults();
  }
  reset(alone);
  mock().queue_room = 3;
  mock().fails_named = "cudaStreamBeginCapture";
  const MockedRun run = alone.run();
  CHECK(run.status.ok());
  CHECK(has(run.note,
            ", launched directly, without a graph (cudaStreamBeginCapture: a mocked "
            "failure): its queues were full"));
}

// The lane of rank 0's five collectives waits for the gate and for the compute; each collective
// stands between two records, and is three calls of NCCL's; a last record joins it: 2 + 5 x 5 + 1.
TEST_CASE("what NCCL puts into streams counts towards what queues hold") {
  MockedJob job = rank_of_three();
  job.options.gate_calls = 27;
  reset(job);
  CHECK(has(job.run().note, "its queues hold 27 calls"));
  job.options.gate_calls = 28;
  reset(job);
  CHECK(!has(job.run().note, "its queues hold"));
}

// A device that is asked for nothing else before.
TEST_CASE("the first iteration behind a closed gate loads nothing: kernels, copies, NCCL") {
  for (const GpuTransfers transfers :
       {GpuTransfers::Nccl, GpuTransfers::Copy, GpuTransfers::Priced}) {
    const MockedJob job = shared_job();
    ExecOptions options = job.options;
    options.transfers = transfers;
    reset(job);
    const std::vector<Rank> both = {Rank{0}, Rank{1}};
    const GpuPlan plan = gpu_plan(job.program, both);
    auto device = Device::make(0);
    REQUIRE(device.ok());
    const auto id = [](std::int32_t) { return GpuCommId{}; };
    REQUIRE((*device)->open({&job.program, &plan, options, id, [] {}}).ok());
    CHECK(mock().has_copied == (transfers == GpuTransfers::Copy));
    REQUIRE((*device)->issue(plan.calls, 0, false).ok());
    CHECK((*device)->open_gate().ok());
    CHECK((*device)->held());
    check_faults();
    device->reset();
    CHECK(mock().left().empty());
  }
}

TEST_CASE("a gate opens by itself where all has been issued and no other process goes on") {
  MockedJob job = shared_job();
  job.options.timeout_ns = 4'000'000'000;  // after half of it, or when the other half is over
  reset(job);
  const std::vector<Rank> both = {Rank{0}, Rank{1}};
  const GpuPlan plan = gpu_plan(job.program, both);
  auto device = Device::make(0);
  REQUIRE(device.ok());
  const auto id = [](std::int32_t) { return GpuCommId{}; };
  REQUIRE((*device)->open({&job.program, &plan, job.options, id, [] {}}).ok());
  REQUIRE((*device)->issue(plan.calls, 0, false).ok());
  const Nanoseconds until_ns = now_ns() + 10'000'000'000;
  while (mock().is_closed()) {
    if (now_ns() > until_ns) FAIL("the gate stays closed");
    std::this_thread::yield();
  }
  CHECK((*device)->open_gate().ok());
  CHECK(!(*device)->held());
  // The next one is held again.
  REQUIRE((*device)->issue(plan.calls, 1, false).ok());
  CHECK(mock().is_closed());
  CHECK((*device)->open_gate().ok());
  CHECK((*device)->held());
}
