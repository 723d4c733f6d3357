// Searches for better sizes near those of the model. A product is priced twice, as it is and
// "even": as if all its tiles and waves were full. The difference is waste. The same is done for
// each near size; one that wastes clearly less is proposed.
#include "workload/model/quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// A better size must save at least this share of one product's time as waste.
constexpr double kLeastWaste = 0.05;
// It must also gain at least this share of the time of all compute in its part: layer or head.
constexpr double kLeastGain = 0.02;
// Saved waste must be at least this share of the gain. Otherwise the gain has another reason: a
// larger microbatch, for instance, adds up its weight gradients less often. Heads are exempt: with
// any number of them the FLOPs stay the same.
constexpr double kLeastShare = 0.5;
// The nearest size is chosen that saves at least this share of what the best one saves.
constexpr double kMostOfWaste = 0.75;
constexpr std::size_t kMostWarnings = 4;

// Near widths differ by at most this share, so that the model is still the same.
constexpr double kReach = 0.05;
constexpr std::int64_t kMostSteps = 64;  // near widths on either side, about

// Multiples of this fill tiles of any size: the largest have so many rows (kernel.cpp), and others
// divide it.
constexpr std::int64_t kTileMultiple = 256;
// With so many products side by side, an unfilled wave no longer matters.
constexpr std::int64_t kManyProducts = 4096;
// Widths should be multiples of this, by NVIDIA's guide for A100s (128 bytes of 16-bit numbers).
constexpr std::int64_t kWidthMultiple = 64;
constexpr int kHeadMultiple = 8;

std::int64_t number_bytes(const CostModel& cost, const Gemm& gemm) {
  // Attention's products stay in 16 bits under fp8.
  if (is_quantized(cost.precision) && gemm.in_16_bits) return 2;
  return std::max(1, bytes_of(cost.precision));
}

bool unaligned(const CostModel& cost, const Gemm& gemm) {
  const std::int64_t bytes = number_bytes(cost, gemm);
  if (bytes == 1) return false;  // cast into rows of whole 16 bytes
  return gemm.n * bytes % kAlignedBytes != 0 || gemm.k * bytes % kAlignedBytes != 0;
}

// Returns the product's time without waste. So many copies of it are priced side by side that all
// tiles and waves are full, with K rounded up to whole rows of 16 bytes; the time of one is their
// time divided by their number. The launch and the time of its bytes stay: every product has them.
double even_s(const CostModel& cost, const Gemm& gemm) {
  const auto repeats = [](std::int64_t side) {
    return kTileMultiple / std::gcd(side, kTileMultiple);
  };
  const std::int64_t bytes = number_bytes(cost, gemm);
  const std::int64_t row = kAlignedBytes / std::min<std::int64_t>(bytes, kAlignedBytes);
  Gemm many = gemm;
  many.batch *= kManyProducts;
  many.m *= repeats(gemm.m);
  many.n *= repeats(gemm.n);
  many.k = (gemm.k + row - 1) / row * row;
  const double launch_s = gemm_s(cost, {.m = 1, .n = 1, .k = 1});
  const double compute_s = gemm_s(cost, many) * (gemm.flops() / many.flops());
  const auto [m, n, k] = std::array{static_cast<double>(gemm.m), static_cast<double>(gemm.n),
                                    static_cast<double>(gemm.k)};
  const double memory_s = static_cast<double>(bytes * gemm.batch) * (m * k + k * n + m * n) /
                          cost.device.memory_bytes_per_s;
  return std::min(gemm_s(cost, gemm), std::max(compute_s + launch_s, memory_s));
}

// now_s is a time as it is, even_s the time without waste.
struct PricedProduct {
  std::string name;
  Gemm gemm;
  double now_s = 0, even_s = 0;

  double wasted() const { return 1 - even_s / now_s; }
};

// All compute of a layer, or of the head, for one microbatch.
struct ModelPart {
  std::vector<PricedProduct> products;
  double now_s = 0, even_s = 0;
  double flops = 0;  // without padding
};

// Returns the share of the time of `here` that the waste of `there` would spare. If `here`
// takes 1.2 times its even time and `there` 1.08 times, this is 1 - 1.08 / 1.2 = 0.1.
template <class T>
double spared(const T& here, const T& there) {
  return 1 - (there.now_s / there.even_s) / (here.now_s / here.even_s);
}

// Returns how much less time a FLOP takes in `there`, as a share of its time in `here`. This counts
// all effects of the other size, not only waste.
double gain(const ModelPart& here, const ModelPart& there) {
  return 1 - (there.now_s / there.flops) / (here.now_s / here.flops);
}

// Names the product of that index in a block's part. The head's parts are named by their pass
// alone: " forward".
std::string product_name(const Kernel& kernel, std::size_t index) {
  if (kernel.name.starts_with("attention core")) {
    const bool forward = kernel.name.ends_with("forward");
    if (forward) return index == 0 ? "attention's scores" : "attention's context";
    return "attention's gradient";
  }
  return kernel.name.starts_with(' ') ? "head" + kernel.name : kernel.name;
}

// Adds a pass to the sum. `useful`: the share of the products that is not padding of the
// vocabulary. `cores`: how often the part `core` runs, more than once in a ring.
void add_pass(const CostModel& cost, const Parts& parts, double launch_s, double useful, int cores,
              ModelPart* sum) {
  double now_s = 0, even = 0;
  for (const auto which : kBlockParts) {
    const Kernel& kernel = parts.*which;
    double gemms_s = 0, even_gemms_s = 0;
    for (std::size_t i = 0; i < kernel.gemms.size(); ++i) {
      const Gemm& gemm = kernel.gemms[i];
      sum->products.push_back(
          {product_name(kernel, i), gemm, gemm_s(cost, gemm), useful * even_s(cost, gemm)});
      gemms_s += sum->products.back().now_s;
      even_gemms_s += sum->products.back().even_s;
    }
    Kernel rest = kernel;
    rest.gemms.clear();
    const double whole_s = to_seconds(kernel_ns(cost, kernel));
    const double rest_s = to_seconds(kernel_ns(cost, rest));
    const int count = which == &Parts::core ? cores : 1;
    now_s += count * whole_s;
    sum->flops += useful * count * kernel.flops();
    // The products take less of the kernel's time, in the ratio of their own times.
    const double even_products_s = gemms_s > 0 ? (whole_s - rest_s) * even_gemms_s / gemms_s : 0;
    even += count * (rest_s + even_products_s);
  }
  sum->now_s += std::max(now_s, launch_s);
  sum->even_s += std::max(even, launch_s);
}

void add_block(const CostModel& cost, const Block& block, double useful, int cores,
               ModelPart* sum) {
  add_pass(cost, block.forward_parts, block.forward.launch_s, useful, cores, sum);
  add_pass(cost, block.input_parts, block.input_gradient.launch_s, useful, cores, sum);
  add_pass(cost, block.weight_parts, block.weight_gradient.launch_s, useful, cores, sum);
}

ModelPart layer_part(const Model& model, const Plan& plan, const CostModel& cost) {
  ModelPart part;
  const int cores = plan.context_comm == ContextComm::Ring ? plan.cp : 1;
  add_block(cost, attention_block(model, plan, cost.profile), /*useful=*/1, cores, &part);
  if (!model.is_moe()) {
    add_block(cost, mlp_block(model, plan, cost.profile), /*useful=*/1, /*cores=*/1, &part);
    return part;
  }
  add_block(cost, experts_block(model, plan, cost.profile), /*useful=*/1, /*cores=*/1, &part);
  if (model.shared_expert_ffn > 0)
    add_block(cost, shared_expert_block(model, plan, cost.profile), /*useful=*/1, /*cores=*/1,
              &part);
  return part;
}

ModelPart head_part(const Model& model, const Plan& plan, const CostModel& cost) {
  ModelPart part;
  const double useful = static_cast<double>(model.vocab) / padded_vocab(model, plan);
  add_block(cost, head_block(model, plan, cost.profile), useful, /*cores=*/1, &part);
  return part;
}

// A model and plan with another size of one dimension.
struct SizeChoice {
  Model model;
  Plan plan;
  std::int64_t value = 0;
  std::string remark;
};

struct Dimension {
  std::string key;
  SizeChoice here;
  std::vector<SizeChoice> near;
  bool of_head = false;
  double least_share = kLeastShare;
};

// Returns multiples of `multiple` within reach of the value, thinned out where there are many.
std::vector<std::int64_t> in_reach(std::int64_t value, std::int64_t multiple) {
  const auto reach = static_cast<std::int64_t>(kReach * static_cast<double>(value));
  const std::int64_t step = multiple * std::max<std::int64_t>(1, reach / (multiple * kMostSteps));
  std::vector<std::int64_t> values;
  for (std::int64_t near = (value - reach + step - 1) / step * step; near <= value + reach;
       near += step) {
    if (near > 0 && near != value) values.push_back(near);
  }
  return values;
}

// Makes the dimension of a width. Its field in the model may be 0: then `value` follows from other
// fields. `cut`: the GPUs over which the width is cut; each then has a multiple of kWidthMultiple.
Dimension width(const Model& model, const Plan& plan, const char* key, int Model::*field,
                std::int64_t value, std::int64_t cut) {
  Dimension dimension{key, {model, plan, value, ""}, {}};
  for (const std::int64_t near : in_reach(value, kWidthMultiple * cut)) {
    SizeChoice choice{model, plan, near, ""};
    choice.model.*field = static_cast<int>(near);
    dimension.near.push_back(std::move(choice));
  }
  return dimension;
}

// Makes the dimension of `hidden`: with the same number of heads of another size, or with more or
// fewer heads of the same size.
Dimension hidden(const Model& model, const Plan& plan) {
  Dimension dimension{"model.hidden", {model, plan, model.hidden, ""}, {}};
  const int size = model.head_size();
  for (const std::int64_t near : in_reach(model.hidden, kWidthMultiple)) {
    SizeChoice choice{model, plan, near, ""};
    choice.model.hidden = static_cast<int>(near);
    if (near % model.heads == 0 && near / model.heads % kHeadMultiple == 0) {
      choice.remark = fmt::format("head size {}", near / model.heads);
      dimension.near.push_back(choice);
    }
    if (near % size == 0) {
      choice.model.heads = static_cast<int>(near / size);
      choice.remark = fmt::format("{} heads", choice.model.heads);
      dimension.near.push_back(choice);
    }
  }
  return dimension;
}

Dimension heads(const Model& model, const Plan& plan) {
  const auto remark = [](const Model& m) { return fmt::format("head size {}", m.head_size()); };
  Dimension dimension{"model.heads", {model, plan, model.heads, remark(model)}, {}};
  dimension.least_share = 0;
  for (int near = (model.heads + 1) / 2; near <= 2 * model.heads; ++near) {
    if (near == model.heads || model.hidden % near != 0) continue;
    SizeChoice choice{model, plan, near, ""};
    choice.model.heads = near;
    if (choice.model.head_size() % kHeadMultiple != 0) continue;
    choice.remark = remark(choice.model);
    dimension.near.push_back(std::move(choice));
  }
  return dimension;
}

// Proposes multiples of 128 tp, which padded_vocab() need not pad.
Dimension vocab(const Model& model, const Plan& plan) {
  Dimension dimension = width(model, plan, "model.vocab", &Model::vocab, model.vocab, 2 * plan.tp);
  const int padded = padded_vocab(model, plan);
  if (padded != model.vocab) dimension.here.remark = fmt::format("{} with padding", padded);
  dimension.of_head = true;
  return dimension;
}

// Makes the dimension of the microbatch. Orders may go through microbatches in groups of pp; if
// their number divides now, it must divide still.
Dimension micro_batch(const Model& model, const Plan& plan) {
  Dimension dimension{"parallel.micro_batch", {model, plan, plan.micro_batch, ""}, {}};
  const bool grouped = plan.microbatches() % plan.pp == 0;
  for (int near = (plan.micro_batch + 1) / 2; near <= 2 * plan.micro_batch; ++near) {
    const std::int64_t together = std::int64_t{near} * plan.dp;
    if (near == plan.micro_batch || plan.global_batch % together != 0) continue;
    if (grouped && plan.global_batch / together % plan.pp != 0) continue;
    SizeChoice choice{model, plan, near, ""};
    choice.plan.micro_batch = near;
    dimension.near.push_back(std::move(choice));
  }
  return dimension;
}

std::vector<Dimension> dimensions(const Model& model, const Plan& plan) {
  std::vector<Dimension> all = {hidden(model, plan), heads(model, plan), vocab(model, plan),
                                micro_batch(model, plan)};
  if (!model.is_moe())
    all.push_back(width(model, plan, "model.ffn_hidden", &Model::ffn_hidden, model.ffn(), plan.tp));
  if (model.is_moe())
    all.push_back(width(model, plan, "model.expert_ffn_hidden", &Model::expert_ffn_hidden,
                        model.expert_ffn(), plan.expert_tensor()));
  if (model.shared_expert_ffn > 0)
    all.push_back(width(model, plan, "model.shared_expert_ffn", &Model::shared_expert_ffn,
                        model.shared_expert_ffn, plan.tp));
  // A sequence of a multiple of 64 positions is left as it is: another microbatch fills waves
  // better.
  if (model.seq % kWidthMultiple != 0)
    all.push_back(width(model, plan, "model.seq", &Model::seq, model.seq, plan.cp));
  return all;
}

ModelPart part_of(const Dimension& dimension, const SizeChoice& choice, const CostModel& cost) {
  return dimension.of_head ? head_part(choice.model, choice.plan, cost)
                           : layer_part(choice.model, choice.plan, cost);
}

// A faster choice, and its part.
struct FasterChoice {
  const SizeChoice* choice = nullptr;
  ModelPart part;
};

// Returns the nearest choice that spares most of the waste that can be spared. Choices that waste
// less but take longer do not count: more heads fill tiles better, but have more attention matrices
// to write.
FasterChoice better_choice(const Dimension& dimension, const ModelPart& here,
                           const CostModel& cost) {
  std::vector<FasterChoice> all;
  double most = 0;
  for (const SizeChoice& choice : dimension.near) {
    if (!check_model(choice.model, choice.plan).ok()) continue;
    ModelPart there = part_of(dimension, choice, cost);
    const double gained = gain(here, there);
    if (gained < kLeastGain || spared(here, there) < dimension.least_share * gained) continue;
    most = std::max(most, spared(here, there));
    all.push_back({&choice, std::move(there)});
  }
  std::erase_if(all, [&](const FasterChoice& found) {
    return spared(here, found.part) < kMostOfWaste * most;
  });
  if (all.empty()) return {};
  const auto distance = [&](const FasterChoice& found) {
    return std::abs(found.choice->value - dimension.here.value);
  };
  return *std::ranges::min_element(all, {}, distance);
}

std::optional<WastefulSize> waste_of(const Dimension& dimension, const CostModel& cost) {
  const ModelPart here = part_of(dimension, dimension.here, cost);
  const FasterChoice found = better_choice(dimension, here, cost);
  if (found.choice == nullptr) return std::nullopt;
  const ModelPart& there = found.part;
  CHECK(here.products.size() == there.products.size());
  // Finds, among products above the threshold, the one that loses most time.
  const auto lost_s = [&](std::size_t i) {
    const double share = spared(here.products[i], there.products[i]);
    return share > kLeastWaste ? share * here.products[i].now_s : 0;
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < here.products.size(); ++i) {
    if (lost_s(i) > lost_s(worst)) worst = i;
  }
  if (lost_s(worst) == 0) return std::nullopt;
  const PricedProduct& product = here.products[worst];
  return WastefulSize{.key = dimension.key,
                      .value = dimension.here.value,
                      .remark = dimension.here.remark,
                      .product = product.name,
                      .gemm = product.gemm,
                      .unaligned = unaligned(cost, product.gemm),
                      .wasted = product.wasted(),
                      .better = found.choice->value,
                      .better_remark = found.choice->remark,
                      .better_wasted = there.products[worst].wasted(),
                      .part = dimension.of_head ? "the head's" : "a layer's",
                      .gain = gain(here, there)};
}

std::string with_remark(std::int64_t value, const std::string& remark) {
  return remark.empty() ? fmt::format("{}", value) : fmt::format("{} ({})", value, remark);
}

}  // namespace

std::vector<WastefulSize> wasteful_sizes(const Model& model, const Plan& plan,
                                         const CostModel& cost) {
  CHECK(cost.table == nullptr);
  const bool by_hidden = model.mixer == Mixer::Heads && model.head_dim == 0 && model.has_mlp;
  if (!model.kinds.empty() || !by_hidden) return {};
  std::vector<WastefulSize> sizes;
  for (const Dimension& dimension : dimensions(model, plan)) {
    if (auto waste = waste_of(dimension, cost)) sizes.push_back(*std::move(waste));
  }
  std::ranges::stable_sort(sizes, std::ranges::greater{}, &WastefulSize::gain);
  if (sizes.size() > kMostWarnings) sizes.resize(kMostWarnings);
  return sizes;
}

std::string wasteful_size_text(const WastefulSize& size) {
  const Gemm& g = size.gemm;
  const std::string batch = g.batch > 1 ? fmt::format("{} times ", g.batch) : "";
  return fmt::format(
      "{} = {}: {}, {}{} x {} x {} on a GPU, loses {:.1f} % of its time to {}part-filled tiles and "
      "waves; with {} it loses {:.1f} %, and {} compute takes {:.1f} % less time a FLOP",
      size.key, with_remark(size.value, size.remark), size.product, batch, g.m, g.n, g.k,
      100 * size.wasted, size.unaligned ? "unaligned sides and " : "",
      with_remark(size.better, size.better_remark), 100 * size.better_wasted, size.part,
      100 * size.gain);
}

}  // namespace tandem
