// The host executor: it plays what the simulators play, finds wrong pairings and deadlocks, and
// multiplies. No test depends on times beyond generous bounds.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "exec/compute/openblas.h"
#include "exec/host/host.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "sim/engines.h"
#include "tests/exec/mpi_run.h"
#include "tests/made_program.h"
#include "tests/needs.h"
#include "tests/schedule/vocabulary_work.h"
#include "traces/metrics.h"

using namespace tandem;

namespace {

constexpr Nanoseconds kMs = 1'000'000;

ExecOptions quick() {
  ExecOptions options;
  options.warmup = 0;
  options.iterations = 1;
  return options;
}

Execution played(const Program& program, const ExecOptions& options = quick()) {
  auto execution = execute_host(program, options);
  INFO((execution.ok() ? "" : execution.error().text()));
  REQUIRE(execution.ok());
  return *std::move(execution);
}

// Transfers carry bytes and take p2p_ns.
Program lowered(const std::string& name, int pp, int microbatches, int vpp, int dp,
                Nanoseconds p2p_ns) {
  const auto order = make_order({name, pp, vpp, microbatches, 0});
  REQUIRE(order.ok());
  LowerOptions options{1, dp};
  options.overlap_p2p = overlaps_p2p_by_default(*order);
  auto program = lower(*order, uniform_workload({2e-3, 2e-3, 2e-3, 1e-3}, order->stages), options);
  REQUIRE(program.ok());
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (is_compute(op.kind)) continue;
      op.bytes = 10'000;
      op.duration_ns = p2p_ns;
    }
  }
  return *std::move(program);
}

Trace simulated(const Program& program) {
  SimOptions options;
  options.fold = false;
  auto trace = ideal(program, options);
  REQUIRE(trace.ok());
  return *std::move(trace);
}

// Every op ended, none before it started, none started before what it waits for had ended.
void check_order(const Program& program, const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    const Body& body = program.bodies[rank.body];
    const auto events = trace.events_of(program, rank);
    for (std::size_t i = 0; i < events.size(); ++i) {
      CHECK(0 <= events[i].arrive_ns);
      CHECK(events[i].arrive_ns <= events[i].start_ns);
      CHECK(events[i].start_ns + body.ops[i].duration_ns <= events[i].end_ns);
      for (const std::uint32_t wait : body.waits_of(body.ops[i]))
        CHECK(events[wait].end_ns <= events[i].arrive_ns);
    }
  }
}

// Ranks that compute, each for 1 us longer than the one before, and then an operation of all.
Program operation_of_all(OpKind kind, Bytes bytes, int ranks = 2) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank)
    text += fmt::format("rank {0}: F0 {0}us, {1}0 data {2}B 1us after F0\n", rank,
                        op_kind_name(kind), bytes);
  return made_program(text);
}

// The swap that validation refuses: sent are microbatches 0, 1; received 1, 0.
Program swapped() {
  return made_program(R"(
    rank 0: send0 0>1 1us, send1 0>1 1us
    rank 1: recv1 0>1 1us, recv0 0>1 1us
  )");
}

}  // namespace

TEST_CASE("the host plays every op once, in an order that waits and lanes allow, near ideal") {
  for (const auto& [name, vpp] : {std::pair{"1f1b", 1},
                                  {"gpipe", 1},
                                  {"interleaved", 2},
                                  {"zb1p", 1},
                                  {"zbv", 2},
                                  {"dualpipe", 1}}) {
    INFO(name);
    const Program program = lowered(name, 2, 4, vpp, 2, kMs / 10);
    const Trace ideal_trace = simulated(program);
    const Execution execution = played(program);
    REQUIRE(execution.failure.empty());
    REQUIRE(execution.iterations.size() == 1);
    const Trace& trace = execution.iterations[0];
    REQUIRE(trace.events.size() == ideal_trace.events.size());
    check_order(program, trace);
    const double took_s = measure(program, trace).iteration_s;
    const double ideal_s = measure(program, ideal_trace).iteration_s;
    CHECK(took_s >= ideal_s);
    CHECK(took_s < ideal_s + 2);  // a machine may be busy
    // Every receive, and every result of a collective.
    std::int64_t receivers = 0;
    for (const RankRow& rank : program.ranks) {
      receivers += std::ranges::count_if(program.bodies[rank.body].ops, [](const Op& op) {
        return !is_compute(op.kind) && op.kind != OpKind::Send;
      });
    }
    CHECK(execution.payloads_checked == receivers);
  }
}

TEST_CASE("the host plays the vocabulary's passes, and all that their ranks send each other") {
  for (const auto& [name, vpp] :
       {std::pair{"1f1b", 1}, {"interleaved", 2}, {"zb1p", 1}, {"v-half", 2}}) {
    for (const int algorithm : {1, 2}) {
      INFO(name << ' ' << algorithm);
      const auto order = vocabulary_order(name, 2, vpp, 4, algorithm);
      REQUIRE(order.ok());
      LowerOptions options;
      options.overlap_p2p = true;
      const auto program = lower(*order, vocabulary_work(2 * vpp, 4000), options);
      REQUIRE(program.ok());
      const Execution execution = played(*program);
      REQUIRE(execution.failure.empty());
      REQUIRE(execution.iterations.size() == 1);
      check_order(*program, execution.iterations[0]);
      // Five collectives a microbatch, whose result each of two ranks checks, and transfers of V's
      // or interleaved's stages, which carry nothing here.
      CHECK(execution.payloads_checked >= 5 * 4 * 2);
      const double took_s = measure(*program, execution.iterations[0]).iteration_s;
      CHECK(took_s >= measure(*program, simulated(*program)).iteration_s);
    }
  }
}

TEST_CASE("the host plays shards and their replicas, as it plays one group of all") {
  // Two microbatches of one layer on four ranks: a gather, a scatter and a sum each.
  StageWork stage;
  stage.units.push_back({.gradient_bytes = 2000, .parameter_bytes = 1000});
  PassBuilder forward, backward;
  forward.compute(-1, kMs / 10, 0);
  backward.compute(-1, kMs / 10, 0);
  stage.forward = forward.take();
  stage.backward = stage.backward_input = stage.backward_weight = backward.take();
  Workload work;
  work.stages = {stage};
  LowerOptions options;
  options.dp = 4;
  options.data = {.zero = 3, .reshard_after_forward = false, .shard = 2, .grad_reduce = true};
  OrderSpec spec;
  spec.name = "none";
  spec.microbatches = 2;
  const auto order = make_order(spec);
  REQUIRE(order.ok());
  auto program = lower(*order, work, options);
  REQUIRE(program.ok());
  const Execution execution = played(*program);
  REQUIRE(execution.failure.empty());
  check_order(*program, execution.iterations.at(0));
  CHECK(execution.payloads_checked == 4 * 2 * 3);
}

TEST_CASE("warm-up iterations are not kept, and meta lines count the others") {
  ExecOptions options = quick();
  options.warmup = 2;
  options.iterations = 3;
  const Execution execution = played(operation_of_all(OpKind::AllReduce, 64), options);
  CHECK(execution.backend == "host");
  REQUIRE(execution.iterations.size() == 3);
  CHECK(execution.payloads_checked == 5 * 2);
  const auto& meta = execution.iterations[1].meta;
  CHECK(std::ranges::count(meta, std::pair<std::string, std::string>{"iteration", "2 of 3"}) == 1);
  CHECK(std::ranges::count(meta, std::pair<std::string, std::string>{"complete", "yes"}) == 1);
  for (const char* word : {"measured", "emulated-compute", "emulated-link"})
    CHECK(execution.real.find(word) != std::string::npos);
}

TEST_CASE("collectives of every kind move and check their payloads, whole or in part") {
  for (const OpKind kind : {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather,
                            OpKind::AllToAll, OpKind::RingShift}) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const Bytes bytes : {0, 4, 100, 100'000}) {
        for (const bool full : {false, true}) {
          INFO(op_kind_name(kind) << " of " << ranks << " ranks, " << bytes << " bytes");
          ExecOptions options = quick();
          options.full_payload = full;
          const Execution execution = played(operation_of_all(kind, bytes, ranks), options);
          CHECK(execution.failure.empty());
          CHECK(execution.payloads_checked == ranks);
        }
      }
    }
  }
}

TEST_CASE("a swapped receive is found by what the message holds") {
  const Execution execution = played(swapped());
  CHECK(execution.failure ==
        "rank 1 received other bytes in recv 1 of stage 1 (lane 0>1) than rank 0 should have sent: "
        "found 16 of 16 words that are not its, as rank 0 is in send 0 of stage 0 (lane 0>1); "
        "expected the partner of recv 1 of stage 1 (lane 0>1)");
  REQUIRE(execution.iterations.size() == 1);
  CHECK(execution.payloads_checked == 0);
}

TEST_CASE("a rank that reduces another microbatch is found, whichever collective it is") {
  for (const OpKind kind : {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather,
                            OpKind::AllToAll, OpKind::RingShift}) {
    INFO(op_kind_name(kind));
    Program program = operation_of_all(kind, 4096, 3);
    program.bodies[2].ops[1].microbatch = 7;
    const Execution execution = played(program);
    CHECK(execution.failure.find("received other bytes in") != std::string::npos);
    CHECK(execution.failure.find(std::string(op_kind_name(kind)) + " 7 of stage 2") !=
          std::string::npos);
  }
}

TEST_CASE("the seed changes what messages hold, not whether they match") {
  ExecOptions options = quick();
  options.seed = 12345;
  CHECK(played(operation_of_all(OpKind::AllToAll, 4096), options).failure.empty());
  CHECK(!played(swapped(), options).failure.empty());
}

TEST_CASE("a deadlock is found when nothing can happen, and the trace so far stays") {
  // After a forward each, both send first and receive when their sends have ended.
  const Program program = made_program(R"(
    rank 0: F0 1ms, send0 0>1 after F0, recv0 1>0 after send0
    rank 1: F0 1ms, send0 1>0 after F0, recv0 0>1 after send0
  )");
  const Execution execution = played(program);
  CHECK(execution.failure ==
        "rank 0 waits in send 0 of stage 0 (lane 0>1) for rank 1, which waits in send 0 of stage 1 "
        "(lane 1>0) for rank 0");
  REQUIRE(execution.iterations.size() == 1);
  const Trace& trace = execution.iterations[0];
  CHECK(trace.meta.back() == std::pair<std::string, std::string>{"complete", "no"});
  for (const std::size_t first : {0, 3}) {
    CHECK(trace.events[first].end_ns >= kMs);
    CHECK(trace.events[first + 1].arrive_ns >= kMs);
    CHECK(trace.events[first + 1].end_ns == -1);
    CHECK(trace.events[first + 2].arrive_ns == -1);
  }
}

TEST_CASE("a send without a receive ends the run at once") {
  CHECK(played(made_program("rank 0: send0 0>1\n rank 1:")).failure ==
        "rank 0 waits in send 0 of stage 0 (lane 0>1) for rank 1, which has no partner for it");
}

TEST_CASE("compute beside communication that takes half of the SMs takes twice its time there") {
  // 50 ms of compute beside a transfer of 40 ms that takes 66 of 132 SMs: 20 ms of it are done when
  // the transfer ends, so it takes 40 + 30 ms; the other rank's takes 40 + 30 ms, too.
  Program program = made_program(R"(
    rank 0: F0 50ms, send0 0>1 40ms 66sm
    rank 1: F0 50ms, recv0 0>1 40ms 66sm
  )");
  program.device = {132, 0};
  const Trace ideal_trace = simulated(program);
  const Trace trace = played(program).iterations.at(0);
  for (const std::size_t compute : {0, 2}) {
    CHECK(ideal_trace.events[compute].end_ns == 70 * kMs);
    const EventTimes& times = trace.events[compute];
    CHECK(times.end_ns - times.start_ns > 65 * kMs);
    CHECK(times.end_ns - times.start_ns < 2000 * kMs);
  }
}

TEST_CASE("matrix products run on two ranks at once, and a limit on time ends them") {
  need(open_openblas());
  Program program = made_program(R"(
    rank 0, 3 times: F# 1ms kernel#, send# 0>1 1us after F#
    rank 1, 3 times: F# 1ms kernel#, recv# 0>1 1us after F#
  )");
  program.kernels = {{.name = "layer", .gemms = {{2, 64, 48, 80}, {1, 33, 65, 17}}},
                     {.name = "optimizer", .memory_bytes = 1e6},
                     {.name = "attention", .attention_flops = 1e7}};
  ExecOptions options = quick();
  options.compute = Compute::Gemm;
  options.iterations = 2;
  const Execution execution = played(program, options);
  CHECK(execution.failure.empty());
  CHECK(execution.real.find("emulated-compute") == std::string::npos);
  for (const Trace& trace : execution.iterations) {
    for (const EventTimes& times : trace.events) CHECK(times.end_ns > times.start_ns);
  }
  // 10 products of 2^30 FLOPs and no more than a microsecond.
  program.kernels[0].gemms = {{10, 1024, 512, 1024}};
  options.timeout_ns = 1000;
  const std::string failure = played(program, options).failure;
  CHECK(failure.starts_with("no op ended within 1e-06 s: rank 0 is still in forward 0"));
}

TEST_CASE("products that no memory holds, and ops without a shape, are refused in one line") {
  Program program = made_program("rank 0: F0 1ms");
  ExecOptions options = quick();
  options.compute = Compute::Gemm;
  auto execution = execute_host(program, options);
  REQUIRE(!execution.ok());
  CHECK(execution.error().kind == Error::BadInput);
  CHECK(execution.error().text() ==
        "found forward 0 of stage 0 (lane compute) without a kernel, expected the shapes of its "
        "matrices to multiply: costs.source = \"uniform\" has none");
  program.kernels = {{.name = "huge", .gemms = {{1, 1'000'000, 1'000'000, 1'000'000}}}};
  program.bodies[0].ops[0].kernel = 0;
  execution = execute_host(program, options);
  REQUIRE(!execution.ok());
  CHECK(execution.error().text().find("for 1 ranks at --gemm-scale 1, expected at most") !=
        std::string::npos);
}

TEST_CASE("how late an executor wakes is measured, but for what warms up") {
  WakeUps wake_ups;
  CHECK(wake_ups.found().ops == 0);
  for (int i = 1; i <= 100; ++i) wake_ups.add(0, 1000, 1000 + i);
  wake_ups.add(0, 1000, 990);  // is not early
  const LateWakeUps late = wake_ups.found();
  CHECK(late.ops == 101);
  CHECK(late.p95_ns == 95);
  CHECK(late.share == Approx(5050. / 101'000));

  const Program program = made_program(R"(
    rank 0, 4 times: F# 1ms, send# 0>1 1ms after F#
    rank 1, 4 times: recv# 0>1 1ms, F# 1ms after recv#
  )");
  ExecOptions options = quick();
  options.warmup = 2;
  options.iterations = 3;
  const Execution execution = played(program, options);
  CHECK(execution.late.ops == 3 * (4 + 4 + 4));
  CHECK(execution.late.p95_ns >= 0);
  CHECK(execution.late.share > 0);
}

TEST_CASE("an executor that had no core for a while says by how much it is late") {
  const Program program = made_program("rank 0, 100 times: F# 10ms");  // a second
  const pid_t own = getpid();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    comes_true([&] { return sleeps_exactly(own); });  // it is about to play
    // Three times, as the first one may be over before the iteration's clock starts.
    for (int i = 0; i < 3; ++i) {
      kill(own, SIGSTOP);
      usleep(100'000);  // the time that is lost is what is tested
      kill(own, SIGCONT);
      usleep(100'000);
    }
    _exit(0);
  }
  const Execution execution = played(program);
  waitpid(child, nullptr, 0);
  CHECK(execution.late.ops == 100);
  CHECK(execution.late.share > 0.15);
}
