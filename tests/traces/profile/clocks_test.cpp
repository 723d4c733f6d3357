// Ranks whose clocks differ: aligned by what they ran together, told where nothing does so.
#include <catch2/catch.hpp>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/profile_notes.h"

using namespace tandem;

namespace {

// The arguments of a transfer; send() and recv() of one transfer match.
std::string transfer(const char* what, int from, int to) {
  return collective(what, 1000, "[0, 1]", 2, "PIPELINE_MODEL_PARALLEL_GROUP",
                    fmt::format(R"(, "Src Rank": {}, "Dst Rank": {})", from, to));
}

// The arguments of a transfer as torch.profiler has them: of the ends only the other one, the ranks
// of the whole pipeline, and a number among the rank's own transfers.
std::string torch_transfer(const char* what, int other, int number) {
  const bool sends = std::string_view(what) == "send";
  return collective(
      what, 1000, "[0, 1, 2, 3]", 4, "PIPELINE_MODEL_PARALLEL_GROUP",
      fmt::format(R"(, "{}": {}, "Seq": {})", sends ? "Dst Rank" : "Src Rank", other, number));
}

// Three ProfilerSteps of 100 us, each with compute of 60 us, on a clock that is ahead.
KinetoRows steps_of(std::int64_t ahead_us) {
  KinetoRows rows;
  for (int step = 0; step < 3; ++step) {
    const std::int64_t begin = ahead_us + 100 * step;
    rows.push_back(
        annotation_row(fmt::format("ProfilerStep#{}", step), std::to_string(begin), "100"));
    rows.push_back(launch_row(step + 1, std::to_string(begin + 1)));
    rows.push_back(kernel_row("gemm", 7, std::to_string(begin + 10), "60", step + 1));
  }
  return rows;
}

Profile two_ranks(const KinetoRows& first, const KinetoRows& second) {
  const Folder folder;
  folder.with("a.json", kineto_text(first, 0));
  folder.with("b.json", kineto_text(second, 1));
  return read_all({folder.path().string()});
}

}  // namespace

TEST_CASE("transfers both ways align clocks that no collective does") {
  // Rank 1's clock is 5000 us ahead. Each receive ends 2 us behind its send: the first transfer
  // alone would make the difference 4998.
  KinetoRows first = steps_of(0), second = steps_of(5000);
  for (const int launch : {8, 9}) {
    first.push_back(launch_row(launch, "2"));
    second.push_back(launch_row(launch, "5002"));
  }
  first.push_back(kernel_row("ncclDevKernel_SendRecv", 20, "70", "8", 8, transfer("send", 0, 1)));
  second.push_back(
      kernel_row("ncclDevKernel_SendRecv", 20, "5070", "10", 8, transfer("recv", 0, 1)));
  second.push_back(
      kernel_row("ncclDevKernel_SendRecv", 21, "5082", "8", 9, transfer("send", 1, 0)));
  first.push_back(kernel_row("ncclDevKernel_SendRecv", 21, "82", "10", 9, transfer("recv", 1, 0)));
  const Profile profile = two_ranks(first, second);
  CHECK(profile.ranks[1].clock_shift_ns == -5'000'000);
  CHECK(is_on_one_clock(profile));
  CHECK(profile_notes(profile).empty());
}

TEST_CASE("a row that ends late moves no clock where other transfers agree") {
  KinetoRows first = steps_of(0), second = steps_of(0);
  const std::string name = "ncclDevKernel_SendRecv";
  for (int step = 0; step < 3; ++step) {
    const std::string at = std::to_string(70 + 100 * step), back = std::to_string(80 + 100 * step);
    first.push_back(kernel_row(name, 20, at, "8", 8, transfer("send", 0, 1)));
    second.push_back(kernel_row(name, 20, at, "8", 8, transfer("recv", 0, 1)));
    // The receiver has all data 5 ms before the second sender's row ends.
    second.push_back(
        kernel_row(name, 21, back, step == 1 ? "5008" : "8", 9, transfer("send", 1, 0)));
    first.push_back(kernel_row(name, 21, back, "8", 9, transfer("recv", 1, 0)));
  }
  CHECK(two_ranks(first, second).ranks[1].clock_shift_ns == 0);
}

TEST_CASE("receives that are mostly late move no clock where some are prompt") {
  KinetoRows first = steps_of(0), second = steps_of(0);
  const std::string name = "ncclDevKernel_SendRecv";
  for (int step = 0; step < 7; ++step) {
    const std::string at = std::to_string(70 + 100 * step), back = std::to_string(80 + 100 * step);
    first.push_back(kernel_row(name, 20, at, "8", 8, transfer("send", 0, 1)));
    second.push_back(kernel_row(name, 20, at, step < 4 ? "3008" : "8", 8, transfer("recv", 0, 1)));
    second.push_back(kernel_row(name, 21, back, "8", 9, transfer("send", 1, 0)));
    first.push_back(kernel_row(name, 21, back, "8", 9, transfer("recv", 1, 0)));
  }
  CHECK(two_ranks(first, second).ranks[1].clock_shift_ns == 0);
}

TEST_CASE("ranks that share a clock keep it, wherever their transfers end") {
  const std::string name = "ncclDevKernel_SendRecv";
  const KinetoRows sender = {kernel_row(name, 20, "70", "8", 8, transfer("send", 0, 1))},
                   receiver = {kernel_row(name, 20, "70", "28", 8, transfer("recv", 0, 1))};
  CHECK(two_ranks(sender, receiver).ranks[1].clock_shift_ns == -20'000);
  const Folder folder;
  for (const bool first : {true, false}) {
    std::string text = kineto_text(first ? sender : receiver, first ? 0 : 1);
    text.insert(1, R"("tandem": {"ranks_alike": 1, "tells_waits": false}, )");
    folder.with(first ? "a.json" : "b.json", text);
  }
  CHECK(read_all({folder.path().string()}).ranks[1].clock_shift_ns == 0);
}

TEST_CASE(
    "transfers match by their own end and their order, as torch.profiler tells one end alone") {
  // Rank 1's clock is 1000 us ahead. Rank 0 posts its send first, rank 1 the send back: by their
  // numbers a send and the other send would match.
  KinetoRows first = {kernel_row("gemm", 7, "0", "50")};
  KinetoRows second = {kernel_row("gemm", 7, "1000", "50")};
  const std::string name = "ncclDevKernel_SendRecv";
  first.push_back(kernel_row(name, 20, "100", "100", 8, torch_transfer("send", 1, 1)));
  first.push_back(kernel_row(name, 21, "490", "10", 9, torch_transfer("recv", 1, 2)));
  second.push_back(kernel_row(name, 20, "1110", "390", 8, torch_transfer("send", 0, 1)));
  second.push_back(kernel_row(name, 21, "1190", "10", 9, torch_transfer("recv", 0, 2)));
  const Profile profile = two_ranks(first, second);
  CHECK(is_on_one_clock(profile));
  CHECK(profile.ranks[1].clock_shift_ns == -1'000'000);
  CHECK(profile_notes(profile).empty());
  const auto splits = splits_in(profile);
  CHECK(splits[0].waiting_ns == 90'000);   // its send, until rank 1 receives at 190
  CHECK(splits[1].waiting_ns == 370'000);  // from 110 to 490, but for the 10 us of its receive
}

TEST_CASE("transfers without another end are noted, and those of ranks not there are not") {
  const std::string name = "ncclDevKernel_SendRecv";
  const auto sent = [&](const char* ts, int other) {
    return kernel_row(name, 20, ts, "10", 8, torch_transfer("send", other, 1));
  };
  const auto received = [&](const char* ts) {
    return kernel_row(name, 20, ts, "10", 8, torch_transfer("recv", 0, 1));
  };
  const Profile one_more = two_ranks({sent("0", 1), sent("20", 1), sent("40", 3)}, {received("0")});
  REQUIRE(!profile_notes(one_more).empty());
  CHECK(profile_notes(one_more)[0] ==
        "Of 3 sends and receives 3 have no match on the other rank: "
        "waiting in them is not known.");
  const auto batch = [&](const char* ts) {
    return kernel_row(name, 20, ts, "10", 8,
                      collective("coalesced", 1000, "[0, 1, 2, 3]", 4, "mesh_pp", R"(, "Seq": 1)"));
  };
  const Profile batches = two_ranks({batch("0")}, {batch("4")});
  REQUIRE(!profile_notes(batches).empty());
  CHECK(profile_notes(batches)[0] ==
        "2 sends and receives, or batches of them (batch_isend_irecv), do not tell between which "
        "ranks: "
        "waiting in them is not known.");
  for (const ProfileSplit& split : splits_in(batches)) CHECK(split.waiting_ns == 0);
}

TEST_CASE("ranks that nothing aligns are named, and their steps are by their own clocks") {
  const Profile profile = two_ranks(steps_of(0), steps_of(50'000));
  CHECK(!is_on_one_clock(profile));
  REQUIRE(profile_notes(profile).size() == 1);
  CHECK(profile_notes(profile)[0].starts_with(
      "Nothing that they ran together aligns the clock of rank 1 with rank 0's."));
  for (const ProfileSplit& split : splits_in(profile)) {
    CHECK(split.step_ns == 200'000);  // two steps, each 100 us behind the one before
    CHECK(split.bubble_ns == 80'000);
  }
}

TEST_CASE("who waited for whom is not told between clocks that are not aligned") {
  // Broadcasts end when they like, so that they align nothing.
  KinetoRows first = steps_of(0), second = steps_of(20);
  const auto args = collective("broadcast", 1000, "[0, 1]", 2);
  first.push_back(kernel_row("ncclDevKernel_Broadcast", 20, "70", "8", 8, args));
  second.push_back(kernel_row("ncclDevKernel_Broadcast", 20, "94", "8", 8, args));
  for (const ProfileSplit& split : splits_in(two_ranks(first, second)))
    CHECK(split.waiting_ns == 0);
}

TEST_CASE("files of runs that are hours apart are refused in one line") {
  const Folder folder;
  const std::string a = folder.with("a.json", kineto_text(steps_of(0), 0));
  const std::string b = folder.with("b.json", kineto_text(steps_of(7'200'000'000), 1));
  CHECK(profile_refusal({a, b}) ==
        b + ": found times 2.0 hours from " + a +
            "'s and nothing in common that aligns their clocks, expected profiles of one run");
}
