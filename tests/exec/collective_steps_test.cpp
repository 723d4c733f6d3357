// Collectives as steps, played by all ranks in one process: what each gives is what the others
// expect, for any number of ranks, words and slices.
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <vector>

#include "exec/mpi/collective.h"
#include "exec/payload/payload.h"
#include "exec/payload/payload_layout.h"

using namespace tandem;

namespace {

constexpr std::uint64_t kKey = 42;

// The messages under way between two ranks, and the ranks' steps until all have ended.
void play(std::vector<Collective>* ranks) {
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> under_way;  // by from, to
  std::vector<bool> sent(ranks->size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < ranks->size(); ++i) {
      const int rank = static_cast<int>(i);
      const auto step = (*ranks)[i].step();
      if (!step) continue;
      if (!sent[i]) under_way[{rank, step->to}].emplace_back(step->send.begin(), step->send.end());
      moved |= !sent[i];
      sent[i] = true;
      auto& incoming = under_way[{step->from, rank}];
      if (incoming.empty()) continue;
      REQUIRE(incoming.front().size() == step->receive.size());
      std::ranges::copy(incoming.front(), step->receive.begin());
      incoming.pop_front();
      (*ranks)[i].end_step();
      sent[i] = false;
      moved = true;
    }
  }
  for (const Collective& rank : *ranks) CHECK(!rank.step());
  for (const auto& [ends, messages] : under_way) CHECK(messages.empty());
}

void check_result(OpKind kind, int members, Bytes bytes, int slices) {
  Op op;
  op.kind = kind;
  op.bytes = bytes;
  std::vector<std::vector<float>> give(members), take(members);
  std::vector<PayloadLayout> pieces;
  for (int rank = 0; rank < members; ++rank) {
    pieces.push_back(payload_layout(op, members, rank));
    give[rank].resize(pieces[rank].give_words);
    take[rank].resize(pieces[rank].take_words);
    fill_buffer(give[rank], kKey, pieces[rank].given);
  }
  for (int slice = 0; slice < slices; ++slice) {
    std::vector<Collective> ranks;
    for (int rank = 0; rank < members; ++rank)
      ranks.emplace_back(Message{kind, 0, give[rank], take[rank]}, members, rank, slice, slices);
    play(&ranks);
  }
  for (int rank = 0; rank < members; ++rank) {
    INFO(op_kind_name(kind) << " of " << members << ", " << bytes << " bytes, rank " << rank);
    CHECK(wrong_in_buffer(take[rank], kKey, members, pieces[rank].taken) == 0);
  }
}

}  // namespace

TEST_CASE("steps of a collective give every rank what it should have") {
  for (const OpKind kind :
       {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather, OpKind::AllToAll}) {
    for (const int members : {1, 2, 3, 4, 7}) {
      for (const Bytes bytes : {0, 4, 12, 100, 4096, 100'000}) {
        for (const int slices : {1, 3}) check_result(kind, members, bytes, slices);
      }
    }
  }
}

TEST_CASE("a rank of n takes n-1 steps, and twice as many where all have the sum") {
  const std::vector<float> give(12);
  std::vector<float> take(12);
  const auto steps = [&](OpKind kind, std::size_t gives, std::size_t takes) {
    Collective collective({kind, 0, std::span(give).first(gives), std::span(take).first(takes)}, 4,
                          1);
    int count = 0;
    for (; collective.step(); ++count) collective.end_step();
    return count;
  };
  CHECK(steps(OpKind::AllReduce, 12, 12) == 6);
  CHECK(steps(OpKind::ReduceScatter, 12, 3) == 3);
  CHECK(steps(OpKind::AllGather, 3, 12) == 3);
  CHECK(steps(OpKind::AllToAll, 12, 12) == 3);
}
