// Lists the matrices of each stage, spreads them over GPUs as Megatron-LM does, and counts the work
// of the busiest GPU: five steps of Newton-Schulz's iteration on each of its matrices.
#include "workload/model/muon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "workload/cost/kernel.h"
#include "workload/model/size_rules.h"

namespace tandem {
namespace {

// The iteration of Newton-Schulz (emerging_optimizers/orthogonalized_optimizers/muon_utils.py of
// NVIDIA-NeMo/Emerging-Optimizers at fd77292): five steps of the products X X', A A and B X.
constexpr int kSteps = 5;
// Bytes read and written for a number of a matrix.
//   iteration       the norm 4, the division by it 8, the casts to 16 bits and back 6 each
//   factors         16: the fp32 result is multiplied by the scale of the matrix's shape, then by
//                   a constant. Less 8: optimizer_kernel() counts Adam's second moment for all
//                   parameters, and Muon's have none.
//   concatenation   of gathered parts 8
constexpr double kIterationBytes = 4 + 8 + 6 + 6, kFactorBytes = 16 - 8, kConcatenationBytes = 8;
// Scratch bytes for a number of the largest matrix. With a gather: the gathered parts, their
// concatenation, its quotient by the norm, and the quotient in 16 bits. Without one, three fp32
// arrays: the result of the iteration, and this result after the first and after the second factor.
constexpr double kGatheredScratch = 4 + 4 + 4 + 2, kScratch = 3 * 4;

enum class Cut { None, Rows, Columns };

// Equal matrices of a stage. Queries, keys and values are one matrix, but each of these parts is
// orthogonalized by itself: `parts` has their rows.
struct Matrix {
  std::vector<double> parts;
  double columns = 0;
  Cut cut = Cut::None;
  int ranks = 1;  // tensor ranks over which it is cut
  bool expert = false;
  std::int64_t count = 1;  // on a GPU

  double rows() const { return std::reduce(parts.begin(), parts.end()); }
  double local_parameters() const { return rows() * columns / ranks; }
  // The cost by which Megatron-LM spreads matrices (_ns_compute_cost).
  double cost() const {
    const double m = rows() / (cut == Cut::Rows ? ranks : 1);
    const double n = columns / (cut == Cut::Columns ? ranks : 1);
    return m * n * std::min(m, n);
  }
};

// Adds the matrices of a layer's first half. Mamba's first product is Adam's (`use_muon` of
// megatron/core/ssm/mamba_mixer.py).
void add_mixer(const Model& model, int tp, std::vector<Matrix>* all) {
  const double h = model.hidden, heads = model.heads;
  double output = 0;
  switch (model.mixer) {
    case Mixer::Heads: {
      output = heads * model.head_size();
      const double kv = static_cast<double>(model.key_value_heads()) * model.head_size();
      std::vector<double> parts = {output, kv, kv};
      if (model.shared_kv) parts.pop_back();
      all->push_back({std::move(parts), h, Cut::Rows, tp});
      break;
    }
    case Mixer::Latent: {
      output = heads * model.v_head_dim;
      const double rank = model.q_lora_rank, kv_rank = model.kv_lora_rank;
      if (rank > 0) all->push_back({{rank}, h});
      all->push_back({{heads * model.query_size()}, rank > 0 ? rank : h, Cut::Rows, tp});
      all->push_back({{kv_rank + model.qk_rope_head_dim}, h});
      const double expanded = heads * (model.qk_nope_head_dim + model.v_head_dim);
      all->push_back({{expanded}, kv_rank, Cut::Rows, tp});
      break;
    }
    case Mixer::Mamba:
      output = static_cast<double>(model.mamba_inner());
      break;
    case Mixer::Linear: {
      output = static_cast<double>(model.linear_values());
      const double in = 2.0 * model.linear_keys() + 2 * output + 2.0 * model.linear_value_heads;
      all->push_back({{in}, h, Cut::Rows, tp});
      break;
    }
    case Mixer::None:
      return;
  }
  all->push_back({{h}, output, Cut::Columns, tp});
}

// Adds both matrices of an MLP. `experts`: as many on this GPU; 0: a dense MLP.
void add_mlp(const Model& model, double width, double ffn, int tp, std::vector<Matrix>* all,
             int experts = 0) {
  const bool expert = experts > 0;
  const int count = std::max(1, experts);
  all->push_back({{(model.gated_mlp ? 2 : 1) * ffn}, width, Cut::Rows, tp, expert, count});
  all->push_back({{width}, ffn, Cut::Columns, tp, expert, count});
}

std::vector<Matrix> layer_matrices(const Model& model, const Plan& plan) {
  const double h = model.hidden, latent = model.moe_latent;
  std::vector<Matrix> all;
  add_mixer(model, plan.tp, &all);
  if (!model.has_mlp) return all;
  if (!model.is_moe()) {
    add_mlp(model, h, model.ffn(), plan.tp, &all);
    return all;
  }
  all.push_back({{static_cast<double>(model.experts)}, h});  // the router
  if (model.shared_expert_ffn > 0) add_mlp(model, h, model.shared_expert_ffn, plan.tp, &all);
  if (latent > 0) {
    all.push_back({{latent}, h, Cut::Rows, plan.tp});
    all.push_back({{h}, latent, Cut::Columns, plan.tp});
  }
  add_mlp(model, model.expert_hidden(), model.expert_ffn(), plan.expert_tensor(), &all,
          model.experts / plan.ep);
  return all;
}

// GPUs with equally many matrices of each kind.
struct GpuLoad {
  double cost = 0, parameters = 0;
  std::int64_t gpus = 1;
  std::vector<std::int64_t> counts;
};

// Spreads a buffer's matrices over GPUs: those that cost most first, each to the GPU with the least
// cost (_compute_per_buffer_param_layout of megatron/core/optimizer/layer_wise_optimizer.py of
// NVIDIA/Megatron-LM at d98e8a64, which also keeps GPUs near the mean in size). GPUs that got the
// same are one GpuLoad. Example, 20 equal matrices on 8 GPUs. First turn: all 8 are one load, which
// gets 20 / 8 = 2 each. Second turn: 4 matrices are left, so 4 of the 8 get one more. Returns two
// loads, of 4 GPUs with 2 matrices and of 4 with 3.
std::vector<GpuLoad> spread(std::span<const Matrix> matrices, std::int64_t gpus) {
  std::vector<GpuLoad> loads = {
      {.gpus = gpus, .counts = std::vector<std::int64_t>(matrices.size())}};
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return matrices[a].cost() > matrices[b].cost();
  });
  for (const std::size_t i : order) {
    for (std::int64_t left = matrices[i].count; left > 0;) {
      const auto least = std::ranges::min_element(loads, {}, &GpuLoad::cost);
      // As long as all GPUs are alike, gives each of them several matrices at once.
      const std::int64_t each = loads.size() == 1 ? std::max<std::int64_t>(1, left / gpus) : 1;
      GpuLoad given = *least;
      given.gpus = std::min(least->gpus, left / each);
      given.cost += matrices[i].cost() * static_cast<double>(each);
      given.parameters += matrices[i].local_parameters() * static_cast<double>(each);
      given.counts[i] += each;
      left -= each * given.gpus;
      least->gpus -= given.gpus;
      if (least->gpus == 0) loads.erase(least);
      const auto same = std::ranges::find(loads, given.counts, &GpuLoad::counts);
      if (same == loads.end())
        loads.push_back(std::move(given));
      else
        same->gpus += given.gpus;
    }
  }
  return loads;
}

// Returns the rows m and columns n of the array X that a GPU iterates on; X X' has m x m numbers.
//   not distributed           the shorter side and the longer side of the GPU's r x c array
//   distributed, cut by rows  X is the transpose of the GPU's r x c rows, where r = part / ranks:
//                             m = c, n = r. Ranks add up their X X'.
//   ... cut by columns        X is the GPU's r x c columns, where c = columns / ranks: m = r, n = c
std::pair<double, double> iteration_sides(const Matrix& matrix, double part, double ranks,
                                          bool distributed) {
  const double rows = part / (matrix.cut == Cut::Rows ? ranks : 1);
  const double columns = matrix.columns / (matrix.cut == Cut::Columns ? ranks : 1);
  if (!distributed) return {std::min(rows, columns), std::max(rows, columns)};
  if (matrix.cut == Cut::Rows) return {columns, rows};
  return {rows, columns};
}

// Adds the products, passes and scratch of Newton-Schulz for `count` matrices of a kind.
void add_iteration(const Matrix& matrix, std::int64_t count, const Plan& plan, MuonShare* share) {
  const bool is_cut = matrix.cut != Cut::None;
  const bool gathers = is_cut && plan.muon_tensor == MuonTensor::Duplicated;
  const bool distributed = is_cut && plan.muon_tensor == MuonTensor::Distributed;
  const double passed_bytes = kIterationBytes + (gathers ? kConcatenationBytes : 0);
  for (const double part : matrix.parts) {
    const auto [m, n] = iteration_sides(matrix, part, gathers ? 1 : matrix.ranks, distributed);
    const auto product = [&](double a, double b, double c) {
      share->gemms.push_back({.batch = kSteps * count,
                              .m = std::llround(a),
                              .n = std::llround(b),
                              .k = std::llround(c),
                              .in_16_bits = true});
    };
    product(m, m, n);
    product(m, m, m);
    product(m, n, m);
    const double own = part * matrix.columns / matrix.ranks;
    share->pass_bytes += static_cast<double>(count) * (own * kFactorBytes + m * n * passed_bytes);
    // An iteration holds X and B X (2 x 2 m n bytes) and A and B (2 x 2 m m), in 16 bits. After a
    // gather the gathered parts and their concatenation are still there, in fp32 (2 x 4 m n).
    const double iterating = (gathers ? 8 + 4 : 4) * m * n + 4 * m * m;
    share->scratch_bytes = std::max(
        {share->scratch_bytes, iterating, (gathers ? kGatheredScratch : kScratch) * m * n});
  }
}

// Adds the dense matrices, or the experts', spread over so many GPUs.
void add_buffer(std::span<const Matrix> matrices, std::int64_t gpus, const Plan& plan,
                double HeldParameters::*place, MuonShare* share) {
  if (matrices.empty()) return;
  double held = 0, fullest = 0;
  for (const Matrix& matrix : matrices)
    held += matrix.local_parameters() * static_cast<double>(matrix.count);
  const std::vector<GpuLoad> loads = spread(matrices, gpus);
  for (const GpuLoad& load : loads) fullest = std::max(fullest, load.parameters);
  const GpuLoad& busiest = *std::ranges::max_element(loads, {}, &GpuLoad::cost);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (busiest.counts[i] > 0) add_iteration(matrices[i], busiest.counts[i], plan, share);
  }
  share->held.*place += held;
  share->updated.*place += fullest;
  share->padding.*place += fullest * static_cast<double>(gpus) - held;
}

}  // namespace

std::vector<MuonShare> muon_shares(const Model& model, const OrderedPlan& plan) {
  std::vector<MuonShare> shares(static_cast<std::size_t>(plan.stages()));
  if (!plan.muon) return shares;
  for (const StageLayers& at : layers_of_stages(model, plan)) {
    MuonShare& share = shares[at.stage];
    std::vector<Matrix> dense, experts;
    const auto add = [&](Matrix matrix, std::int64_t times) {
      matrix.count *= times;
      (matrix.expert ? experts : dense).push_back(std::move(matrix));
    };
    const auto add_layers = [&](const Model& kind, int layers) {
      for (Matrix& matrix : layer_matrices(kind, plan)) add(std::move(matrix), layers);
    };
    for (const auto& [kind, count] : kinds_in(model, at.begin, at.count)) add_layers(*kind, count);
    // Learned positions are no embedding to Megatron-LM's Muon.
    const double h = model.hidden;
    if (at.stage == 0 && model.learns_positions()) add({{position_parameters(model) / h}, h}, 1);
    if (at.stage == plan.mtp_stage() && model.mtp_layers > 0) {
      add_layers(model.layer(model.layers - 1), model.mtp_layers);
      add({{h}, 2 * h, Cut::Rows, plan.tp}, model.mtp_layers);
    }
    const bool cut = plan.zero >= 1;
    add_buffer(dense, cut ? plan.shard_ranks() : 1, plan, &HeldParameters::dense, &share);
    add_buffer(experts, cut ? std::max(1, plan.expert_shard_ranks()) : 1, plan,
               &HeldParameters::expert, &share);
  }
  return shares;
}

void add_share(const MuonShare& stage, MuonShare* rank) {
  rank->held += stage.held;
  rank->updated += stage.updated;
  rank->padding += stage.padding;
  rank->scratch_bytes = std::max(rank->scratch_bytes, stage.scratch_bytes);
}

double muon_state_bytes(const Plan& plan) { return bytes_of(plan.precision) < 4 ? 8 : 4; }

Status check_muon(const Plan& plan) {
  // Megatron-LM's checks: megatron/training/arguments.py:1739, core/optimizer/__init__.py:775,
  // optimizer_config.py:436 and layer_wise_optimizer.py:540 at d98e8a64.
  const std::string with = "with train.optimizer = muon";
  const bool has_remainders = !plan.muon && plan.precision == "bf16" && plan.zero == 1;
  if (plan.param_remainders && !has_remainders)
    return found_word({"train.param_remainders"}, "true",
                      "train.optimizer = adam, train.precision = bf16 and train.zero = 1 with it");
  if (!plan.muon && plan.muon_tensor != MuonTensor::Duplicated)
    return found_word({"train.muon_tp"}, "one", "train.optimizer = muon with it");
  if (!plan.muon) return Done{};
  if (plan.zero > 1) return found_number("train.zero", plan.zero, "0 or 1 " + with);
  if (plan.hsdp_shard > 0)
    return found_number("parallel.hsdp_shard", plan.hsdp_shard, "none " + with);
  if (plan.optimizer_offload > 0)
    return found_word({"train.optimizer_offload"}, fmt::format("{}", plan.optimizer_offload),
                      "0 " + with);
  if (plan.precision == "fp16")
    return found_word({"train.precision"}, "fp16", "another one " + with);
  if (plan.moment_dtype != "fp32")
    return found_word({"train.optimizer_dtype"}, plan.moment_dtype, "fp32 " + with);
  if (plan.trainer && *plan.trainer != Trainer::Megatron)
    return found_word({"train.framework"}, "another one", "megatron " + with);
  return Done{};
}

}  // namespace tandem
