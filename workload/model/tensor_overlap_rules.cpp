// Checks each GEMM's overlap by itself, then dgrad and wgrad of the same GEMM together.
#include "workload/model/tensor_overlap_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

constexpr std::int64_t kMostSplits = 1024;  // beyond any use

Error overlap_error(TensorGemm gemm, TensorMethod method, std::string_view expected) {
  return Error::of(keys_of(gemm),
                   fmt::format("overlap.gemm.{}: found {}, expected {}", tensor_gemm_name(gemm),
                               tensor_method_name(method), expected));
}

// Says whether a GEMM may have a method other than off:
//
//   wgrad of qkv and fc1    bulk: uncut, beside the reduce-scatter of dgrad's output
//   dgrad of qkv and fc1    bulk: uncut, beside the all-gather of wgrad's input; or cut into parts
//   all others              pipelined or ring: cut into parts
//
// Transformer Engine's userbuffers allow the same, except for a pipelined all-gather.
bool allows(TensorGemm gemm, TensorMethod method) {
  switch (gemm) {
    case TensorGemm::QkvWgrad:
    case TensorGemm::Fc1Wgrad:
      return method == TensorMethod::Bulk;
    case TensorGemm::QkvDgrad:
    case TensorGemm::Fc1Dgrad:
      return true;
    default:
      return method != TensorMethod::Bulk;
  }
}

bool is_mlp(TensorGemm gemm) { return gemm >= TensorGemm::Fc1Fprop; }

Status check_gemm(const Model& model, const Plan& plan, TensorGemm gemm) {
  const GemmOverlap& overlap = plan.overlap_of(gemm);
  if (overlap.method == TensorMethod::Off) return Done{};
  const auto refuse = [&](std::string_view expected) {
    return overlap_error(gemm, overlap.method, expected);
  };
  if (plan.tp == 1) return refuse("off with parallel.tp = 1: nothing is communicated");
  if (!plan.sequence_parallel)
    return refuse("off without train.sequence_parallel: an all-reduce has no GEMM to meet");
  if (!allows(gemm, overlap.method)) {
    const bool wgrad = gemm == TensorGemm::QkvWgrad || gemm == TensorGemm::Fc1Wgrad;
    return refuse(wgrad ? "off or bulk" : "off, pipelined or ring");
  }
  if (is_mlp(gemm) && model.is_moe() && model.shared_expert_ffn == 0)
    return refuse("off with model.experts and no shared one: experts have no such collective");
  const auto refuse_number = [&](std::string_view what, std::int64_t value, std::int64_t least,
                                 std::int64_t most) {
    return Error::of(keys_of(gemm), fmt::format("overlap.gemm.{}.{}: found {}, expected from {} to "
                                                "{}",
                                                tensor_gemm_name(gemm), what, value, least, most));
  };
  const std::int64_t rows = static_cast<std::int64_t>(model.seq) / plan.cp * plan.micro_batch;
  const std::int64_t most_splits = std::min(rows, kMostSplits);
  const bool allows_splits = overlap.splits >= 1 && overlap.splits <= most_splits;
  if (overlap.method == TensorMethod::Pipelined && !allows_splits)
    return refuse_number("splits", overlap.splits, 1, most_splits);
  if (overlap.sms < 0 || overlap.sms > kMostSms)
    return refuse_number("sms", overlap.sms, 0, kMostSms);
  return Done{};
}

}  // namespace

Status check_tensor_overlap(const Model& model, const Plan& plan) {
  for (int i = 0; i < kTensorGemms; ++i)
    RETURN_IF_ERROR(check_gemm(model, plan, static_cast<TensorGemm>(i)));
  for (const auto& [dgrad, wgrad] : {std::pair(TensorGemm::QkvDgrad, TensorGemm::QkvWgrad),
                                     std::pair(TensorGemm::Fc1Dgrad, TensorGemm::Fc1Wgrad)}) {
    const TensorMethod input = plan.overlap_of(dgrad).method;
    const TensorMethod weight = plan.overlap_of(wgrad).method;
    const bool cuts_dgrad = input == TensorMethod::Pipelined || input == TensorMethod::Ring;
    if (!cuts_dgrad || weight == TensorMethod::Off) continue;
    return overlap_error(wgrad, weight,
                         fmt::format("off with overlap.gemm.{} = {}, which runs the reduce-scatter "
                                     "beside dgrad",
                                     tensor_gemm_name(dgrad), tensor_method_name(input)));
  }
  return Done{};
}

}  // namespace tandem
