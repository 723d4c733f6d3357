// Sizes that waste: what is reported, what is not, and that what is proposed can be run.
#include "workload/model/quantization.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>

#include "tests/workload/workload_fixture.h"

namespace tandem {
namespace {

// On one GPU; no launches, which would hide what small layers lose.
Plan one_gpu(int micro_batch = 2) {
  Plan plan = plan_of(1, 1, micro_batch);
  plan.cuda_graphs = true;
  return plan;
}

std::optional<WastefulSize> of(const std::vector<WastefulSize>& sizes, const std::string& key) {
  const auto found = std::ranges::find(sizes, key, &WastefulSize::key);
  if (found == sizes.end()) return std::nullopt;
  return *found;
}

TEST_CASE("sizes that fill their tiles and waves give no warning") {
  // Powers of two from 2048 up: thousands of whole tiles, no part-filled ones; dozens of waves.
  const Model model{.layers = 8, .hidden = 8192, .heads = 64, .seq = 2048, .vocab = 51200};
  CHECK(wasteful_sizes(model, one_gpu(), a100()).empty());
}

TEST_CASE("an MLP whose last wave is nearly empty is told of the width that fills it") {
  // fc2's weight gradient is 1024 x 3584 x 2048: 4 x 28 = 112 tiles of 256 x 128 on 108 SMs, a wave
  // and 4 tiles. 3456 = 27 x 128 gives 4 x 27 = 108: one full wave.
  Model model{.layers = 8, .hidden = 1024, .heads = 8, .ffn_hidden = 3584, .seq = 2048};
  model.vocab = 51200;
  Plan plan = one_gpu(1);
  plan.flash_attention = true;
  const auto sizes = wasteful_sizes(model, plan, a100());
  const auto size = of(sizes, "model.ffn_hidden");
  REQUIRE(size);
  INFO(wasteful_size_text(*size));
  CHECK(size->value == 3584);
  CHECK(size->better == 3456);
  CHECK(size->part == "a layer's");
  CHECK(size->product == "fc2 weight gradient");
  CHECK(size->gemm == Gemm{.m = 1024, .n = 3584, .k = 2048});
  CHECK(size->better_wasted < size->wasted - 0.05);
  CHECK(size->gain > 0.02);
}

TEST_CASE("a product's waste is its time over that of a product with nothing left over") {
  // The head at tp = 8: 10300 words are padded to 11264, so 10300/11264 = 91.4 % is of use. Its
  // weight gradient is 1408 x 8192 x 4096: 5.5 x 64 = 352 tiles of 256 x 128, 3.26 waves of 108 if
  // none were left over. As 6 x 64 = 384 whole ones it takes 0.59 x 4 + 0.41 x 3.56 = 3.82 waves;
  // as 704 of 128 x 128, half a tile each at 0.95 of the rate, (0.59 x 7 + 0.41 x 6.52) / 2 / 0.95
  // = 3.58: the better. 0.914 x 3.26 / 3.58 = 83.2 % is used.
  Model model{.layers = 8, .hidden = 8192, .heads = 64, .seq = 2048, .vocab = 10300};
  Plan plan = plan_of(8, 1, 2);
  const auto size = of(wasteful_sizes(model, plan, a100()), "model.vocab");
  REQUIRE(size);
  INFO(wasteful_size_text(*size));
  CHECK(size->remark == "11264 with padding");
  CHECK(size->product == "head weight gradient");
  CHECK(size->gemm == Gemm{.m = 1408, .n = 8192, .k = 4096});
  CHECK(size->wasted == Approx(1 - 0.832).margin(0.005));
  // 10240 = 8 x 1280 needs no padding: 5 x 64 = 320 tiles, 2.96 waves in 0.59 x 3 + 0.41 x 2.96.
  CHECK(size->better == 10240);
  CHECK(size->better_wasted < 0.01);
  CHECK(size->better_remark.empty());
  CHECK(size->part == "the head's");
}

TEST_CASE("heads that give head size 108 are told of those that give 128") {
  // 3456 = 32 x 108 = 27 x 128. The context's 108 columns fill 108/128 of a tile, and 108 numbers
  // of two bytes are no multiple of 16 bytes. 36 heads of 96 fill a tile worse.
  const Model model{.layers = 8, .hidden = 3456, .heads = 32, .seq = 2048, .vocab = 51200};
  const auto sizes = wasteful_sizes(model, one_gpu(), a100());
  const auto size = of(sizes, "model.heads");
  REQUIRE(size);
  INFO(wasteful_size_text(*size));
  CHECK(size->remark == "head size 108");
  CHECK(size->unaligned);
  CHECK(size->gemm.batch == 2 * 32);
  CHECK(size->better == 27);
  CHECK(size->better_remark == "head size 128");
  CHECK(size->wasted > 0.05);
  CHECK(size->gain > 0.02);
  // One kernel for all of attention is priced by its FLOPs: nothing is known of its tiles.
  Plan flash = one_gpu();
  flash.flash_attention = true;
  CHECK(!of(wasteful_sizes(model, flash, a100()), "model.heads"));
}

TEST_CASE("a better size keeps the rules of the plan") {
  std::mt19937_64 random(7);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int proposals = 0;
  for (int round = 0; round < 300; ++round) {
    Plan plan = plan_of(1 << pick(0, 2), 1, pick(1, 4));
    plan.dp = pick(1, 2);
    plan.global_batch = plan.micro_batch * plan.dp * pick(1, 12);
    plan.cuda_graphs = true;
    Model model{.layers = 8, .heads = plan.tp * pick(2, 8), .seq = 32 * pick(4, 64)};
    model.hidden = model.heads * 8 * pick(4, 20);
    model.ffn_hidden = plan.tp * pick(200, 3000);
    model.vocab = pick(5000, 60000);
    REQUIRE(check_model(model, plan).ok());
    double last = 1;
    for (const WastefulSize& size : wasteful_sizes(model, plan, a100())) {
      INFO("round " << round << ": " << wasteful_size_text(size));
      ++proposals;
      CHECK(size.gain <= last);
      last = size.gain;
      CHECK(size.gain >= 0.02);
      CHECK(size.better != size.value);
      CHECK(size.wasted > size.better_wasted);
      Model other = model;
      Plan cut = plan;
      const int better = static_cast<int>(size.better);
      if (size.key == "model.hidden") {
        other.hidden = better;
        if (size.better_remark.ends_with(" heads")) other.heads = std::stoi(size.better_remark);
      }
      if (size.key == "model.heads") other.heads = better;
      if (size.key == "model.ffn_hidden") other.ffn_hidden = better;
      if (size.key == "model.vocab") other.vocab = better;
      if (size.key == "model.seq") other.seq = better;
      if (size.key == "parallel.micro_batch") cut.micro_batch = better;
      CHECK(check_model(other, cut).ok());
    }
  }
  CHECK(proposals > 30);
}

}  // namespace
}  // namespace tandem
