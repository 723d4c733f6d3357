// What a rank of a run of many processes knows by itself: which one it is, what its messages hold,
// what it tells of itself, and what its clock says.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "exec/payload/payload_layout.h"
#include "exec/supervise/run_state.h"
#include "launch/clock_map.h"
#include "launch/launch.h"
#include "tests/made_program.h"

using namespace tandem;

namespace {

using Names = std::map<std::string, std::string>;

std::optional<LaunchedRank> launched(const Names& names) {
  return launched_rank([&](const char* name) -> const char* {
    const auto found = names.find(name);
    return found == names.end() ? nullptr : found->second.c_str();
  });
}

constexpr std::uint64_t kKey = 42;
using Buffers = std::vector<std::vector<float>>;

// What all members of one operation take, as MPI's standard defines it.
Buffers exchanged(OpKind kind, const Buffers& give, const std::vector<PayloadLayout>& pieces) {
  const std::size_t n = give.size();
  Buffers take(n);
  for (std::size_t own = 0; own < n; ++own) {
    const auto words = static_cast<std::size_t>(pieces[own].take_words);
    take[own].resize(words);
    for (std::size_t i = 0; i < words; ++i) {
      float& word = take[own][i];
      const std::size_t each = kind == OpKind::AllToAll ? words / n : give[0].size();
      const auto sum = [&](std::size_t at) {
        for (const std::vector<float>& one : give) word += one[at];
      };
      if (kind == OpKind::AllReduce) sum(i);
      if (kind == OpKind::ReduceScatter) sum(own * words + i);
      if (kind == OpKind::AllGather) word = give[i / each][i % each];
      if (kind == OpKind::AllToAll) word = give[i / each][own * each + i % each];
      if (kind == OpKind::RingShift) word = give[(own + n - 1) % n][i];
      if (kind == OpKind::Recv) word = give[0][i];
    }
  }
  return take;
}

std::vector<PayloadLayout> pieces_of_all(OpKind kind, int members, Bytes bytes, bool sample) {
  std::vector<PayloadLayout> all;
  for (int own = 0; own < members; ++own) {
    const OpKind own_kind = kind == OpKind::Recv && own == 0 ? OpKind::Send : kind;
    PayloadLayout& pieces =
        all.emplace_back(payload_layout({.kind = own_kind, .bytes = bytes}, members, own));
    if (!sample) continue;
    pieces.given = sampled(pieces.given);
    pieces.taken = sampled(pieces.taken);
  }
  return all;
}

}  // namespace

TEST_CASE("each launcher's names say which rank a process is") {
  const std::vector<std::pair<std::string, Names>> families = {
      {"Open MPI",
       {{"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}},
      {"MVAPICH",
       {{"MV2_COMM_WORLD_RANK", "2"},
        {"MV2_COMM_WORLD_SIZE", "4"},
        {"MV2_COMM_WORLD_LOCAL_RANK", "1"}}},
      {"PMI", {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}}},
      {"torchrun", {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}}},
      {"Slurm", {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}}}};
  Names earlier;  // those of all families from this one to the last
  for (auto family = families.rbegin(); family != families.rend(); ++family) {
    INFO(family->first);
    earlier.insert(family->second.begin(), family->second.end());
    for (const Names& names : {family->second, earlier}) {
      const auto own = launched(names);
      REQUIRE(own);
      CHECK(own->family == family->first);
      CHECK(own->rank == 2);
      CHECK(own->ranks == 4);
      CHECK(own->local_rank == 1);
    }
  }
}

TEST_CASE("a launcher whose names are not all there, or that make no sense, is none") {
  CHECK(!launched({}));
  CHECK(!launched({{"RANK", "0"}, {"WORLD_SIZE", "4"}}));
  // A batch script of Slurm, outside all steps.
  CHECK(!launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}}));
  for (const std::string rank : {"4", "-1", "x", ""})
    CHECK(!launched({{"RANK", rank}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}}));
  // A RANK of something else does not hide mpirun's.
  const auto own = launched({{"RANK", "0"},
                             {"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  REQUIRE(own);
  CHECK(own->rank == 1);
}

TEST_CASE("what a rank gives is what the others expect, whole and as a sample") {
  for (const OpKind kind : {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather,
                            OpKind::AllToAll, OpKind::RingShift, OpKind::Recv}) {
    for (const int members : {1, 2, 3, 4, 7}) {
      if (kind == OpKind::Recv && members != 2) continue;
      for (const Bytes bytes : {0, 4, 10, 64, 4099, 30'000}) {
        for (const bool sample : {false, true}) {
          INFO(op_kind_name(kind) << ' ' << members << ' ' << bytes << ' ' << sample);
          const std::vector<PayloadLayout> pieces = pieces_of_all(kind, members, bytes, sample);
          Buffers give;
          for (const PayloadLayout& own : pieces)
            fill_buffer(give.emplace_back(own.give_words), kKey, own.given);
          Buffers take = exchanged(kind, give, pieces);
          for (int own = 0; own < members; ++own) {
            CHECK(wrong_in_buffer(take[own], kKey, members, pieces[own].taken) == 0);
            if (pieces[own].taken.empty()) continue;
            take[own].back() += 1;
            CHECK(wrong_in_buffer(take[own], kKey, members, pieces[own].taken) == 1);
            CHECK(wrong_in_buffer(take[own], kKey + 1, members, pieces[own].taken) > 0);
          }
        }
      }
    }
  }
}

TEST_CASE("a whole message has all its words in pieces, a sample both ends of each") {
  const Op op{.kind = OpKind::AllGather, .bytes = 40'000};
  const PayloadLayout pieces = payload_layout(op, 4, 1);
  CHECK(pieces.give_words == 2500);
  CHECK(pieces.take_words == 10'000);
  std::int64_t words = 0;
  for (const PayloadPiece& piece : pieces.taken) words += piece.words;
  CHECK(words == 10'000);
  const std::vector<PayloadPiece> ends = sampled(pieces.taken);
  REQUIRE(ends.size() == 8);
  CHECK(ends[2].offset == 2500);
  CHECK(ends[2].words == kSampleWords);
  CHECK(ends[3].offset + ends[3].words == 5000);
  CHECK(sampled({{0, 300, 0, 0}}).back().words == 300 - kSampleWords);
  CHECK(sampled({{0, 200, 0, 0}}).size() == 1);
}

TEST_CASE("a state is shared with a forked child, and its copy tells the same") {
  const Program program = made_program("rank 0, 3 times: F# 1ns, send# 0>1 after F#\n rank 1:");
  RunState state(program, 0, 2);
  CHECK(state.header().phase == Phase::Starting);
  CHECK(state.times(1)[5].end_ns == -1);
  const pid_t child = fork();
  if (child == 0) {
    state.header().steps = 9;
    state.header().after.ahead_ns = -4;
    state.done()[0] = 3;
    state.done()[1] = 2;
    state.begun()[1] = 1;
    state.times(0)[0] = {5, 6};
    state.times(1)[5] = {7, 8};
    state.fail({std::string(5000, 'x'), Error::Missing});
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  RunState copy(program, 0, 2, {state.bytes().begin(), state.bytes().end()});
  for (RunState* one : {&state, &copy}) {
    CHECK(one->header().steps == 9);
    CHECK(one->header().after.ahead_ns == -4);
    CHECK(std::vector(one->done().begin(), one->done().end()) == std::vector<std::uint32_t>{3, 2});
    CHECK(std::vector(one->begun().begin(), one->begun().end()) == std::vector<std::uint8_t>{0, 1});
    CHECK(one->times(0)[0].end_ns == 6);
    CHECK(one->times(0)[1].end_ns == -1);
    CHECK(one->times(1)[5].arrive_ns == 7);
    CHECK(one->header().failure_kind == Error::Missing);
    CHECK(std::string(one->header().failure) == std::string(1023, 'x'));
  }
}

TEST_CASE("a clock that is ahead and drifts is mapped back") {
  // 1 s ahead and 100 ppm fast: at true time t it says t + 1e9 + t / 10^4.
  const auto own = [](Nanoseconds t) { return t + 1'000'000'000 + t / 10'000; };
  const auto reading = [&](Nanoseconds t) { return ClockReading{own(t), own(t) - t, 30'000}; };
  const ClockMap map(reading(5'000'000'000), reading(65'000'000'000));
  for (const Nanoseconds t : {5'000'000'000, 20'000'000'000, 65'000'000'000})
    CHECK(std::abs(map(own(t)) - t) <= 1);
  CHECK(map(-1) == -1);
  // Where the second reading is missing, the first offset holds.
  const ClockMap half(reading(5'000'000'000), {});
  CHECK(half(own(5'000'000'000)) == 5'000'000'000);
  CHECK(half(own(15'000'000'000)) == 15'001'000'000);
}
