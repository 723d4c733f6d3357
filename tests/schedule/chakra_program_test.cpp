// Programs as Chakra traces and back: what each node says, when nodes play, what is refused.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <set>

#include "interop/chakra/chakra_file.h"
#include "schedule/chakra/export_chakra.h"
#include "schedule/chakra/import_chakra.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/replay.h"
#include "schedule/program/validate.h"
#include "tests/interop/imported.h"
#include "tests/made_program.h"

using namespace tandem;

namespace {

constexpr Nanoseconds kMicro = 1000;
using Ids = std::vector<std::uint64_t>;

ChakraNode compute(std::uint64_t id, std::uint64_t us, Ids after = {}) {
  return {.id = id,
          .name = "c",
          .type = ChakraType::Compute,
          .data_deps = std::move(after),
          .duration_us = us};
}

ChakraNode collective(std::uint64_t id, ChakraCollective what, std::int64_t bytes, std::uint64_t us,
                      Ids after = {}, const std::string& group = "") {
  ChakraNode node{.id = id,
                  .name = "g",
                  .type = ChakraType::Collective,
                  .data_deps = std::move(after),
                  .duration_us = us};
  node.comm_type = static_cast<std::int64_t>(what);
  node.comm_size = bytes;
  node.pg_name = group;
  return node;
}

// Of 64 bytes; whichever end it is, its partner is the rank `other`.
ChakraNode transfer(ChakraType type, std::uint64_t id, std::int32_t other, std::uint64_t us,
                    Ids after) {
  ChakraNode node{
      .id = id, .type = type, .data_deps = std::move(after), .duration_us = us, .comm_size = 64};
  const bool sends = type == ChakraType::Send;
  node.name = sends ? "s" : "r";
  (sends ? node.comm_dst : node.comm_src) = other;
  return node;
}

ChakraNode send(std::uint64_t id, std::int32_t to, std::uint64_t us, Ids after = {}) {
  return transfer(ChakraType::Send, id, to, us, std::move(after));
}

ChakraNode receive(std::uint64_t id, std::int32_t from, std::uint64_t us, Ids after = {}) {
  return transfer(ChakraType::Recv, id, from, us, std::move(after));
}

ChakraJob job_of(std::vector<std::vector<ChakraNode>> ranks, ChakraGroups groups = {},
                 bool rendezvous = false) {
  ChakraJob job{.prefix = "a"};
  for (auto& nodes : ranks) {
    ChakraTrace& trace = job.ranks.emplace_back();
    trace.rendezvous = rendezvous;
    trace.nodes = std::move(nodes);
  }
  job.groups = std::move(groups);
  if (!job.groups.empty()) job.groups_path = "groups.json";
  return job;
}

Program imported(const ChakraJob& job) {
  auto made = import_chakra(job, false);
  if (!made.ok()) FAIL(made.error().text());
  return std::move(made->program);
}

std::string why(const ChakraJob& job) {
  const auto made = import_chakra(job, false);
  return made.ok() ? std::string() : made.error().text();
}

Nanoseconds makespan(const Program& program) {
  const auto played = replay(program, fold(program));
  REQUIRE(played.ok());
  Nanoseconds end = 0;
  for (const EventTimes& times : played->events) end = std::max(end, times.end_ns);
  return end;
}

Program lowered(const std::string& name, int pp, int microbatches, bool p2p, double forward_s) {
  OrderSpec spec{name, pp, 1, microbatches, 0};
  spec.vpp = traits_of(spec).default_vpp();
  const auto order = make_order(spec);
  REQUIRE(order.ok());
  const Workload work =
      uniform_workload({forward_s, 2 * forward_s, forward_s, forward_s}, order->stages);
  LowerOptions options;
  options.overlap_p2p = p2p;
  auto program = lower(*order, work, options);
  REQUIRE(program.ok());
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (!is_compute(op.kind)) op.duration_ns = 123'456;
    }
  }
  return *program;
}

ChakraJob exported(const Program& program) {
  const auto made = ChakraExport::of(program);
  REQUIRE(made.ok());
  ChakraJob job{.prefix = "a"};
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const auto read = decode_chakra(encode_chakra(made->rank(static_cast<Rank>(rank))), "a");
    REQUIRE(read.ok());
    job.ranks.push_back(*read);
  }
  job.groups = made->groups();
  job.groups_path = "groups.json";
  return job;
}

// All ranks play one collective, or ring shift, in a group of their own.
Program communicating(OpKind kind, int ranks, Bytes bytes) {
  std::string text = "ranks";
  for (int rank = 0; rank < ranks; ++rank) text += fmt::format(" {}", rank);
  return made_program(fmt::format("{0}: {1} tensor 5us {2}B, {1} tensor 5us {2}B", text,
                                  op_kind_name(kind), bytes));
}

}  // namespace

TEST_CASE("a compute node waits for what it names, and compute nodes for each other by id") {
  // 5 is first in the file, but 1 and 2 have lower ids: 1 (3 us), 2 (4 us), 5 (2 us).
  const Program program = imported(job_of({{compute(5, 2), compute(2, 4), compute(1, 3)}}));
  const auto played = replay(program, fold(program));
  REQUIRE(played.ok());
  std::vector<Nanoseconds> ends;
  for (const EventTimes& times : played->events) ends.push_back(times.end_ns);
  CHECK(ends == std::vector<Nanoseconds>{3 * kMicro, 7 * kMicro, 9 * kMicro});
}

TEST_CASE("control and data dependencies count alike") {
  ChakraNode last = compute(1, 1);
  last.ctrl_deps = {2};
  const Program program = imported(job_of({{last, compute(2, 5)}}));
  CHECK(program.bodies[0].ops[0].duration_ns == 5 * kMicro);
  CHECK(program.bodies[0].ops[1].duration_ns == 1 * kMicro);
}

TEST_CASE("communication plays beside compute, one at a time, receives aside") {
  // Rank 0: compute 10 us beside an all-reduce of 4 us, then its send of 3 us. Rank 1 receives at
  // 7 us, computes 1 us after it.
  const ChakraCollective sum = ChakraCollective::AllReduce;
  const Program program =
      imported(job_of({{compute(1, 10), collective(2, sum, 64, 4), send(3, 1, 3)},
                       {collective(1, sum, 64, 4), receive(2, 0, 3), compute(3, 1, {2})}}));
  CHECK(makespan(program) == 10 * kMicro);
  const auto played = replay(program, unfold(program));
  REQUIRE(played.ok());
  CHECK(played->events.back().start_ns == 7 * kMicro);
  CHECK(played->events.back().end_ns == 8 * kMicro);
}

TEST_CASE("a collective takes the least of its ranks' durations: the others' hold waiting") {
  const ChakraCollective sum = ChakraCollective::AllReduce;
  const Program program = imported(
      job_of({{collective(1, sum, 64, 90)}, {compute(1, 50), collective(2, sum, 64, 40, {1})}}));
  CHECK(makespan(program) == 90 * kMicro);
}

TEST_CASE("an all-gather's comm_size is a rank's shard, its bytes the whole array") {
  const ChakraCollective gather = ChakraCollective::AllGather;
  const Program program =
      imported(job_of({{collective(1, gather, 100, 1)}, {collective(1, gather, 100, 1)}}));
  CHECK(program.bodies[0].ops[0].bytes == 200);
}

// ASTRA-sim's sends go off without their receives: ranks that all send first do not wait for each
// other. 14 steps of 5 us, and a reduction of 7 us after each of the first 7.
TEST_CASE("ASTRA-sim's own ring over eight ranks plays in 14 transfers and 7 reductions") {
  const auto first = decode_chakra(sample("chakra/custom_allreduce.0.et"), "a.0.et");
  REQUIRE(first.ok());
  ChakraJob job{.prefix = "ring"};
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    ChakraTrace& trace = job.ranks.emplace_back(*first);
    for (ChakraNode& node : trace.nodes) {
      if (node.type != ChakraType::Compute) node.duration_us = 5;
      if (node.comm_dst) node.comm_dst = (*node.comm_dst + rank) % 8;
      if (node.comm_src) node.comm_src = (*node.comm_src + rank) % 8;
    }
  }
  CHECK(makespan(imported(job)) == (14 * 5 + 7 * 7) * kMicro);
}

TEST_CASE(
    "a send that waits for its receive deadlocks where all send first, and the cycle is named") {
  const std::vector<std::vector<ChakraNode>> ranks = {{send(1, 1, 5), receive(2, 1, 5, {1})},
                                                      {send(1, 0, 5), receive(2, 0, 5, {1})}};
  CHECK(makespan(imported(job_of(ranks))) == 5 * kMicro);
  CHECK(why(job_of(ranks, {}, true)) ==
        "a.0.et: found a deadlock, expected an order that ends: node 1 's' of rank 0 waits for "
        "node 1 's' of rank 1 waits for node 1 's' of rank 0");
}

TEST_CASE("collectives that two ranks begin in unlike orders deadlock, and the cycle is named") {
  const ChakraCollective sum = ChakraCollective::AllReduce;
  const ChakraGroups groups = {{"1", {0, 1}}, {"2", {0, 1}}};
  CHECK(why(job_of({{collective(1, sum, 8, 5, {}, "1"), collective(2, sum, 8, 5, {}, "2")},
                    {collective(1, sum, 8, 5, {}, "2"), collective(2, sum, 8, 5, {}, "1")}},
                   groups)) ==
        "a.0.et: found a deadlock, expected an order that ends: node 1 'g' of rank 0 waits for "
        "node 2 'g' of rank 0 waits for node 1 'g' of rank 0");
}

TEST_CASE("nodes of the CPU and metadata take no time, and others wait through them") {
  ChakraNode host = compute(2, 70, {1});
  host.is_cpu_op = true;
  const ChakraNode metadata{.id = 3, .type = ChakraType::Metadata, .data_deps = {2}};
  const ChakraJob job = job_of({{compute(1, 5), host, metadata, compute(4, 6, {3})}});
  const auto made = import_chakra(job, false);
  REQUIRE(made.ok());
  CHECK(makespan(made->program) == 11 * kMicro);
  CHECK(made->left_out == std::vector<std::string>{
                              "nodes of the CPU (1, 7e-05 s on all ranks together) take no time: "
                              "others wait for what they wait for",
                              "metadata nodes (1) take no time"});
}

TEST_CASE("through a chain of CPU nodes a node waits for the last op of each lane") {
  // Each node of the CPU waits for the one before it and for a compute node of 1 us; the last
  // compute node waits through them for all.
  constexpr std::uint64_t kNodes = 20'000;
  std::vector<ChakraNode> nodes;
  for (std::uint64_t i = 0; i < kNodes; ++i) {
    nodes.push_back(compute(2 * i, 1));
    ChakraNode host = compute(2 * i + 1, 9, i > 0 ? Ids{2 * i - 1, 2 * i} : Ids{2 * i});
    host.is_cpu_op = true;
    nodes.push_back(host);
  }
  nodes.push_back(receive(2 * kNodes, 1, 2, {2 * kNodes - 1}));
  nodes.push_back(compute(2 * kNodes + 1, 5, {2 * kNodes, 2 * kNodes - 1}));
  const Program program = imported(job_of({nodes, {send(0, 0, 2)}}));
  CHECK(makespan(program) == (kNodes + 5) * kMicro);
  const Body& body = program.body_of(Rank{0});
  CHECK(body.waits_of(body.ops.back()).size() == 1);  // the receive
}

TEST_CASE("the process group 0 is all ranks, and a file that says else is refused") {
  const ChakraCollective sum = ChakraCollective::AllReduce;
  const std::vector<ChakraNode> rank = {collective(1, sum, 64, 5, {}, "0")};
  CHECK(makespan(imported(job_of({rank, rank, rank}, {{"0", {2, 0, 1}}}))) == 5 * kMicro);
  CHECK(why(job_of({rank, rank, rank}, {{"0", {0, 1}}})) ==
        "groups.json: group '0': found 2 ranks, expected all 3: ASTRA-sim takes the group of this "
        "name for all ranks");
}

TEST_CASE("a long cycle and a long name are told in a short line") {
  constexpr std::uint64_t kNodes = 60'000;
  std::vector<ChakraNode> nodes;
  for (std::uint64_t i = 0; i < kNodes; ++i) nodes.push_back(compute(i, 1, {(i + 1) % kNodes}));
  nodes[0].name = "two\nlines " + std::string(500, 'x');
  const std::string text = why(job_of({nodes}));
  CHECK(text.starts_with(
      "a.0.et: found a cycle of dependencies, expected none: node 0 'two lines xxx"));
  CHECK(text.find("waits for 59984 others, one for another, wait for node 59992 'c'") !=
        std::string::npos);
  CHECK(text.size() < 1000);
}

TEST_CASE("a collective of one rank is none") {
  const ChakraCollective sum = ChakraCollective::AllReduce;
  const Program program = imported(job_of(
      {{compute(1, 5), collective(2, sum, 64, 9, {1}, "1"), compute(3, 5, {2})}}, {{"1", {0}}}));
  CHECK(makespan(program) == 10 * kMicro);
}

TEST_CASE("what a Program cannot have is refused with file and node") {
  const ChakraCollective sum = ChakraCollective::AllReduce;
  CHECK(why(job_of({{compute(1, 5, {7})}})) ==
        "a.0.et: node 1 'c': found a dependency on node 7, expected one that is there");
  CHECK(why(job_of({{compute(1, 5), compute(1, 5)}})) ==
        "a.0.et: node 1 'c': found a second node of this id, expected each once");
  CHECK(why(job_of({{compute(1, 5, {2}), compute(2, 5, {1})}})) ==
        "a.0.et: found a cycle of dependencies, expected none: node 1 'c' waits for node 2 'c' "
        "waits for node 1 'c'");
  CHECK(why(job_of({{send(1, 3, 5)}, {}})) ==
        "a.0.et: node 1 's': found comm_dst 3, expected another rank that has a file: 0 to 1");
  CHECK(why(job_of({{send(1, 1, 5)}, {}})) ==
        "a.0.et: node 1 's': found no receive of it (by ranks, comm_tag and order), expected one");
  ChakraNode small = receive(1, 0, 5);
  small.comm_size = 8;
  CHECK(why(job_of({{send(1, 1, 5)}, {small}})) ==
        "a.1.et: node 1 'r': found 8 bytes, expected 64: so many has node 1 's' of rank 0");
  CHECK(why(job_of({{collective(1, sum, 8, 5, {}, "4")}, {}}, {{"1", {0, 1}}})) ==
        "a.0.et: node 1 'g': found process group '4', expected one of groups.json: 1");
  CHECK(why(job_of({{collective(1, sum, 8, 5, {}, "4")}, {}})) ==
        "a.0.et: node 1 'g': found process group '4', expected a file of process groups "
        "(--comm-groups)");
  CHECK(why(job_of({{collective(1, sum, 8, 5, {}, "1")}, {}}, {{"1", {0, 2}}})) ==
        "groups.json: group '1': found rank 2, expected ranks below 2: there is no a.2.et");
  CHECK(why(job_of({{collective(1, sum, 8, 5)}, {}})) ==
        "a.0.et: node 1 'g': found 1 collectives of its process group on rank 0 and 0 on rank 1, "
        "expected as many");
  CHECK(why(job_of({{collective(1, sum, 8, 5)}, {collective(1, sum, 9, 5)}})) ==
        "a.1.et: node 1 'g': found another collective or size than node 1 'g' of rank 0, expected "
        "the ranks of a process group to issue the same ones in one order");
  const ChakraCollective all = ChakraCollective::Broadcast;
  CHECK(why(job_of({{collective(1, all, 8, 5)}, {collective(1, all, 8, 5)}})) ==
        "a.0.et: node 1 'g': found comm_type 5 (broadcast), expected all-reduce (0), all-gather "
        "(2), all-to-all (6) or reduce-scatter (7)");
  for (const std::int64_t type : {256, -1, 10}) {  // 256 is 0 in eight bits
    ChakraNode odd = collective(1, sum, 8, 5);
    odd.comm_type = type;
    CHECK(why(job_of({{odd}, {odd}}))
              .starts_with(fmt::format("a.0.et: node 1 'g': found comm_type {}, expected", type)));
  }
  CHECK(why(job_of({{collective(1, sum, 8, 0)}, {collective(1, sum, 8, 0)}})) ==
        "a.0.et: node 1 'g': found communication without duration_micros, expected one, or a "
        "cluster that prices it (--cluster)");
  ChakraNode symbolic = compute(1, 0);
  symbolic.num_ops = 1'000'000'000'000'000;
  CHECK(why(job_of({{symbolic}})).find("found num_ops 1000000000000000 and no duration_micros") !=
        std::string::npos);
  ChakraNode sizeless = send(1, 1, 5);
  sizeless.comm_size.reset();
  CHECK(why(job_of({{sizeless}, {receive(1, 0, 5)}})) ==
        "a.0.et: node 1 's': found no comm_size, expected the attribute in bytes");
  CHECK(why(job_of({{{.id = 1, .name = "m", .type = ChakraType::MemLoad}}})) ==
        "a.0.et: node 1 'm': found a load or store of remote memory, expected compute, "
        "collectives, sends and receives");
  CHECK(why(job_of({{{.id = 1, .name = "x", .type = ChakraType::Invalid}}})) ==
        "a.0.et: node 1 'x': found a node without a type, expected compute, collectives, sends and "
        "receives");
  ChakraNode some = collective(1, sum, 8, 5);
  some.some_dimensions = true;
  CHECK(why(job_of({{some}, {some}})) ==
        "a.0.et: node 1 'g': found involved_dim with dimensions left out, expected a process group "
        "(pg_name): dimensions are ASTRA-sim's network's");
  CHECK(why(job_of({{}})) ==
        "a.0.et: found no compute and no communication on any rank, expected some");
}

// Ends at 0.4, 0.8, 1.2, 1.6, 2.0 us round to 0, 1, 1, 2, 2.
TEST_CASE("what a short op loses to whole microseconds the next one gets") {
  const Program program = made_program("rank 0, 5 times: F 400ns");
  const auto made = ChakraExport::of(program);
  REQUIRE(made.ok());
  std::vector<std::uint64_t> durations;
  for (const ChakraNode& node : made->rank(Rank{0}).nodes) durations.push_back(node.duration_us);
  CHECK(durations == std::vector<std::uint64_t>{0, 1, 0, 1, 0});
  REQUIRE(made->lost().size() == 2);
  CHECK(made->lost()[0].starts_with("an op waits for the one before it on its lane"));
  CHECK(made->lost()[1].starts_with("5 of 5 compute ops are shorter than 1 us"));
}

TEST_CASE("a lane's order is a chain of control dependencies, waits are data dependencies") {
  const Program program = made_program("rank 0: F 1us, F 2us, F 3us");
  const auto made = ChakraExport::of(program);
  REQUIRE(made.ok());
  const ChakraTrace trace = made->rank(Rank{0});
  CHECK(trace.nodes[0].ctrl_deps.empty());
  CHECK(trace.nodes[2].ctrl_deps == Ids{1});
  CHECK(trace.nodes[2].data_deps.empty());
}

TEST_CASE("a wait that is written twice is one dependency") {
  const Program program = made_program("rank 0: F0 1us, F1 2us after F0 F0");
  const auto made = ChakraExport::of(program);
  REQUIRE(made.ok());
  const ChakraTrace trace = made->rank(Rank{0});
  CHECK(trace.nodes[1].data_deps == Ids{0});
  CHECK(trace.nodes[1].ctrl_deps.empty());
}

TEST_CASE("communication without bytes is written with one, and said") {
  for (const OpKind kind : {OpKind::AllReduce, OpKind::AllGather, OpKind::RingShift}) {
    const Program program = communicating(kind, 4, 0);
    const auto made = ChakraExport::of(program);
    REQUIRE(made.ok());
    for (const ChakraNode& node : made->rank(Rank{0}).nodes) CHECK(node.comm_size == 1);
    CHECK(std::ranges::any_of(made->lost(), [](const std::string& line) {
      return line.starts_with("8 of 8 communications carry no bytes");
    }));
  }
}

TEST_CASE("an all-gather says what a rank puts in, an all-reduce the whole array, by its group") {
  const Program gather = communicating(OpKind::AllGather, 4, 4096);
  const auto made = ChakraExport::of(gather);
  REQUIRE(made.ok());
  const ChakraNode node = made->rank(Rank{2}).nodes[0];
  CHECK(node.comm_type == static_cast<std::int64_t>(ChakraCollective::AllGather));
  CHECK(node.comm_size == 1024);
  CHECK(node.pg_name == "1");
  CHECK(made->groups() == ChakraGroups{{"1", {0, 1, 2, 3}}});
  const Program reduce = communicating(OpKind::AllReduce, 4, 4096);
  const auto sum = ChakraExport::of(reduce);
  REQUIRE(sum.ok());
  CHECK(sum->rank(Rank{0}).nodes[0].comm_size == 4096);
}

TEST_CASE("a ring shift is a send to the next rank and a receive from the one before") {
  const Program program = communicating(OpKind::RingShift, 3, 64);
  const auto made = ChakraExport::of(program);
  REQUIRE(made.ok());
  const ChakraTrace trace = made->rank(Rank{0});
  REQUIRE(trace.nodes.size() == 4);
  CHECK(trace.nodes[0].type == ChakraType::Send);
  CHECK(trace.nodes[0].comm_dst == 1);
  CHECK(trace.nodes[1].type == ChakraType::Recv);
  CHECK(trace.nodes[1].comm_src == 2);
  CHECK(trace.nodes[2].ctrl_deps == Ids{0, 1});
  CHECK(trace.nodes[0].comm_tag != trace.nodes[2].comm_tag);
  CHECK(made->groups().empty());
  CHECK(makespan(imported(exported(program))) == 10 * kMicro);
}

TEST_CASE("each send's tag is its receive's, and no other of the two ranks has it") {
  const Program program = lowered("dualpipe", 4, 8, true, 1e-3);
  const ChakraJob job = exported(program);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> sends, receives;
  std::size_t count = 0;
  for (const ChakraTrace& trace : job.ranks) {
    for (const ChakraNode& node : trace.nodes) {
      if (node.type == ChakraType::Send || node.type == ChakraType::Recv) {
        ++count;
        (node.type == ChakraType::Send ? sends : receives)
            .insert({*node.comm_src, *node.comm_dst, *node.comm_tag});
      }
    }
  }
  CHECK(sends == receives);
  CHECK(count == 2 * sends.size());
}

// Queueing on fewer lanes can only take longer; where a rank has one lane of sends, nothing queues
// that did not before.
TEST_CASE(
    "every order comes back from its traces: as long to the microsecond, or longer by lost lanes") {
  int exact = 0;
  for (const OrderTraits& order : named_orders()) {
    if (!order.pipelines) continue;
    const std::string name(order.name);
    for (const bool p2p : {false, true}) {
      if (!p2p && order.exchanges == BatchedP2p::Never) continue;
      for (const int pp : {2, 4}) {
        INFO(name << " p2p " << p2p << " pp " << pp);
        const Program program = lowered(name, pp, 8, p2p, 0.7654321e-3);
        const auto made = ChakraExport::of(program);
        REQUIRE(made.ok());
        bool loses_lanes = false;
        for (const std::string& line : made->lost())
          loses_lanes |= line.find("become one") != std::string::npos;
        const Program back = imported(exported(program));
        CHECK(validate(back).ok());
        const Nanoseconds difference = makespan(back) - makespan(program);
        CHECK(difference >= -kMicro);
        if (loses_lanes) continue;
        CHECK(difference <= kMicro);
        ++exact;
      }
    }
  }
  CHECK(exact > 5);
}

TEST_CASE("a Program that comes back has its kinds, stages and groups") {
  const Program program = lowered("zb1p", 2, 4, true, 1e-3);
  const Program back = imported(exported(program));
  const auto count = [](const Program& of, OpKind kind) {
    std::size_t ops = 0;
    for (const RankRow& rank : of.ranks) {
      for (const Op& op : of.bodies[rank.body].ops) ops += op.kind == kind ? 1 : 0;
    }
    return ops;
  };
  for (int kind = 0; kind < kOpKinds; ++kind)
    CHECK(count(back, static_cast<OpKind>(kind)) == count(program, static_cast<OpKind>(kind)));
  for (const Communicator& communicator : back.communicators)
    CHECK(communicator.group_kind == GroupKind::Pipeline);
  CHECK(back.body_of(Rank{1}).ops[1].stage == 1);
}
