// The model's arithmetic: layers over stages, parameters, FLOPs; and the rules of a model and a
// plan.
#include "workload/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/check.h"
#include "workload/kernel.h"

namespace tandem {
namespace {

// Megatron's --make-vocab-size-divisible-by: head GEMMs of odd widths run at a fraction of the
// speed.
constexpr std::int64_t kVocabMultiple = 128;

Error found(std::string_view key, std::int64_t value, std::string_view expected) {
  return Error{fmt::format("{}: found {}, expected {}", key, value, expected)};
}

// A number of the scenario and the range that its rule allows. The upper ends are far beyond any
// cluster; they keep all later products inside 64 bits.
struct Range {
  std::string_view key;
  std::int64_t value, low, high;
};

Status check_ranges(const Model& model, const Plan& plan) {
  constexpr std::int64_t kMillion = 1'000'000;
  const Range ranges[] = {
      {"model.layers", model.layers, 1, kMillion},
      {"model.hidden", model.hidden, 1, kMillion},
      {"model.heads", model.heads, 1, kMillion},
      {"model.kv_heads", model.kv_heads, 0, kMillion},
      {"model.ffn_hidden", model.ffn_hidden, 0, 16 * kMillion},
      {"model.seq", model.seq, 1, 16 * kMillion},
      {"model.vocab", model.vocab, 1, 16 * kMillion},
      {"parallel.tp", plan.tp, 1, kMillion},
      {"parallel.pp", plan.pp, 1, kMillion},
      {"parallel.vpp", plan.vpp, 1, kMillion},
      {"parallel.dp", plan.dp, 1, kMillion},
      {"parallel.micro_batch", plan.micro_batch, 1, kMillion},
      {"parallel.global_batch", plan.global_batch, 1, 1000 * kMillion},
  };
  for (const Range& range : ranges) {
    if (range.value < range.low) {
      return found(
          range.key, range.value,
          range.low == 0 ? "0 (for the default) or a positive number" : "a positive number");
    }
    if (range.value > range.high) {
      return found(range.key, range.value, fmt::format("at most {}", range.high));
    }
  }
  const double gpus = static_cast<double>(plan.tp) * plan.pp * plan.dp;
  if (gpus > 1e8) {
    return Error{
        fmt::format("parallel.tp x pp x dp: found {:.0f} GPUs, expected at most 1e8", gpus)};
  }
  const double numbers = static_cast<double>(model.seq) * plan.micro_batch * model.hidden;
  if (numbers > 1e13) {
    return Error{fmt::format(
        "model.seq x parallel.micro_batch x model.hidden: found {:.3g}, expected at most 1e13",
        numbers)};
  }
  return Done{};
}

// `value` of `key` must be a multiple of `divisor` of `divisor_key`.
struct Multiple {
  std::string_view key;
  std::int64_t value;
  std::string_view divisor_key;
  std::int64_t divisor;
};

Status check_multiples(const Model& model, const Plan& plan) {
  const Multiple multiples[] = {
      {"model.hidden", model.hidden, "model.heads", model.heads},
      {"model.heads", model.heads, "model.kv_heads", model.key_value_heads()},
      {"model.heads", model.heads, "parallel.tp", plan.tp},
      {"model.kv_heads", model.key_value_heads(), "parallel.tp", plan.tp},
      {"model.ffn_hidden", model.ffn(), "parallel.tp", plan.tp},
      {"model.seq", model.seq, "parallel.tp (train.sequence_parallel is on)",
       plan.sequence_parallel ? plan.tp : 1},
      {"parallel.global_batch", plan.global_batch, "parallel.micro_batch x parallel.dp",
       static_cast<std::int64_t>(plan.micro_batch) * plan.dp},
  };
  for (const Multiple& rule : multiples) {
    if (rule.value % rule.divisor == 0) continue;
    return found(rule.key, rule.value,
                 fmt::format("a multiple of {} = {}", rule.divisor_key, rule.divisor));
  }
  return Done{};
}

// Every stage needs a layer; the first and the last one have the embedding and the head to do.
Status check_layers(const Model& model, const Plan& plan) {
  const std::vector<int>& listed = plan.layers_per_stage;
  const std::int64_t stages = static_cast<std::int64_t>(plan.pp) * plan.vpp;
  if (!listed.empty()) {
    if (static_cast<std::int64_t>(listed.size()) != stages) {
      return found(
          "parallel.layers_per_stage", listed.size(),
          fmt::format("as many numbers as stages, parallel.pp x parallel.vpp = {}", stages));
    }
    for (const int layers : listed) {
      if (layers < 0 || layers > model.layers) {
        return found("parallel.layers_per_stage", layers,
                     fmt::format("each number from 0 to model.layers = {}", model.layers));
      }
    }
    const std::int64_t sum = std::accumulate(listed.begin(), listed.end(), std::int64_t{0});
    if (sum != model.layers) {
      return found("parallel.layers_per_stage", sum,
                   fmt::format("a sum of model.layers = {}", model.layers));
    }
  } else if (stages > model.layers + 2) {
    return Error{fmt::format(
        "parallel.pp x parallel.vpp: found {} stages, expected at most model.layers + 2 = {}",
        stages, model.layers + 2)};
  }
  const std::vector<int> split = split_layers(model, plan);
  for (std::size_t stage = 1; stage + 1 < split.size(); ++stage) {
    if (split[stage] > 0) continue;
    return Error{
        fmt::format("parallel.layers_per_stage: found no layer for stage {} ({} layers on {} "
                    "stages), expected one "
                    "at least on all stages but the first and the last",
                    stage, model.layers, stages)};
  }
  return Done{};
}

Status check_dtypes(const Plan& plan) {
  if (bytes_of(plan.precision) == 0) {
    return Error{
        fmt::format("train.precision: found {}, expected fp32, fp16, bf16 or fp8", plan.precision)};
  }
  if (bytes_of(plan.gradient_dtype) < 2) {
    return Error{fmt::format("train.gradient_dtype: found {}, expected fp32, fp16 or bf16",
                             plan.gradient_dtype)};
  }
  return Done{};
}

// FLOPs of the attention core's two products, of a whole layer and of the head, forward, for the
// global batch. The core is counted whole: kernels of the time computed what the mask hides, too.
double core_flops(const Model& model, const Plan& plan) {
  return 4.0 * plan.global_batch * model.seq * model.seq * model.hidden;
}

double layer_flops(const Model& model, const Plan& plan) {
  const double h = model.hidden;
  const double kv = static_cast<double>(model.key_value_heads()) * model.head_size();
  const double weights = h * (h + 2 * kv) + h * h + (model.gated_mlp ? 3 : 2) * h * model.ffn();
  return 2.0 * plan.global_batch * model.seq * weights + core_flops(model, plan);
}

double head_flops(const Model& model, const Plan& plan) {
  return 2.0 * plan.global_batch * model.seq * model.hidden * model.vocab;
}

}  // namespace

std::vector<int> split_layers(const Model& model, const Plan& plan) {
  if (!plan.layers_per_stage.empty()) return plan.layers_per_stage;
  const int stages = plan.stages();
  CHECK(model.layers > 0 && stages > 0);
  std::vector<int> split(stages);
  if (model.layers % stages == 0) {
    std::ranges::fill(split, model.layers / stages);
  } else if ((model.layers + 2) % stages == 0) {
    std::ranges::fill(split, (model.layers + 2) / stages);
    --split.front();
    --split.back();
  } else {
    const int full = (model.layers + stages - 1) / stages;
    int left = model.layers;
    for (int& layers : split) {
      layers = std::min(full, left);
      left -= layers;
    }
  }
  return split;
}

Status check(const Model& model, const Plan& plan) {
  RETURN_IF_ERROR(check_ranges(model, plan));
  RETURN_IF_ERROR(check_multiples(model, plan));
  RETURN_IF_ERROR(check_layers(model, plan));
  return check_dtypes(plan);
}

int padded_vocab(const Model& model, const Plan& plan) {
  const std::int64_t multiple = kVocabMultiple * plan.tp;
  return static_cast<int>((model.vocab + multiple - 1) / multiple * multiple);
}

// Weights of Q, K, V and the projection; GPT: a bias for each output and a LayerNorm (2h), 6h in
// all with kv_heads = heads.
double attention_parameters(const Model& model) {
  const double h = model.hidden;
  const double kv = static_cast<double>(model.key_value_heads()) * model.head_size();
  const double weights = h * (h + 2 * kv) + h * h;
  return model.gated_mlp ? weights + h : weights + (h + 2 * kv + h) + 2 * h;
}

// GPT: up and down with biases and a LayerNorm, 7h more for f = 4h. Gated: gate, up, down, RMSNorm.
double mlp_parameters(const Model& model) {
  const double h = model.hidden;
  const double f = model.ffn();
  return model.gated_mlp ? 3 * h * f + h : 2 * h * f + (f + h) + 2 * h;
}

double layer_parameters(const Model& model) {
  return attention_parameters(model) + mlp_parameters(model);
}

double embedding_parameters(const Model& model) {
  const double positions = model.gated_mlp ? 0 : model.seq;
  return (model.vocab + positions) * model.hidden;
}

double parameters(const Model& model) {
  return model.layers * layer_parameters(model) + embedding_parameters(model);
}

std::vector<double> stage_parameters(const Model& model, const Plan& plan) {
  const std::vector<int> split = split_layers(model, plan);
  const double table = static_cast<double>(padded_vocab(model, plan)) / plan.tp * model.hidden;
  std::vector<double> sums;
  for (const int layers : split) sums.push_back(layers * layer_parameters(model) / plan.tp);
  sums.front() += table + (model.gated_mlp ? 0.0 : static_cast<double>(model.seq) * model.hidden);
  if (plan.pp > 1) sums.back() += table;
  return sums;
}

double model_flops(const Model& model, const Plan& plan) {
  return 3 * (model.layers * layer_flops(model, plan) + head_flops(model, plan));
}

double hardware_flops(const Model& model, const Plan& plan) {
  switch (plan.recompute) {
    case Recompute::None:
      return model_flops(model, plan);
    case Recompute::Selective:
      return model_flops(model, plan) + model.layers * core_flops(model, plan);
    case Recompute::Full:
      return model_flops(model, plan) + model.layers * layer_flops(model, plan);
  }
  CHECK(false);
  return 0;
}

int stored_bytes(const Plan& plan) {
  CHECK(bytes_of(plan.precision) > 0);
  return std::max(2, bytes_of(plan.precision));
}

}  // namespace tandem
