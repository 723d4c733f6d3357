// Orders: what the named ones look like, what validation refuses, their text forms and lowering.
#include "schedule/order/named_orders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <regex>
#include <set>

#include "base/file.h"
#include "base/split.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"
#include "tests/folder.h"
#include "tests/made_order.h"
#include "tests/seed.h"

namespace tandem {
namespace {

// The order of cells such as "0F0,0B0", a row a rank; not validated.
Order order_of(const std::vector<std::string>& rows, int chains = 1) {
  Order order{"", 0, 0, chains, {}};
  for (const std::string& row : rows) {
    auto& actions = order.ranks.emplace_back();
    for (const std::string& text : split(row, ",")) {
      auto cell = parse_cell(text);
      REQUIRE(cell.ok());
      for (const Action& action : *cell) {
        order.stages = std::max(order.stages, index(action.stage) + 1);
        order.microbatches = std::max(order.microbatches, index(action.microbatch) + 1);
        actions.push_back(action);
      }
    }
  }
  return order;
}

template <class T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().text();
}

std::string fault_of(const std::vector<std::string>& rows, int chains = 1) {
  return message_of(validate(order_of(rows, chains)));
}

// What read_pytorch says of a file of this text, less its path.
std::string read_error(const std::string& text) {
  const Folder folder;
  const std::string path = folder.with("order.csv", text);
  const std::string message = message_of(read_pytorch(path));
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

int leading_forwards(const std::vector<Action>& actions) {
  const auto first = std::find_if(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind != ActionKind::Forward;
  });
  return static_cast<int>(first - actions.begin());
}

int sum(const std::vector<int>& values) {
  int total = 0;
  for (const int value : values) total += value;
  return total;
}

}  // namespace

TEST_CASE("`none` is gradient accumulation: F0 B0 F1 B1") {
  CHECK(to_pytorch(made_order({"none", 1, 1, 3})) == "0F0,0B0,0F1,0B1,0F2,0B2\n");
}

TEST_CASE("1F1B warms up with min(pp - r - 1, m) forwards") {
  for (const int microbatches : {1, 2, 3, 4, 16}) {
    const Order order = made_order({"1f1b", 4, 1, microbatches});
    REQUIRE(validate(order).ok());
    for (int rank = 0; rank < 4; ++rank) {
      // The steady state starts with one forward more, where there is one left.
      CHECK(leading_forwards(order.ranks[rank]) == std::min(4 - rank, microbatches));
    }
  }
}

TEST_CASE("interleaved warms up with min(mv, 2(pp - r - 1) + (v - 1)N) forwards") {
  for (const int group : {4, 8, 16}) {
    const Order order = made_order({"interleaved", 4, 3, 16, group});
    for (int rank = 0; rank < 4; ++rank) {
      const int warm_up = std::min(16 * 3, 2 * (4 - rank - 1) + 2 * group);
      CHECK(leading_forwards(order.ranks[rank]) == std::min(16 * 3, warm_up + 1));
    }
  }
}

TEST_CASE("interleaved with one stage a rank is 1F1B, whatever the group") {
  for (const int group : {0, 1, 3, 99})
    CHECK(made_order({"interleaved", 4, 1, 6, group}).ranks == made_order({"1f1b", 4, 1, 6}).ranks);
}

TEST_CASE("interleaved runs fewer microbatches than ranks in one group") {
  CHECK(made_order({"interleaved", 8, 2, 3}).ranks ==
        made_order({"interleaved", 8, 2, 3, 3}).ranks);
  CHECK(validate(made_order({"interleaved", 8, 2, 3})).ok());
}

TEST_CASE("without communication the makespan is that of (p - 1) idle forwards and backwards") {
  // F = 1, B = 2: m microbatches of v stages a rank, and p - 1 stages of fill and drain.
  for (const int microbatches : {4, 8, 12}) {
    CHECK(replay_order(made_order({"1f1b", 4, 1, microbatches}), {}).makespan ==
          (microbatches + 3) * 3);
    CHECK(replay_order(made_order({"gpipe", 4, 1, microbatches}), {}).makespan ==
          (microbatches + 3) * 3);
    CHECK(replay_order(made_order({"interleaved", 4, 2, microbatches}), {}).makespan ==
          (2 * microbatches + 3) * 3);
  }
}

TEST_CASE("peak live activations: 1F1B holds min(m, p - r), GPipe m") {
  for (const int microbatches : {2, 8}) {
    const auto one = peak_live(made_order({"1f1b", 4, 1, microbatches}));
    const auto all = peak_live(made_order({"gpipe", 4, 1, microbatches}));
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(one[rank] == std::vector<int>{std::min(microbatches, 4 - rank)});
      CHECK(all[rank] == std::vector<int>{microbatches});
    }
  }
}

TEST_CASE("peak live activations: interleaved holds min(mv, 2(p - r - 1) + (v - 1)N + 1) chunks") {
  for (const int pp : {2, 4, 8}) {
    for (const int vpp : {2, 3, 4}) {
      for (const int group : {pp, 2 * pp}) {
        const int microbatches = 4 * pp;
        const auto live = peak_live(made_order({"interleaved", pp, vpp, microbatches, group}));
        for (int rank = 0; rank < pp; ++rank)
          CHECK(sum(live[rank]) ==
                std::min(microbatches * vpp, 2 * (pp - rank - 1) + (vpp - 1) * group + 1));
      }
    }
  }
  // Rank 0 of p = 2, v = 2, N = 2 warms up with 0F0 0F1 2F0 2F1 and then does 0F2: 3 of stage 0
  // and 2 of stage 2, before 2B0.
  CHECK(peak_live(made_order({"interleaved", 2, 2, 4}))[0] == std::vector<int>{3, 2});
  CHECK(peak_actions(made_order({"interleaved", 2, 2, 4}))[0] == 4);
}

TEST_CASE("peak live activations end with the input gradient") {
  CHECK(peak_live(order_of({"0F0,0I0,0F1,0I1,0W0,0W1"})) == std::vector<std::vector<int>>{{1}});
}

TEST_CASE(
    "expert overlap on one rank: each backward beside the next forward, one microbatch held") {
  OrderSpec spec{"none", 1, 1, 3};
  spec.expert_overlap = true;
  const Order order = made_order(spec);
  CHECK(validate(order).ok());
  CHECK(to_pytorch(order) == "0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B,0B2\n");
  CHECK(peak_live(order)[0] == std::vector<int>{1});
  spec = {"interleaved", 2, 2, 8};
  const int before = sum(peak_live(made_order(spec))[0]);
  spec.expert_overlap = true;  // one more to warm up, and none beside it
  CHECK(sum(peak_live(made_order(spec))[0]) == before);
}

TEST_CASE("sizes that an order has no form for are refused, with the rule") {
  const auto refused = [](const OrderSpec& spec) { return message_of(make_order(spec)); };
  CHECK(refused({"none", 2, 1, 4}) == "order none: found pp = 2, expected 1: it has no pipeline");
  CHECK(refused({"gpipe", 2, 2, 4}) ==
        "order gpipe: found vpp = 2, expected 1: it has one stage a rank");
  CHECK(refused({"1f1b", 2, 3, 4}) ==
        "order 1f1b: found vpp = 3, expected 1: it has one stage a rank");
  CHECK(refused({"interleaved", 4, 2, 9, 4}) ==
        "order interleaved: M % N = 1 must be 0 or >= PP=4; found M = 9 microbatches in groups of "
        "N = 4");
  CHECK(refused({"interleaved", 4, 2, 8, 3}) ==
        "order interleaved: found group N = 3, expected at least min(PP, M) = 4 and at most M = 8");
  CHECK(refused({"interleaved", 4, 2, 8, 9}) ==
        "order interleaved: found group N = 9, expected at least min(PP, M) = 4 and at most M = 8");
  CHECK(refused({"1f1b", 0, 1, 4}) == "found pp = 0, expected at least 1");
  CHECK(refused({"interleaved", 2, 0, 4}) == "found vpp = 0, expected at least 1");
  CHECK(refused({"1f1b", 2, 1, 0}) == "found 0 microbatches, expected at least 1");
  CHECK(refused({"interleaved", 2, 2, 4, -1}) ==
        "found group N = -1, expected at least 1, or 0 for min(PP, M)");
  CHECK(refused({"looped-bfs", 2'000'000'000, 2'000'000'000, 2'000'000'000})
            .find("expected at most") != std::string::npos);
}

TEST_CASE("an unknown order is refused with the nearest name") {
  CHECK(message_of(make_order({"interleave", 2, 2, 4})) ==
        fmt::format("found order 'interleave', expected one of {}, or a file; nearest is "
                    "'interleaved'",
                    fmt::join(order_names(), ", ")));
}

TEST_CASE("a second chain of stages begins halfway") {
  Order order{"", 8, 1, 1, {}};
  CHECK(next_stage(order, 3) == 4);
  CHECK(previous_stage(order, 4) == 3);
  order.chains = 2;
  CHECK(next_stage(order, 3) == -1);
  CHECK(previous_stage(order, 4) == -1);
  CHECK(next_stage(order, 4) == 5);
  CHECK(next_stage(order, 7) == -1);
  CHECK(previous_stage(order, 0) == -1);
}

TEST_CASE("two chains in opposite directions are valid, and wait only within their chain") {
  // Stages 0, 1 run down the ranks, stages 2, 3 up: rank 0 has 0 and 3.
  const std::vector<std::string> rows = {"0F0,3F0,3B0,0B0", "2F0,1F0,1B0,2B0"};
  CHECK(fault_of(rows, 2).empty());
  // As one chain 1B0 would wait for 2B0, which rank 1 does after it.
  CHECK(fault_of(rows, 1) == "the order waits for itself: rank 1 at 2F0 waits for 1F0 of rank 1");
  // 0 -> 1 and 2 -> 3, but nothing from 1 to 2. Both ranks are at the same cell in each sweep; rank
  // 0 goes first, so its sends stand in rank 1's list before what rank 1 does in that sweep.
  CHECK(to_pytorch(with_communication(order_of(rows, 2))) ==
        "# chains: 2\n"
        "0UNSHARD,3UNSHARD,0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,3REDUCE_GRAD,3RESHARD,"
        "0B0,0REDUCE_GRAD,0RESHARD\n"
        "2UNSHARD,1UNSHARD,1RECV_F0,2F0,2SEND_F0,1F0,2RECV_B0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD,"
        "2B0,2REDUCE_GRAD,2RESHARD\n");
}

TEST_CASE("validation refuses what is missing, doubled or out of order") {
  CHECK(fault_of({"0F0,0B0"}).empty());
  CHECK(fault_of({"0F0,0I0,0W0"}).empty());
  CHECK(fault_of({"0B0,0F0"}) == "rank 0: found 0B0 before 0F0, expected the forward first");
  CHECK(fault_of({"0F0,0W0,0I0"}) ==
        "rank 0: found 0W0 before 0I0, expected the input gradient first");
  CHECK(fault_of({"0F0,0B0,0F0"}) == "rank 0: found 0F0 a second time, expected it once");
  CHECK(fault_of({"0F0,0B0,0B0"}) == "rank 0: found 0B0 a second time, expected it once");
  CHECK(fault_of({"0F0,0I0"}) == "rank 0: found 0I0 and no 0W0, expected both");
  CHECK(fault_of({"0F0"}) ==
        "rank 0: found 0F0 and no backward of it, expected 0B0, or 0I0 and 0W0");
  CHECK(fault_of({"0F0,0B0,0F2,0B2"}) ==
        "rank 0: found no 0F1, expected stage 0 to have a forward of each of 3 microbatches");
  CHECK(fault_of({"0F0,0B0,0W0"}) ==
        "rank 0: found 0W0 as well as 0B0, expected one B, or one I and one W (older PyTorch "
        "files write B for today's I)");
  CHECK(fault_of({"0F0,0I0,0B0,0W0"}) ==
        "rank 0: found 0B0 as well as 0I0, expected one B, or one I and one W (older PyTorch "
        "files write B for today's I)");
  CHECK(fault_of({"0F0,0B0", "1F0,0B0"}) ==
        "rank 1: found 0B0 of a stage that rank 0 has, expected each stage on one rank");
  CHECK(fault_of({"0F0,0B0", "2F0,2B0"}) == "found no actions of stage 1, expected stages 0 to 2");
  CHECK(fault_of({"0F0,0B0", ""}) ==
        "rank 1: found no F, B, I or W, expected a stage on every rank");
  CHECK(fault_of({"0F0,0B0", "1F0,1B0", "2F0,2B0"}, 2) ==
        "found 3 stages in 2 chains, expected chains of equal length");
}

TEST_CASE("validation refuses what only a program can have built") {
  CHECK(message_of(validate(Order{})) == "found no ranks, expected at least one");
  Order order = made_order({"1f1b", 2, 1, 2});
  order.stages = 1;
  CHECK(message_of(validate(order)) == "order 1f1b: rank 1: found 1F0, expected a stage below 1");
  order = made_order({"1f1b", 2, 1, 2});
  order.microbatches = 1;
  CHECK(message_of(validate(order)) ==
        "order 1f1b: rank 0: found 0F1, expected a microbatch below 1");
  order = made_order({"1f1b", 2, 1, 2});
  order.ranks[1].back().with_next = true;
  CHECK(message_of(validate(order)) ==
        "order 1f1b: rank 1: found 1B1 to run together with nothing, expected two of F, B, I, W");
}

TEST_CASE("validation names the ranks that wait for each other, and explain marks their steps") {
  // Rank 0 wants 1B0 before it sends the second forward, rank 1 wants that before 1B0.
  const Order order = order_of({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"});
  CHECK(message_of(validate(order)) ==
        "the order waits for itself: rank 0 at 0B0 waits for 1B0 of rank 1, which at 1F1 waits "
        "for 0F1 of rank 0");
  CHECK(explain_fault(order) ==
        "rank 0  0F0 [0B0] 0F1  0B1\n"
        "rank 1  1F0 [1F1] 1B0  1B1\n");
  CHECK(explain_fault(order_of({"0F0,0B0"})).empty());
}

TEST_CASE("a rank can wait for itself: the next stage's gradient comes later") {
  CHECK(fault_of({"0F0,1F0,0B0,1B0"}) ==
        "the order waits for itself: rank 0 at 0B0 waits for 1B0 of rank 0");
}

TEST_CASE("actions that run together start together, so neither can feed the other") {
  CHECK(fault_of({"(0F0;0B0)OVERLAP_F_B"}) ==
        "the order waits for itself: rank 0 at 0B0 waits for 0F0 of rank 0");
  CHECK(fault_of({"0F0,(0I0;0W0)OVERLAP_F_B"}) ==
        "the order waits for itself: rank 0 at 0W0 waits for 0I0 of rank 0");
  CHECK(fault_of({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"}).empty());
}

TEST_CASE("explain cuts long rows to what stands around the bad step") {
  Order order = made_order({"1f1b", 2, 1, 40});
  order.ranks[1][30] = order.ranks[1][29];  // 1B14 in 1F15's place
  CHECK(explain_fault(order) ==
        "rank 0 ...  0B10  0F12  0B11  0F13  0B12  0F14  0B13  0F15  0B14  0F16  0B15  0F17  0B16"
        "  0F18  ...\n"
        "rank 1 ...  1F11  1B11  1F12  1B12  1F13  1B13  1F14  1B14 [1B14] 1B15  1F16  1B16  1F17"
        "  1B17  ...\n");
}

TEST_CASE("an action's text is read back") {
  for (const char* text : {"2F0", "0B12", "7I3", "7W3", "3UNSHARD", "3RESHARD", "3REDUCE_GRAD",
                           "0SEND_F1", "1RECV_F1", "2SEND_B0", "1RECV_B0"}) {
    const auto actions = parse_cell(text);
    REQUIRE(actions.ok());
    REQUIRE(actions->size() == 1);
    CHECK(to_text(actions->front()) == text);
  }
  CHECK(parse_cell("")->empty());
  const auto pair = parse_cell("(0F3;3B1)OVERLAP_F_B");
  REQUIRE(pair.ok());
  CHECK(*pair == std::vector<Action>{{Stage{0}, ActionKind::Forward, Microbatch{3}, true},
                                     {Stage{3}, ActionKind::Backward, Microbatch{1}, false}});
}

TEST_CASE("cells are read whole or refused") {
  const auto refused = [](const char* cell) { return message_of(parse_cell(cell)); };
  const std::string grammar =
      ", expected a stage, one of F, B, I, W, UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, RECV_F, "
      "SEND_B, RECV_B, E, S, T, G, and a microbatch, as in 2F0";
  for (const std::string cell : {"F0", "2", "2X0", "2f0", "2F0x", "2F-1", "-2F0", "2 F0", "2SENDF0",
                                 "2F0 ", "2F0;2B0", "0F0F1"})
    CHECK(refused(cell.c_str()) == "found '" + cell + "'" + grammar);
  CHECK(refused("2BW0") ==
        "found '2BW0', expected B or I: older PyTorch wrote BW for the full backward, which is B "
        "today, and B for the input gradient, which is I");
  CHECK(refused("2F") == "found '2F', expected a microbatch after F");
  CHECK(refused("2UNSHARD0") == "found '2UNSHARD0', expected no microbatch after UNSHARD");
  CHECK(refused("1000000F0") == "found '1000000F0', expected numbers up to 999999");
  CHECK(refused("0F99999999999999999999") ==
        "found '0F99999999999999999999', expected numbers up to 999999");
  for (const std::string cell : {"(0F3;3B1)", "(0F3;3B1", "(0F3;3B1)OVERLAP", "("})
    CHECK(refused(cell.c_str()) == "found '" + cell + "', expected (ACTION;ACTION)OVERLAP_F_B");
  CHECK(refused("(0F3)OVERLAP_F_B") ==
        "found one action in '(0F3)OVERLAP_F_B', expected two or more");
  CHECK(refused("(0F3;0UNSHARD)OVERLAP_F_B") ==
        "found 0UNSHARD in '(0F3;0UNSHARD)OVERLAP_F_B', expected F, B, I or W there");
  CHECK(refused("(;)OVERLAP_F_B") == "found ''" + grammar);
}

TEST_CASE("a file is read with its blanks, line ends and chains") {
  const Folder folder;
  const auto order = read_pytorch(
      folder.with("order.csv", "# chains: 2\r\n0F0,,3F0,3B0,0B0,\r\n,2F0,1F0,1B0,2B0\r\n"));
  INFO(message_of(order));
  REQUIRE(order.ok());
  CHECK(order->chains == 2);
  CHECK(order->stages == 4);
  CHECK(order->microbatches == 1);
  CHECK(order->name == "order");
  CHECK(to_pytorch(*order) == "# chains: 2\n0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0\n");
}

TEST_CASE("a bad file gives one line: file, line, cell, what was found") {
  CHECK(read_error("") == ":1: found no rows, expected a row of actions a rank");
  CHECK(read_error("0F0,0B0\n1F0,1BW0\n") ==
        ":2: cell 2: found '1BW0', expected B or I: older PyTorch wrote BW for the full backward, "
        "which is B today, and B for the input gradient, which is I");
  CHECK(read_error("0F0,0B0\n1F0,1B") == ":2: cell 2: found '1B', expected a microbatch after B");
  CHECK(read_error("0F0,0B0\n1F0\n") ==
        ":2: rank 1: found 1F0 and no backward of it, expected 1B0, or 1I0 and 1W0");
  CHECK(read_error("# chains: 3\n0F0,0B0\n") == ":1: found 3 chains, expected 1 or 2");
  CHECK(read_error("# chains: 2\n# chains: 1\n0F0,0B0\n") ==
        ":2: found '# chains' a second time, expected it once");
  CHECK(read_error("999999F999999,0B0\n") ==
        ":1: found no actions of stage 1, expected stages 0 to 999999");
  CHECK(read_error("0F999999,0B0\n") ==
        ":1: found 2 actions for 1 stages and 1000000 microbatches, expected a forward and a "
        "backward of each");
  CHECK(message_of(read_pytorch("/nonexistent.csv")) ==
        "/nonexistent.csv: no such file, expected a CSV file");
}

TEST_CASE("rows of cells are read as a file of them, and a bad one is named with its cell") {
  const auto order = order_in_rows(
      {{"# chains: 2"}, {"0F0", "", "3F0", "3B0", "0B0"}, {"", "2F0", "1F0", "1B0", "2B0"}});
  INFO(message_of(order));
  REQUIRE(order.ok());
  CHECK(order->name == "rows");
  CHECK(to_pytorch(*order) == "# chains: 2\n0F0,3F0,3B0,0B0\n2F0,1F0,1B0,2B0\n");
  CHECK(message_of(order_in_rows({})) == "found no rows, expected a row of actions a rank");
  CHECK(message_of(order_in_rows({{"#chains: 3"}, {"0F0", "0B0"}})) ==
        "row 1: found 3 chains, expected 1 or 2");
  CHECK(message_of(order_in_rows({{"0F0", "0B0"}, {"1F0", "1B"}})) ==
        "row 2, cell 2: found '1B', expected a microbatch after B");
  CHECK(message_of(order_in_rows({{"# chains: 1"}, {"0F0", "0B0"}, {"1F0"}})) ==
        "row 3: rank 1: found 1F0 and no backward of it, expected 1B0, or 1I0 and 1W0");
}

TEST_CASE("the grid shows time from left to right, and the stage where a rank has several") {
  CHECK(to_grid(made_order({"1f1b", 2, 1, 3})) ==
        "time   0  1  2  3  4  5  6  7  8  9  10 11\n"
        "rank 0 F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
        "rank 1 .  F0 B0--- F1 B1--- F2 B2--- .  .\n");
  CHECK(to_grid(order_of({"0F0,1F0,1I0,1W0,0I0,0W0"})) ==
        "time   0   1   2   3   4   5\n"
        "rank 0 0F0 1F0 1I0 1W0 0I0 0W0\n");
  CHECK(to_grid(order_of({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"})) ==
        "time   0  1  2  3  4  5\n"
        "rank 0 F0 F1&B0--- B1---\n");
}

// Black letters (16) on sky blue (74), orange (172), vermilion (166) and yellow (227).
TEST_CASE("the grid's cells have a ground by their kind, and between them nothing changes") {
  CHECK(to_grid(made_order({"1f1b", 2, 1, 1}), {}, true) ==
        "time   0  1  2  3  4  5\n"
        "rank 0 \x1B[38;5;16;48;5;74mF0\x1B[0m .  .  .  \x1B[38;5;16;48;5;172mB0---\x1B[0m\n"
        "rank 1 .  \x1B[38;5;16;48;5;74mF0\x1B[0m \x1B[38;5;16;48;5;172mB0---\x1B[0m .  .\n");
  CHECK(to_grid(order_of({"0F0,0I0,0W0"}), {}, true) ==
        "time   0  1  2\n"
        "rank 0 \x1B[38;5;16;48;5;74mF0\x1B[0m \x1B[38;5;16;48;5;166mI0\x1B[0m "
        "\x1B[38;5;16;48;5;227mW0\x1B[0m\n");
  CHECK(to_grid(order_of({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"}), {}, true).find("mF1\x1B[0m&\x1B[") !=
        std::string::npos);
  const std::regex escapes("\x1B\\[[0-9;]*m");
  for (const char* name : {"interleaved", "zbv", "dualpipev"}) {
    const Order order = made_order({name, 4, 2, 8});
    CHECK(std::regex_replace(to_grid(order, {}, true), escapes, "") == to_grid(order));
  }
}

TEST_CASE("a grid is refused whose passes take far longer than the vocabulary's") {
  OrderSpec spec{"1f1b", 2, 1, 2};
  spec.vocabulary = 2;
  const auto order = make_order(spec);
  REQUIRE(order.ok());
  CHECK(check_grid(*order, {1000, 1000, 1000, 1000}).ok());
  CHECK(check_grid(*order, {1e6, 2e6, 1e6, 1e6}).error().text() ==
        "--costs: found passes of 2000000 beside 1, expected none above 1000 times another: the "
        "vocabulary's S and T take 1");
}

TEST_CASE("a grid is refused where a pass of the order takes no time, as it would not show") {
  const Order whole = made_order({"1f1b", 2, 1, 3});
  CHECK(check_grid(whole, {0, 2, 1, 1}).error().text() ==
        "--costs: found a time of 0 for 0F0, expected one above 0: a grid cannot show it");
  CHECK(check_grid(whole, {1, 1, 1, 0}).ok());  // it has no W
  CHECK(check_grid(order_of({"0F0,0I0,0W0"}), {1, 1, 1, 0}).error().text() ==
        "--costs: found a time of 0 for 0W0, expected one above 0: a grid cannot show it");
}

TEST_CASE("the grid's slot divides all the costs") {
  // F = 1, B = 1.5: slots of 0.5.
  CHECK(to_grid(made_order({"1f1b", 1, 1, 1}), {1, 1.5, 1, 1}) ==
        "time   0     1     2\n"
        "rank 0 F0--- B0------\n");
  // B = sqrt(2): no slot divides both, so F = 1 is the slot and B is rounded.
  CHECK(to_grid(made_order({"1f1b", 1, 1, 1}), {1, 1.41421356, 1, 1}) ==
        "time   0  1\n"
        "rank 0 F0 B0\n");
}

TEST_CASE("lowering keeps at most 3 stages gathered, and gathers each before it computes") {
  for (const int vpp : {1, 2, 5, 8}) {
    for (const char* name : {"interleaved", "looped-bfs"}) {
      const Order order = made_order({name, 4, vpp, 8});
      const Order lowered = with_communication(order);
      std::map<int, int> reduced;
      for (const std::vector<Action>& actions : lowered.ranks) {
        std::set<Stage> gathered;
        for (const Action& action : actions) {
          if (action.kind == ActionKind::Unshard) REQUIRE(gathered.insert(action.stage).second);
          if (action.kind == ActionKind::Reshard) REQUIRE(gathered.erase(action.stage) == 1);
          REQUIRE(gathered.size() <= 3);
          if (is_compute(action.kind)) REQUIRE(gathered.count(action.stage) == 1);
          if (action.kind == ActionKind::ReduceGrad) ++reduced[index(action.stage)];
        }
        REQUIRE(gathered.empty());
      }
      CHECK(reduced.size() == static_cast<std::size_t>(4 * vpp));
      for (const auto& [stage, times] : reduced) CHECK(times == 1);
    }
  }
}

TEST_CASE("random sizes: every order that is made is valid, is read back, and lowers") {
  const unsigned started_with = test_seed();
  INFO("TANDEM_SEED=" << started_with);
  std::mt19937 random(started_with);
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const std::vector<std::string> names =
      order_names([](const OrderTraits& order) { return !order.splits_backwards; });
  int made = 0;
  for (int round = 0; round < 200; ++round) {
    const bool large = round % 20 == 0;
    const std::string& name = names[pick(0, static_cast<int>(names.size()) - 1)];
    const bool chunks = check_order({name, 2, 2, 4}).ok();
    OrderSpec spec{name, name == "none" ? 1 : pick(1, large ? 64 : 9),
                   chunks ? pick(1, large ? 8 : 4) : 1, pick(1, large ? 100 : 24)};
    spec.group = pick(0, 1) * pick(std::min(spec.pp, spec.microbatches), spec.microbatches);
    INFO(fmt::format("{} pp {} vpp {} m {} N {}", name, spec.pp, spec.vpp, spec.microbatches,
                     spec.group));
    const auto order = make_order(spec);
    if (!order.ok()) {
      // Only a last group that does not fill the pipeline can be wrong here.
      REQUIRE(order.error().text().find("must be 0 or >= PP") != std::string::npos);
      continue;
    }
    ++made;
    REQUIRE(message_of(validate(*order)).empty());
    const Folder folder;
    const auto again = read_pytorch(folder.with("order.csv", to_pytorch(*order)));
    REQUIRE(again.ok());
    REQUIRE(again->ranks == order->ranks);

    // What one rank sends another is what that one receives, in the same order.
    const Order lowered = with_communication(*order);
    const std::vector<int> rank_of_stage = stage_to_rank(*order);
    std::map<std::pair<int, int>, std::vector<std::string>> sent, received;
    for (int rank = 0; rank < lowered.pp(); ++rank) {
      for (const Action& a : lowered.ranks[rank]) {
        const bool forward = a.kind == ActionKind::SendForward || a.kind == ActionKind::RecvForward;
        const bool send = a.kind == ActionKind::SendForward || a.kind == ActionKind::SendBackward;
        if (is_compute(a.kind) || !has_microbatch(a.kind)) continue;
        const int peer = rank_of_stage[forward == send ? next_stage(*order, index(a.stage))
                                                       : previous_stage(*order, index(a.stage))];
        const int receiver = index(a.stage) + (send ? (forward ? 1 : -1) : 0);
        (send ? sent[{rank, peer}] : received[{peer, rank}])
            .push_back(fmt::format("{}{}{}", forward ? 'F' : 'B', receiver, index(a.microbatch)));
      }
    }
    REQUIRE(sent == received);
  }
  CHECK(made > 100);
}

TEST_CASE("random damage to an order is found, or leaves a valid order that replays to its end") {
  const unsigned started_with = test_seed();
  INFO("TANDEM_SEED=" << started_with);
  std::mt19937 random(started_with);
  for (int round = 0; round < 500; ++round) {
    Order order = made_order({"interleaved", 3, 2, 6});
    auto& actions = order.ranks[random() % 3];
    const auto one = random() % actions.size(), other = random() % actions.size();
    switch (random() % 3) {
      case 0:
        std::swap(actions[one], actions[other]);
        break;
      case 1:
        actions[one] = actions[other];
        break;
      default:
        actions[one].with_next = true;
    }
    const auto status = validate(order);
    REQUIRE(explain_fault(order).empty() == status.ok());
    if (!status.ok()) {
      REQUIRE(status.error().text().find('\n') == std::string::npos);
      continue;
    }
    const OrderReplay played = replay_order(order, {});
    for (int rank = 0; rank < order.pp(); ++rank) REQUIRE(played.finished(rank));
    CHECK(with_communication(order).pp() == 3);
  }
}

}  // namespace tandem
