// Metrics, on traces of a few events whose split is worked out in comments; times in ns.
#include "traces/metrics.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

using namespace tandem;

namespace {

// A program and its trace, built rank by rank: add a rank, its slots, its ops.
struct Job {
  Program program;
  Trace trace;

  void rank(int multiplicity = 1) {
    const int number = static_cast<int>(program.ranks.size());
    program.bodies.emplace_back().lanes.push_back({"compute"});
    program.ranks.emplace_back().body = number;
    trace.ranks.push_back({Rank{number}, number, multiplicity, trace.events.size()});
  }

  // A communicator on a lane of its own, or on the lane that is named.
  int slot(GroupKind group_kind, bool between_nodes = false, int lane = -1) {
    Body& body = program.bodies.back();
    if (lane < 0) {
      lane = static_cast<int>(body.lanes.size());
      body.lanes.push_back({std::string(group_kind_name(group_kind))});
    }
    body.slots.push_back({group_kind, static_cast<std::uint8_t>(lane)});
    program.ranks.back().communicators.push_back(static_cast<int>(program.communicators.size()));
    program.communicators.push_back({group_kind, between_nodes, {}});
    return static_cast<int>(body.slots.size()) - 1;
  }

  std::uint32_t op(OpKind kind, int slot, EventTimes times, std::vector<std::uint32_t> waits) {
    Body& body = program.bodies.back();
    Op op{.kind = kind, .slot = static_cast<std::int16_t>(slot)};
    if (slot >= 0) op.lane = body.slots[slot].lane;
    trace.events.push_back(times);
    return add_op(op, waits, &body);
  }

  std::uint32_t compute(Nanoseconds start, Nanoseconds end, std::vector<std::uint32_t> waits = {}) {
    return op(OpKind::Forward, -1, {start, start, end}, std::move(waits));
  }

  std::uint32_t comm(int slot, EventTimes times, std::vector<std::uint32_t> waits = {}) {
    return op(OpKind::AllReduce, slot, times, std::move(waits));
  }

  Metrics measure() const { return tandem::measure(program, trace); }
};

constexpr int kTensor = static_cast<int>(GroupKind::Tensor);
constexpr int kPipeline = static_cast<int>(GroupKind::Pipeline);
constexpr int kData = static_cast<int>(GroupKind::Data);
constexpr int kContext = static_cast<int>(GroupKind::Context);

Nanoseconds sum(const RankSplit& split) {
  Nanoseconds total = split.compute_ns + split.bubble_ns;
  for (const Nanoseconds exposed : split.exposed_ns) total += exposed;
  return total;
}

}  // namespace

TEST_CASE("1F1B without communication has a bubble of (p-1)/m") {
  // p = 2, m = 3, F = 10, B = 20:
  //   stage 0  F0 0-10, F1 10-20, idle, B0 40-60, F2 60-70, B1 70-90, idle, B2 100-120
  //   stage 1  idle, F0 10-20, B0 20-40, F1 40-50, B1 50-70, F2 70-80, B2 80-100, idle
  Job job;
  job.rank();
  for (const auto& [start, end] : std::initializer_list<std::pair<int, int>>{
           {0, 10}, {10, 20}, {40, 60}, {60, 70}, {70, 90}, {100, 120}})
    job.compute(start, end);
  job.rank();
  for (const auto& [start, end] : std::initializer_list<std::pair<int, int>>{
           {10, 20}, {20, 40}, {40, 50}, {50, 70}, {70, 80}, {80, 100}})
    job.compute(start, end);

  const Metrics metrics = job.measure();
  CHECK(metrics.iteration_s == Approx(120e-9));
  CHECK(metrics.compute_s == Approx(90e-9));
  CHECK(metrics.bubble_s == Approx(30e-9));
  CHECK(metrics.bubble_ratio == Approx(1.0 / 3).epsilon(1e-12));
  CHECK(metrics.bubble_fraction == Approx(0.25));
  // Stage 0 idles 30 of its window of 120, stage 1 never in its own from 10 to 100.
  CHECK(metrics.ranks[0].window_bubble_ns == 30);
  CHECK(metrics.ranks[1].window_bubble_ns == 0);
  CHECK(metrics.ranks[1].first_start_ns == 10);
  CHECK(metrics.ranks[1].last_end_ns == 100);
  CHECK(metrics.bubble_window_fraction == Approx(0.125));
  CHECK(metrics.bubble_window_fraction_max == Approx(0.25));
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind)
    CHECK(!metrics.overlap_fraction[group_kind]);
}

TEST_CASE("1F1B with transfers splits into compute, exposed transfers and the same bubble") {
  // p = 2, m = 2, F = 10, B = 20, a transfer takes 5 and runs beside compute:
  //   stage 0  F0 0-10, F1 10-20, gap of 30, B0 50-70, gap of 10, B1 80-100
  //   stage 1  gap of 15, F0 15-25, B0 25-45, F1 45-55, B1 55-75, tail of 25
  //   transfers F0 10-15, F1 20-25, B0 45-50, B1 75-80
  Job job;
  job.rank();
  int down = job.slot(GroupKind::Pipeline, true), up = job.slot(GroupKind::Pipeline, true);
  const auto f0 = job.compute(0, 10);
  job.comm(down, {10, 10, 15}, {f0});
  const auto f1 = job.compute(10, 20);
  job.comm(down, {20, 20, 25}, {f1});
  job.compute(50, 70, {job.comm(up, {0, 45, 50})});
  job.compute(80, 100, {job.comm(up, {50, 75, 80})});
  job.rank();
  down = job.slot(GroupKind::Pipeline, true), up = job.slot(GroupKind::Pipeline, true);
  job.compute(15, 25, {job.comm(down, {0, 10, 15})});
  const auto b0 = job.compute(25, 45);
  job.comm(up, {45, 45, 50}, {b0});
  job.compute(45, 55, {job.comm(down, {15, 20, 25})});
  const auto b1 = job.compute(55, 75);
  job.comm(up, {75, 75, 80}, {b1});

  const Metrics metrics = job.measure();
  // Stage 0: B0 waits 25 for its peer, then 5 for the transfer; B1 5 and 5.
  // Stage 1: F0 waits 10 and 5; after the end its last send takes 5, and 20 are left.
  for (const RankSplit& rank : metrics.ranks) {
    CHECK(rank.compute_ns == 60);
    CHECK(rank.exposed_ns[kPipeline] == 10);
    CHECK(rank.exposed_between_nodes_ns == 10);
    CHECK(rank.bubble_ns == 30);
    CHECK(rank.comm_ns[kPipeline] == 20);
  }
  CHECK(metrics.bubble_ratio == Approx(0.5));
  // Beside compute: of stage 0 the send of F0, of stage 1 the receive of F1 and the send of B0.
  CHECK(metrics.ranks[0].overlap_ns[kPipeline] == 5);
  CHECK(metrics.ranks[1].overlap_ns[kPipeline] == 10);
  CHECK(*metrics.overlap_fraction[kPipeline] == Approx((0.25 + 0.5) / 2));
  CHECK(metrics.exposed_s[kPipeline] == Approx(10e-9));
  CHECK(metrics.exposed_between_nodes_s == Approx(10e-9));
}

TEST_CASE("an instant belongs to the awaited communication that ends last") {
  // Gap 10-40. Tensor 10-30, data 15-25, context 35-38: data ends before tensor and gets nothing,
  // context has 35-38, 30-35 and 38-40 are bubble.
  Job job;
  job.rank();
  const int tensor = job.slot(GroupKind::Tensor), data = job.slot(GroupKind::Data, true);
  const int context = job.slot(GroupKind::Context);
  job.compute(0, 10);
  const auto a = job.comm(tensor, {10, 10, 30}), b = job.comm(data, {10, 15, 25});
  const auto c = job.comm(context, {10, 35, 38});
  job.compute(40, 50, {a, b, c});
  const RankSplit split = job.measure().ranks[0];
  CHECK(split.exposed_ns[kTensor] == 20);
  CHECK(split.exposed_ns[kData] == 0);
  CHECK(split.exposed_between_nodes_ns == 0);
  CHECK(split.exposed_ns[kContext] == 3);
  CHECK(split.bubble_ns == 7);
}

TEST_CASE("two awaited communications share a gap where the last to end begins") {
  // Gap 10-30. Tensor 5-20, data 15-30: data has 15-30, tensor what lies before, 10-15.
  Job job;
  job.rank();
  const int tensor = job.slot(GroupKind::Tensor), data = job.slot(GroupKind::Data, true);
  job.compute(0, 10);
  const auto a = job.comm(tensor, {5, 5, 20}), b = job.comm(data, {10, 15, 30});
  job.compute(30, 50, {a, b});
  const RankSplit split = job.measure().ranks[0];
  CHECK(split.exposed_ns[kTensor] == 5);
  CHECK(split.exposed_ns[kData] == 15);
  CHECK(split.exposed_between_nodes_ns == 15);
  CHECK(split.bubble_ns == 0);
}

TEST_CASE("waiting for a peer is bubble, and so is a communication that nobody waits for") {
  // Gap 10-40: the awaited transfer arrives at 10, its peer at 32; the data reduction that fills
  // the gap is for the optimizer, so it explains nothing here.
  Job job;
  job.rank();
  const int pipeline = job.slot(GroupKind::Pipeline), data = job.slot(GroupKind::Data);
  const auto f = job.compute(0, 10);
  const auto reduce = job.comm(data, {10, 10, 40}, {f});
  const auto receive = job.comm(pipeline, {10, 32, 40}, {f});
  job.compute(40, 50, {receive});
  job.op(OpKind::Optimizer, -1, {50, 50, 60}, {reduce});
  const RankSplit split = job.measure().ranks[0];
  CHECK(split.bubble_ns == 22);
  CHECK(split.exposed_ns[kPipeline] == 8);
  CHECK(split.exposed_ns[kData] == 0);
  CHECK(split.compute_ns == 30);
}

TEST_CASE("an op waits for what its communication queues behind and waits for") {
  // Gap 10-45 before an op that waits for c alone. c queues behind b on its lane, b waits for a on
  // another lane: a 10-20, b 20-35, c 35-45 are all exposed. z, a lane of its own, explains
  // nothing.
  Job job;
  job.rank();
  const int tensor = job.slot(GroupKind::Tensor), data = job.slot(GroupKind::Data);
  const int context = job.slot(GroupKind::Context);
  job.compute(0, 10);
  job.comm(context, {0, 0, 60});  // z
  const auto a = job.comm(tensor, {10, 10, 20});
  job.comm(data, {20, 20, 35}, {a});  // b
  const auto c = job.comm(data, {35, 35, 45});
  job.compute(45, 60, {c});
  const RankSplit split = job.measure().ranks[0];
  CHECK(split.exposed_ns[kTensor] == 10);
  CHECK(split.exposed_ns[kData] == 25);
  CHECK(split.exposed_ns[kContext] == 0);
  CHECK(split.bubble_ns == 0);
}

TEST_CASE("after the last compute every communication in flight is exposed") {
  // Compute ends at 10. The gradients' all-reduce takes 5-30, a peer ends the iteration at 50: 20
  // of the tail are data, 20 bubble, and neither lies in the rank's own window 0-10.
  Job job;
  job.rank(3);
  const int data = job.slot(GroupKind::Data, true);
  job.compute(0, 10);
  job.comm(data, {5, 5, 30});
  job.rank();
  job.compute(0, 50);
  const Metrics metrics = job.measure();
  CHECK(metrics.ranks[0].exposed_ns[kData] == 20);
  CHECK(metrics.ranks[0].exposed_between_nodes_ns == 20);
  CHECK(metrics.ranks[0].bubble_ns == 20);
  CHECK(metrics.ranks[0].window_bubble_ns == 0);
  // Means: the first rank stands for three of four.
  CHECK(metrics.exposed_s[kData] == Approx(0.75 * 20e-9));
  CHECK(metrics.bubble_ratio == Approx(0.75 * 20 / 10));
  CHECK(metrics.bubble_fraction == Approx(0.75 * 20 / 50));
  CHECK(metrics.compute_s == Approx((3 * 10 + 50) / 4.0 * 1e-9));
}

TEST_CASE("a transfer half hidden behind compute has an overlap fraction of 0.5") {
  // 5-15 beside compute 0-10; the rank without communication does not count.
  Job job;
  job.rank();
  const int pipeline = job.slot(GroupKind::Pipeline);
  job.compute(0, 10);
  job.compute(15, 20, {job.comm(pipeline, {5, 5, 15})});
  job.rank();
  job.compute(0, 20);
  const Metrics metrics = job.measure();
  CHECK(*metrics.overlap_fraction[kPipeline] == Approx(0.5));
  CHECK(!metrics.overlap_fraction[kTensor]);
  CHECK(metrics.comm_s[kPipeline] == Approx(5e-9));
}

TEST_CASE("communication of one group kind on several lanes counts once an instant") {
  // 0-10 and 5-15 and 5-6: a union of 15, of which compute 8-12 hides 4.
  Job job;
  job.rank();
  const int a = job.slot(GroupKind::Pipeline), b = job.slot(GroupKind::Pipeline);
  const int c = job.slot(GroupKind::Pipeline);
  job.comm(b, {5, 5, 15});
  job.comm(a, {0, 0, 10});
  job.comm(c, {5, 5, 6});
  job.compute(8, 12);
  const RankSplit split = job.measure().ranks[0];
  CHECK(split.comm_ns[kPipeline] == 15);
  CHECK(split.overlap_ns[kPipeline] == 4);
}

TEST_CASE("a rank without compute adds nothing to the bubble ratio") {
  Job job;
  job.rank();
  job.compute(5, 25);
  job.rank();
  job.comm(job.slot(GroupKind::Data), {5, 10, 20});
  const Metrics metrics = job.measure();
  // The iteration is counted from its first start, 5, to 25.
  CHECK(metrics.iteration_s == Approx(20e-9));
  CHECK(metrics.ranks[1].compute_ns == 0);
  CHECK(metrics.ranks[1].exposed_ns[kData] == 10);
  CHECK(metrics.ranks[1].bubble_ns == 10);
  CHECK(metrics.bubble_ratio == 0);
  CHECK(metrics.bubble_fraction == Approx(0.25));
  CHECK(Job{}.measure().iteration_s == 0);
}

namespace {

// A rank of random ops that start no sooner than what they wait for, as every engine plays them.
void add_random_rank(std::mt19937_64& random, Job* job) {
  const auto upto = [&random](int most) { return static_cast<int>(random() % (most + 1)); };
  job->rank(1 + upto(3));
  const int slots = upto(4);
  for (int i = 0; i < slots; ++i) {
    const int lanes = static_cast<int>(job->program.bodies.back().lanes.size());
    const int lane = lanes > 1 && upto(2) == 0 ? 1 + upto(lanes - 2) : -1;
    job->slot(static_cast<GroupKind>(upto(kGroupKinds - 1)), upto(1) == 1, lane);
  }
  const std::size_t first = job->trace.events.size();
  const Body& body = job->program.bodies.back();
  std::vector<Nanoseconds> lane_end(body.lanes.size());
  for (int number = upto(24); number > 0; --number) {
    const int slot = upto(slots) - 1;  // -1: compute
    Nanoseconds& end = lane_end[slot < 0 ? 0 : body.slots[slot].lane];
    Nanoseconds arrive = end;
    std::vector<std::uint32_t> waits;
    for (int wait = upto(2); wait > 0 && !body.ops.empty(); --wait) {
      waits.push_back(upto(static_cast<int>(body.ops.size()) - 1));
      arrive = std::max(arrive, job->trace.events[first + waits.back()].end_ns);
    }
    const Nanoseconds start = arrive + (upto(1) == 0 ? 0 : upto(5));
    end = start + upto(9);
    if (slot < 0)
      job->compute(start, end, waits);
    else
      job->comm(slot, {arrive, start, end}, waits);
  }
}

// All that an op waits for, itself included, by the words of the definition.
void mark_awaited(const Body& body, std::uint32_t op, std::vector<bool>* awaited) {
  if ((*awaited)[op]) return;
  (*awaited)[op] = true;
  for (const std::uint32_t wait : body.waits_of(body.ops[op])) mark_awaited(body, wait, awaited);
  for (std::uint32_t i = op; i-- > 0;) {
    if (body.ops[i].lane == body.ops[op].lane) return mark_awaited(body, i, awaited);
  }
}

// Of two communications the one that an instant belongs to.
bool comes_first(const Body& body, std::span<const EventTimes> events, int a, int b) {
  if (events[a].end_ns != events[b].end_ns) return events[a].end_ns > events[b].end_ns;
  return std::pair(body.ops[a].lane, a) < std::pair(body.ops[b].lane, b);
}

// The split, instant by instant.
RankSplit split_by_definition(const Job& job, const RankTrace& rank, Nanoseconds begin,
                              Nanoseconds end) {
  const Body& body = job.program.bodies[rank.body];
  const auto events = job.trace.events_of(job.program, rank);
  RankSplit split;
  for (Nanoseconds now = begin; now < end; ++now) {
    bool computes = false;
    std::uint32_t next = static_cast<std::uint32_t>(events.size());
    std::array<bool, kGroupKinds> in_flight{};
    for (std::uint32_t i = static_cast<std::uint32_t>(events.size()); i-- > 0;) {
      const bool runs = events[i].start_ns <= now && now < events[i].end_ns;
      if (is_compute(body.ops[i].kind)) {
        computes |= runs;
        if (events[i].start_ns > now) next = i;
      } else if (runs) {
        in_flight[static_cast<int>(body.slots[body.ops[i].slot].group_kind)] = true;
      }
    }
    for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
      split.comm_ns[group_kind] += in_flight[group_kind];
      split.overlap_ns[group_kind] += in_flight[group_kind] && computes;
    }
    split.compute_ns += computes;
    if (computes) continue;
    std::vector<bool> awaited(events.size(), next == events.size());
    if (next < events.size()) mark_awaited(body, next, &awaited);
    int owner = -1;
    for (int i = 0; i < static_cast<int>(events.size()); ++i) {
      if (!awaited[i] || is_compute(body.ops[i].kind) || events[i].start_ns > now ||
          now >= events[i].end_ns)
        continue;
      if (owner < 0 || comes_first(body, events, i, owner)) owner = i;
    }
    if (owner < 0) {
      ++split.bubble_ns;
      continue;
    }
    const int slot = body.ops[owner].slot;
    ++split.exposed_ns[static_cast<int>(body.slots[slot].group_kind)];
    const int communicator = job.program.ranks[index(rank.rank)].communicators[slot];
    split.exposed_between_nodes_ns += job.program.communicators[communicator].between_nodes;
  }
  return split;
}

}  // namespace

TEST_CASE("the split of random traces is that of the definition, instant by instant") {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Job job;
    for (int ranks = 1 + static_cast<int>(random() % 3); ranks > 0; --ranks)
      add_random_rank(random, &job);
    const Metrics metrics = job.measure();
    Nanoseconds begin = 1'000'000, end = 0;
    for (const EventTimes& event : job.trace.events) {
      begin = std::min(begin, event.start_ns);
      end = std::max(end, event.end_ns);
    }
    begin = std::min(begin, end);
    REQUIRE(metrics.ranks.size() == job.trace.ranks.size());
    for (std::size_t i = 0; i < metrics.ranks.size(); ++i) {
      INFO("rank " << i);
      const RankSplit& found = metrics.ranks[i];
      const RankSplit expected = split_by_definition(job, job.trace.ranks[i], begin, end);
      REQUIRE(sum(found) == end - begin);
      REQUIRE(found.compute_ns == expected.compute_ns);
      REQUIRE(found.bubble_ns == expected.bubble_ns);
      REQUIRE(found.exposed_ns == expected.exposed_ns);
      REQUIRE(found.exposed_between_nodes_ns == expected.exposed_between_nodes_ns);
      REQUIRE(found.comm_ns == expected.comm_ns);
      REQUIRE(found.overlap_ns == expected.overlap_ns);
    }
  }
}

TEST_CASE("events shifted by clock errors still split without rest") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Job job;
    add_random_rank(random, &job);
    add_random_rank(random, &job);
    Nanoseconds begin = 1'000'000, end = 0;
    for (EventTimes& event : job.trace.events) {
      event.start_ns =
          std::max<Nanoseconds>(0, event.start_ns + static_cast<int>(random() % 7) - 3);
      event.end_ns = event.start_ns + static_cast<int>(random() % 12);
      begin = std::min(begin, event.start_ns);
      end = std::max(end, event.end_ns);
    }
    for (const RankSplit& split : job.measure().ranks)
      REQUIRE(sum(split) == std::max<Nanoseconds>(0, end - begin));
  }
}
