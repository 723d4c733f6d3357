// What all executors share: diagnoses, payloads, and the trace of what ranks noted.
#include <catch2/catch.hpp>
#include <numeric>

#include "exec/payload/payload.h"
#include "exec/recording.h"
#include "exec/supervise/diagnose.h"
#include "tests/made_program.h"
#include "traces/metrics.h"

using namespace tandem;

namespace {

// Two stages, two microbatches: forwards, and a transfer of each.
Program two_stages() {
  return made_program(R"(
    rank 0, 2 times: F# 100ns, send# 0>1 after F#
    rank 1, 2 times: recv# 0>1, F# 100ns after recv#
  )");
}

std::string diagnosis(const Program& program, const std::vector<RankProgress>& progress) {
  return diagnose(program, progress);
}

}  // namespace

TEST_CASE("a killed rank is the culprit, with the op that it was in and who waits for it") {
  // Rank 0 died in its second forward; rank 1 has had the first microbatch.
  CHECK(diagnosis(two_stages(),
                  {{{1, 1}, {1, 0}, "was killed by signal 9 (Killed)"}, {{1, 1}, {0, 1}, ""}}) ==
        "rank 0 was killed by signal 9 (Killed) in forward 1 of stage 0 (lane compute); rank 1 "
        "waits for it in recv 1 of stage 1 (lane 0>1)");
}

TEST_CASE("a stopped rank between two ops is named without an op") {
  CHECK(diagnosis(two_stages(), {{{1, 1}, {0, 0}, "is stopped"}, {{1, 1}, {0, 1}, ""}}) ==
        "rank 0 is stopped; rank 1 waits for it in recv 1 of stage 1 (lane 0>1)");
}

TEST_CASE("two crossed sends are a cycle of two ranks") {
  // Each rank sends first, and receives when its send has ended.
  const Program program = made_program(R"(
    rank 0: send0 0>1, recv0 1>0 after send0
    rank 1: send0 1>0, recv0 0>1 after send0
  )");
  CHECK(diagnosis(program, {{{0, 0, 0}, {0, 1, 0}, ""}, {{0, 0, 0}, {0, 0, 1}, ""}}) ==
        "rank 0 waits in send 0 of stage 0 (lane 0>1) for rank 1, which waits in send 0 of stage 1 "
        "(lane 1>0) for rank 0");
}

TEST_CASE("a compute op that hangs is found from a rank that waits for it") {
  CHECK(diagnosis(two_stages(), {{{1, 0}, {1, 1}, ""}, {{0, 0}, {0, 0}, ""}}) ==
        "rank 0 is still in forward 1 of stage 0 (lane compute)");
  const Program program = made_program(R"(
    rank 0: recv0 0>1
    rank 1: F0 100ns, send0 0>1 after F0, send0 1>2 after F0
    rank 2: recv0 1>2
  )");
  CHECK(diagnosis(program,
                  {{{0, 0}, {0, 1}, ""}, {{0, 0, 0}, {1, 0, 0}, ""}, {{0, 0}, {0, 1}, ""}}) ==
        "rank 1 is still in forward 0 of stage 1 (lane compute); rank 0 waits for it in recv 0 of "
        "stage 0 (lane 0>1); rank 2 waits for it in recv 0 of stage 2 (lane 1>2)");
}

TEST_CASE("a send without a receive is a missing partner") {
  const Program program = made_program("rank 0: send0 0>1\n rank 1:");
  CHECK(diagnosis(program, {{{0, 0}, {0, 1}, ""}, {{0, 0}, {0, 0}, ""}}) ==
        "rank 0 waits in send 0 of stage 0 (lane 0>1) for rank 1, which has no partner for it");
}

TEST_CASE("a member that does not know its communicator has no partner in it either") {
  Program program = made_program("rank 0: send0 0>1\n rank 1:");
  program.ranks[1].communicators.clear();
  CHECK(diagnosis(program, {{{0, 0}, {0, 1}, ""}, {{0, 0}, {0, 0}, ""}}) ==
        "rank 0 waits in send 0 of stage 0 (lane 0>1) for rank 1, which has no partner for it");
  CHECK(diagnosis(program, {{{0, 0}, {0, 1}, ""}, {{0, 0}, {0, 0}, "is stopped"}}) ==
        "rank 1 is stopped");
}

TEST_CASE("an op that nothing holds and that was not begun is named, a run that ended gives none") {
  CHECK(diagnosis(two_stages(), {{{0, 0}, {0, 0}, ""}, {{0, 0}, {0, 1}, ""}}) ==
        "rank 0 has not begun forward 0 of stage 0 (lane compute); rank 1 waits for it in recv 0 "
        "of stage 1 (lane 0>1)");
  CHECK(diagnosis(two_stages(), {{{2, 2}, {0, 0}, ""}, {{2, 2}, {0, 0}, ""}}).empty());
}

TEST_CASE("payloads are whole numbers of a byte, and fill gives any part of them") {
  std::vector<float> all(3000);
  fill(all, 7, 2);
  CHECK(std::ranges::all_of(all, [](float w) { return w >= 0 && w <= 255 && w == int(w); }));
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / 3000;
  CHECK(mean == Approx(127.5).margin(8));  // 6 standard deviations: 74 / sqrt(3000) x 6
  for (const auto& [first, count] : {std::pair{0, 1}, {3, 4}, {5, 17}, {1023, 1030}}) {
    std::vector<float> part(count);
    fill(part, 7, 2, first);
    CHECK(std::equal(part.begin(), part.end(), all.begin() + first));
    CHECK(part.back() == payload_word(7, 2, first + count - 1));
    CHECK(wrong_words(part, 7, 2, first) == 0);
  }
  CHECK(payload_words(0) == 1);
  CHECK(payload_words(9) == 3);
}

TEST_CASE("other members', other messages' and shifted words are wrong") {
  std::vector<float> words(2000);
  fill(words, 7, 2);
  // By chance one word of 256 is the same.
  CHECK(wrong_words(words, 7, 3) > 1900);
  CHECK(wrong_words(words, 8, 2) > 1900);
  CHECK(wrong_words(words, 7, 2, 1) > 1900);
  words[1500] += 1;
  CHECK(wrong_words(words, 7, 2) == 1);
}

TEST_CASE("sums over members are exact, and a missing member shows") {
  std::vector<float> sums(1500), own(1500);
  for (int member = 0; member < 5; ++member) {
    fill(own, 7, member);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }
  CHECK(wrong_sums(sums, 7, 5) == 0);
  CHECK(wrong_sums(sums, 7, 4) > 1400);
}

TEST_CASE("a message's key is that of its communicator, iteration, traffic, microbatch and part") {
  const Op send{.kind = OpKind::Send, .stage = 0, .microbatch = 3};
  const Op recv{.kind = OpKind::Recv, .stage = 1, .microbatch = 3};
  CHECK(payload_key(1, 0, 4, send) == payload_key(1, 0, 4, recv));
  Op other = recv;
  other.microbatch = 2;
  CHECK(payload_key(1, 0, 4, send) != payload_key(1, 0, 4, other));
  other = recv;
  other.part = 1;
  CHECK(payload_key(1, 0, 4, send) != payload_key(1, 0, 4, other));
  CHECK(payload_key(1, 0, 4, send) != payload_key(1, 1, 4, send));
  CHECK(payload_key(1, 0, 4, send) != payload_key(1, 0, 5, send));
  CHECK(payload_key(1, 0, 4, send) != payload_key(2, 0, 4, send));
}

TEST_CASE("a trace counts from the first arrival, and a transfer starts with its latest one") {
  // Rank 1 was ready for the first message at 1000; rank 0 sent it at 1100.
  const Recording recording = {{{1000, 1100}, {1100, 1150}, {1100, 1200}, {1200, 1250}},
                               {{1000, 1150}, {1150, 1250}, {1150, 1250}, {1250, 1350}}};
  const Program program = two_stages();
  const Trace trace = trace_of(program, recording);
  const auto times = [&](int event) {
    const EventTimes& e = trace.events[event];
    return std::vector<Nanoseconds>{e.arrive_ns, e.start_ns, e.end_ns};
  };
  CHECK(times(0) == std::vector<Nanoseconds>{0, 0, 100});
  CHECK(times(1) == std::vector<Nanoseconds>{100, 100, 150});
  CHECK(times(4) == std::vector<Nanoseconds>{0, 100, 150});
  CHECK(measure(program, trace).iteration_s == Approx(350e-9));
}

TEST_CASE("a transfer that ended before its start, by the clocks' error, starts at its end") {
  const Recording recording = {{{0, 100}, {100, 150}, {100, 200}, {200, 250}},
                               {{0, 90}, {90, 190}, {190, 240}, {240, 340}}};
  const Trace trace = trace_of(two_stages(), recording);
  CHECK(trace.events[4].start_ns == 90);
  CHECK(trace.events[1].start_ns == 100);
}

TEST_CASE("what has not ended, and whose partners never came, stays open in a trace") {
  // Rank 0 died in its second forward.
  const Recording recording = {{{0, 100}, {100, 150}, {100, -1}, {-1, -1}},
                               {{0, 150}, {150, 250}, {150, -1}, {-1, -1}}};
  const Trace trace = trace_of(two_stages(), recording);
  CHECK(trace.events[2].start_ns == 100);  // compute starts when it arrives
  CHECK(trace.events[2].end_ns == -1);
  CHECK(trace.events[6].arrive_ns == 150);
  CHECK(trace.events[6].start_ns == -1);
  CHECK(trace.events[6].end_ns == -1);
}

TEST_CASE("meta lines say what was real, which iteration, and whether it is complete") {
  const auto lines = meta_lines(two_stages(), {"host", "measured: x", 3, 2, 5, false});
  using Lines = std::vector<std::pair<std::string, std::string>>;
  CHECK(lines == Lines{{"backend", "host"},
                       {"real", "measured: x"},
                       {"ranks", "2 of 2"},
                       {"seed", "3"},
                       {"iteration", "2 of 5"},
                       {"complete", "no"}});
}
