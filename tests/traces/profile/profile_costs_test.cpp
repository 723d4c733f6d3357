// Cost tables out of profiles: which call launched which kernel, and what its tensors' shapes say.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/profile_costs.h"
#include "traces/profile/torch_calls.h"

using namespace tandem;

namespace {

std::string call_row(const std::string& name, const std::string& ts, const std::string& shapes,
                     const std::string& types, int thread = 1) {
  return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 9, "tid": {}, )"
                     R"("ts": {}, "dur": 10, "args": {{"Input Dims": {}, "Input type": {}}}}})",
                     name, thread, ts, shapes, types);
}

constexpr const char* kTwoBf16 = R"(["c10::BFloat16", "c10::BFloat16"])";

// Two products of one shape, the second of two kernels; a sum beside them on another thread.
KinetoRows two_products() {
  return {call_row("aten::mm", "0", "[[4096, 512], [512, 1024]]", kTwoBf16),
          call_row("aten::mm", "20", "[[4096, 512], [512, 1024]]", kTwoBf16),
          call_row("aten::add", "5", "[[1024, 1024], [1024]]", kTwoBf16, 2),
          launch_row(1, "5"),
          launch_row(2, "25"),
          launch_row(3, "27"),
          launch_row(4, "6", 2),
          launch_row(5, "40"),  // after all calls
          kernel_row("gemm", 7, "100", "30", 1),
          kernel_row("gemm", 7, "130", "30", 2),
          kernel_row("splitKreduce", 7, "160", "4", 3),
          kernel_row("vectorized_elementwise_kernel", 7, "170", "8", 4),
          kernel_row("softmax", 7, "180", "90", 5)};
}

ProfileCosts costs_of(const KinetoRows& rows, int gpus_per_node = 0) {
  auto costs = cost_table_of(read_rows(rows), gpus_per_node);
  if (!costs.ok()) FAIL(costs.error().text());
  return std::move(*costs);
}

std::optional<CostRow> row_of(const char* name, const char* shapes, const char* types,
                              const char* values = "") {
  const auto priced = priced_call(name, {.shapes = shapes, .types = types, .values = values});
  return priced ? std::optional(priced->row) : std::nullopt;
}

}  // namespace

TEST_CASE("a call's kernels are those that its thread launched in it") {
  const ProfileCosts costs = costs_of(two_products());
  CHECK(costs.table.meta_value("precision") == "bf16");
  REQUIRE(costs.table.rows.size() == 2);
  const CostRow& product = costs.table.rows[0];
  CHECK(product.what == CostKind::Gemm);
  CHECK(gemms_text(product.gemms) == "1x4096x1024x512");
  CHECK(product.count == 2);
  CHECK(product.p5_ns == 30'000);
  CHECK(product.p50_ns == 30'000);
  CHECK(product.p95_ns == 34'000);  // by nearest rank, of 30 and 34
  const CostRow& sum = costs.table.rows[1];
  CHECK(sum.what == CostKind::Memory);
  CHECK(sum.bytes == 2 * (2 * 1024 * 1024 + 1024));
  CHECK(sum.p50_ns == 8'000);
}

TEST_CASE("a kernel behind a call within its own is of the outer call") {
  // A product of 10 us whose input is copied from 1 to 3 us; its GEMM is launched at 8.
  const std::string inner =
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::copy_", "pid": 9, "tid": 1, )"
      R"("ts": 1, "dur": 2, "args": {"Input Dims": [[4096, 512], [4096, 512]], )"
      R"("Input type": ["c10::BFloat16", "c10::BFloat16"]}})";
  const ProfileCosts costs = costs_of(
      {call_row("aten::mm", "0", "[[4096, 512], [512, 1024]]", kTwoBf16), inner, launch_row(1, "2"),
       launch_row(2, "8"), launch_row(3, "12"), kernel_row("elementwise_copy", 7, "100", "4", 1),
       kernel_row("gemm", 7, "104", "30", 2), kernel_row("softmax", 7, "140", "90", 3)});
  REQUIRE(costs.table.rows.size() == 2);
  CHECK(costs.table.rows[0].what == CostKind::Gemm);
  CHECK(costs.table.rows[0].p50_ns == 30'000);
  CHECK(costs.table.rows[1].what == CostKind::Memory);
  CHECK(costs.table.rows[1].p50_ns == 4'000);
}

TEST_CASE("a table out of a profile reads back, and prices a GEMM as the profile timed it") {
  const Folder folder;
  const std::string path = folder.with("costs.csv", to_text(costs_of(two_products()).table));
  const auto table = read_cost_table(path);
  REQUIRE(table.ok());
  Kernel kernel;
  kernel.gemms = {{.m = 4096, .n = 1024, .k = 512}};
  const auto price = kernel_price(*table, kernel);
  REQUIRE(price.ok());
  CHECK(price->ns == 30'000);
  CHECK(price->interpolated == 0);
}

TEST_CASE("GEMMs of another precision are left out, but those in 16 bits beside fp8") {
  KinetoRows rows = two_products();
  rows.push_back(call_row("aten::mm", "50", "[[64, 64], [64, 64]]", R"(["float", "float"])"));
  rows.push_back(launch_row(6, "51"));
  rows.push_back(kernel_row("gemm", 7, "300", "1", 6));
  CHECK(costs_of(rows).other_dtype == 1);
  CHECK(costs_of(rows).table.rows.size() == 2);

  rows.push_back(call_row("aten::_scaled_mm", "70", "[[512, 512], [512, 512]]",
                          R"(["c10::Float8_e4m3fn", "c10::Float8_e4m3fn"])"));
  rows.push_back(launch_row(7, "71"));
  rows.push_back(kernel_row("nvjet", 7, "400", "500", 7));
  const ProfileCosts costs = costs_of(rows);
  CHECK(costs.table.meta_value("precision") == "fp8");
  CHECK(costs.table.find({.what = CostKind::Gemm,
                          .gemms = {{.m = 4096, .n = 1024, .k = 512, .in_16_bits = true}}}) !=
        nullptr);
  CHECK(costs.other_dtype == 1);  // in 32 bits
}

TEST_CASE("what the tensors' shapes say of a product, an attention and a pass") {
  const char* const three = R"(["c10::Half", "c10::Half", "c10::Half"])";
  CHECK(gemms_text(row_of("aten::addmm", "[[8], [32, 16], [16, 8]]", three)->gemms) == "1x32x8x16");
  CHECK(gemms_text(row_of("aten::bmm", "[[4, 32, 16], [4, 16, 8]]", three)->gemms) == "4x32x8x16a");
  const char* const heads = "[[2, 8, 1024, 64], [2, 8, 1024, 64], [2, 8, 1024, 64], [], []]";
  const char* const values = R"(["", "", "", "0.", "True"])";
  const auto causal = row_of("aten::_scaled_dot_product_flash_attention", heads, three, values);
  REQUIRE(causal);
  CHECK(causal->attention_flops == 2.0 * 2 * 8 * 1024 * 1024 * 64);
  const auto whole = row_of("aten::_scaled_dot_product_flash_attention", heads, three,
                            R"(["", "", "", "0.", "False"])");
  REQUIRE(whole);
  CHECK(whole->attention_flops == 2 * causal->attention_flops);
  // A mask that is a tensor hides scores that are computed all the same.
  const auto masked = row_of(
      "aten::_scaled_dot_product_efficient_attention",
      "[[2, 8, 1024, 64], [2, 8, 1024, 64], [2, 8, 1024, 64], [2, 8, 1024, 1024], [], [], []]",
      R"(["c10::Half", "c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar"])",
      R"(["", "", "", "", "False", "0.", "False"])");
  REQUIRE(masked);
  CHECK(masked->attention_flops == whole->attention_flops);
  // 2^70 queries of a damaged profile, which no 64 bits hold.
  const auto damaged =
      row_of("aten::_scaled_dot_product_flash_attention",
             "[[34359738368, 34359738368, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [], []]", three,
             R"(["", "", "", "0.", "False"])");
  REQUIRE(damaged);
  CHECK(damaged->attention_flops == std::ldexp(4.0, 70));
  // Copies list their target: it is read and written once each.
  CHECK(
      row_of("aten::copy_", "[[1000], [1000], []]", R"(["float", "c10::Half", "Scalar"])")->bytes ==
      6000);
  CHECK(row_of("aten::gelu", "[[1000], []]", three)->bytes == 4000);
}

TEST_CASE("what the tensors do not tell becomes no row") {
  const char* const two = R"(["float", "float"])";
  CHECK_FALSE(row_of("aten::mm", "[[8, 4], [5, 8]]", two));  // no product
  CHECK_FALSE(row_of("aten::mm", "[[8, 4]]", two));
  CHECK_FALSE(row_of("aten::mm", "[[8, 0], [0, 8]]", two));
  CHECK_FALSE(row_of("aten::mm", "[[8, 4], [4, 8]]", R"(["long int", "long int"])"));
  CHECK_FALSE(row_of("aten::mm", "not JSON", two));
  CHECK_FALSE(row_of("aten::_scaled_dot_product_flash_attention",
                     "[[2, 8, 64, 64], [2, 8, 64, 64], [2, 8, 64, 64]]",
                     R"(["float", "float", "float"])"));  // causal or not
  CHECK_FALSE(row_of("aten::softmax", "[[8, 4]]", two));
  const auto refused = cost_table_of(read_rows({kernel_row("gemm", 7, "1", "2")}), 0);
  REQUIRE(!refused.ok());
  CHECK(refused.error().text().find("record_shapes=True") != std::string::npos);
}

TEST_CASE("collectives are rows where all their ranks are there, in a node or between nodes") {
  const auto rank = [](const char* start, const char* length) {
    KinetoRows rows = two_products();
    rows.push_back(kernel_row("ncclDevKernel_AllReduce", 20, start, length, 90,
                              collective("allreduce", 1000, "[0, 1]", 2, "", R"(, "Seq": 1)")));
    rows.push_back(kernel_row("ncclDevKernel_AllReduce", 20, "500", "5", 91,
                              collective("allreduce", 500, "[0, 4]", 2, "", R"(, "Seq": 1)")));
    return rows;
  };
  const Folder folder;
  const Profile profile = read_all({folder.with("a.json", kineto_text(rank("100", "30"), 0)),
                                    folder.with("b.json", kineto_text(rank("120", "10"), 1))});
  CHECK(cost_table_of(profile, 0)->table.rows.size() == 2);
  const CostRow reduce{.what = CostKind::AllReduce, .bytes = 4000, .ranks = 2};
  const auto in_node = cost_table_of(profile, 8);
  REQUIRE(in_node->table.find(reduce) != nullptr);
  CHECK(in_node->table.find(reduce)->p50_ns == 10'000);  // from when the last one came
  CHECK(in_node->table.rows.size() == 3);                // rank 4 is not there
  CostRow between = reduce;
  between.between_nodes = true;
  CHECK(cost_table_of(profile, 1)->table.find(between) != nullptr);
}

TEST_CASE("the sampled run's matrix products are all in its table, at a GPU's rates") {
  const Profile profile = read_all({profile_sample("interop/traces/sampled_rank-0.json.gz")});
  const auto costs = cost_table_of(profile, 0);
  REQUIRE(costs.ok());
  CHECK(costs->table.meta_value("precision") == "fp32");
  std::int64_t products = 0;
  double best = 0, best_bytes = 0;
  for (const CostRow& row : costs->table.rows) {
    if (row.what == CostKind::Gemm) products += row.count;
    const auto [rate, unit] = rate_of(costs->table, row);
    (unit == "flop/s" ? best : best_bytes) = std::max(unit == "flop/s" ? best : best_bytes, rate);
  }
  CHECK(products == 377);      // mm 231, addmm 107, bmm 40; one kernel is not there
  CHECK(best > 40e12);         // fp32 by TF32 units, whose peak is
  CHECK(best < 156e12);        // an A100's
  CHECK(best_bytes > 1.2e12);  // of its 2.0e12
  CHECK(best_bytes < 2.1e12);
}
