// The simgrid engine, in closed form. Each case runs in a process of its own: SimGrid allows one
// engine.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <random>
#include <sstream>

#include "base/parallel/parallel.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "sim/engines.h"
#include "tests/made_program.h"
#include "tests/needs.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// GPUs on nodes of `per_node` with as many NICs as said; 300 GB/s and 2 us inside, 25 GB/s a NIC
// and 5 us between.
ClusterSpec spec(int per_node, int nics) {
  ClusterSpec s;
  s.name = "test";
  s.gpus_per_node = per_node;
  s.intra_bytes_per_s = 300e9;
  s.intra_latency_s = 2e-6;
  s.nics_per_node = nics;
  s.nic_bytes_per_s = 25e9;
  s.inter_latency_s = 5e-6;
  return s;
}

// A hand-made operation between ranks, issued after `after_ns` of compute.
struct Operation {
  OpKind kind;  // Send: a transfer from the first rank to the second
  std::vector<int> ranks;
  Bytes bytes;
  Nanoseconds after_ns = 0;
};

// Every rank is a class of its own; every operation has a communicator and a lane of its own.
Program program_of(int ranks, const std::vector<Operation>& operations) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) text += fmt::format("rank {}:\n", rank);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    for (std::size_t k = 0; k < operation.ranks.size(); ++k)
      text += fmt::format(
          "rank {0}: F {1}ns, {2}{3} pipeline:{4} on lane{3} {5}B{6}\n", operation.ranks[k],
          operation.after_ns,
          op_kind_name(operation.kind == OpKind::Send && k == 1 ? OpKind::Recv : operation.kind), i,
          fmt::join(operation.ranks, ">"), operation.bytes,
          operation.after_ns > 0 ? " after F" : "");
  }
  return made_program(text);
}

// The end of every operation, in seconds, through SimGrid.
std::vector<double> ends(const ClusterSpec& cluster_spec, int gpus,
                         const std::vector<Operation>& operations, bool closed_forms = true) {
  need_simgrid();
  const auto results = fork_map(1, 1, [&](int) -> Result<std::string> {
    const Program program = program_of(gpus, operations);
    ASSIGN_OR_RETURN(const Cluster cluster, Cluster::build(cluster_spec, gpus));
    SimOptions options;
    options.closed_forms = closed_forms;
    ASSIGN_OR_RETURN(const Trace trace, simgrid(program, cluster, in_order(gpus), options));
    std::vector<Nanoseconds> end(operations.size());
    for (const RankTrace& rank : trace.ranks) {
      const auto& ops = program.bodies[rank.body].ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].slot >= 0) end[ops[i].microbatch] = trace.events_of(program, rank)[i].end_ns;
      }
    }
    std::string text;
    for (const Nanoseconds ns : end) text += fmt::format("{} ", ns);
    return text;
  });
  if (!results[0].ok()) FAIL(results[0].error().text());
  std::istringstream in(*results[0]);
  std::vector<double> seconds;
  for (double ns = 0; in >> ns;) seconds.push_back(ns * 1e-9);
  REQUIRE(seconds.size() == operations.size());
  return seconds;
}

constexpr Bytes kGB = 1'000'000'000;

}  // namespace

TEST_CASE("one message over a switch takes L + S/B, the latency once") {
  for (const bool closed_forms : {true, false}) {
    CHECK(ends(spec(8, 8), 16, {{OpKind::Send, {0, 1}, kGB}}, closed_forms)[0] ==
          Approx(2e-6 + 1 / 300.0).epsilon(1e-6));
    CHECK(ends(spec(8, 8), 16, {{OpKind::Send, {0, 8}, kGB}}, closed_forms)[0] ==
          Approx(5e-6 + 1 / 25.0).epsilon(1e-6));
  }
}

TEST_CASE("two flows on one link share it evenly") {
  // GPUs 0 and 1 share the node's one NIC. Both of 1 GB: each gets 12.5 GB/s.
  const std::vector<Operation> both = {{OpKind::Send, {0, 2}, kGB}, {OpKind::Send, {1, 3}, kGB}};
  for (const bool closed_forms : {true, false}) {
    for (const double t : ends(spec(2, 1), 4, both, closed_forms))
      CHECK(t == Approx(5e-6 + 2 / 25.0).epsilon(1e-6));
  }
}

TEST_CASE("a late joiner halves what is left, and the first one's tail runs alone") {
  // 1 GB from 0 s over 25 GB/s, 0.5 GB from 10 ms: 0.25 GB sent alone by then (less the 5 us of
  // latency), then both at 12.5 GB/s for 40 ms until the second is through; 0.25 GB of the first
  // are left: 10 ms more.
  const std::vector<Operation> both = {{OpKind::Send, {0, 2}, kGB},
                                       {OpKind::Send, {1, 3}, kGB / 2, 10'000'000}};
  for (const bool closed_forms : {true, false}) {
    const auto t = ends(spec(2, 1), 4, both, closed_forms);
    CHECK(t[1] == Approx(0.010 + 5e-6 + 0.040).epsilon(1e-6));
    CHECK(t[0] == Approx(5e-6 + 0.060).epsilon(1e-6));
  }
}

TEST_CASE("flows share a link evenly whatever their latencies") {
  // Every GPU has one wire of 100 GB/s, also for what leaves the node. From GPU 0, 1 GB to a GPU of
  // its node after 2 us, and 1 GB to another node after 1 ms. Alone for 998 us the first moves
  // 0.0998 GB; then both get 50 GB/s: it has 0.9002 GB left, 18.004 ms, and ends at 19.004 ms. By
  // then the second has 0.9002 GB, the rest runs alone in 0.998 ms: 20.002 ms.
  ClusterSpec s = spec(2, 2);
  s.intra_bytes_per_s = s.nic_bytes_per_s = 100e9;
  s.inter_latency_s = 1e-3;
  s.nics_on_switch = true;
  for (const bool closed_forms : {true, false}) {
    const auto t =
        ends(s, 4, {{OpKind::Send, {0, 1}, kGB}, {OpKind::Send, {0, 2}, kGB}}, closed_forms);
    CHECK(t[0] == Approx(19.004e-3).epsilon(1e-6));
    CHECK(t[1] == Approx(20.002e-3).epsilon(1e-6));
  }
}

TEST_CASE("what shares a NIC evenly goes on in the solver when one comes by half of its way") {
  // Two nodes of two GPUs, each pair behind one NIC, and a third node. 1 GB from 0 to 2 and from 1
  // to 3: 12.5 GB/s each. After 40 ms, 0.5 GB through, a third one of 1 GB leaves the same NIC for
  // elsewhere: 25/3 GB/s each for 60 ms; the 0.5 GB that are left of it then go alone, 20 ms.
  const std::vector<Operation> three = {{OpKind::Send, {0, 2}, kGB},
                                        {OpKind::Send, {1, 3}, kGB},
                                        {OpKind::Send, {0, 4}, kGB, 40'000'000}};
  for (const bool closed_forms : {true, false}) {
    const auto t = ends(spec(2, 1), 6, three, closed_forms);
    CHECK(t[0] == Approx(5e-6 + 0.100).epsilon(1e-6));
    CHECK(t[1] == Approx(5e-6 + 0.100).epsilon(1e-6));
    CHECK(t[2] == Approx(5e-6 + 0.120).epsilon(1e-6));
  }
}

TEST_CASE("an all-to-all behind one switch ends evenly, and shares wires with what comes by") {
  // Of 4 GB, each of four GPUs sends 1 GB to each other over its wire of 300 GB/s: 10 ms. Two such
  // operations take 20 ms. With a transfer of 0.5 GB from 0 to 1 after 5 ms, four flows leave GPU 0
  // and four reach GPU 1 at 75 GB/s each: 0.5 GB are left of all, 6.667 ms.
  const Operation all{OpKind::AllToAll, {0, 1, 2, 3}, 4 * kGB};
  for (const bool closed_forms : {true, false}) {
    CHECK(ends(spec(4, 4), 4, {all}, closed_forms)[0] == Approx(2e-6 + 0.010).epsilon(1e-6));
    for (const double t : ends(spec(4, 4), 4, {all, all}, closed_forms))
      CHECK(t == Approx(2e-6 + 0.020).epsilon(1e-6));
    const Operation by{OpKind::Send, {0, 1}, kGB / 2, 5'000'000};
    for (const double t : ends(spec(4, 4), 4, {all, by}, closed_forms))
      CHECK(t == Approx(2e-6 + 0.005 + 0.5 / 75).epsilon(1e-6));
  }
}

TEST_CASE("opposite directions do not disturb each other") {
  for (const bool closed_forms : {true, false}) {
    for (const double t :
         ends(spec(2, 1), 4, {{OpKind::Send, {0, 2}, kGB}, {OpKind::Send, {2, 0}, kGB}},
              closed_forms))
      CHECK(t == Approx(5e-6 + 1 / 25.0).epsilon(1e-6));
  }
}

TEST_CASE("a ring all-reduce takes 2(n-1)/n S/B + 2(n-1) L") {
  for (const int n : {2, 3, 8}) {
    std::vector<int> inside, across;
    for (int i = 0; i < n; ++i) {
      inside.push_back(i);
      across.push_back(8 * i);
    }
    for (const bool closed_forms : {true, false}) {
      CHECK(ends(spec(8, 8), 8, {{OpKind::AllReduce, inside, kGB}}, closed_forms)[0] ==
            Approx(2.0 * (n - 1) / n / 300 + 2 * (n - 1) * 2e-6).epsilon(1e-6));
      CHECK(ends(spec(8, 8), 8 * n, {{OpKind::AllReduce, across, kGB}}, closed_forms)[0] ==
            Approx(2.0 * (n - 1) / n / 25 + 2 * (n - 1) * 5e-6).epsilon(1e-6));
    }
  }
}

TEST_CASE("a flow and an all-reduce contend on a NIC") {
  // Two nodes of two GPUs and one NIC. The all-reduce of GPUs 0 and 2 puts 2(n-1)/n S = 1 GB on the
  // NIC each way, 10 us of latency first; a transfer of 1 GB from 1 to 3 has 5 us. It is alone for
  // 5 us, then they share: both end after 2 GB in all, but for what the transfer did alone.
  const auto t =
      ends(spec(2, 1), 4, {{OpKind::AllReduce, {0, 2}, kGB}, {OpKind::Send, {1, 3}, kGB}});
  CHECK(t[1] == Approx(5e-6 + 2 / 25.0 - 5e-6).epsilon(1e-6));
  CHECK(t[0] == Approx(5e-6 + 2 / 25.0).epsilon(1e-6));
}

// `k` all-reduces of 1 GB between two nodes of 8 GPUs, each from a GPU of its own.
std::vector<Operation> rails(int k) {
  std::vector<Operation> operations;
  for (int i = 0; i < k; ++i) operations.push_back({OpKind::AllReduce, {i, 8 + i}, kGB});
  return operations;
}

TEST_CASE("k rings of one rail each scale until the NICs are full, through SimGrid") {
  // A ring of two sends 2 x 1/2 x 1 GB; one communicator has 10 GB/s of a node. On 8 NICs of 25
  // GB/s all have theirs; on one NIC two have it, from three on they share its 25.
  for (const int nics : {1, 8}) {
    ClusterSpec limited = spec(8, nics);
    limited.communicator_bytes_per_s = 10e9;
    for (const int k : {1, 2, 3, 8}) {
      INFO(k << " rings, " << nics << " NICs");
      const double each = nics == 8 ? 10 : std::min(10.0, 25.0 / k);
      for (const bool closed_forms : {true, false}) {
        for (const double t : ends(limited, 16, rails(k), closed_forms))
          CHECK(t == Approx(10e-6 + 1 / each).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("a job's k data-parallel rings scale until the NICs are full, in both engines") {
  need_simgrid();
  // Two replicas of k tensor peers, a node of k GPUs each: k rings of one rail between the nodes. 1
  // ms forward, 2 ms backward, then all-reduces of 1 GB: 2 steps, and 1 GB out of the node each.
  for (const int nics_per_gpu : {0, 1}) {
    const auto results = fork_map(16, 2, [&](int i) -> Result<std::string> {
      const int k = 1 << i / 4;
      ASSIGN_OR_RETURN(const Order order, make_order({"none", 1, 1, 1, 0}));
      Workload work = uniform_workload({1e-3, 2e-3, 1e-3, 1e-3}, 1);
      work.stages[0].units = {{.gradient_bytes = kGB}};
      LowerOptions options;
      options.tp = k;
      options.dp = 2;
      ASSIGN_OR_RETURN(Program program, lower(order, work, options));
      ClusterSpec s = spec(k, nics_per_gpu == 0 ? 1 : k);
      s.communicator_bytes_per_s = 10e9;
      ASSIGN_OR_RETURN(const Cluster cluster, Cluster::build(s, 2 * k));
      price(&program, cluster, in_order(2 * k));
      SimOptions played;
      played.fold = i % 2 == 0;
      ASSIGN_OR_RETURN(const Trace trace, i % 4 < 2
                                              ? ideal(program, played)
                                              : simgrid(program, cluster, in_order(2 * k), played));
      Nanoseconds end = 0;
      for (const EventTimes& times : trace.events) end = std::max(end, times.end_ns);
      return fmt::format("{}", end);
    });
    for (int i = 0; i < 16; ++i) {
      if (!results[i].ok()) FAIL(results[i].error().text());
      const int k = 1 << i / 4;
      const double each = nics_per_gpu == 0 ? std::min(10.0, 25.0 / k) : 10;
      INFO(k << " rings, " << (nics_per_gpu == 0 ? 1 : k) << " NICs, "
             << (i % 4 < 2 ? "ideal" : "simgrid") << (i % 2 == 0 ? ", folded" : ""));
      CHECK(1e-9 * std::stod(*results[i]) == Approx(3e-3 + 10e-6 + 1 / each).epsilon(1e-6));
    }
  }
}

TEST_CASE("what a communicator's limit leaves of a NIC, another one gets") {
  // A NIC of 25 GB/s, 10 GB/s a communicator. Two rings from 0 s, 10 us of latency: 10 GB/s each.
  // A third of 0.5 GB from 50 ms: 25/3 each. By then the first two have 0.5 GB left: all end 60 ms
  // later.
  ClusterSpec limited = spec(8, 1);
  limited.communicator_bytes_per_s = 10e9;
  auto three = rails(3);
  three[2].bytes = kGB / 2;
  three[2].after_ns = 50'000'000;
  for (const double t : ends(limited, 16, three))
    CHECK(t == Approx(0.050 + 10e-6 + 0.060).epsilon(1e-6));
  // A second ring through its own NIC is in nobody's way, though both leave GPU 0's node.
  limited = spec(8, 8);
  limited.communicator_bytes_per_s = 10e9;
  const auto apart = ends(limited, 16, {rails(2)[0], {OpKind::AllReduce, {1, 2, 9, 10}, kGB}});
  CHECK(apart[0] == Approx(10e-6 + 1 / 10.0).epsilon(1e-6));
  // Two rings of four ranks, 2 x 3/4 x 1 GB out of a node in all, 6 steps.
  CHECK(apart[1] == Approx(30e-6 + 1.5 / 10.0).epsilon(1e-6));
}

TEST_CASE("operations alone or even on their links take the same time as through the solver") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20; ++i) {
    std::vector<Operation> operations;
    const int count = 2 + static_cast<int>(random() % 6);
    for (int k = 0; k < count; ++k) {
      Operation operation{OpKind::Send,
                          {},
                          1 + static_cast<Bytes>(random() % kGB),
                          static_cast<Nanoseconds>(random() % 30'000'000)};
      std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
      std::shuffle(ranks.begin(), ranks.end(), random);
      operation.kind = random() % 2 == 0 ? OpKind::Send : OpKind::AllReduce;
      operation.ranks.assign(
          ranks.begin(), ranks.begin() + (operation.kind == OpKind::Send ? 2 : 2 + random() % 4));
      operations.push_back(operation);
    }
    ClusterSpec cluster = spec(4, i % 4 < 2 ? 2 : 1);
    if (i % 2 == 1) cluster.communicator_bytes_per_s = static_cast<double>(5 + random() % 30) * 1e9;
    const auto quick = ends(cluster, 8, operations), solved = ends(cluster, 8, operations, false);
    for (std::size_t k = 0; k < quick.size(); ++k)
      CHECK(quick[k] == Approx(solved[k]).margin(1e-8));
  }
}

TEST_CASE("folded and unfolded agree on any fabric") {
  need_simgrid();
  // Pipeline transfers and gradients of 4 replicas of 4 stages, on nodes of 4 GPUs that share 2
  // NICs.
  const Fabric fabrics[] = {
      {Fabric::Star, 0, 1}, {Fabric::FatTree, 2, 4}, {Fabric::RailOptimised, 2, 2}};
  // Whether a communicator has all of that or 8 GB/s of a node.
  const auto results = fork_map(12, 1, [&](int i) -> Result<std::string> {
    ASSIGN_OR_RETURN(const Order order, make_order({"1f1b", 4, 1, 8, 0}));
    Workload work = uniform_workload({1e-3, 2e-3, 1e-3, 1e-3}, order.stages);
    work.pipeline_bytes = 20'000'000;
    for (StageWork& stage : work.stages) stage.units = {{.gradient_bytes = 50'000'000}};
    LowerOptions options{1, 4};
    options.overlap_p2p = true;
    ASSIGN_OR_RETURN(Program program, lower(order, work, options));
    ClusterSpec s = spec(4, 2);
    s.fabric = fabrics[i / 2 % 3];
    s.communicator_bytes_per_s = i < 6 ? 0 : 8e9;
    ASSIGN_OR_RETURN(const Cluster cluster, Cluster::build(s, 16));
    price(&program, cluster, in_order(16));
    SimOptions played;
    played.fold = i % 2 == 0;
    ASSIGN_OR_RETURN(const Trace trace, simgrid(program, cluster, in_order(16), played));
    Nanoseconds end = 0;
    for (const EventTimes& times : trace.events) end = std::max(end, times.end_ns);
    return fmt::format("{}", end);
  });
  for (int i = 0; i < 12; i += 2) {
    if (!results[i].ok()) FAIL(results[i].error().text());
    INFO("fabric " << i / 2 % 3 << (i < 6 ? "" : ", 8 GB/s a communicator"));
    CHECK(std::stod(*results[i]) == Approx(std::stod(*results[i + 1])).epsilon(1e-6));
  }
}

TEST_CASE("without contention both engines give the same trace to 1 ns an event") {
  need_simgrid();
  const auto results = fork_map(4, 1, [](int i) -> Result<std::string> {
    const char* names[] = {"1f1b", "gpipe", "interleaved", "looped-bfs"};
    ASSIGN_OR_RETURN(const Order order, make_order({names[i], 4, i < 2 ? 1 : 2, 8, 0}));
    Workload work = uniform_workload({1e-3, 2e-3, 1e-3, 1e-3}, order.stages);
    work.pipeline_bytes =
        i < 2 ? 12345 : 0;  // chunks of interleaved orders share a NIC: latency only
    LowerOptions options{1, 2};
    options.overlap_p2p = overlaps_p2p_by_default(order);
    ASSIGN_OR_RETURN(Program program, lower(order, work, options));
    ASSIGN_OR_RETURN(const Cluster cluster, Cluster::build(spec(1, 1), 8));
    price(&program, cluster, in_order(8));
    ASSIGN_OR_RETURN(const Trace a, ideal(program));
    ASSIGN_OR_RETURN(const Trace b, simgrid(program, cluster, in_order(8)));
    Nanoseconds worst = a.events.size() == b.events.size() ? 0 : -1;
    for (std::size_t k = 0; worst >= 0 && k < a.events.size(); ++k)
      worst = std::max({worst, std::abs(a.events[k].arrive_ns - b.events[k].arrive_ns),
                        std::abs(a.events[k].start_ns - b.events[k].start_ns),
                        std::abs(a.events[k].end_ns - b.events[k].end_ns)});
    return fmt::format("{}", worst);
  });
  for (const auto& result : results) {
    if (!result.ok()) FAIL(result.error().text());
    CHECK(std::stoll(*result) >= 0);
    CHECK(std::stoll(*result) <= 1);
  }
}
