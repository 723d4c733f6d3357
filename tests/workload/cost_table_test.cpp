// Cost tables: the file, prices by hand-worked numbers, and Programs that they reprice.
#include "workload/cost/cost_table.h"

#include <catch2/catch.hpp>

#include "planning/simulate/simulate.h"
#include "schedule/program/reprice.h"
#include "sim/engines.h"
#include "tests/folder.h"
#include "tests/made_program.h"
#include "tests/scenarios/small_scenario.h"
#include "traces/op_times.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

CostRow gemm_row(Gemm gemm, Nanoseconds ns) {
  return {
      .what = CostKind::Gemm, .gemms = {gemm}, .count = 1, .p5_ns = ns, .p50_ns = ns, .p95_ns = ns};
}

CostRow size_row(CostKind what, double bytes, Nanoseconds ns, int ranks = 0, bool between = false) {
  return {.what = what,
          .bytes = bytes,
          .ranks = ranks,
          .between_nodes = between,
          .count = 1,
          .p5_ns = ns,
          .p50_ns = ns,
          .p95_ns = ns};
}

// 1000 FLOPs at 1 a nanosecond, 100'000 at 4; passes of 100 and 300 bytes in 10 and 50 ns.
CostTable small_table() {
  CostTable table;
  table.path = "costs.csv";
  table.rows = {gemm_row({.m = 5, .n = 10, .k = 10}, 1000),
                gemm_row({.m = 50, .n = 100, .k = 10}, 25'000), size_row(CostKind::Memory, 100, 10),
                size_row(CostKind::Memory, 300, 50)};
  return table;
}

KernelPrice price(const CostTable& table, const Kernel& kernel) {
  const auto price = kernel_price(table, kernel);
  INFO((price.ok() ? "" : price.error().text()));
  REQUIRE(price.ok());
  return *price;
}

CompiledJob job(const std::string& text, const Names& set = {}) {
  auto made = compile(load(text, set).front());
  INFO((made.ok() ? "" : made.error().text()));
  REQUIRE(made.ok());
  return *std::move(made);
}

// A row for each part and each whole kernel of a scenario's Program, by the analytic model.
CostTable analytic_table(const Scenario& scenario, const Program& program, bool whole) {
  CostTable table;
  table.path = "costs.csv";
  const CostModel model = scenario.cost_model();
  const auto add = [&](CostRow row, const Kernel& alone) {
    row.count = 1;
    row.p5_ns = row.p50_ns = row.p95_ns = kernel_ns(model, alone);
    if (table.find(row) == nullptr) table.rows.push_back(row);
  };
  for (const Kernel& kernel : program.kernels) {
    for (const Gemm& gemm : kernel.gemms)
      add({.what = CostKind::Gemm, .gemms = {gemm}}, {.gemms = {gemm}});
    if (kernel.memory_bytes > 0)
      add({.what = CostKind::Memory, .bytes = kernel.memory_bytes},
          {.memory_bytes = kernel.memory_bytes});
    Kernel unlaunched = kernel;
    unlaunched.launch_s = 0;
    if (whole)
      add({.what = CostKind::Kernel,
           .name = kernel.name,
           .gemms = kernel.gemms,
           .bytes = kernel.memory_bytes},
          unlaunched);
  }
  return table;
}

}  // namespace

TEST_CASE("a cost table through its file and back is the same") {
  const Folder folder;
  CostTable table = small_table();
  table.meta = {{"backend", "cuda"}, {"device", "NVIDIA H100: 132 SMs"}, {"gemm_scale", "1"}};
  table.rows[1].gemms[0].in_16_bits = true;
  table.rows.push_back({.what = CostKind::Kernel,
                        .name = "a, \"b\"",
                        .gemms = {{2, 3, 4, 5}, {6, 7, 8, 9, true}},
                        .attention_flops = 1e12 / 3,
                        .bytes = 0.1,
                        .count = 5,
                        .p5_ns = 0,
                        .p50_ns = 1,
                        .p95_ns = 2});
  table.rows.push_back(size_row(CostKind::AllReduce, 1 << 20, 5000, 8, true));
  CostRow slow = gemm_row({.m = 5, .n = 10, .k = 10}, 1500);
  slow.what = CostKind::Slowdown;
  slow.name = "send";
  slow.sms = 4;
  table.rows.push_back(slow);
  table.path = folder.with("costs.csv", to_text(table));
  const auto read = read_cost_table(table.path);
  INFO((read.ok() ? "" : read.error().text()));
  REQUIRE(read.ok());
  CHECK(read->meta == table.meta);
  CHECK(read->rows == table.rows);
  // 1500 ns beside what takes 1000 alone; 1 MiB in 5 us.
  CHECK(rate_of(*read, slow).first == Approx(1.5));
  CHECK(rate_of(*read, slow).second == "ratio");
  CHECK(rate_of(*read, table.rows[5]).first == Approx(1048576 / 5e-6));
}

TEST_CASE("a bad line of a cost table is named with what was expected") {
  const Folder folder;
  const std::string head =
      "what,name,gemms,attention_flops,bytes,ranks,between_nodes,sms,count,"
      "p5_ns,p50_ns,p95_ns\n";
  const auto refused = [&](const std::string& text, const std::string& expected) {
    const std::string path = folder.with("costs.csv", text);
    const auto read = read_cost_table(path);
    REQUIRE(!read.ok());
    INFO(read.error().text());
    CHECK(read.error().text().starts_with(path + expected));
  };
  refused(head, ": found no rows");
  refused("what,name\ngemm,\n", ": found no column 'gemms'");
  refused("# gemm_scale: 0.5\n" + head, ": found '# gemm_scale: 0.5', expected 1");
  refused(head + "gem,,1x2x3x4,0,0,0,0,0,1,1,1,1\n",
          ":2: column 'what': found 'gem', expected one");
  refused(head + "\ngemm,,1x2x3,0,0,0,0,0,1,1,1,1\n", ":3: column 'gemms': found '1x2x3'");
  refused(head + "gemm,,1x2x3x0,0,0,0,0,0,1,1,1,1\n", ":2: column 'gemms': found '1x2x3x0'");
  refused(head + "gemm,,,0,0,0,0,0,1,1,1,1\n", ":2: found 'gemm' without it, expected one shape");
  refused(head + "memory,,,0,-1,0,0,0,1,1,1,1\n", ":2: column 'bytes': found -1");
  refused(head + "memory,,,0,9,0,0,0,1,3,2,4\n", ":2: found 3, 2 and 4 ns, expected p5 <= p50");
  refused(head + "memory,,,0,9,0,0,0,1,0,0,0\n", ":2: column 'p50_ns': found 0, expected 1 to ");
  refused(head + "all_reduce,,,0,9,1,0,0,1,1,1,1\n",
          ":2: found 'all_reduce' without it, expected ");
  refused(head + "memory,,,0,9,0,0,0,1,1,1,1\nmemory,,,0,9,0,0,0,1,2,2,2\n",
          ":3: found a second memory of 9 bytes, expected one");
}

TEST_CASE("a kernel is the sum of its parts: shapes as measured, others by the rates around them") {
  const CostTable table = small_table();
  // As measured.
  CHECK(price(table, {.gemms = {{.m = 50, .n = 100, .k = 10}}}).ns == 25'000);
  // 10'000 FLOPs: half way from 1000 to 100'000 in logarithms, so at (1 + 4) / 2 a nanosecond.
  const KernelPrice between = price(table, {.gemms = {{.m = 50, .n = 10, .k = 10}}});
  CHECK(between.ns == 4000);
  CHECK(between.interpolated == 1);
  // Beyond the ends at their rates: 200 FLOPs at 1, 200'000 at 4.
  CHECK(price(table, {.gemms = {{.m = 10, .n = 10, .k = 1}}}).ns == 200);
  CHECK(price(table, {.gemms = {{.m = 100, .n = 100, .k = 10}}}).ns == 50'000);
  // Passes: half way from 100 to 300 bytes 30 ns; below 10; above at 300 bytes in 50 ns.
  CHECK(price(table, {.memory_bytes = 200}).ns == 30);
  CHECK(price(table, {.memory_bytes = 7}).ns == 10);
  CHECK(price(table, {.memory_bytes = 600}).ns == 100);
  // A sum, of which memory bounds 50 of 25'050; and never less than its launch.
  Kernel sum = {.gemms = {{.m = 50, .n = 100, .k = 10}}, .memory_bytes = 300};
  CHECK(price(table, sum).ns == 25'050);
  CHECK(price(table, sum).memory_share == Approx(50.0 / 25'050));
  sum.launch_s = 100e-6;
  CHECK(price(table, sum).ns == 100'000);
  CHECK(price(table, sum).memory_share == Approx(50.0 / 100'000));
  CHECK(price(table, Kernel{}).ns == 0);
}

TEST_CASE("a kernel that was measured whole takes that, and its passes their own share") {
  CostTable table = small_table();
  const Kernel kernel = {.gemms = {{.m = 50, .n = 100, .k = 10}}, .memory_bytes = 300};
  CostRow whole = gemm_row(kernel.gemms[0], 20'000);
  whole.what = CostKind::Kernel;
  whole.bytes = 300;
  table.rows.push_back(whole);
  CHECK(price(table, kernel).ns == 20'000);
  CHECK(price(table, kernel).memory_share == Approx(50.0 / 20'000));
}

TEST_CASE("GEMMs of activations go by their own rows, where there are some") {
  CostTable table = small_table();
  const Kernel kernel = {.gemms = {{.m = 50, .n = 10, .k = 10, .in_16_bits = true}}};
  CHECK(price(table, kernel).ns == 4000);
  table.rows.push_back(gemm_row({.m = 5, .n = 10, .k = 10, .in_16_bits = true}, 2000));
  CHECK(price(table, kernel).ns == 20'000);  // 10'000 FLOPs at a half
}

TEST_CASE("what a table has nothing for is an Error that names the shape") {
  CostTable table;
  table.path = "costs.csv";
  const auto refused = [&](const Kernel& kernel, const std::string& expected) {
    const auto price = kernel_price(table, kernel);
    REQUIRE(!price.ok());
    CHECK(price.error().text() == expected);
  };
  refused({.gemms = {{.m = 2, .n = 3, .k = 4}}},
          "costs.csv: found nothing to price the GEMM 1x2x3x4 by, expected rows of 'gemm'");
  refused({.attention_flops = 1e9},
          "costs.csv: found nothing to price attention of 1e+09 FLOPs by, expected rows of "
          "'attention'");
  refused({.memory_bytes = 512},
          "costs.csv: found nothing to price passes over 512 bytes by, expected rows of 'memory'");
  CHECK(!check_covers(table, false).ok());
  CHECK(check_covers(small_table(), false).ok());
  CHECK(!check_covers(small_table(), true).ok());
}

TEST_CASE("communication goes by rows of its kind, ranks and place, copies stand for sends") {
  CostTable table;
  table.rows = {
      size_row(CostKind::AllReduce, 100, 10, 4), size_row(CostKind::AllReduce, 300, 50, 4),
      size_row(CostKind::AllReduce, 100, 90, 4, true), size_row(CostKind::Copy, 100, 7, 2)};
  CHECK(comm_ns(table, CommKind::AllReduce, 4, false, 200) == 30);
  CHECK(comm_ns(table, CommKind::AllReduce, 4, true, 100) == 90);
  CHECK(!comm_ns(table, CommKind::AllReduce, 8, false, 200));
  CHECK(!comm_ns(table, CommKind::AllGather, 4, false, 200));
  CHECK(comm_ns(table, CommKind::SendRecv, 2, false, 100) == 7);
  table.rows.push_back(size_row(CostKind::Send, 100, 5, 2));
  CHECK(comm_ns(table, CommKind::SendRecv, 2, false, 100) == 5);
}

TEST_CASE("a table of the analytic model's own prices gives the analytic simulation") {
  const Scenario scenario = load(kSmall).front();
  const Program program = job(kSmall).program;
  for (const bool whole : {true, false}) {
    const CostTable table = analytic_table(scenario, program, whole);
    Program repriced = program;
    const auto said = reprice(&repriced, table);
    REQUIRE(said.ok());
    CHECK(said->interpolated == 0);
    const auto expected = ideal(program), found = ideal(repriced);
    REQUIRE(expected.ok());
    REQUIRE(found.ok());
    Nanoseconds worst = 0;
    for (std::size_t i = 0; i < expected->events.size(); ++i)
      worst = std::max(worst, std::abs(expected->events[i].end_ns - found->events[i].end_ns));
    // Rounded parts, of at most 40 a layer and 4 layers a pass, may add up; whole kernels do not.
    CHECK(worst <= (whole ? 0 : 40 * 4 / 2 * 2 * 16));
    for (std::size_t k = 0; k < program.kernels.size(); ++k)
      CHECK(repriced.kernels[k].memory_share ==
            Approx(program.kernels[k].memory_share).epsilon(1e-3));
  }
}

TEST_CASE("costs.source = table prices a scenario as its table repriced the Program") {
  const Folder folder;
  const Scenario scenario = load(kSmall).front();
  const Program program = job(kSmall).program;
  CostTable table = analytic_table(scenario, program, true);
  for (CostRow& row : table.rows) row.p95_ns = row.p50_ns *= 2;
  folder.with("costs.csv", to_text(table));
  auto slow = try_load(folder, kSmall, {"costs.source=table", "costs.table=costs.csv"});
  REQUIRE(slow.ok());
  const auto made = compile(slow->front());
  REQUIRE(made.ok());
  Program repriced = program;
  REQUIRE(reprice(&repriced, table).ok());
  CHECK(hash(made->program) == hash(repriced));
  CHECK(hash(made->program) != hash(program));
  const auto result = simulate(slow->front(), Engine::Ideal);
  REQUIRE(result.ok());
  CHECK(result->costs == "table " + folder / "costs.csv");
}

TEST_CASE(
    "costs.table without costs.source = table, and the reverse, are errors where they stand") {
  const Folder folder;
  folder.with("costs.csv", to_text(small_table()));
  const auto refused = [&](const std::string& costs, const Names& set,
                           const std::string& expected) {
    const auto loaded = try_load(folder, kSmall + "[costs]\n" + costs, set);
    REQUIRE(!loaded.ok());
    INFO(loaded.error().text());
    CHECK(loaded.error().text().starts_with(folder / "small.toml" + expected));
  };
  refused("table = \"costs.csv\"\n", {}, ":17: found costs.table with costs.source = analytic");
  refused("source = \"table\"\n", {}, ":17: found costs.source = table without costs.table");
  refused("source = \"table\"\ntable = \"none.csv\"\n", {}, ":18: found costs.table = none.csv");
  refused("forward_s = 1\nsource = \"table\"\ntable = \"costs.csv\"\n", {},
          ":18: found costs.source = table, expected uniform");
  refused("p2p_MB = 1\nsource = \"table\"\ntable = \"costs.csv\"\n", {},
          ":17: found costs.p2p_MB with costs.source = table");
  const auto flash = try_load(
      folder,
      kSmall +
          "[train]\nflash_attention = true\n[costs]\nsource = \"table\"\ntable = \"costs.csv\"\n");
  REQUIRE(!flash.ok());
  CHECK(flash.error().text().find(":20: costs.csv") == std::string::npos);
  CHECK(flash.error().text().find("fused attention") != std::string::npos);
}

TEST_CASE("what a table does not have keeps its price and is counted") {
  Program program = job(kSmall).program;
  const Program before = program;
  const auto said = reprice(&program, small_table());
  REQUIRE(said.ok());
  CHECK(said->interpolated > 0);
  REQUIRE(!said->kept.empty());
  CHECK(said->kept.contains("all-reduce of 2 ranks"));
  for (std::size_t b = 0; b < program.bodies.size(); ++b) {
    for (std::size_t i = 0; i < program.bodies[b].ops.size(); ++i) {
      if (!is_compute(program.bodies[b].ops[i].kind))
        CHECK(program.bodies[b].ops[i].duration_ns == before.bodies[b].ops[i].duration_ns);
    }
  }
  CHECK(lines_of(*said, small_table()).size() == 2);
}

TEST_CASE("a Program repriced by a trace of itself gives the same trace") {
  const Folder folder;
  for (const bool fold : {true, false}) {
    const Program program = job(kSmall).program;
    auto trace = ideal(program, {.fold = fold});
    REQUIRE(trace.ok());
    trace->meta.insert(trace->meta.begin(), program_line(program));
    REQUIRE(write_trace_csv(program, *trace, folder / "t.csv").ok());
    const auto table = read_trace_csv(folder / "t.csv");
    REQUIRE(table.ok());
    Program repriced = program;
    for (Body& body : repriced.bodies) {
      for (Op& op : body.ops) op.duration_ns = 1 + op.duration_ns / 2;
    }
    // Of other prices, so of another hash.
    CHECK(!reprice_by_trace(&repriced, *table).ok());
    // With an op too few, and one too many.
    TraceTable wrong = *table;
    wrong.rows.pop_back();
    if (fold) CHECK(!reprice_by_trace(&repriced, wrong).ok());
    wrong = *table;
    repriced = program;
    wrong.rows.push_back(wrong.rows.back());
    const Status twice = reprice_by_trace(&repriced, wrong);
    REQUIRE(!twice.ok());
    CHECK(twice.error().text().ends_with(" twice, expected it once"));
    repriced = program;
    REQUIRE(reprice_by_trace(&repriced, *table).ok());
    const auto again = ideal(repriced, {.fold = fold});
    REQUIRE(again.ok());
    REQUIRE(again->events.size() == trace->events.size());
    for (std::size_t i = 0; i < trace->events.size(); ++i)
      REQUIRE(again->events[i].end_ns == trace->events[i].end_ns);
  }
}

TEST_CASE("equal ranks' op times become their median, SMs are no longer taken") {
  // Two ranks of one body: an op each, 10 and 30 ns; of two the shorter one.
  Program program = made_program("ranks 0 1: F 5ns");
  program.device = {108, 1e12};
  TraceTable table{"t.csv", {program_line(program), {"complete", "yes"}}, {}, {}};
  table.rows = {{.rank = Rank{0}, .lane = "compute", .end_ns = 10},
                {.rank = Rank{1}, .lane = "compute", .start_ns = 5, .end_ns = 35}};
  const Program before = program;
  REQUIRE(reprice_by_trace(&program, table).ok());
  CHECK(program.bodies[0].ops[0].duration_ns == 10);
  CHECK(program.device == SharedDevice{});
  program = before;
  table.meta[1].second = "no";
  CHECK(reprice_by_trace(&program, table).error().text() ==
        "t.csv: found '# complete: no', expected yes: a whole trace");
  table.meta[1].second = "yes";
  table.rows.clear();
  CHECK(reprice_by_trace(&program, table).error().text().starts_with("t.csv: found no forward"));
}

}  // namespace tandem
