// A simulated trace against a measured one: the numbers, the table, and what is refused.
#include "validation/compare/compare.h"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "report/text/comparison_table.h"

using namespace tandem;

namespace {

constexpr int kPipeline = static_cast<int>(GroupKind::Pipeline);

TraceRow row(int rank, std::int64_t op, OpKind kind, Nanoseconds start_ns, Nanoseconds end_ns) {
  TraceRow row;
  row.rank = Rank{rank};
  row.lane = is_compute(kind) ? "compute" : "0>1";
  row.op = op;
  row.kind = kind;
  row.stage = static_cast<std::int16_t>(rank);
  row.microbatch = 0;
  row.arrive_ns = row.start_ns = start_ns;
  row.end_ns = end_ns;
  return row;
}

RankSplit split(int rank, Nanoseconds compute_ns, Nanoseconds bubble_ns, Nanoseconds exposed_ns,
                Nanoseconds overlap_ns) {
  RankSplit split;
  split.rank = Rank{rank};
  split.compute_ns = compute_ns;
  split.bubble_ns = bubble_ns;
  split.exposed_ns[kPipeline] = exposed_ns;
  split.comm_ns[kPipeline] = exposed_ns + overlap_ns;
  split.overlap_ns[kPipeline] = overlap_ns;
  return split;
}

// In us, F 0-10 of rank 0, a transfer 10-14, F 14-24 of rank 1. Of the 24 each rank computes 10,
// waits 10 and lets 4 of communication be seen.
TraceTable simulated() {
  TraceTable table;
  table.path = "s.csv";
  table.meta = {{"program", "two stages 00000000000000ab"}, {"engine", "ideal"}};
  table.splits = {split(0, 10'000, 10'000, 4'000, 0), split(1, 10'000, 10'000, 4'000, 0)};
  table.rows = {row(0, 0, OpKind::Forward, 0, 10'000), row(0, 1, OpKind::Send, 10'000, 14'000),
                row(1, 2, OpKind::Recv, 10'000, 14'000),
                row(1, 3, OpKind::Forward, 14'000, 24'000)};
  return table;
}

// The transfer takes 10 and rank 1's F 12: 32 in all, the clock begins at 5, rows in another order.
TraceTable measured() {
  TraceTable table;
  table.path = "m.csv";
  table.meta = {{"backend", "host"}, {"real", "the sends"}, {"program", "x 00000000000000ab"}};
  table.splits = {split(1, 12'000, 10'000, 10'000, 0), split(0, 10'000, 12'000, 10'000, 0)};
  table.rows = {row(1, 3, OpKind::Forward, 25'000, 37'000), row(1, 2, OpKind::Recv, 15'000, 25'000),
                row(0, 0, OpKind::Forward, 5'000, 15'000), row(0, 1, OpKind::Send, 15'000, 25'000)};
  return table;
}

Comparison compared(const TraceTable& a, const TraceTable& b, std::size_t worst = 10) {
  const Result<Comparison> comparison = compare(a, b, worst);
  if (!comparison.ok()) FAIL(comparison.error().text());
  return *comparison;
}

void check_refused(const TraceTable& a, const TraceTable& b, const std::string& message) {
  const Result<Comparison> comparison = compare(a, b);
  REQUIRE(!comparison.ok());
  CHECK(comparison.error().kind == Error::BadInput);
  CHECK(comparison.error().text() == message);
}

}  // namespace

TEST_CASE("totals are compared as simulated less measured, the iteration as a ratio") {
  const Comparison c = compared(simulated(), measured());
  CHECK(c.iteration_error == Approx(24.0 / 32 - 1));
  // 10 of 24 on both ranks, against 12 and 10 of 32.
  CHECK(c.bubble_difference == Approx(10.0 / 24 - 11.0 / 32));
  CHECK(*c.exposed_difference_s[kPipeline] == Approx(-6e-6));
  CHECK(*c.overlap_difference[kPipeline] == 0);
  CHECK(!c.exposed_difference_s[static_cast<int>(GroupKind::Data)]);
  CHECK(!c.overlap_difference[static_cast<int>(GroupKind::Data)]);
  // By rank, whatever the order of the lines.
  CHECK(c.measured.metrics.ranks[0].bubble_ns == 12'000);
  CHECK(c.measured.metrics.ranks[1].compute_ns == 12'000);
}

TEST_CASE("overlap is compared as the part of the communication beside compute") {
  TraceTable a = simulated(), b = measured();
  for (RankSplit& rank : a.splits) rank = split(index(rank.rank), 10'000, 10'000, 4'000, 4'000);
  // Half of 8 against 10 of 20 on rank 0 and none of 10 on rank 1: 1/2 - 1/4.
  b.splits[1] = split(0, 10'000, 12'000, 10'000, 10'000);
  CHECK(*compared(a, b).overlap_difference[kPipeline] == Approx(0.25));
  // Communication that only one of them has: exposed can be compared, a share of nothing cannot.
  for (RankSplit& rank : a.splits) rank = split(index(rank.rank), 10'000, 14'000, 0, 0);
  CHECK(!compared(a, b).overlap_difference[kPipeline]);
  CHECK(*compared(a, b).exposed_difference_s[kPipeline] == Approx(-10e-6));
}

TEST_CASE("a rank counts as many times as the ranks that it stands for") {
  TraceTable a = simulated(), b = measured();
  a.splits[1].multiplicity = b.splits[0].multiplicity = 3;  // rank 1
  // Measured: 12/32 of rank 0, and three times 10/32.
  CHECK(compared(a, b).bubble_difference == Approx(10.0 / 24 - 42.0 / 128));
}

TEST_CASE("ops are paired by rank and number, and their durations compared") {
  const Comparison c = compared(simulated(), measured());
  // 10 for 10, 4 for 10 twice, 10 for 12: errors 0, 1/6, 0.6, 0.6.
  CHECK(c.ops.count == 4);
  CHECK(c.ops.with_error == 4);
  CHECK(c.ops.simulated_s == Approx(28e-6));
  CHECK(c.ops.measured_s == Approx(42e-6));
  CHECK(*c.ops.median_error == Approx((1.0 / 6 + 0.6) / 2));
  CHECK(*c.ops.worst_error == Approx(0.6));
  REQUIRE(c.kinds.size() == 3);
  CHECK(c.kinds[0].first == OpKind::Forward);
  CHECK(c.kinds[0].second.count == 2);
  CHECK(*c.kinds[0].second.median_error == Approx(1.0 / 12));
  CHECK(c.kinds[1].first == OpKind::Send);
  CHECK(c.kinds[2].first == OpKind::Recv);
}

TEST_CASE("the worst ops are those that differ by most nanoseconds") {
  // 6 on the send and on the receive, a tie; 2 on rank 1's forward; rank 0's is right.
  const Comparison c = compared(simulated(), measured());
  REQUIRE(c.worst.size() == 3);
  CHECK(c.worst[0].kind == OpKind::Send);
  CHECK(c.worst[0].difference_ns() == -6'000);
  CHECK(*c.worst[0].error() == Approx(-0.6));
  CHECK(c.worst[1].kind == OpKind::Recv);
  CHECK(c.worst[2].op == 3);
  CHECK(compared(simulated(), measured(), 1).worst.size() == 1);
  CHECK(compared(simulated(), measured(), 0).worst.empty());
}

TEST_CASE("what is measured shorter than a microsecond counts, and has no relative error") {
  TraceTable b = measured();
  b.rows[0].end_ns = b.rows[0].start_ns + 999;  // rank 1's forward
  b.rows[1].end_ns = 37'000;                    // and the iteration stays
  const Comparison c = compared(simulated(), b);
  CHECK(c.ops.count == 4);
  CHECK(c.ops.with_error == 3);
  CHECK(c.worst[0].kind == OpKind::Recv);  // 4 for 22
  CHECK(c.worst[1].op == 3);               // 10 for 0.999
  CHECK(!c.worst[1].error());
  CHECK_THAT(comparison_table(c), Catch::Contains("1 of them were measured shorter than 1000 ns"));
}

TEST_CASE("a trace against itself differs in nothing") {
  const Comparison c = compared(measured(), measured());
  CHECK(c.iteration_error == 0);
  CHECK(c.bubble_difference == 0);
  CHECK(*c.exposed_difference_s[kPipeline] == 0);
  CHECK(*c.ops.worst_error == 0);
  CHECK(c.worst.empty());
  CHECK_THAT(comparison_table(c), Catch::EndsWith("\n\nBoth iterations take 0.032 ms.\n"));
}

TEST_CASE("the table ends with the sentence that says where the difference lies") {
  // 8 more: 6 of communication, 1 each of compute (11 for 10, mean) and of bubble.
  const std::string table = comparison_table(compared(simulated(), measured()));
  CHECK_THAT(table, Catch::StartsWith("simulated  s.csv (ideal)\n"
                                      "measured   m.csv (host; real: the sends)\n\n"));
  CHECK_THAT(table,
             Catch::EndsWith("\nThe measured iteration takes 0.008 ms more than the simulated one; "
                             "exposed pipeline communication accounts for 0.006 ms, compute for "
                             "0.001 ms.\n"));
  CHECK_THAT(comparison_table(compared(measured(), simulated())),
             Catch::EndsWith("\nThe measured iteration takes 0.008 ms less than the simulated one; "
                             "exposed pipeline communication accounts for 0.006 ms, compute for "
                             "0.001 ms.\n"));
  // With compute of 6 more and 4 of bubble less, communication again 6 more.
  TraceTable b = measured();
  b.splits = {split(0, 16'000, 6'000, 10'000, 0), split(1, 16'000, 6'000, 10'000, 0)};
  CHECK_THAT(comparison_table(compared(simulated(), b)),
             Catch::EndsWith("; compute accounts for 0.006 ms, exposed pipeline communication for "
                             "0.006 ms; bubble takes 0.004 ms less.\n"));
}

TEST_CASE("the table shows those of many ranks that differ most, and JSON shows all") {
  TraceTable a, b;
  a.meta = b.meta = {{"program", "p ab"}};
  for (int rank = 0; rank < 20; ++rank) {
    a.rows.push_back(row(rank, 0, OpKind::Forward, 0, 2'000));
    a.splits.push_back(split(rank, 2'000, 0, 0, 0));
  }
  b.rows = a.rows;
  b.splits = a.splits;
  for (int rank = 4; rank < 20; ++rank) {  // all but the first four: 1 of compute, 1 of bubble
    b.rows[rank].end_ns = 1'000;
    b.splits[rank] = split(rank, 1'000, 1'000, 0, 0);
  }
  const Comparison c = compared(a, b);
  const std::string table = comparison_table(c);
  CHECK_THAT(table, Catch::Contains("16 of 20 ranks: those that differ most.\n"));
  CHECK_THAT(table, !Catch::Contains("\n3   ") && Catch::Contains("\n4   "));
  CHECK(to_json(c).at("ranks").size() == 20);
}

TEST_CASE("JSON has the promised keys, and null where there is nothing to compare") {
  const auto json = to_json(compared(simulated(), measured()));
  CHECK(json.at("iteration_error").get<double>() == Approx(-0.25));
  CHECK(json.at("overlap_difference").at("pipeline") == 0.0);
  CHECK(json.at("overlap_difference").at("tensor").is_null());
  CHECK(json.at("exposed_difference_s").at("expert").is_null());
  CHECK(json.at("ops").at("count") == 4);
  CHECK(json.at("kinds").at("forward").at("median_error").get<double>() == Approx(1.0 / 12));
  CHECK(json.at("simulated").at("iteration_s").get<double>() == Approx(24e-6));
  CHECK(json.at("measured").at("meta").at("backend") == "host");
  CHECK(json.at("ranks").at(1).at("measured").at("compute_s").get<double>() == Approx(12e-6));
  CHECK(json.at("worst").at(0).at("kind") == "send");
  CHECK(json.at("worst").at(0).at("error").get<double>() == Approx(-0.6));
}

TEST_CASE("traces of two programs are refused, and so is one that does not say which") {
  TraceTable b = measured();
  b.meta[2].second = "x 00000000000000ac";
  check_refused(simulated(), b,
                "m.csv: found a trace of program 'x 00000000000000ac', expected 'two stages "
                "00000000000000ab' as in s.csv");
  b = measured();
  b.meta.emplace_back("complete", "no");
  check_refused(simulated(), b, "m.csv: found '# complete: no', expected a complete trace");
  b.meta.clear();
  check_refused(simulated(), b,
                "m.csv: found no line '# program: NAME HASH', expected one as Tandem writes it");
}

TEST_CASE("a folded simulation is refused with the option that unfolds it") {
  TraceTable a = simulated();
  a.rows.resize(2);
  a.splits.resize(1);
  check_refused(a, measured(),
                "s.csv: found no rank 1, which m.csv has, expected all its ranks: simulate with "
                "--unfolded");
  check_refused(measured(), a,
                "s.csv: found no rank 1, which m.csv has, expected all its ranks: simulate with "
                "--unfolded");
}

TEST_CASE("a partial trace is refused with the first op that it lacks") {
  TraceTable b = measured();
  b.rows.erase(b.rows.begin() + 1);
  check_refused(simulated(), b,
                "m.csv: found 1 ops less than in s.csv, the first op 2 of rank 1 (recv), expected "
                "a complete trace");
  b = measured();
  b.splits.pop_back();
  check_refused(simulated(), b,
                "m.csv: found no line '# split 0: ...', expected one a rank, as a complete trace "
                "has them");
}

TEST_CASE("rows and splits that contradict each other are refused") {
  TraceTable b = measured();
  b.rows[3].bytes = 7;
  check_refused(simulated(), b,
                "m.csv: found op 1 of rank 0 to be send of stage 0, microbatch 0, part 0, 7 bytes "
                "on lane 0>1, expected send of stage 0, microbatch 0, part 0, 0 bytes on lane 0>1 "
                "as in s.csv");
  b = measured();
  b.rows.push_back(b.rows[2]);
  check_refused(simulated(), b, "m.csv: found op 0 of rank 0 twice, expected it once");
  b = measured();
  b.splits.push_back(split(1, 32'000, 0, 0, 0));
  check_refused(simulated(), b,
                "m.csv: found the line '# split 1: ...', expected one for each rank that has rows");
  b = measured();
  b.splits[1].bubble_ns = 11'000;
  check_refused(simulated(), b,
                "m.csv: '# split 0': found 31000 ns in all, expected 32000, the iteration of the "
                "rows");
  b = measured();
  for (TraceRow& event : b.rows) event.arrive_ns = event.start_ns = event.end_ns = 5;
  for (RankSplit& rank : b.splits) rank = split(index(rank.rank), 0, 0, 0, 0);
  check_refused(simulated(), b,
                "m.csv: found an iteration that takes no time, expected one above 0");
}
