// Lowering, casts and validation of Programs.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <set>

#include "schedule/lowering/price.h"
#include "schedule/program/replay.h"
#include "schedule/program/slowdown.h"
#include "schedule/program/validate.h"
#include "tests/made_program.h"
#include "tests/schedule/program/programs.h"
#include "tests/seed.h"
#include "tests/text.h"

using namespace tandem;

namespace {

std::size_t count(const Body& body, OpKind kind) {
  return static_cast<std::size_t>(std::count_if(body.ops.begin(), body.ops.end(),
                                                [&](const Op& op) { return op.kind == kind; }));
}

Nanoseconds compute_ns(const Body& body) {
  Nanoseconds sum = 0;
  for (const Op& op : body.ops) sum += is_compute(op.kind) ? op.duration_ns : 0;
  return sum;
}

// Sends of each rank over one cluster link of one second a transfer.
Nanoseconds makespan(Program program, Nanoseconds transfer_ns) {
  for (Body& body : program.bodies) {
    for (Op& op : body.ops) {
      if (!is_compute(op.kind)) op.duration_ns = transfer_ns;
    }
  }
  const auto played = replay(program, fold(program));
  REQUIRE(played.ok());
  Nanoseconds end = 0;
  for (const EventTimes& times : played->events) end = std::max(end, times.end_ns);
  return end;
}

constexpr Nanoseconds kSecond = 1'000'000'000;

}  // namespace

TEST_CASE("a program has one body a pipeline rank and one rank a GPU") {
  const Program program = lowered(order_of("1f1b", 4, 8), {2, 3});
  CHECK(program.bodies.size() == 4);
  CHECK(program.ranks.size() == 24);
  // Megatron's numbering: tensor fastest, then data, then pipeline.
  CHECK(program.ranks[0].body == 0);
  CHECK(program.ranks[5].body == 0);
  CHECK(program.ranks[6].body == 1);
  CHECK(program.ranks[23].body == 3);
}

TEST_CASE("every microbatch crosses every edge once in each direction") {
  const Program program = lowered(order_of("1f1b", 4, 8), {});
  for (int rank = 0; rank < 4; ++rank) {
    const std::size_t neighbours = (rank > 0 ? 1 : 0) + (rank < 3 ? 1 : 0);
    CHECK(count(program.bodies[rank], OpKind::Send) == 8 * neighbours);
    CHECK(count(program.bodies[rank], OpKind::Recv) == 8 * neighbours);
    CHECK(count(program.bodies[rank], OpKind::Forward) == 8);
    CHECK(count(program.bodies[rank], OpKind::Backward) == 8);
  }
}

TEST_CASE("stages of one rank exchange nothing") {
  const Program program = lowered(order_of("interleaved", 1, 4, 3), {});
  CHECK(program.bodies[0].slots.empty());
}

TEST_CASE("1F1B of two ranks pays one transfer a microbatch and one more") {
  // F 1 s, B 2 s, transfer c. F0 reaches rank 1 at F + c. In every round rank 1 does F, B and then
  // sends the gradient while it receives the next activation: F + B + c, m - 1 times, and F + B at
  // the end. The last gradient takes c and rank 0's B: F + c + m (F + B) + (m - 1) c + c + B = (m +
  // 1)(F + B) + (m + 1) c.
  const Program program = lowered(order_of("1f1b", 2, 4), {});
  CHECK(makespan(program, 0) == 15 * kSecond);
  CHECK(makespan(program, kSecond / 10) == 15 * kSecond + 5 * kSecond / 10);
}

TEST_CASE("overlapped transfers cost 1F1B no more than non-overlapped ones") {
  for (const int microbatches : {1, 2, 5, 8}) {
    const Order order = order_of("1f1b", 4, microbatches);
    LowerOptions overlapped;
    overlapped.overlap_p2p = true;
    CHECK(makespan(lowered(order, overlapped), kSecond / 4) <=
          makespan(lowered(order, {}), kSecond / 4));
  }
}

TEST_CASE("GPipe overlaps all but the fill and the flush of its transfers") {
  // Transfers beside compute: F's pipeline fills in (p-1)(F+c), B's drains in (p-1)(B+c); in
  // between m F and m B, with c < F: m(F+B) + (p-1)(F+B+2c), p = 3, m = 4, c = 0.5: 12 + 6 + 2
  // = 20.
  LowerOptions overlapped;
  overlapped.overlap_p2p = true;
  CHECK(makespan(lowered(order_of("gpipe", 3, 4), overlapped), kSecond / 2) == 20 * kSecond);
}

TEST_CASE("interleaved has exchanges after each action and after each F, B pair") {
  for (const int pp : {2, 4}) {
    for (const int vpp : {2, 3}) {
      const Order order = order_of("interleaved", pp, 2 * pp, vpp);
      const Program program = lowered(order, {});
      CHECK(makespan(program, 0) >= 2 * pp * vpp * 3 * kSecond);
      LowerOptions overlapped;
      overlapped.overlap_p2p = true;
      CHECK(makespan(lowered(order, overlapped), kSecond / 10) <= makespan(program, kSecond / 10));
    }
  }
}

TEST_CASE("an exchange has one number in batch_p2p, and none otherwise") {
  LowerOptions batched;
  batched.batch_p2p = true;
  const Program together = lowered(order_of("1f1b", 2, 4), batched);
  int largest = 0;
  for (const Op& op : together.bodies[0].ops) {
    CHECK((op.exchange >= 0) == (op.slot >= 0));
    largest = std::max(
        largest,
        static_cast<int>(std::count_if(
            together.bodies[0].ops.begin(), together.bodies[0].ops.end(),
            [&](const Op& other) { return op.exchange >= 0 && other.exchange == op.exchange; })));
  }
  CHECK(largest == 2);  // send an activation, receive a gradient
  const Program alone = lowered(order_of("1f1b", 2, 4), {});
  REQUIRE(!alone.bodies[0].ops.empty());
  for (const Op& op : alone.bodies[0].ops) CHECK(op.exchange == -1);
}

TEST_CASE("p2p and batch_p2p exclude each other") {
  LowerOptions both;
  both.overlap_p2p = both.batch_p2p = true;
  const Order order = order_of("1f1b", 2, 4);
  const auto program = lower(order, seconds(1, 2, 2), both);
  REQUIRE_FALSE(program.ok());
  CHECK(program.error().text().find("batch_p2p") != std::string::npos);
}

TEST_CASE("orders without a grouped form refuse p2p off") {
  const Order order = order_of("looped-bfs", 2, 4, 2);
  const auto program = lower(order, seconds(1, 2, 4), {});
  REQUIRE_FALSE(program.ok());
  CHECK(program.error().text().find("looped-bfs") != std::string::npos);
}

TEST_CASE(
    "gradients are reduced over replicas, then the embedding, then the norm, then the optimizer") {
  Workload work = seconds(1, 2, 2);
  for (StageWork& stage : work.stages) {
    stage.units = {{.gradient_bytes = 1000}};
    stage.optimizer = Step{.duration_ns = kSecond};
  }
  work.embedding_gradient_bytes = 100;
  work.gradient_norm_bytes = 4;
  const auto program = lower(order_of("1f1b", 2, 2), work, {1, 4});
  REQUIRE(program.ok());
  for (const Body& body : program->bodies) {
    const std::size_t n = body.ops.size();
    REQUIRE(n > 4);
    CHECK(body.ops[n - 4].bytes == 1000);
    CHECK(body.ops[n - 3].bytes == 100);
    CHECK(body.ops[n - 2].bytes == 4);
    CHECK(body.ops[n - 1].kind == OpKind::Optimizer);
  }
}

TEST_CASE("folding plays one rank a body and one communicator a class of them") {
  Workload work = seconds(1, 2, 4);
  for (StageWork& stage : work.stages) stage.units = {{.gradient_bytes = 8}};
  const auto program = lower(order_of("1f1b", 4, 8), work, {2, 3});
  REQUIRE(program.ok());
  const RankFolding folded = fold(*program);
  CHECK(folded.folded_ranks.size() == 4);
  for (const FoldedRank& folded_rank : folded.folded_ranks) CHECK(folded_rank.multiplicity == 6);
  // 4 tensor classes, 6 directed edges, 4 data classes.
  CHECK(folded.comm_classes.size() == 14);
  std::size_t stood_for = 0;
  for (const CommunicatorClass& comm_class : folded.comm_classes)
    stood_for += comm_class.communicators.size();
  CHECK(stood_for == program->communicators.size());
  CHECK(unfold(*program).folded_ranks.size() == 24);
}

TEST_CASE("ranks of a body that meet unlike ones are apart") {
  // Stages 0 and 1 of three replicas, of which one's second stage is slow: ranks 3 to 5 are 0 to
  // 2's second stages, and 4 has a body of its own. So rank 1 meets others than 0 and 2 do.
  Program program = lowered(order_of("1f1b", 2, 4), {1, 3});
  CHECK(fold(program).folded_ranks.size() == 2);
  REQUIRE(slow_ranks(&program, std::vector<double>{1, 1, 1, 1, 2, 1}));
  CHECK(program.bodies.size() == 3);
  const RankFolding folded = fold(program);
  REQUIRE(folded.folded_ranks.size() == 4);
  for (const int i : {0, 2}) CHECK(folded.folded_ranks[i].multiplicity == 2);
  for (const int i : {1, 3}) CHECK(folded.folded_ranks[i].multiplicity == 1);
  CHECK(folded.folded_ranks[0].body == folded.folded_ranks[1].body);
  CHECK(folded.comm_classes.size() == 4);  // to and fro
  const auto some = replay(program, folded), all = replay(program, unfold(program));
  REQUIRE(some.ok());
  REQUIRE(all.ok());
  const auto last = [](const Replay& played) {
    return std::ranges::max(played.events, {}, &EventTimes::end_ns).end_ns;
  };
  CHECK(last(*some) == last(*all));
}

TEST_CASE("what is written of a Program with stragglers is read, and played alike") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 40; ++i) {
    const int pp = 1 + static_cast<int>(random() % 4), dp = 1 + static_cast<int>(random() % 4);
    const int tp = 1 + static_cast<int>(random() % 2);
    Workload work = seconds(1, 2, pp);
    for (StageWork& stage : work.stages) stage.units = {{.gradient_bytes = 8}};
    auto program = lower(order_of("1f1b", pp, pp + 2), work, {tp, dp});
    REQUIRE(program.ok());
    std::vector<double> factors;
    for (std::size_t rank = 0; rank < program->ranks.size(); ++rank)
      factors.push_back(random() % 4 == 0 ? 1.5 : 1);
    slow_ranks(&*program, factors);
    const std::string text = to_text(*program);
    const auto read = read_text(text);
    INFO((read.ok() ? "" : read.error().text()));
    REQUIRE(read.ok());
    CHECK(to_text(*read) == text);
    CHECK(hash(*read) == hash(*program));
    CHECK(makespan(*read, 1) == makespan(*program, 1));
  }
}

TEST_CASE("issue orders agree: random programs validate and replay to their end") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> names = order_names();
  std::set<std::string> lowered_names;
  for (int i = 0; i < 400; ++i) {
    const std::string& name = names[random() % names.size()];
    const int pp = 1 + static_cast<int>(random() % 6), vpp = 1 + static_cast<int>(random() % 3);
    const int microbatches = pp * (1 + static_cast<int>(random() % 3));
    const auto order = make_order({name, pp, vpp, microbatches, 0});
    if (!order.ok()) continue;  // as DualPipe's where pp is odd
    LowerOptions options{1 + static_cast<int>(random() % 2), 1 + static_cast<int>(random() % 3)};
    options.overlap_p2p = order->exchanges == BatchedP2p::Never || random() % 2 == 0;
    INFO(name << " pp " << pp << " vpp " << vpp << " m " << microbatches);
    const Program program = lowered(*order, options);
    lowered_names.insert(name);
    CHECK(validate(program).ok());
    const auto played = replay(program, unfold(program));
    REQUIRE(played.ok());
    // No rank beats its own work.
    for (const EventTimes& times : played->events) CHECK(times.end_ns >= times.start_ns);
    for (const Body& body : program.bodies) CHECK(makespan(program, 0) >= compute_ns(body));
  }
  CHECK(lowered_names.size() == names.size());
}

TEST_CASE("a program is refused when a send has no receive") {
  Program program = lowered(order_of("1f1b", 2, 2), {});
  Body& last = program.bodies[1];
  const auto receive = std::find_if(last.ops.rbegin(), last.ops.rend(),
                                    [](const Op& op) { return op.kind == OpKind::Recv; });
  receive->kind = OpKind::Send;
  const Status status = validate(program);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("expected") != std::string::npos);
}

TEST_CASE("a program is refused when two members issue in different orders") {
  Program program = lowered(order_of("gpipe", 2, 3), {});
  Body& last = program.bodies[1];
  std::vector<Op*> receives;
  for (Op& op : last.ops) {
    if (op.kind == OpKind::Recv) receives.push_back(&op);
  }
  std::swap(receives[0]->microbatch, receives[1]->microbatch);
  const Status status = validate(program);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("same order") != std::string::npos);
}

TEST_CASE("a cyclic order is refused with its cycle") {
  // Rank 0 wants B0 before it has sent F1, rank 1 wants F1 before it does B0.
  Order order = order_of("1f1b", 2, 2);
  const auto at = [](int stage, ActionKind kind, int microbatch) {
    return Action{static_cast<Stage>(stage), kind, static_cast<Microbatch>(microbatch)};
  };
  order.ranks[0] = {at(0, ActionKind::Forward, 0), at(0, ActionKind::Backward, 0),
                    at(0, ActionKind::Forward, 1), at(0, ActionKind::Backward, 1)};
  order.ranks[1] = {at(1, ActionKind::Forward, 0), at(1, ActionKind::Forward, 1),
                    at(1, ActionKind::Backward, 0), at(1, ActionKind::Backward, 1)};
  LowerOptions overlapped;
  overlapped.overlap_p2p = true;
  const auto program = lower(order, seconds(1, 2, 2), overlapped);
  REQUIRE_FALSE(program.ok());
  CHECK(program.error().text().find("deadlock") != std::string::npos);
  CHECK(program.error().text().find("waits for") != std::string::npos);
}

// Ten pairs of ranks, of unlike sizes, each of which begins its two collectives in unlike orders.
TEST_CASE("of many ranks that wait for each other eight are named") {
  std::string text;
  for (int pair = 0; pair < 10; ++pair) {
    const int a = 2 * pair, b = a + 1;
    const auto reduce = [&](const char* group) {
      return fmt::format("all-reduce {}:{}>{} {}kB on {}", group, a, b, pair + 1, group);
    };
    text += fmt::format("rank {}: {}, {}\nrank {}: {}, {}\n", a, reduce("data"), reduce("tensor"),
                        b, reduce("tensor"), reduce("data"));
  }
  const std::string error = validate(made_program(text)).error().text();
  INFO(error);
  CHECK(has(error, "issue orders form a cycle, expected one common order: rank 0 issues"));
  CHECK(has(error, "rank 7 issues"));
  CHECK_FALSE(has(error, "rank 8 issues"));
  CHECK(error.ends_with(", and 12 ranks more"));
}

TEST_CASE("the hash sees every duration") {
  Program program = lowered(order_of("1f1b", 2, 2), {});
  const std::uint64_t before = hash(program);
  ++program.bodies[1].ops.back().duration_ns;
  CHECK(hash(program) != before);
}

TEST_CASE("the hash sees the device and what memory bounds where ops take SMs, else neither") {
  Program program = lowered(order_of("1f1b", 2, 2), {});
  program.device = {132, 3e12};
  program.kernels.resize(1);
  for (Op& op : program.bodies[0].ops) op.kernel = is_compute(op.kind) ? 0 : -1;
  const auto changes_hash = [&](const auto& change) {
    Program other = program;
    change(&other);
    return hash(other) != hash(program);
  };
  for (const bool taken : {false, true}) {
    if (taken) program.bodies[0].ops.back().sms = 1;
    CHECK(changes_hash([](Program* p) { p->device.sms = 108; }) == taken);
    CHECK(changes_hash([](Program* p) { p->device.memory_bytes_per_s = 2e12; }) == taken);
    CHECK(changes_hash([](Program* p) { p->kernels[0].memory_share = 0.5; }) == taken);
    CHECK(changes_hash([](Program* p) { p->bodies[1].ops.back().sms = 2; }));
  }
}

TEST_CASE("a communication takes fewer SMs than a known device has, and compute takes none") {
  Program program = lowered(order_of("1f1b", 2, 2), {});
  program.device = {108, 2e12};
  const auto first = [](Program* p, bool compute) -> Op& {
    return *std::ranges::find_if(p->bodies[0].ops,
                                 [&](const Op& op) { return is_compute(op.kind) == compute; });
  };
  first(&program, false).sms = 107;
  CHECK(validate(program).ok());
  const auto refusal = [&](const auto& change) {
    Program other = program;
    change(&other);
    const Status status = validate(other);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().text().find('\n') == std::string::npos);
    return status.error().text();
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal([](Program* p) { p->device.sms = 0; }), Contains("whose SMs are known"));
  CHECK_THAT(refusal([](Program* p) { p->device.sms = 107; }),
             Contains("found send 0") && Contains("fewer than the device's 107 SMs"));
  CHECK_THAT(refusal([&](Program* p) { first(p, false).sms = -1; }), Contains("none negative"));
  CHECK_THAT(refusal([&](Program* p) { first(p, true).sms = 1; }),
             Contains("found forward 0") && Contains("by communication only"));
  CHECK_THAT(refusal([](Program* p) { p->device.sms = -1; }), Contains("-1 SMs"));
  CHECK_THAT(refusal([](Program* p) { p->device.memory_bytes_per_s = -1; }),
             Contains("-1 bytes/s"));
  CHECK_THAT(
      refusal([](Program* p) { p->kernels.push_back({.name = "layer", .memory_share = 1.5}); }),
      Contains("kernel layer: found memory share 1.5"));
}

TEST_CASE("a rank and its communicators must know each other") {
  Program program = lowered(order_of("1f1b", 2, 2), {1, 2});
  Program outsider = program;
  std::swap(outsider.ranks[0].communicators, outsider.ranks[1].communicators);
  CHECK_FALSE(validate(outsider).ok());
  Program twice = program;
  twice.communicators[0].members[1] = twice.communicators[0].members[0];
  CHECK_FALSE(validate(twice).ok());
}

TEST_CASE("the first receive is an exchange of its own") {
  LowerOptions batched;
  batched.batch_p2p = true;
  const Program program = lowered(order_of("1f1b", 2, 2), batched);
  const Body& last = program.bodies[1];
  const auto numbered = [&](std::int32_t number) {
    return std::count_if(last.ops.begin(), last.ops.end(),
                         [&](const Op& op) { return op.exchange == number; });
  };
  CHECK(numbered(0) == 1);  // before F0, nothing to send yet
}

TEST_CASE("an action waits for the tensor collective that ends the one before it") {
  Workload work = seconds(1, 2, 1);
  work.kernels.resize(1);
  PassBuilder forward;
  forward.compute(0, kSecond);
  forward.communicate(GroupKind::Tensor, CommKind::AllReduce, 8);
  work.stages[0].forward = forward.take();
  const auto program = lower(order_of("none", 1, 2), work, {2, 1});
  REQUIRE(program.ok());
  const Body& body = program->bodies[0];
  // F0, its all-reduce, B0, F1, its all-reduce, B1: F's reduces are waited for by the B that
  // follows.
  REQUIRE(body.ops.size() == 6);
  CHECK(body.ops[2].kind == OpKind::Backward);
  REQUIRE(body.ops[2].waits >= 1);
  CHECK(body.waits_of(body.ops[2])[0] == 1);
}
