// What GEMMs and kernels cost: closed forms, measured shapes, and laws that hold for all shapes.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "workload/cost/kernel.h"

namespace tandem {
namespace {

CostModel a100(double bytes_per_s = 2.039e12) {
  return {.device = {.name = "A100-80GB",
                     .memory_bytes = 80e9,
                     .memory_bytes_per_s = bytes_per_s,
                     .sms = 108,
                     .flops_per_s = {{"fp16", 312e12}, {"bf16", 312e12}, {"fp32", 19.5e12}}},
          .precision = "fp16"};
}

CostModel h100_fp8() {
  return {.device = {.name = "H100-SXM5-80GB",
                     .memory_bytes_per_s = 3.35e12,
                     .sms = 132,
                     .flops_per_s = {{"bf16", 989e12}, {"fp8", 1979e12}},
                     .gemm_efficiency = 0.70,
                     .own_gemms = {{"fp8", {.efficiency = 0.626, .ramp_k = 2 * 124}}},
                     .attention_efficiency = 0.55},
          .precision = "fp8"};
}

// Log-uniform in [1, 2^bits].
std::int64_t random_size(std::mt19937_64* random, double bits) {
  return std::llround(std::exp2(std::uniform_real_distribution<double>(0, bits)(*random)));
}

Gemm random_gemm(std::mt19937_64* random) {
  return {.batch = random_size(random, 7),
          .m = random_size(random, 15),
          .n = random_size(random, 15),
          .k = random_size(random, 15)};
}

TEST_CASE("one full wave of the largest tiles takes its FLOPs at 0.761 of the peak") {
  // 108 tiles of 256 x 128, one an SM: m = 108 x 256, n = 128. K + 124 = 4096. Cutting K or the
  // tiles would only add ramps and lose efficiency. 108 x 2 x 256 x 128 x 4096 FLOP / (0.761 x
  // 312e12 /s) = 122.10 us, + 3 us to launch.
  const double expected = 108 * 2.0 * 256 * 128 * 4096 / (0.761 * 312e12) + 3e-6;
  CHECK(expected == Approx(125.1e-6).epsilon(1e-3));
  CHECK(gemm_s(a100(), {.m = 108 * 256, .n = 128, .k = 3972}) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("one tile more than a wave costs part of a second wave, not all of it") {
  const double full = gemm_s(a100(), {.m = 108 * 256, .n = 128, .k = 3972});
  const double more = gemm_s(a100(), {.m = 109 * 256, .n = 128, .k = 3972});
  CHECK(more > 1.1 * full);
  CHECK(more < 1.5 * full);
}

TEST_CASE("a GEMM with few output tiles and a deep K is cut along K") {
  // 27 tiles of 256 x 128 leave three quarters of the SMs idle; cut in 4 they fill one wave, each
  // with K / 4 + 124 = 4096 to do: the wave of the first test.
  const double expected = 108 * 2.0 * 256 * 128 * 4096 / (0.761 * 312e12) + 3e-6;
  CHECK(gemm_s(a100(), {.m = 27 * 256, .n = 128, .k = 4 * 3972}) ==
        Approx(expected).epsilon(1e-12));
}

TEST_CASE("a GEMM never takes less than its bytes over the memory's bandwidth") {
  // An outer product over a slow memory: 2 bytes x (16384 + 16384 + 16384^2) / 0.5e12 = 1.07 ms. On
  // the SMs it is 8192 tiles of 256 x 128, 76 waves of 3.7 us.
  const double numbers = 2 * 16384.0 + 16384.0 * 16384.0;
  CHECK(gemm_s(a100(0.5e12), {.m = 16384, .n = 16384, .k = 1}) ==
        Approx(2 * numbers / 0.5e12).epsilon(1e-12));
}

TEST_CASE("measured GEMMs of an A100-PCIe are met within 5 % on average") {
  // Every eleventh of 183 shapes measured by MooreThreads/SimuMax (a100_pcie.json): share of 312
  // TFLOP/s. HBM2e: 1.935 TB/s. Worst: a weight gradient of one wave, read and written in fp32.
  struct Measured {
    std::int64_t m, n, k;
    double efficiency;
  };
  const Measured shapes[] = {
      {4096, 24576, 1536, 0.69713},  {5120, 16384, 4096, 0.71904},  {4096, 3072, 5120, 0.69523},
      {4096, 1536, 7168, 0.80296},   {36864, 7168, 4096, 0.71779},  {33024, 7168, 4096, 0.74873},
      {4096, 4096, 4096, 0.72142},   {128384, 4096, 4096, 0.70925}, {4096, 4096, 64256, 0.75299},
      {4096, 4096, 3584, 0.70557},   {4096, 512, 4096, 0.49141},    {4096, 8192, 10240, 0.75439},
      {4096, 128256, 8192, 0.74463}, {28672, 8192, 4096, 0.70727},  {4096, 2048, 8192, 0.69982},
      {4096, 1280, 8192, 0.66250},   {8192, 3584, 4096, 0.67574}};
  double sum = 0;
  for (const Measured& shape : shapes) {
    const Gemm gemm = {.m = shape.m, .n = shape.n, .k = shape.k};
    const double measured = gemm.flops() / (shape.efficiency * 312e12);
    const double error = gemm_s(a100(1.935e12), gemm) / measured - 1;
    INFO(shape.m << " x " << shape.n << " x " << shape.k << ": " << error);
    CHECK(std::abs(error) < 0.20);
    sum += std::abs(error);
  }
  CHECK(sum / std::size(shapes) < 0.05);
}

TEST_CASE("a kernel is its GEMMs, then its passes at 0.85 of the bandwidth, or the CPU's launch") {
  const Gemm gemm = {.m = 108 * 256, .n = 128, .k = 3972};
  // 2 x 125.1 us + 17.3315 GB / (0.85 x 2.039 TB/s) = 10 ms.
  Kernel kernel = {.name = "k", .gemms = {gemm, gemm}, .memory_bytes = 0.01 * 0.85 * 2.039e12};
  const Nanoseconds device = to_ns(2 * gemm_s(a100(), gemm) + 0.01);
  CHECK(kernel_ns(a100(), kernel) == device);
  CHECK(kernel.flops() == 2 * 2.0 * 108 * 256 * 128 * 3972);
  kernel.launch_s = 5e-3;
  CHECK(kernel_ns(a100(), kernel) == device);
  kernel.launch_s = 11e-3;
  CHECK(kernel_ns(a100(), kernel) == 11'000'000);
  CHECK(kernel_ns(a100(), Kernel{}) == 0);
}

TEST_CASE("fp8 speeds up linear layers, and leaves attention's batched products in bf16") {
  // 0.70 of 989 TFLOP/s in bf16, 0.626 of 1979 in fp8 once K is deep.
  const CostModel fp8 = h100_fp8();
  CostModel bf16 = fp8;
  bf16.precision = "bf16";
  const Gemm linear = {.m = 132 * 256, .n = 12800, .k = 100'000};
  CHECK(linear.flops() / gemm_s(bf16, linear) == Approx(0.70 * 989e12).epsilon(0.005));
  CHECK(linear.flops() / gemm_s(fp8, linear) == Approx(0.626 * 1979e12).epsilon(0.005));
  const Gemm scores = {.batch = 24, .m = 2048, .n = 2048, .k = 128, .in_16_bits = true};
  CHECK(gemm_s(fp8, scores) == gemm_s(bf16, scores));
}

TEST_CASE("fused attention runs at its share of the 16-bit peak, in bf16 beside fp8") {
  // 0.55 of 989 TFLOP/s for 1 ms, whatever the linear layers run in.
  const Kernel fused = {.name = "attention", .attention_flops = 0.55 * 989e12 * 1e-3};
  CostModel model = h100_fp8();
  CHECK(kernel_ns(model, fused) == 1'000'000);
  CHECK(fused.flops() == fused.attention_flops);
  model.precision = "bf16";
  CHECK(kernel_ns(model, fused) == 1'000'000);
  // A device without bf16 has fp16; one of neither keeps to what it has.
  model = a100();
  model.device.flops_per_s = {{"fp16", 100e12}, {"fp32", 10e12}};
  model.device.attention_efficiency = 0.5;
  for (const char* precision : {"fp16", "fp32"}) {
    model.precision = precision;
    CHECK(kernel_ns(model, {.attention_flops = 50e9}) == 1'000'000);
  }
  model.device.flops_per_s = {{"fp32", 10e12}};
  CHECK(kernel_ns(model, {.attention_flops = 5e9}) == 1'000'000);
  // It adds to the rest of a kernel.
  const Gemm gemm = {.m = 4096, .n = 4096, .k = 4096};
  const Kernel block = {.gemms = {gemm}, .attention_flops = 0.55 * 312e12 * 1e-3};
  CHECK(kernel_ns(a100(), block) == to_ns(gemm_s(a100(), gemm) + 1e-3));
  CHECK(block.flops() == gemm.flops() + 0.55 * 312e12 * 1e-3);
}

TEST_CASE("fused attention is slower with short rows, small heads and backward, and has a launch") {
  CostModel model = h100_fp8();
  model.device.attention_ramp_keys = 1000;
  model.device.attention_softmax_size = 32;
  model.device.attention_launch_s = 30e-6;
  const auto ns = [&](const AttentionShape& shape) {
    return kernel_ns(model, {.attention_flops = 0.55 * 989e12 * 1e-3, .attention = shape});
  };
  // 1 ms with endless rows; twice that with 1000 keys, 1 + 1 / 4 with 4000.
  CHECK(ns({}) == 1'030'000);
  CHECK(ns({.keys = 1000, .head_size = 128}) == 2'030'000);
  CHECK(ns({.keys = 4000, .head_size = 128}) == 1'280'000);
  // (1 + 32 / 64) / (1 + 32 / 128) = 1.2.
  CHECK(ns({.keys = 1000, .head_size = 64}) == 2'430'000);
  CHECK(ns({.keys = 1000, .head_size = 128, .backward = true}) == 2'530'000);
  // In fp8 the forward takes 0.77 of it, and the backward what it takes in bf16.
  CHECK(ns({.keys = 1000, .head_size = 128, .in_fp8 = true}) == 1'570'000);
  CHECK(ns({.keys = 1000, .head_size = 128, .backward = true, .in_fp8 = true}) == 2'530'000);
  // Rows of 2000 keys take 1.5 times their FLOPs' time. A window of 1000 leaves 3/4 of the FLOPs,
  // which take twice theirs, as long as all. One of 1500 leaves 15/16 and takes no longer than all.
  CHECK(ns({.keys = 1000, .head_size = 128, .window_share = 0.75, .keys_without_window = 2000}) ==
        2'030'000);
  CHECK(ns({.keys = 1500, .head_size = 128, .window_share = 0.9375, .keys_without_window = 2000}) ==
        1'630'000);
  // A framework's own kernel reaches a share of the GPU's best.
  model.profile.attention_share = 0.5;
  CHECK(ns({.keys = 1000, .head_size = 128}) == 4'030'000);
}

TEST_CASE("training's clock slows GEMMs, in a precision with its own by that one") {
  CostModel model = h100_fp8();
  const Gemm gemm = {.m = 132 * 256, .n = 12800, .k = 100'000};
  const auto rate = [&] { return gemm.flops() / gemm_s(model, gemm); };
  const double fp8 = rate();
  model.device.training_clock = 0.5;
  CHECK(rate() == fp8);
  model.device.own_gemms.at("fp8").training_clock = 0.8;
  CHECK(rate() == Approx(0.8 * fp8).epsilon(0.005));
  model.quantized_rate = 0.95;
  CHECK(rate() == Approx(0.95 * 0.8 * fp8).epsilon(0.005));
  model.precision = "bf16";
  CHECK(rate() == Approx(0.5 * 0.70 * 989e12).epsilon(0.005));
}

TEST_CASE("a tile's prologue takes as long in fp8, so as much as twice the K") {
  // 100 waves of 132 tiles of 256 x 128: 100 x 2 x 256 x 128 x 132 (K + 2 x 124) / (0.626 x
  // 1979e12)
  // + 3 us.
  const CostModel model = h100_fp8();
  const double expected = 100 * 132 * 2.0 * 256 * 128 * (512 + 2 * 124) / (0.626 * 1979e12) + 3e-6;
  CHECK(gemm_s(model, {.m = 132 * 256, .n = 12800, .k = 512}) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("grouped products of experts add up what tiles, operands and experts take") {
  CostModel model = a100();
  const Gemm experts = {.batch = 16, .m = 256, .n = 4096, .k = 1024};
  Gemm scores = experts;
  scores.in_16_bits = true;  // one kernel, as attention's
  const double one = gemm_s(model, scores);
  model.profile.grouped_launch_s = 20e-6;
  model.profile.expert_gemm_s = 1e-6;
  model.profile.grouped_compute = 0;
  model.profile.grouped_operands = 0.5;
  CHECK(gemm_s(model, scores) == one);
  // 16 x (256 x 1024 + 1024 x 4096 + 256 x 4096) numbers of 2 bytes.
  const double operands_s =
      16 * (262144 + 4194304 + 1048576) * 2.0 / model.device.memory_bytes_per_s;
  CHECK(gemm_s(model, experts) == Approx(std::max(one, 20e-6 + 16e-6 + operands_s / 2)));
  model.profile.grouped_compute = 1;
  const double tiles_s = one - model.device.gemm_launch_s;
  CHECK(gemm_s(model, experts) == Approx(20e-6 + 16e-6 + operands_s / 2 + tiles_s));
}

TEST_CASE("grouped products of experts never take less than the same products in one batch") {
  CostModel model = a100();
  const Gemm experts = {.batch = 2, .m = 65536, .n = 16384, .k = 16384};
  Gemm batch = experts;
  batch.in_16_bits = true;
  CHECK(gemm_s(model, experts) >= gemm_s(model, batch));
}

TEST_CASE("products of a scan take what its own kernels do, where that is known and longer") {
  CostModel model = a100();
  Gemm product = {.batch = 4096, .m = 128, .n = 64, .k = 128, .in_16_bits = true};
  const double batched = gemm_s(model, product);
  product.scan = true;
  CHECK(gemm_s(model, product) == batched);
  model.profile.scan_flops_per_s = 20e12;
  CHECK(gemm_s(model, product) == Approx(product.flops() / 20e12 + model.device.gemm_launch_s));
  model.profile.scan_flops_per_s = 1e18;
  CHECK(gemm_s(model, product) == batched);
}

TEST_CASE("a product's text says what it is of, and is read back") {
  const std::vector<Gemm> products = {{.batch = 2, .m = 3, .n = 4, .k = 5},
                                      {.m = 3, .n = 4, .k = 5, .in_16_bits = true},
                                      {.m = 3, .n = 4, .k = 5, .in_16_bits = true, .scan = true}};
  CHECK(gemms_text(products) == "2x3x4x5 1x3x4x5a 1x3x4x5s");
  CHECK(parse_gemms(gemms_text(products)) == products);
}

TEST_CASE("rows of no whole 16 bytes are slow in 16 bits, and padded where they are quantized") {
  CostModel model = h100_fp8();
  model.profile.unaligned_gemm = 8;
  const Gemm even = {.m = 4096, .n = 2736, .k = 4096}, odd = {.m = 4096, .n = 2732, .k = 4096};
  CHECK(gemm_s(model, odd) <= gemm_s(model, even));
  model.precision = "bf16";
  CHECK(gemm_s(model, {.m = 4096, .n = 2731, .k = 4096}) > 7 * gemm_s(model, even));
}

TEST_CASE("memory's share of a kernel is its passes over its time") {
  // 1 ms of passes; alone, beside 3 ms of attention, under a launch of 10 ms.
  const double bytes = 1e-3 * 0.85 * 2.039e12;
  Kernel kernel = {.memory_bytes = bytes};
  CHECK(memory_share(a100(), kernel) == 1);
  kernel.attention_flops = 0.55 * 312e12 * 3e-3;
  CHECK(memory_share(a100(), kernel) == Approx(0.25));
  kernel.launch_s = 10e-3;
  CHECK(memory_share(a100(), kernel) == Approx(0.1));
  CHECK(memory_share(a100(), {.gemms = {{.m = 512, .n = 512, .k = 512}}}) == 0);
  CHECK(memory_share(a100(), Kernel{}) == 0);
}

TEST_CASE("no dimension makes a GEMM faster by growing, no byte a kernel") {
  const unsigned seed = 20240611;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 3000; ++i) {
    const Gemm gemm = random_gemm(&random);
    const double time = gemm_s(a100(), gemm);
    INFO(gemm.batch << " x " << gemm.m << " x " << gemm.n << " x " << gemm.k);
    REQUIRE(std::isfinite(time));
    REQUIRE(time >= 3e-6);
    REQUIRE(gemm.flops() / time < 0.761 * 312e12);
    for (std::int64_t Gemm::*dimension : {&Gemm::batch, &Gemm::m, &Gemm::n, &Gemm::k}) {
      Gemm larger = gemm;
      larger.*dimension += random_size(&random, 10);
      REQUIRE(gemm_s(a100(), larger) >= time);
    }
    Kernel kernel = {.gemms = {gemm}, .memory_bytes = 1e3 * random_size(&random, 20)};
    const Nanoseconds before = kernel_ns(a100(), kernel);
    kernel.memory_bytes += 1e3 * random_size(&random, 20);
    REQUIRE(kernel_ns(a100(), kernel) >= before);
    REQUIRE(kernel_ns(a100(4e12), kernel) <= kernel_ns(a100(), kernel));
  }
}

TEST_CASE("a precision that the device has not is refused with those that it has") {
  CostModel model = a100();
  CHECK(check_cost_model(model).ok());
  model.precision = "fp8";
  REQUIRE_FALSE(check_cost_model(model).ok());
  CHECK(check_cost_model(model).error().text() ==
        "train.precision: found fp8, expected one that A100-80GB has a rate for: bf16, fp16, fp32");
  model = a100();
  model.device.sms = 0;
  REQUIRE_FALSE(check_cost_model(model).ok());
  CHECK(check_cost_model(model).error().text().find("found 0 SMs") != std::string::npos);
}

TEST_CASE("bytes of a number by its type") {
  CHECK(bytes_of("fp32") == 4);
  CHECK(bytes_of("bf16") == 2);
  CHECK(bytes_of("fp16") == 2);
  CHECK(bytes_of("fp8") == 1);
  CHECK(bytes_of("float") == 0);
}

}  // namespace
}  // namespace tandem
