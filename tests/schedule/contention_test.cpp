// What communication takes from the compute beside it, in closed form, on both engines.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <sstream>

#include "base/parallel/parallel.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "sim/engines.h"
#include "tests/needs.h"
#include "tests/seed.h"
#include "tests/sim/contended_programs.h"

using namespace tandem;

namespace {

Cluster cluster_of(const ClusterSpec& spec, int gpus) {
  auto cluster = Cluster::build(spec, gpus);
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

Cluster one_node(int gpus) { return cluster_of(byte_a_ns(gpus), gpus); }

// A trace's events, of all its ranks; SimGrid's from a process of its own.
std::vector<EventTimes> play(Engine engine, const Program& program, const Cluster& cluster,
                             const SimOptions& options = {}) {
  if (engine == Engine::SimGrid) need_simgrid();
  const auto results = fork_map(1, 1, [&](int) -> Result<std::string> {
    const Placement placement = in_order(static_cast<int>(program.ranks.size()));
    ASSIGN_OR_RETURN(const Trace trace, tandem::play(engine, program, cluster, placement, options));
    std::string text;
    for (const EventTimes& e : trace.events)
      text += fmt::format("{} {} {} ", e.arrive_ns, e.start_ns, e.end_ns);
    return text;
  });
  if (!results[0].ok()) FAIL(results[0].error().text());
  std::istringstream in(*results[0]);
  std::vector<EventTimes> events;
  for (EventTimes e; in >> e.arrive_ns >> e.start_ns >> e.end_ns;) events.push_back(e);
  return events;
}

Nanoseconds worst_difference(const std::vector<EventTimes>& a, const std::vector<EventTimes>& b) {
  REQUIRE(a.size() == b.size());
  Nanoseconds worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst =
        std::max({worst, std::abs(a[i].arrive_ns - b[i].arrive_ns),
                  std::abs(a[i].start_ns - b[i].start_ns), std::abs(a[i].end_ns - b[i].end_ns)});
  return worst;
}

// When an op ended that both engines ended at one time. All GPUs are on one node, whose links take
// a byte a nanosecond, without latency; each has 108 SMs and 4 bytes a nanosecond of memory
// bandwidth.
Nanoseconds end_of(const Program& program, int rank, std::uint32_t op,
                   const SimOptions& options = {}) {
  const int gpus = static_cast<int>(program.ranks.size());
  const Cluster cluster = one_node(gpus);
  const auto events = play(Engine::Ideal, program, cluster, options);
  CHECK(worst_difference(events, play(Engine::SimGrid, program, cluster, options)) == 0);
  return events[program.first_op(rank) + op].end_ns;
}

Nanoseconds end_of(const std::string& text, int gpus, int rank, std::uint32_t op) {
  return end_of(priced(text, one_node(gpus)), rank, op);
}

// Where a GEMM of 1000 ns ends that starts with a communication of so many bytes on so many SMs:
// a transfer to another rank, or a ring of four.
Nanoseconds gemm_beside(OpKind kind, Bytes bytes, int sms, double memory_share = 0,
                        const SharedDevice& device = {108, 4e9}) {
  const bool is_transfer = kind == OpKind::Send;
  const int gpus = is_transfer ? 2 : 4;
  const std::string words =
      fmt::format("{} {}B {}sm\n", is_transfer ? "0>1" : "tensor", bytes, sms);
  std::string text = fmt::format("rank 0: F 1us kernel0, {} {}", op_kind_name(kind), words);
  for (int rank = 1; rank < gpus; ++rank)
    text += fmt::format("rank {}: {} {}", rank, is_transfer ? "recv" : op_kind_name(kind), words);
  const Kernel gemm = {.name = "gemm", .memory_share = memory_share};
  return end_of(priced(text, one_node(gpus), device, {gemm}), 0, 0);
}

}  // namespace

TEST_CASE("beside a communication on k of n SMs a GEMM takes n / (n - k) of its time") {
  for (const int k : {1, 2, 20, 27, 54, 100, 107}) {
    INFO("k " << k);
    CHECK(gemm_beside(OpKind::Send, 200'000, k) == std::llround(1000.0 * 108 / (108 - k)));
  }
}

TEST_CASE("nothing is slowed by communication that takes no SMs") {
  CHECK(gemm_beside(OpKind::Send, 200'000, 0, 1) == 1000);
  // Not where another one, later, does: 1000 ns alone, then 1000 x 108 / 54.
  const char* const text = R"(
    rank 0: send0 0>1 1kB, F0 1us, F1 1us after send0, send1 0>1 5kB 54sm
    rank 1: recv0 0>1 1kB, recv1 0>1 5kB 54sm
  )";
  CHECK(end_of(text, 2, 0, 2) == 3000);
}

TEST_CASE("a communication that ends midway has slowed only the part beside it") {
  // 400 ns at half the speed do 200 of 1000; the other 800 are alone.
  CHECK(gemm_beside(OpKind::Send, 400, 54) == 1200);
}

TEST_CASE("a communication that starts halfway slows only what is left, its wait nothing") {
  // Rank 1 comes at 500. Rank 0's GEMM has 500 left by then: 500 x 108 / 81 = 666.7.
  const char* const text = R"(
    rank 0: F 1us, send 0>1 10kB 27sm
    rank 1: F 500ns, recv 0>1 10kB 27sm after F
  )";
  CHECK(end_of(text, 2, 0, 0) == 1167);
}

TEST_CASE("two communications at once take the SMs of both") {
  // The first 600 ns at 54 / 108: 300. 200 more at 81 / 108: 150. 550 left alone.
  const char* const text = R"(
    rank 0: F 1us, send 0>1 600B 27sm, recv 1>0 800B 27sm
    rank 1: recv 0>1 600B 27sm, send 1>0 800B 27sm
  )";
  CHECK(end_of(text, 2, 0, 0) == 600 + 200 + 550);
}

TEST_CASE("one SM is left to compute, however many communications there are") {
  // 100 + 100 of 108: one is left, 10 ns take 1080.
  const char* const text = R"(
    rank 0: F 10ns, send 0>1 10kB 100sm, recv 1>0 10kB 100sm
    rank 1: recv 0>1 10kB 100sm, send 1>0 10kB 100sm
  )";
  CHECK(end_of(text, 2, 0, 0) == 1080);
}

TEST_CASE("compute that waited is slowed from its start, and so is what follows it") {
  // From 300 on at half the speed until 3300: the first takes 2000, the second has 500 done by
  // then.
  const char* const text = R"(
    rank 0: recv 1>0 300B, F0 1us after recv, F1 1us, send 0>1 3300B 54sm
    rank 1: send 1>0 300B, recv 0>1 3300B 54sm
  )";
  CHECK(end_of(text, 2, 0, 1) == 2300);
  CHECK(end_of(text, 2, 0, 2) == 3300 + 500);
}

TEST_CASE("each end of a communication pays with its own device's SMs") {
  Program program = priced(R"(
    rank 0: F 1us, send 0>1 10kB 54sm
    rank 1: F 1us, recv 0>1 10kB 54sm
  )",
                           one_node(2));
  program.bodies[1].ops.back().sms = 27;
  CHECK(end_of(program, 0, 0) == 2000);
  CHECK(end_of(program, 1, 0) == 1333);
}

TEST_CASE("however often the slowdown changes, only the end is rounded") {
  // 1000 transfers of 100 ns, every other one at 72 / 108: 500 (100 + 66.67) = 83333.3 of the
  // 1'000'000 ns are done by 100'000; rounded each time it would be 83350 or 83300.
  const char* const text = R"(
    rank 0: F 1ms
    rank 0, 500 times: send 0>1 100B 36sm, send 0>1 100B
    rank 1, 500 times: recv 0>1 100B 36sm, recv 0>1 100B
  )";
  CHECK(end_of(text, 2, 0, 0) == 1'016'667);
}

TEST_CASE("memory-bound work also has less bandwidth, by what the communication reads and writes") {
  // With 27 of 108 SMs taken, 4/3 of the time; 4 bytes a ns of bandwidth.
  // A send reads a byte a ns, M = 1/4: what memory bounds takes 4/3 again. All of it, 1777.8; of
  // 0.6, 4/3 x (0.4 + 0.6 x 4/3) = 1.6.
  CHECK(gemm_beside(OpKind::Send, 10'000, 27, 0) == 1333);
  CHECK(gemm_beside(OpKind::Send, 10'000, 27, 1) == 1778);
  CHECK(gemm_beside(OpKind::Send, 10'000, 27, 0.6) == 1600);
  // Rings send and receive a byte a ns: M = 1/2, 4/3 x 2.
  for (const OpKind ring :
       {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather, OpKind::RingShift})
    CHECK(gemm_beside(ring, 10'000, 27, 1) == 2667);
  // A bandwidth that is not known is not shared. One that is too small leaves a tenth: 4/3 x 10.
  CHECK(gemm_beside(OpKind::Send, 10'000, 27, 1, {108, 0}) == 1333);
  CHECK(gemm_beside(OpKind::Send, 20'000, 27, 1, {108, 0.5e9}) == 13333);
}

TEST_CASE("jitter multiplies the duration, before it is slowed") {
  const Program program = priced(R"(
    rank 0: F 1us, send 0>1 20kB 54sm
    rank 1: recv 0>1 20kB 54sm
  )",
                                 one_node(2));
  SimOptions options;
  options.jitter = 0.2;
  CHECK(end_of(program, 0, 0, options) == 2 * Jitter{0.2, 1}.apply(1000, 0, 0));
}

TEST_CASE("communication slowed by other flows holds its SMs for longer") {
  // Ranks 0 and 1 both send to rank 2: 1000 bytes each at half the bandwidth, 2000 ns. Rank 0's
  // GEMM does 1000 of its 1500 in them. The ideal engine has it done in 1000 + 1000.
  const Cluster cluster = one_node(3);
  const Program program = priced(R"(
    rank 0: F 1500ns, send 0>2 1kB 54sm
    rank 1: send 1>2 1kB 54sm
    rank 2: recv 0>2 1kB 54sm, recv 1>2 1kB 54sm
  )",
                                 cluster);
  CHECK(play(Engine::Ideal, program, cluster)[0].end_ns == 2000);
  for (const bool closed_forms : {true, false}) {
    SimOptions options;
    options.closed_forms = closed_forms;
    CHECK(play(Engine::SimGrid, program, cluster, options)[0].end_ns == 2500);
  }
}

TEST_CASE("random jobs whose communication takes SMs: both engines give the same times, always") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20; ++i) {
    const int gpus = 4 + 2 * static_cast<int>(random() % 3);
    const Cluster cluster = cluster_of(pairs_of_gpus(2), gpus);
    const Program program = random_device_job(cluster, gpus, &random);
    SimOptions options;
    options.jitter = i % 2 == 0 ? 0 : 0.1;
    const auto events = play(Engine::Ideal, program, cluster, options);
    CHECK(worst_difference(events, play(Engine::SimGrid, program, cluster, options)) == 0);
    CHECK(worst_difference(events, play(Engine::Ideal, program, cluster, options)) == 0);
  }
}

TEST_CASE("random jobs that share NICs: compute does its work beside communication of any length") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Cluster cluster = cluster_of(pairs_of_gpus(1), 6);
  int stretched = 0;
  for (int i = 0; i < 10; ++i) {
    const Program program = random_device_job(cluster, 6, &random);
    stretched += check_work_done(program, play(Engine::SimGrid, program, cluster));
  }
  CHECK(stretched > 50);
}

TEST_CASE("where communication takes SMs, too, folded and unfolded agree") {
  const auto order = make_order({"1f1b", 4, 1, 8, 0});
  REQUIRE(order.ok());
  Workload work = uniform_workload({1e-6, 2e-6, 1e-6, 1e-6}, order->stages);
  work.pipeline_bytes = 300;
  for (StageWork& stage : work.stages) stage.units = {{.gradient_bytes = 1000}};
  LowerOptions options{1, 2};
  options.overlap_p2p = true;
  auto program = lower(*order, work, options);
  REQUIRE(program.ok());
  program->device = {108, 4e9};
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) op.sms = is_compute(op.kind) ? 0 : 20;
  }
  const Cluster cluster = cluster_of(byte_a_ns(1), 8);
  price(&*program, cluster, in_order(8));
  for (const Engine engine : {Engine::Ideal, Engine::SimGrid}) {
    SimOptions unfolded;
    unfolded.fold = false;
    const auto one = play(engine, *program, cluster);
    const auto all = play(engine, *program, cluster, unfolded);
    REQUIRE(all.size() == 2 * one.size());
    // Ranks stand in order of their stage, then of their replica.
    std::size_t at = 0;
    for (const Body& body : program->bodies) {
      for (int replica = 0; replica < 2; ++replica) {
        const auto from = all.begin() + static_cast<std::ptrdiff_t>(2 * at) +
                          static_cast<std::ptrdiff_t>(replica * body.ops.size());
        const auto here = one.begin() + static_cast<std::ptrdiff_t>(at);
        const auto until = here + static_cast<std::ptrdiff_t>(body.ops.size());
        CHECK(worst_difference({here, until}, {from, from + (until - here)}) == 0);
      }
      at += body.ops.size();
    }
    const bool stretched =
        std::ranges::any_of(one, [](const EventTimes& e) { return e.end_ns - e.start_ns > 2000; });
    CHECK(stretched);
  }
}
