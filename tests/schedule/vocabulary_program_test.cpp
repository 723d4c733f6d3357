// Vocabulary passes lowered: their collectives, lanes and times, on both engines.
#include <algorithm>
#include <set>

#include "schedule/order/order_replay.h"
#include "tests/schedule/vocabulary_work.h"
#include "tests/sim/both_engines.h"

namespace tandem {
namespace {

Order made(const std::string& name, int pp, int microbatches, int algorithm, int vpp = 1) {
  auto order = vocabulary_order(name, pp, vpp, microbatches, algorithm);
  INFO((order.ok() ? "" : order.error().text()));
  REQUIRE(order.ok());
  return *std::move(order);
}

LowerOptions overlapped() {
  LowerOptions options;
  options.overlap_p2p = true;
  return options;
}

int count(const Body& body, OpKind kind) {
  return static_cast<int>(std::ranges::count(body.ops, kind, &Op::kind));
}

TEST_CASE("each rank has its four passes, and three sums and two arrays sent, a microbatch") {
  constexpr int kRanks = 3, kMicrobatches = 6;
  for (const int algorithm : {1, 2}) {
    const Played played = play(made("1f1b", kRanks, kMicrobatches, algorithm),
                               vocabulary_work(kRanks, 1000), overlapped());
    for (const Body& body : played.program.bodies) {
      for (const OpKind kind : {OpKind::EmbeddingForward, OpKind::OutputS, OpKind::OutputT,
                                OpKind::EmbeddingBackward, OpKind::Forward, OpKind::Backward})
        CHECK(count(body, kind) == kMicrobatches);
      CHECK(count(body, OpKind::AllReduce) == 3 * kMicrobatches);
      CHECK(count(body, OpKind::AllGather) == 2 * kMicrobatches);
      std::set<std::string> lanes;
      for (const Op& op : body.ops) {
        if (op.kind == OpKind::AllReduce || op.kind == OpKind::AllGather)
          lanes.insert(body.lanes[op.lane].name);
      }
      CHECK(lanes == std::set<std::string>{"embedding sum", "output", "softmax", "output gradient",
                                           "embedding gradient"});
    }
  }
}

TEST_CASE("of tp x dp ranks a stage, those of equal place meet over the pipeline") {
  LowerOptions options = overlapped();
  options.tp = 2;
  options.dp = 2;
  const auto program = lower(made("1f1b", 2, 4, 2), vocabulary_work(2, 1000), options);
  REQUIRE(program.ok());
  std::set<std::vector<int>> groups;
  for (const Communicator& communicator : program->communicators) {
    std::vector<int> members;
    for (const Rank member : communicator.members) members.push_back(index(member));
    if (communicator.group_kind == GroupKind::Pipeline) groups.insert(members);
  }
  // Forward edges, backward edges, and all ranks of the pipeline, which are as many.
  CHECK(groups ==
        std::set<std::vector<int>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {4, 0}, {5, 1}, {6, 2}, {7, 3}});
}

TEST_CASE("where communication is free the program takes what the order does") {
  for (const auto& [name, vpp] : {std::pair{"1f1b", 1},
                                  {"gpipe", 1},
                                  {"interleaved", 2},
                                  {"looped-bfs", 2},
                                  {"zb1p", 1},
                                  {"interleaved-zb", 2},
                                  {"zbv", 2},
                                  {"v-half", 2}}) {
    for (const int algorithm : {1, 2}) {
      INFO(name << ' ' << algorithm);
      const Order order = made(name, 4, 8, algorithm, vpp);
      const std::vector<OrderCosts> stages(4 * vpp, {kMsF, kMsI, kMsW, 0});
      const double order_ms = replay_stages(order, stages, kVocabularyMs).makespan;
      const Played played = play(order, vocabulary_work(4 * vpp), overlapped());
      CHECK(played.iteration() == to_ns(order_ms / 1e3));
    }
  }
}

TEST_CASE("in 1F1B with free communication only the fill, and the first lookups, are idle") {
  // m (E + F + S + T + B + G) + (p - 1)(F + B), to less than an interval: the ends' passes hide in
  // the fill, or come before it.
  constexpr int kRanks = 4;
  const auto ms = [&](int microbatches) {
    const Played played =
        play(made("1f1b", kRanks, microbatches, 1), vocabulary_work(kRanks), overlapped());
    return static_cast<double>(played.iteration()) / kMs;
  };
  const double interval = 1 + kMsF + 3 + 2 + kMsI + kMsW + 1;
  CHECK(ms(24) - ms(16) == 8 * interval);
  const double fill = (kRanks - 1) * (kMsF + kMsI + kMsW);
  CHECK(std::abs(ms(16) - (16 * interval + fill)) < interval);
}

TEST_CASE(
    "collectives beside compute cost next to nothing while they are shorter than what hides them") {
  // 10 kB take 10 us a step here; passes take milliseconds.
  for (const int algorithm : {1, 2}) {
    const Order order = made("1f1b", 4, 32, algorithm);
    const Played free = play_ideal(order, vocabulary_work(4), overlapped());
    const Played costly = play_ideal(order, vocabulary_work(4, 10'000), overlapped());
    CHECK(costly.comm(GroupKind::Pipeline) > 32 * kMs / 25);
    CHECK(costly.iteration() > free.iteration());
    CHECK(costly.iteration() < free.iteration() + 4 * kMs);
  }
}

TEST_CASE("exchanges that compute waits for are refused with vocabulary passes") {
  const auto refused = lower(made("1f1b", 2, 4, 2), vocabulary_work(2), {});
  REQUIRE(!refused.ok());
  CHECK(
      refused.error().text() ==
      "found overlap.p2p = false with vocabulary parallelism, expected transfers that overlap and "
      "experts that do not: its passes stand between the others");
}

TEST_CASE("a stage's gradients are reduced once the rank's last pass of the vocabulary is over") {
  // In algorithm 2 a rank's last T may come behind its last B.
  for (const int algorithm : {1, 2}) {
    Workload work = vocabulary_work(3);
    for (StageWork& stage : work.stages) stage.units = {{.gradient_bytes = 1'000'000}};
    LowerOptions options = overlapped();
    options.dp = 2;
    options.data.grad_reduce = true;
    const Played played = play_ideal(made("1f1b", 3, 6, algorithm), work, options);
    for (std::size_t rank = 0; rank < played.trace.ranks.size(); ++rank) {
      const Body& body = played.program.bodies[played.trace.ranks[rank].body];
      const auto events = played.trace.events_of(played.program, played.trace.ranks[rank]);
      Nanoseconds last = 0, reduced = -1;
      for (std::size_t i = 0; i < body.ops.size(); ++i) {
        const Op& op = body.ops[i];
        if (op.slot >= 0 && body.slots[op.slot].group_kind == GroupKind::Data)
          reduced = events[i].start_ns;
        if (op.kind == OpKind::OutputT || op.kind == OpKind::EmbeddingBackward ||
            op.kind == OpKind::Backward)
          last = std::max(last, events[i].end_ns);
      }
      CHECK(reduced >= last);
    }
  }
}

}  // namespace
}  // namespace tandem
