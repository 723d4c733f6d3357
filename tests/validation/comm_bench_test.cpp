// Comm bench: nccl-tests' definitions, one Program for all blocks, and fits that lead back.
#include "validation/microbench/comm_bench.h"

#include <catch2/catch.hpp>

#include <limits>

#include "exec/backends/backends.h"
#include "report/text/comm_table.h"
#include "schedule/program/validate.h"
#include "tests/folder.h"
#include "tests/needs.h"
#include "topology/preset.h"
#include "topology/traffic.h"
#include "validation/microbench/comm_fit.h"
#include "validation/microbench/comm_run.h"

namespace tandem {
namespace {

constexpr CommKind kAllKinds[] = {CommKind::AllReduce, CommKind::AllGather, CommKind::ReduceScatter,
                                  CommKind::AllToAll, CommKind::RingShift};

std::vector<Rank> first_ranks(int count) {
  std::vector<Rank> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(Rank{i});
  return ranks;
}

// All kinds on four ranks, and transfers inside a node and between nodes.
CommBench four_ranks(std::vector<Bytes> sizes) {
  CommBench bench{4, 3, 2, {}, std::move(sizes)};
  for (const CommKind kind : kAllKinds) bench.tests.push_back({kind, first_ranks(4)});
  bench.tests.push_back({CommKind::SendRecv, {Rank{0}, Rank{1}}});
  bench.tests.push_back({CommKind::SendRecv, {Rank{2}, Rank{1}}});
  return bench;
}

Cluster shaped(std::vector<CalibrationRow> calibration = {}) {
  auto spec = load_preset("shaped-dgx");
  REQUIRE(spec.ok());
  spec->calibration = std::move(calibration);
  auto cluster = Cluster::build(*spec, 4);
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

CommResult run(const CommBench& bench, const Backend* backend, const Cluster& cluster) {
  auto result = run_comm_bench(bench, backend, cluster, in_order(4));
  INFO((result.ok() ? "" : result.error().text()));
  REQUIRE(result.ok());
  REQUIRE(result->has_value());
  return **std::move(result);
}

TEST_CASE("sizes are counted as nccl-tests counts them") {
  CHECK(comm_size(CommKind::AllReduce, 3, 1000).bytes == 1000);
  CHECK(comm_size(CommKind::AllReduce, 3, 1003).count == 250);  // whole floats
  // 250 floats for 3 ranks: 83, of which 80 are whole 16 bytes.
  for (const CommKind kind : {CommKind::AllGather, CommKind::ReduceScatter, CommKind::AllToAll}) {
    CHECK(comm_size(kind, 3, 1000).count == 80);
    CHECK(comm_size(kind, 3, 1000).bytes == 3 * 80 * 4);
  }
  CHECK(comm_size(CommKind::RingShift, 3, 1000).count == 250);
  CHECK(*comm_sizes(1024, 5000, 2, 1) == std::vector<Bytes>{1024, 2048, 4096});
  CHECK(*comm_sizes(1000, 2000, 1, 500) == std::vector<Bytes>{1000, 1500, 2000});
  CHECK_FALSE(comm_sizes(4, 1 << 30, 1, 4).ok());
  // The size behind the last one is no 64-bit number.
  constexpr Bytes kLargest = std::numeric_limits<Bytes>::max();
  CHECK(*comm_sizes(kLargest / 2, kLargest, 3, 1) == std::vector<Bytes>{kLargest / 2});
  CHECK(*comm_sizes(kLargest - 5, kLargest, 1, 4) ==
        std::vector<Bytes>{kLargest - 5, kLargest - 1});
}

TEST_CASE("all blocks are one valid Program, and ranks of one role share a body") {
  const Program program = comm_program(four_ranks({1 << 10, 1 << 12}));
  CHECK(validate(program).ok());
  // Rank 0 sends, 1 receives twice, 2 sends, 3 is in none of the pairs: but all know the two
  // barriers of the 14 blocks.
  CHECK(program.bodies.size() == 4);
  CHECK(program.communicators.size() == 3);  // all collectives share one
  const std::size_t collectives = 2 * 14 + 5 * 2 * 5;
  CHECK(program.body_of(Rank{0}).ops.size() == collectives + 10);
  CHECK(program.body_of(Rank{1}).ops.size() == collectives + 20);
  CHECK(program.body_of(Rank{3}).ops.size() == collectives);
  CommBench same = four_ranks({1 << 10});
  same.tests.resize(5);
  CHECK(comm_program(same).bodies.size() == 1);
}

TEST_CASE("a block's time is that of its counted operations over their number") {
  const CommBench bench{2, 2, 1, {{CommKind::AllReduce, first_ranks(2)}}, {64}};
  const Program program = comm_program(bench);
  // Barriers around a warm-up of 80 ns; then 50 or 44 from the arrival, a gap of 4, and 36 or 38.
  Trace trace;
  trace.ranks = {{Rank{0}, 0, 1, 0}, {Rank{1}, 0, 1, 5}};
  trace.events = {{0, 0, 10}, {10, 10, 90}, {90, 90, 100}, {100, 106, 150}, {154, 154, 190},
                  {0, 0, 10}, {10, 10, 90}, {90, 90, 100}, {106, 106, 150}, {152, 154, 192}};
  // The mean of 90 / 2 and 86 / 2.
  CHECK(comm_seconds(bench, program, trace)[0] == Approx(44e-9).epsilon(1e-12));
}

TEST_CASE("bandwidths are nccl-tests'") {
  CommTable table{{CommKind::AllReduce, first_ranks(4)}, 1, {}};
  table.rows.push_back({{1'000'000, 250'000}, 1e-3});
  CHECK(table.algbw(table.rows[0]) == Approx(1e9));
  CHECK(table.busbw(table.rows[0]) == Approx(1.5e9));
  for (const CommKind kind : {CommKind::AllGather, CommKind::ReduceScatter, CommKind::AllToAll}) {
    table.test.kind = kind;
    CHECK(table.busbw(table.rows[0]) == Approx(0.75e9));
  }
  table.test.kind = CommKind::RingShift;
  CHECK(table.busbw(table.rows[0]) == Approx(1e9));
  table.rows.push_back({{1'000'000, 250'000}, 0.5e-3});
  CHECK(table.mean_busbw() == Approx(1.5e9));
}

TEST_CASE("SimGrid's table has the closed forms, and its fit, read back, gives the same table") {
  need_simgrid();
  const CommBench bench = four_ranks({1 << 20, 1 << 21, 1 << 23});
  const Cluster plain = shaped();
  const CommResult result = run(bench, nullptr, plain);
  CHECK_FALSE(result.checked);
  REQUIRE(result.tables.size() == 7);
  for (const CommTable& table : result.tables) {
    std::vector<DeviceId> devices;
    for (const Rank member : table.test.members) devices.push_back(DeviceId{index(member)});
    for (const CommRow& row : table.rows)
      CHECK(row.seconds ==
            Approx(to_seconds(collective_ns(plain, table.test.kind, row.size.bytes, devices)))
                .epsilon(1e-9));
  }
  CHECK(result.tables[5].nodes == 1);
  CHECK(result.tables[6].nodes == 2);

  const auto fits = fit(result.tables);
  REQUIRE(fits.ok());
  CHECK(fits->size() == 7);
  const Folder folder;
  const auto rows = read_calibration(
      folder.with("F.toml", calibration_text(*fits, "me", {{"backend", "\"simgrid\""}})));
  INFO((rows.ok() ? "" : rows.error().text()));
  REQUIRE(rows.ok());
  const CommResult again = run(bench, nullptr, shaped(*rows));
  for (std::size_t t = 0; t < result.tables.size(); ++t) {
    CHECK((*fits)[t].worst_error < 1e-6);
    for (std::size_t s = 0; s < bench.sizes.size(); ++s)
      CHECK(again.tables[t].rows[s].seconds ==
            Approx(result.tables[t].rows[s].seconds).epsilon(1e-6));
  }
}

TEST_CASE("tests of other ranks do not run at once") {
  need_simgrid();
  // Both transfers cross the one uplink of node 0.
  CommBench bench{4, 2, 0, {}, {1'000'000}};
  bench.tests = {{CommKind::SendRecv, {Rank{0}, Rank{2}}},
                 {CommKind::SendRecv, {Rank{1}, Rank{3}}}};
  for (const CommTable& table : run(bench, nullptr, shaped()).tables)
    CHECK(table.rows[0].seconds == Approx(50e-6 + 0.01).epsilon(1e-9));
}

TEST_CASE("the host plays the same Program, checks what arrives, and takes no less time") {
  CommBench bench = four_ranks({1 << 10, 1 << 12});
  const Cluster cluster = shaped();
  const CommResult host = run(bench, backend_named("host"), cluster);
  CHECK(host.checked);
  CHECK(host.backend == "host");
  for (const CommTable& table : host.tables) {
    std::vector<DeviceId> devices;
    for (const Rank member : table.test.members) devices.push_back(DeviceId{index(member)});
    for (const CommRow& row : table.rows)
      CHECK(row.seconds >=
            to_seconds(collective_ns(cluster, table.test.kind, row.size.bytes, devices)) * 0.9999);
  }
}

TEST_CASE("a fit is the line through the times, by relative errors, with no latency below 0") {
  // 4 ranks, factor 3/4: 10 us + 0.75 S / 0.5 GB/s.
  CommTable table{{CommKind::AllGather, first_ranks(4)}, 1, {}};
  for (const Bytes bytes : {1000, 10000, 1000000})
    table.rows.push_back({{bytes, 0}, 10e-6 + 1.5e-9 * static_cast<double>(bytes)});
  const auto exact = fit({table});
  REQUIRE(exact.ok());
  CHECK((*exact)[0].row.latency_s == Approx(10e-6));
  CHECK((*exact)[0].row.bus_bytes_per_s == Approx(0.5e9));
  CHECK((*exact)[0].worst_error < 1e-9);

  // Twice the bytes in three times the time: no latency would do, so the line is through 0.
  table.rows = {{{1000, 0}, 1e-6}, {{2000, 0}, 3e-6}};
  const auto origin = fit({table});
  REQUIRE(origin.ok());
  // u = 1, 1/3 and v = 750, 500 B/us: slope = (750 + 500) / (750^2 + 500^2) us/B.
  CHECK((*origin)[0].row.latency_s == 0);
  CHECK((*origin)[0].row.bus_bytes_per_s == Approx((750.0 * 750 + 500 * 500) / 1250 * 1e6));
  // 2000 B: 1500 x 1250 / 812500 us = 2.308 of 3.
  CHECK((*origin)[0].worst_error == Approx(1 - 1500 * 1250 / 812500.0 / 3));

  table.rows.resize(1);
  CHECK(fit({table}).error().text() ==
        "found one size of all_gather of 4 ranks on 1 node, expected two or more");
  table.rows = {{{1000, 0}, 3e-6}, {{2000, 0}, 1e-6}, {{4000, 0}, 0.1e-6}};
  CHECK_FALSE(fit({table}).ok());
}

TEST_CASE("a table has nccl-tests' lines") {
  CommBench bench{4, 20, 5, {{CommKind::ReduceScatter, first_ranks(4)}}, {1 << 20, 1 << 21}};
  const int nodes[] = {2};
  const double seconds[] = {99.994e-6, 0.0123456};
  CommResult result{"mpi", "two nodes", "all", true, comm_tables(bench, nodes, seconds)};
  const std::string text = comm_text(result, bench, "2(factor)");
  CHECK(text.starts_with(
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 "
      "iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# mpi on two nodes; all\n#\n"));
  const std::string units = "(us)  (GB/s)  (GB/s)       \n";
  const std::size_t rows = text.find(units) + units.size();
  CHECK(text.substr(rows) ==
        R"(     1048576         65536     float     sum      -1    99.99   10.49    7.86      0
     2097152        131072     float     sum      -1    12346    0.17    0.13      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 3.9961
#
)");
  const std::string head =
      R"(# reduce_scatter: 4 ranks on 2 nodes
#                                                              out-of-place
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               )";
  CHECK(text.find(head + units) != std::string::npos);
}

}  // namespace
}  // namespace tandem
