// Muon: which GPU updates which matrices, what it keeps for them, and Newton-Schulz's products.
#include "workload/model/muon.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

constexpr double kHidden = 1024, kFfn = 4096, kKeys = 256, kLayers = 4;
// Queries, keys and values together; the projection; gate and up; down.
constexpr double kQkv = (kHidden + 2 * kKeys) * kHidden, kProjection = kHidden * kHidden;
constexpr double kUp = 2 * kFfn * kHidden, kDown = kFfn * kHidden;
constexpr double kMatrices = kQkv + kProjection + kUp + kDown;

Model llama() {
  return {.layers = 4,
          .hidden = 1024,
          .heads = 16,
          .kv_heads = 4,
          .ffn_hidden = 4096,
          .gated_mlp = true,
          .seq = 4096,
          .vocab = 32000,
          .tied_embeddings = false};
}

Plan with_muon(int dp = 1, int zero = 0) {
  return {.dp = dp, .global_batch = dp, .muon = true, .flash_attention = true, .zero = zero};
}

MuonShare share_of(const Model& model, const Plan& plan) { return muon_shares(model, plan)[0]; }

double flops(const MuonShare& share) {
  return std::accumulate(share.gemms.begin(), share.gemms.end(), 0.0,
                         [](double sum, const Gemm& gemm) { return sum + gemm.flops(); });
}

// Five steps of X X', A A and B X on the smaller dimension m.
double iteration(double m, double n) { return 5 * (4 * m * m * n + 2 * m * m * m); }

MemoryUse use_of(const Model& model, const Plan& plan, int microbatches = 1) {
  return peak_memory(model, plan, {{{{Stage{0}, microbatches}}}});
}

TEST_CASE("Muon keeps one moment of a layer's matrices, and Adam two of all else") {
  const Model model = llama();
  const MuonShare share = share_of(model, with_muon());
  CHECK(share.held.dense == kLayers * kMatrices);
  CHECK(share.held.expert == 0);
  CHECK(share.updated.dense == share.held.dense);
  CHECK(share.padding.total() == 0);
  const double others = parameters(model) - kLayers * kMatrices;
  CHECK(use_of(model, with_muon()).optimizer ==
        Approx(8 * kLayers * kMatrices + 12 * others).epsilon(1e-14));
  Model gpt = llama();
  gpt.learned_positions = true;  // a matrix that is no embedding to Megatron-LM
  CHECK(share_of(gpt, with_muon()).held.dense == kLayers * kMatrices + 4096 * kHidden);
}

TEST_CASE(
    "queries, keys and values are orthogonalized apart, and products go by the smaller side") {
  const double layer = iteration(1024, 1024) + 2 * iteration(256, 1024) + iteration(1024, 1024) +
                       iteration(1024, 8192) + iteration(1024, 4096);
  CHECK(flops(share_of(llama(), with_muon())) == kLayers * layer);
}

TEST_CASE("tensor ranks compute whole matrices each, their parts, or together") {
  Plan plan = with_muon();
  const double alone = flops(share_of(llama(), plan));
  plan.tp = 2;
  CHECK(flops(share_of(llama(), plan)) == alone);
  CHECK(share_of(llama(), plan).held.dense == kLayers * kMatrices / 2);
  plan.muon_tensor = MuonTensor::Blockwise;
  const double part = iteration(512, 1024) + 2 * iteration(128, 1024) + iteration(512, 1024) +
                      iteration(1024, 4096) + iteration(1024, 2048);
  CHECK(flops(share_of(llama(), plan)) == kLayers * part);
  // Their products go over the dimension that is cut.
  plan.muon_tensor = MuonTensor::Distributed;
  const double together = iteration(1024, 512) + 2 * iteration(1024, 128) + iteration(1024, 512) +
                          iteration(1024, 4096) + iteration(1024, 2048);
  CHECK(flops(share_of(llama(), plan)) == kLayers * together);
}

TEST_CASE("under ZeRO 1 a GPU has whole matrices, and buffers are padded to the fullest") {
  // Four layers on four GPUs: each has as much of each.
  const MuonShare even = share_of(llama(), with_muon(4, 1));
  CHECK(even.updated.dense == kMatrices);
  CHECK(even.padding.total() == 0);
  CHECK(flops(even) == flops(share_of(llama(), with_muon())) / 4);
  // On 16 the largest matrix is all that the fullest has.
  const MuonShare sparse = share_of(llama(), with_muon(16, 1));
  CHECK(sparse.updated.dense == kUp);
  CHECK(sparse.padding.dense == 16 * kUp - kLayers * kMatrices);
  const MemoryUse use = use_of(llama(), with_muon(16, 1)), whole = use_of(llama(), with_muon());
  CHECK(use.weights - whole.weights == Approx(2 * sparse.padding.dense).epsilon(1e-12));
  CHECK(use.gradients - whole.gradients == Approx(4 * sparse.padding.dense).epsilon(1e-12));
  CHECK(use.optimizer ==
        Approx(8 * kUp + 12 * (parameters(llama()) - kLayers * kMatrices) / 16).epsilon(1e-12));
}

TEST_CASE("experts' matrices go to the ranks that have the same experts") {
  Model model = llama();
  model.experts = 8;
  model.top_k = 2;
  Plan plan = with_muon(8, 1);
  plan.ep = 4;
  const MuonShare share = share_of(model, plan);
  CHECK(share.held.expert == kLayers * 2 * (kUp + kDown));
  CHECK(share.updated.expert == share.held.expert / 2);
  CHECK(share.held.dense == kLayers * (kQkv + kProjection + 8 * kHidden));
}

TEST_CASE("Newton-Schulz's arrays count where they are more than activations") {
  const Plan plan = with_muon();
  const double scratch = share_of(llama(), plan).scratch_bytes;
  CHECK(scratch == 14 * kUp);
  CHECK(use_of(llama(), plan, 0).activations == scratch);
  CHECK(use_of(llama(), plan, 64).activations > scratch);
  double sum = 0;
  const std::vector<LiveActivations::Entry> live = {{Stage{0}, 0}};
  for (const MemoryPart& part : memory_parts(llama(), plan, live, 0)) sum += part.bytes;
  CHECK(sum == Approx(use_of(llama(), plan, 0).total()).epsilon(1e-12));
}

TEST_CASE("originals that keep 16 bits take two bytes less, in bf16 under ZeRO 1") {
  Plan plan = with_muon(2, 1);
  plan.muon = false;
  const double whole = use_of(llama(), plan).optimizer;
  plan.param_remainders = true;
  CHECK(use_of(llama(), plan).optimizer == Approx(whole * 10 / 12).epsilon(1e-14));
  CHECK(check_model(llama(), plan).ok());
  plan.zero = 0;
  CHECK(!check_model(llama(), plan).ok());
}

TEST_CASE("plans with which Megatron-LM runs no Muon are refused by key") {
  const auto refusal = [](auto change) {
    Plan plan = with_muon(4, 1);
    change(&plan);
    const Status status = check_model(llama(), plan);
    return status.ok() ? "" : status.error().message;
  };
  CHECK(refusal([](Plan*) {}).empty());
  CHECK(refusal([](Plan* plan) { plan->zero = 3; }) ==
        "train.zero: found 3, expected 0 or 1 with train.optimizer = muon");
  CHECK(refusal([](Plan* plan) { plan->precision = "fp16"; }).starts_with("train.precision: "));
  CHECK(refusal([](Plan* plan) { plan->moment_dtype = "bf16"; }) ==
        "train.optimizer_dtype: found bf16, expected fp32 with train.optimizer = muon");
  CHECK(refusal([](Plan* plan) { plan->optimizer_offload = 0.5; }) ==
        "train.optimizer_offload: found 0.5, expected 0 with train.optimizer = muon");
  CHECK(refusal([](Plan* plan) { plan->trainer = Trainer::Fsdp; }).starts_with("train.framework"));
  CHECK(refusal([](Plan* plan) { plan->hsdp_shard = 2; }).starts_with("parallel.hsdp_shard: "));
  CHECK(refusal([](Plan* plan) {
          plan->muon = false;
          plan->muon_tensor = MuonTensor::Blockwise;
        }) == "train.muon_tp: found one, expected train.optimizer = muon with it");
}

}  // namespace
}  // namespace tandem
