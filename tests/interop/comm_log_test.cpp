// Tables of nccl-tests and all_reduce_bench.py: what they say, and what is refused by line.
#include "interop/log/comm_log.h"

#include <catch2/catch.hpp>

#include "tests/interop/made_comm_log.h"
#include "tests/text.h"

using namespace tandem;

namespace {

std::vector<LoggedTable> tables_of(const std::string& text, const CommLogHints& hints = {}) {
  const auto tables = read_comm_log({"a.txt", text}, hints);
  INFO((tables.ok() ? "" : tables.error().text()));
  REQUIRE(tables.ok());
  return *tables;
}

LoggedTable table_of(const std::string& text, const CommLogHints& hints = {}) {
  const auto tables = tables_of(text, hints);
  REQUIRE(tables.size() == 1);
  return tables.front();
}

std::string refused_log(const std::string& text, const CommLogHints& hints = {}) {
  const auto tables = read_comm_log({"a.txt", text}, hints);
  return tables.ok() ? "read" : tables.error().text();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Tables of 4 ranks, whose factors are 2 x 3/4, 3/4 and 1.
const MadeCommLog kAllReduce;
const MadeCommLog kReduceScatter{.name = "reduce_scatter", .by_part = true, .factor = 0.75};
const MadeCommLog kAllGather{
    .name = "all_gather", .redop = "none", .by_part = true, .factor = 0.75};
const MadeCommLog kAllToAll{
    .name = "alltoall", .redop = "none", .by_part = true, .factor = 0.75, .in_place_wrong = "N/A"};
const MadeCommLog kSendRecv{.name = "sendrecv", .factor = 1, .in_place_wrong = "N/A"};
const MadeCommLog kBroadcast{.name = "broadcast", .redop = "none", .root = "0", .factor = 1};

}  // namespace

TEST_CASE("a table of nccl-tests says its operation, ranks, hosts, sizes and times") {
  MadeCommLog made = kReduceScatter;
  made.hosts = 2;
  const LoggedTable table = table_of(made.text());
  CHECK(table.op == "reduce_scatter");
  CHECK(table.ranks == 4);
  CHECK(table.ranks_of_host == std::vector<int>{2, 2});
  REQUIRE(table.times.size() == 3);
  CHECK(table.times[0].bytes == 1 << 20);  // of the whole array
  // 20 us and 3/4 of 1 MiB at 100 GB/s.
  CHECK(table.times[0].seconds == Approx(27.864e-6).epsilon(1e-3));
  CHECK(table.times[0].line == 10);
  CHECK(table.notes.empty());
}

TEST_CASE("without its program's name a table's operation follows from its columns") {
  for (MadeCommLog made :
       {kAllReduce, kReduceScatter, kAllGather, kAllToAll, kSendRecv, kBroadcast}) {
    const std::string name = made.name;
    made.name.clear();
    CHECK(table_of(made.text()).op == name);
  }
  // Without checks (-c 0) all-gather's rows are all-to-all's.
  MadeCommLog made = kAllToAll;
  made.name.clear();
  const std::string unchecked = replaced(made.text(), "      0", "    N/A");
  CHECK(has(refused_log(unchecked), "a.txt:9: found rows of all_gather or alltoall, expected"));
  CHECK(table_of(unchecked, {.op = "all_gather"}).op == "all_gather");
  CHECK(table_of("$ mpirun -np 4 ./build/alltoall_perf -b 8\n" + unchecked).op == "alltoall");
  CHECK(table_of("srun build/all_gather_perf_mpi -b 8\n" + unchecked).op == "all_gather");
}

TEST_CASE("old heads have no root, an empty redop and errors in place of counts") {
  std::string text = replaced(kAllGather.text(), "    root ", "");
  text = replaced(replaced(text, " #wrong", "  error"), "    none      -1", "");
  CHECK(table_of(text).op == "all_gather");
  CHECK(table_of(text).times.size() == 3);
  text = replaced(text, "      0", "  2e-07");
  CHECK(table_of(text).times.size() == 3);
  CHECK(refused_log(replaced(text, "values : 0 OK", "values : 2 FAILED")) ==
        "a.txt:13: found wrong values (FAILED) and no row that has them, expected a table of OK");
  CHECK(table_of(replaced(replaced(kAllReduce.text(), " Group  0", ""), "#  Rank", "#   Rank"))
            .ranks == 4);
}

TEST_CASE("labels of launchers and lines of NCCL do not hide a table") {
  for (const std::string label : {"0: ", "  0: ", "[1,0]<stdout>:", "(head, rank=0) [1,0]<stdout>:",
                                  "[0] ", "node-1: ", "[node0:0]:"}) {
    MadeCommLog made = kAllReduce;
    made.label = label;
    INFO(label);
    const LoggedTable table = table_of(replaced(
        made.text(), made.head(),
        made.head() + label + "0a1b:70:72 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n"));
    CHECK(table.op == "all_reduce");
    CHECK(table.ranks == 4);
    CHECK(table.times.size() == 3);
  }
  // MPICH labels each write of a line.
  CHECK(table_of(replaced(kAllReduce.text(), " sum      -1 ", " sum      -1[0]")).times.size() ==
        3);
}

TEST_CASE("a file has several tables, each with its own ranks") {
  MadeCommLog two = kAllGather;
  two.ranks = 2;
  two.factor = 0.5;
  const auto tables = tables_of(kAllReduce.text() + two.text());
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].ranks == 4);
  CHECK(tables[1].op == "all_gather");
  CHECK(tables[1].ranks == 2);
}

TEST_CASE("rows with wrong values and rows without bytes are left out") {
  const std::string text = replaced(kAllReduce.text(), kAllReduce.row(1 << 23),
                                    kAllReduce.row(1 << 23, "7") + kAllReduce.row(0));
  const LoggedTable table = table_of(text);
  CHECK(table.times.size() == 2);
  CHECK(table.notes == std::vector<std::string>{"a.txt:11: 1 row left out: wrong values"});
}

TEST_CASE("what is no row, or not of these ranks, is refused by line") {
  const std::string text = kAllReduce.text();
  const auto cut = [&](const std::string& row) {
    return refused_log(replaced(text, kAllReduce.row(1 << 23), row));
  };
  CHECK(has(cut("     8388608       2097152     float     sum\n"),
            "a.txt:11: found '8388608 2097152 float sum', expected a row of size, count, type"));
  CHECK(has(cut("? " + kAllReduce.row(1 << 23)), "a.txt:11: found '? "));
  CHECK(has(cut("     8388608\n"), "a.txt:11: found '8388608'"));
  CHECK(has(cut(replaced(kAllReduce.row(1 << 23), "float", "quad")), "a.txt:11: found the type"));
  // Of 8 ranks the bus would have 1.75 of the bytes, of 4 it has 1.5.
  CHECK(has(cut(MadeCommLog{.factor = 1.75}.row(1 << 23)), "a.txt:11: found busbw"));
  CHECK(has(refused_log(replaced(text, kAllReduce.head(), "")),
            "a.txt:8: found a row of nccl-tests without the head of its table"));
  CHECK(
      has(refused_log(replaced(text, " time ", " cputime ")), "a.txt:8: found a table without 't"));
  CHECK(refused_log("# nThread 1\n") ==
        "a.txt: found no table of nccl-tests or all_reduce_bench.py, expected their output");
  CHECK(has(refused_log(replaced(text, "all_reduce_perf", "all_gather_perf")),
            "a.txt:10: found a row of all_reduce on 4 ranks, expected one of all_gather"));
}

TEST_CASE("ranks come from the file, or are asked for") {
  const std::string text = kAllReduce.text();
  const std::string without = replaced(text, kAllReduce.rank_lines(), "");
  CHECK(refused_log(without) ==
        "a.txt:4: found a table without its ranks, expected --ranks and --nodes");
  CHECK(table_of(without, {.ranks = 4}).ranks == 4);
  CHECK(has(refused_log(without, {.ranks = 8}), "found busbw"));
  CHECK(has(refused_log(replaced(text, "Rank  3", "Rank  4")), "found no rank 3"));
  CHECK(has(refused_log(replaced(text, "Rank  3", "Rank  0")), "a.txt:7: found rank 0 twice"));
  CHECK(has(refused_log(replaced(text, "Rank  3 Group  0", "Rank  3 Group  1")),
            "a.txt:7: found ranks of several groups"));
  MadeCommLog one = kAllReduce;
  one.ranks = 1;
  CHECK(has(refused_log(one.text()), "found a table of one rank"));
}

TEST_CASE("all_reduce_bench.py's tables are read, in GB and in the first version's GiB") {
  const std::string title =
      "The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):\n\n";
  const std::string rows =
      "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
      "|   32KiB |   0.09GBps |   0.05GBps |\n|    1MiB |  35.00GBps |  20.00GBps |\n"
      "|    4GiB | 437.50GBps | 250.00GBps |\n\nLegend: 1KiB\n";
  const LoggedTable table = table_of(title + rows);
  CHECK(table.op == "all_reduce");
  CHECK(table.ranks == 8);
  CHECK(table.ranks_of_host.empty());
  REQUIRE(table.times.size() == 2);
  CHECK(table.times[0].seconds == Approx(1048576 / 20e9));
  CHECK(table.times[1].bytes == Bytes{4} << 30);
  CHECK(table.notes.size() == 2);
  CHECK(has(table.notes[0], "a.txt:5: 1 row left out: below 0.1 GBps"));
  CHECK(has(table.notes[1], "one call a trial"));
  const LoggedTable first = table_of(title + replaced(rows, "iB |", "B |"));
  CHECK(first.times[0].seconds == Approx(1.0 / 20 / 1024));
  CHECK(table_of(replaced(title, "trials", "trials, up to 10 queued calls per trial") + rows)
            .notes.size() == 1);
  CHECK(table_of(rows, {.ranks = 8}).ranks == 8);
  CHECK(has(refused_log(rows), "expected --ranks"));
  CHECK(has(refused_log(replaced(title, "8 ranks", "4 ranks") + rows), "a.txt:6: found busbw"));
  CHECK(has(refused_log(title + replaced(rows, "35.00GBps", "?")), "a.txt:6: found '|    1MiB"));
}

TEST_CASE("torch-dist-bench.py's tables are read, by nccl-tests' names and with rounded payloads") {
  const auto text = [](const std::string& op) {
    return "The average bandwidth and the per-call latency of " + op +
           " over 24 ranks (at least 5 warmups / 20 trials, up to 10 queued calls per trial):\n\n"
           "| payload |    busbw   |    algbw   | latency median |    p99    |    mean   | calls "
           "|\n"
           "| ------: | ---------: | ---------: | -------------: | --------: | --------: | ----: "
           "|\n"
           "|    384B |            |            |         49.0us |    60.0us |    50.0us |  1000 "
           "|\n"
           "| 1023.75KiB |  16.49GBps |  17.21GBps |         60.9us |    60.9us |    60.9us |   "
           "200 |\n"
           "| 15.9998MiB |  42.88GBps |  44.74GBps |        375.0us |   375.0us |   375.0us |   "
           "200 |\n"
           "\nlatency: of one call, in microseconds\n";
  };
  const LoggedTable table = table_of(text("all_to_all"));
  CHECK(table.op == "alltoall");
  CHECK(table.ranks == 24);
  REQUIRE(table.times.size() == 2);
  CHECK(table.times[0].bytes == 1048320);
  CHECK(table.times[1].seconds == Approx(15.9998 * 1048576 / 44.74e9));
  CHECK(table.notes.empty());
  CHECK(table_of(text("all_gather")).op == "all_gather");
  CHECK(table_of(replaced(replaced(text("batch_isend_irecv"), "16.49", "17.21"), "42.88", "44.74"))
            .op == "sendrecv");
  // Of all collectives at once it has no algbw.
  CHECK(refused_log("| payload | all_reduce busbw | all_reduce median |\n") ==
        "a.txt:1: found a table of several collectives, expected one of each (--separate-tables)");
}
