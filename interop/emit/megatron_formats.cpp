// Writes a plan's number formats as Megatron-LM's fields: those of weights, gradients and
// attention, and how FP8's scales are found. Declared in interop/emit/plan_keys.h.
#include <fmt/format.h>

#include "interop/emit/plan_keys.h"

namespace tandem {
namespace {

std::string_view true_or_false(bool flag) { return flag ? "True" : "False"; }

// Writes how scales are found. Megatron-LM's default is delayed, Megatron-Bridge's is tensorwise.
void add_scales(PlanKeys* keys, bool bridge, std::vector<MegatronField>* fields) {
  const std::string recipe = keys->text("train.fp8_recipe", "delayed");
  if (recipe == "rowwise") {
    keys->leave("train.fp8_recipe", "Transformer Engine has no rowwise scales");
  } else if (recipe != "delayed" || bridge) {
    fields->emplace_back("fp8_recipe", recipe == "current" ? "tensorwise" : recipe);
  }
  const std::string amax = keys->text("train.amax_reduction", "all");
  if (amax == "tensor" && bridge) {
    fields->emplace_back("tp_only_amax_red", "True");
  } else if (amax != "all") {
    keys->leave("train.amax_reduction",
                "no flag of Megatron-LM; Megatron-Bridge has one for tensor");
  }
}

std::string torch_type(const std::string& dtype) {
  const char* const name = dtype == "fp32" ? "float32" : dtype == "bf16" ? "bfloat16" : "float16";
  return fmt::format("{{_target_: torch.{}, _call_: false}}", name);
}

// Writes the format in which gradients are kept and reduced. Megatron-FSDP (ZeRO 2 and 3) has
// fields of its own for both, without which gradients are as wide as the weights.
void add_gradients(PlanKeys* keys, bool bridge, bool is_fp16, std::vector<MegatronField>* fields) {
  const std::string gradients = keys->text("train.gradient_dtype", is_fp16 ? "fp16" : "fp32");
  if (bridge) fields->emplace_back("grad_reduce_in_fp32", true_or_false(gradients == "fp32"));
  if (keys->whole("train.zero", 0) >= 2) {
    const std::string type = bridge ? torch_type(gradients) : gradients;
    fields->emplace_back("megatron_fsdp_main_grads_dtype", type);
    // Megatron-Bridge's recipes may send them in another format.
    if (bridge) fields->emplace_back("megatron_fsdp_grad_comm_dtype", type);
    return;
  }
  if (!bridge && gradients == "bf16") {
    fields->emplace_back("grad_reduce_in_bf16", "True");
  } else if (!bridge && gradients == "fp32" && is_fp16) {
    fields->emplace_back("accumulate_allreduce_grads_in_fp32", "True");
  } else if (gradients == "fp16" && !is_fp16) {
    keys->leave("train.gradient_dtype", "gradients are fp32 or bf16");
  }
}

// Writes the attention backend. Attention in fp8 needs cuDNN's, "fused".
void add_attention(PlanKeys* keys, bool bridge, std::vector<MegatronField>* fields) {
  const bool in_fp8 = keys->flag("train.fp8_attention", false);
  if (in_fp8 && bridge) fields->emplace_back("fp8_dot_product_attention", "True");
  if (in_fp8 && !bridge)
    keys->leave("train.fp8_attention", "no flag of Megatron-LM; Megatron-Bridge has one");
  const bool fused = keys->flag("train.flash_attention", false);
  fields->emplace_back("attention_backend", !fused             ? "unfused"
                                            : in_fp8 && bridge ? "fused"
                                                               : "flash");
}

}  // namespace

void add_number_formats(PlanKeys* keys, MegatronReader reader, std::vector<MegatronField>* fields) {
  const bool bridge = reader == MegatronReader::Bridge;
  const std::string precision = keys->text("train.precision", "bf16");
  const bool is_fp16 = precision == "fp16";
  if (precision != "fp32") {
    fields->emplace_back(is_fp16 ? "fp16" : "bf16", "True");
  } else if (bridge) {
    keys->leave("train.precision", "Megatron-Bridge trains in bf16 or fp16");
  }
  if (precision == "nvfp4") {
    fields->emplace_back("fp4", "e2m1");
  } else if (precision == "fp8") {
    fields->emplace_back("fp8", "hybrid");
    add_scales(keys, bridge, fields);
  }
  add_gradients(keys, bridge, is_fp16, fields);
  add_attention(keys, bridge, fields);
}

}  // namespace tandem
