// The table of AMD's Primus: what is written reads back, and what is wrong is refused by line.
#include "schedule/order/primus_table.h"

#include <catch2/catch.hpp>
#include <string>

#include "schedule/order/order_text.h"
#include "tests/folder.h"
#include "tests/made_order.h"

namespace tandem {
namespace {

std::string module_of(const Order& order) {
  const auto text = to_primus(order);
  INFO((text.ok() ? "" : text.error().text()));
  REQUIRE(text.ok());
  return *text;
}

// What a file of this text reads as, in PyTorch's form, or why it is refused, less its path.
std::string read_as(const std::string& text) {
  const Folder folder;
  const std::string path = folder.with("primus.log", text);
  const auto order = read_order_file(path);
  if (order.ok()) return to_pytorch(*order);
  const std::string message = order.error().text();
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

std::string refusal(const OrderSpec& spec) {
  const auto text = to_primus(made_order(spec));
  return text.ok() ? "" : text.error().text();
}

// Two microbatches on two ranks as Primus prints them.
const std::string kRank0 =
    "Rank 0: (F|0|0),(SF|0|0),(F|1|0),(SF|1|0),(RB|0|0),(BW|0|0),(RB|1|0),(BW|1|0)\n";
const std::string kRank1 =
    "Rank 1: (RF|0|0),(F|0|0),(BW|0|0),(SB|0|0),(RF|1|0),(F|1|0),(BW|1|0),(SB|1|0)\n";

}  // namespace

TEST_CASE("an order in Primus's form reads back") {
  const Folder folder;
  for (const OrderSpec& spec :
       {OrderSpec{"none", 1, 1, 3}, OrderSpec{"gpipe", 3, 1, 4}, OrderSpec{"1f1b", 4, 1, 8},
        OrderSpec{"interleaved", 3, 3, 6}, OrderSpec{"looped-bfs", 2, 2, 4},
        OrderSpec{"zb1p", 4, 1, 8}, OrderSpec{"interleaved-zb", 4, 2, 8}, OrderSpec{"zbv", 4, 2, 8},
        OrderSpec{"v-half", 5, 2, 9}, OrderSpec{"v-min", 2, 2, 5}}) {
    INFO(spec.name);
    const Order order = made_order(spec);
    const auto again = read_order_file(folder.with("again.py", module_of(order)));
    INFO((again.ok() ? "" : again.error().text()));
    REQUIRE(again.ok());
    CHECK(to_pytorch(*again) == to_pytorch(order));
    CHECK(again->name == "again");
  }
}

TEST_CASE("a module names the algorithm in whose place Primus runs it") {
  const auto has = [](const OrderSpec& spec, const std::string& text) {
    return module_of(made_order(spec)).find(text) != std::string::npos;
  };
  CHECK(has({"1f1b", 4, 1, 8}, "\npp_algorithm_map[\"1f1b\"] = TandemSchedule\n"));
  CHECK(has({"zb2p", 4, 1, 8}, "\npp_algorithm_map[\"zero-bubble\"] = TandemSchedule\n"));
  CHECK(has({"interleaved", 4, 2, 8}, "\npp_algorithm_map[\"1f1b-interleaved\"] = Tandem"));
  CHECK(has({"v-min", 4, 2, 8}, "\npp_algorithm_map[\"zbv-formatted\"] = TandemSchedule\n"));
  CHECK(has({"v-min", 4, 2, 8}, "\nPP, VPP, MICROBATCHES = 4, 2, 8\n"));
  CHECK(has({"v-min", 2, 2, 2}, "\nPLACES = [(0, 0), (1, 0), (1, 1), (0, 1)]\n"));
  CHECK(has({"interleaved-zb", 4, 2, 8}, "\n#   enable_primus_turbo: false\n"));
}

// F 0 to 1 and 1 to 2 on rank 0; what ends at 1 is sent at 1, before what begins at 1. Rank 1: F 1
// to 2, BW 2 to 4; rank 0 waits for it, and works 4 to 6.
TEST_CASE("both ends have a transfer when the pass that it comes from ends") {
  const std::string module = module_of(made_order({"1f1b", 2, 1, 1}));
  CHECK(module.find("\nRank 0: (F|0|0),(SF|0|0),(RB|0|0),(BW|0|0)\n"
                    "Rank 1: (RF|0|0),(F|0|0),(BW|0|0),(SB|0|0)\n\"\"\"\n") != std::string::npos);
  CHECK(module.find("\nSTEPS = \"\"\"\n1 4\n1 4\n\"\"\"\n") != std::string::npos);
}

TEST_CASE("a table is found in a log, behind prefixes and between colours") {
  const std::string log =
      "[20260821 10:00:00][rank-0/2][INFO ] : Rank 0 of 2 is up\n"
      "[20260821 10:00:01][rank-0/2][INFO ] [base.py:40] : ]\033[33m" +
      kRank0 + "something else\n[INFO ] : ]\033[33m" + kRank1;
  CHECK(read_as(log) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(read_as(kRank1 + kRank0) == read_as(log));
}

TEST_CASE("nodes in [ ] run together") {
  CHECK(read_as("Rank 0: (F|0|0),\033[32m[(F|1|0),(B|0|0)]\033[33m,(W|0|0),(B|1|0),(W|1|0)\n") ==
        "0F0,(0F1;0I0)OVERLAP_F_B,0W0,0I1,0W1\n");
}

TEST_CASE("sends and receives tell a V from looped stages") {
  CHECK(read_as("Rank 0: (F|0|0),(SF|0|0),(RF|0|1),(F|0|1),(BW|0|1),(SB|0|1),(RB|0|0),(BW|0|0)\n"
                "Rank 1: (RF|0|0),(F|0|0),(SF|0|0),(RF|0|1),(F|0|1),(SF|0|1),(RB|0|1),(BW|0|1),"
                "(SB|0|1),(RB|0|0),(BW|0|0),(SB|0|0)\n") == "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  CHECK(read_as("Rank 0: (F|0|0),(SF|0|0),(RF|0|1),(F|0|1),(SF|0|1),(RB|0|1),(BW|0|1),(SB|0|1),"
                "(RB|0|0),(BW|0|0)\n"
                "Rank 1: (RF|0|0),(F|0|0),(SF|0|0),(RF|0|1),(F|0|1),(BW|0|1),(SB|0|1),(RB|0|0),"
                "(BW|0|0),(SB|0|0)\n") == "0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n");
}

// One rank has the second chunk's forwards in turn, the other back to front. In a V rank 1 is the
// first to do them, with looped stages rank 0.
TEST_CASE("without sends and receives the order tells, if it waits for itself the other way") {
  const std::string backwards = ",(BW|0|1),(BW|1|1),(BW|0|0),(BW|1|0)\n";
  const std::string in_turn = "(F|0|0),(F|0|1),(F|1|0),(F|1|1)" + backwards;
  const std::string turned = "(F|0|0),(F|1|0),(F|1|1),(F|0|1)" + backwards;
  CHECK(read_as("Rank 0: " + turned + "Rank 1: " + in_turn) ==
        "0F0,0F1,3F1,3F0,3B0,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,2B1,1B0,1B1\n");
  CHECK(read_as("Rank 0: " + in_turn + "Rank 1: " + turned) ==
        "0F0,2F0,0F1,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F1,3F0,3B0,3B1,1B0,1B1\n");
  CHECK(read_as("Rank 0: " + in_turn + "Rank 1: " + in_turn) ==
        ":1: found no sends and receives, and an order for looped stages as well as for a V, "
        "expected SF and RF, which tell the two apart");
}

TEST_CASE("a wrong table is refused by line") {
  CHECK(read_as("x\n" + kRank0 + kRank0) == ":3: found rank 0 again, expected one table a file");
  CHECK(read_as(kRank1) == ":1: found rank 1 and no rank 0, expected all");
  CHECK(read_as("x\nRank 0: (F|0|0),(O|0|0),(BW|0|0)\n") ==
        ":2: rank 0: found '(O|0|0),(BW|0|0)...', expected one of F, B, W, BW, SF, RF, SB and RB "
        "(nothing is offloaded here), a microbatch and a chunk, as in (F|0|0)");
  CHECK(read_as("Rank 0: (F|0|0),(BW|0\n").starts_with(":1: rank 0: found '(BW|0...', expected"));
  CHECK(read_as("Rank 0: [(F|0|0),(BW|0|0)\n") == ":1: rank 0: found [ without ], expected both");
  CHECK(read_as("Rank 0: [(F|0|0),[(BW|0|0)]\n") ==
        ":1: rank 0: found [ after [, expected [ and ] in turn");
  CHECK(read_as("Rank 0: (F|0|0),(BW|0|0)]\n") ==
        ":1: rank 0: found ] alone, expected [ and ] in turn");
  CHECK(read_as("Rank 0: (F|0|0),(B|0|0)\n") == ":1: rank 0: found 0I0 and no 0W0, expected both");
}

TEST_CASE("a send or receive that is missing, misplaced or of no pass is refused by line") {
  const auto swapped = [](const std::string& what, const std::string& with) {
    return kRank0 + kRank1.substr(0, kRank1.find(what)) + with +
           kRank1.substr(kRank1.find(what) + what.size());
  };
  CHECK(read_as(swapped("(RF|0|0),", "")) ==
        ":2: rank 1: found (F|0|0) without (RF|0|0) before it, expected both");
  CHECK(read_as(swapped("(RF|0|0),", "(RF|0|0),(RF|0|0),")) ==
        ":2: rank 1: found (RF|0|0) again, expected it once");
  CHECK(read_as(swapped(",(SB|1|0)", "")) == ":2: rank 1: found no (SB|1|0), expected one");
  CHECK(read_as(swapped("(BW|0|0),(SB|0|0)", "(SB|0|0),(BW|0|0)")) ==
        ":2: rank 1: found (SB|0|0), expected it behind its pass or not at all");
  CHECK(read_as(swapped("(SB|1|0)", "(SB|1|0),(RB|1|0)")) ==
        ":2: rank 1: found no pass behind (RB|1|0), expected one");
}

TEST_CASE("what Primus has no form for is refused") {
  CHECK(refusal({"dualpipe", 4, 1, 8}) ==
        "--format primus: found two chains, expected one: Primus has no form for it");
  CHECK(refusal({"dualpipev", 4, 2, 8}) ==
        "--format primus: found passes that run together, expected one after another: Primus has "
        "no form for it");
  OrderSpec shared{"1f1b", 4, 1, 8};
  shared.vocabulary = 2;
  CHECK(refusal(shared) ==
        "--format primus: found vocabulary passes, expected none: Primus has no form for it");
  CHECK(refusal({"zbv", 1, 2, 4}) ==
        "--format primus: found stages that are neither looped nor in a V over its ranks, expected "
        "one of them: Primus has no form for it");
}

}  // namespace tandem
