// Tables of the allowed range of each size.
#include "workload/model/size_rules.h"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace tandem {
namespace {

// A number of the scenario and the range that its rule allows. The upper ends are far beyond any
// cluster; they keep all later products within 64 bits.
struct SizeRange {
  std::string_view key;
  std::int64_t value, low, high;
};

constexpr std::int64_t kMillion = 1'000'000;

Status check_ranges(std::span<const SizeRange> ranges) {
  for (const SizeRange& range : ranges) {
    if (range.value < range.low) {
      return found_number(
          range.key, range.value,
          range.low == 0 ? "0 (for the default) or a positive number" : "a positive number");
    }
    if (range.value > range.high) {
      return found_number(range.key, range.value, fmt::format("at most {}", range.high));
    }
  }
  return Done{};
}

}  // namespace

Error found_word(std::vector<std::string> keys, std::string_view word, std::string_view expected) {
  std::string message = fmt::format("{}: found {}, expected {}", keys.front(), word, expected);
  return Error::of(std::move(keys), std::move(message));
}

Error found_number(std::string_view key, std::int64_t value, std::string_view expected,
                   std::string_view what) {
  return Error::of({std::string(key)}, fmt::format("{}: found {}, expected {}",
                                                   what.empty() ? key : what, value, expected));
}

Status check_model_sizes(const Model& model) {
  // Layers of kinds have their own heads.
  const bool needs_heads = model.attends() && model.kinds.empty();
  const SizeRange ranges[] = {
      {"model.layers", model.layers, 1, kMillion},
      {"model.head_dim", model.head_dim, 0, kMillion},
      {"model.mtp_layers", model.mtp_layers, 0, 1000},
      {"model.hidden", model.hidden, 1, kMillion},
      {"model.heads", model.heads, needs_heads ? 1 : 0, kMillion},
      {"model.kv_heads", model.kv_heads, 0, kMillion},
      {"model.ffn_hidden", model.ffn_hidden, 0, 16 * kMillion},
      {"model.seq", model.seq, 1, 16 * kMillion},
      {"model.vocab", model.vocab, 1, 16 * kMillion},
      {"model.experts", model.experts, 0, kMillion},
      {"model.top_k", model.top_k, 0, kMillion},
      {"model.expert_ffn_hidden", model.expert_ffn_hidden, 0, 16 * kMillion},
      {"model.shared_expert_ffn", model.shared_expert_ffn, 0, 16 * kMillion},
  };
  return check_ranges(ranges);
}

Status check_plan_sizes(const Plan& plan) {
  // Op::part is 16 bits, and a ring over n ranks has n - 1 parts.
  constexpr std::int64_t kMostParts = INT16_MAX;
  const SizeRange ranges[] = {
      {"parallel.tp", plan.tp, 1, kMostParts},
      {"parallel.pp", plan.pp, 1, kMillion},
      {"parallel.vpp", plan.vpp, 1, kMillion},
      {"parallel.dp", plan.dp, 1, kMillion},
      {"parallel.cp", plan.cp, 1, kMostParts},
      {"parallel.ep", plan.ep, 1, kMillion},
      {"parallel.hsdp_shard", plan.hsdp_shard, 0, kMillion},
      {"parallel.zero_hpz", plan.zero_hpz, 0, kMillion},
      {"parallel.micro_batch", plan.micro_batch, 1, kMillion},
      {"parallel.global_batch", plan.global_batch, 1, 1000 * kMillion},
  };
  RETURN_IF_ERROR(check_ranges(ranges));
  const double gpus = static_cast<double>(plan.tp) * plan.pp * plan.dp * plan.cp;
  if (gpus > 1e8)
    return Error::of(
        {"parallel.tp", "parallel.pp", "parallel.dp", "parallel.cp"},
        fmt::format("parallel.tp x pp x dp x cp: found {:.0f} GPUs, expected at most 1e8", gpus));
  return Done{};
}

Status check_activation(const Model& model, const Plan& plan) {
  const double numbers = static_cast<double>(model.seq) * plan.micro_batch * model.hidden;
  if (numbers > 1e13)
    return Error::of(
        {"model.seq", "parallel.micro_batch", "model.hidden"},
        fmt::format(
            "model.seq x parallel.micro_batch x model.hidden: found {:.3g}, expected at most 1e13",
            numbers));
  return Done{};
}

}  // namespace tandem
