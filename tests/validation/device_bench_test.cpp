// Device bench: what a Program's own prices give when its bench is simulated, and by whom it is
// measured.
#include "validation/microbench/device_bench.h"

#include <catch2/catch.hpp>

#include "planning/simulate/simulate.h"
#include "schedule/program/reprice.h"
#include "schedule/program/validate.h"
#include "sim/engines.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

Program program_of(const Names& set) {
  const auto made = compile(load(kSmall, set).front());
  INFO((made.ok() ? "" : made.error().text()));
  REQUIRE(made.ok());
  return made->program;
}

DeviceBench bench_of(const Program& program, const DeviceBenchOptions& options = {}) {
  auto bench = device_bench(program, options);
  INFO((bench.ok() ? "" : bench.error().text()));
  REQUIRE(bench.ok());
  return *std::move(bench);
}

CostTable played(const DeviceBench& bench) {
  const auto trace = ideal(bench.program, {.fold = false});
  INFO((trace.ok() ? "" : trace.error().text()));
  REQUIRE(trace.ok());
  CostTable table;
  table.path = "costs.csv";
  table.rows = cost_rows(bench, std::span(&*trace, 1));
  return table;
}

int count(const CostTable& table, CostKind what) {
  return static_cast<int>(std::ranges::count(table.rows, what, &CostRow::what));
}

}  // namespace

TEST_CASE("a Program's bench has a row a shape, and a simulated one reprices it as it was") {
  const Program program = program_of({});
  const DeviceBench bench = bench_of(program);
  CHECK(validate(bench.program).ok());
  CHECK(bench.program.ranks.size() == 8);
  const CostTable table = played(bench);
  CHECK(table.rows.size() == bench.rows.size());
  CHECK(count(table, CostKind::Gemm) > 8);
  CHECK(count(table, CostKind::Attention) == 0);
  CHECK(count(table, CostKind::Kernel) > 2);
  // Transfers within pp, all-reduces of tp and dp, all of two ranks on one node.
  CHECK(count(table, CostKind::Send) > 1);
  CHECK(count(table, CostKind::AllReduce) > 2);
  // Beside sends, all-reduces of two ranks, and the gradient norm's of tp x pp = 4.
  CHECK(count(table, CostKind::Slowdown) == 3);
  for (const CostRow& row : table.rows) {
    // Eight ranks and three repeats; two pairs in lock step for each of tp and dp are four groups.
    if (row.what == CostKind::Gemm) CHECK(row.count == 8 * 3);
    // Nothing takes SMs.
    if (row.what == CostKind::Slowdown) CHECK(rate_of(table, row).first == Approx(1).epsilon(1e-3));
  }
  Program repriced = program;
  const auto said = reprice(&repriced, table);
  REQUIRE(said.ok());
  CHECK(said->interpolated == 0);
  CHECK(said->kept.empty());
  // But for kernels of one part, which are priced in proportion, all is as it was.
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    for (std::size_t i = 0; i < program.bodies[b].ops.size(); ++i) {
      const Op &before = program.bodies[b].ops[i], &after = repriced.bodies[b].ops[i];
      INFO(describe(program.bodies[b], before));
      const bool one_part = before.kernel >= 0 && program.kernels[before.kernel].gemms.empty();
      if (!one_part) CHECK(after.duration_ns == before.duration_ns);
    }
  }
}

TEST_CASE("a GEMM beside communication that takes SMs is as much slower as the formula says") {
  // 32 of 108 SMs: 108 / 76 of the time, whatever memory bounds: a GEMM alone has none of that.
  const CostTable table = played(bench_of(program_of({"overlap.p2p=true", "overlap.p2p_sms=32"})));
  int seen = 0;
  for (const CostRow& row : table.rows) {
    if (row.what != CostKind::Slowdown || row.sms == 0) continue;
    CHECK(row.name == "send");
    CHECK(row.sms == 32);
    CHECK(rate_of(table, row).first == Approx(108.0 / 76).epsilon(1e-3));
    ++seen;
  }
  CHECK(seen == 1);
}

TEST_CASE("fused attention is measured by its FLOPs") {
  const CostTable table = played(bench_of(program_of({"train.flash_attention=true"})));
  CHECK(count(table, CostKind::Attention) == 2);  // forward and backward
}

TEST_CASE("what is emulated is not measured, and copies are rows of their own") {
  const Program program = program_of({});
  const CostTable shared = played(bench_of(program, {.collectives = false, .copies = true}));
  CHECK(count(shared, CostKind::AllReduce) == 0);
  CHECK(count(shared, CostKind::Send) == 0);
  CHECK(count(shared, CostKind::Copy) > 0);
  const CostTable none = played(bench_of(program, {.collectives = false, .transfers = false}));
  CHECK(count(none, CostKind::Copy) + count(none, CostKind::Slowdown) == 0);
}

TEST_CASE("a Program without kernels cannot be calibrated, one of one rank can") {
  const auto uniform = compile(load(kUniform).front());
  REQUIRE(uniform.ok());
  const auto refused = device_bench(uniform->program);
  REQUIRE(!refused.ok());
  CHECK(refused.error().text().starts_with("found Program 1f1b without kernels, expected"));
  const CostTable one = played(
      bench_of(program_of({"parallel.tp=1", "parallel.pp=1", "parallel.dp=1", "cluster.gpus=1"})));
  CHECK(count(one, CostKind::Gemm) > 8);
}

}  // namespace tandem
