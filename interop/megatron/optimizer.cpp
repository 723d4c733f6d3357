// Turns Megatron-LM's arguments for the optimizer, its offloading and the precision of its states
// into keys of a scenario. Declared in interop/megatron/megatron.h.
#include <fmt/format.h>

#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

class MegatronOptimizer {
 public:
  MegatronOptimizer(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan)
      : args_(arguments), bridge_(style == MegatronStyle::Bridge), plan_(plan) {}

  void set() {
    const std::string optimizer = args_->text("optimizer").value_or("adam");
    if (optimizer.ends_with("muon")) {
      set_muon(optimizer);
    } else if (optimizer != "adam") {
      plan_->not_expressed.push_back(
          fmt::format("{} {}: taken as Adam", args_->spelled("optimizer"), optimizer));
    }
    const bool offloads = args_->flag("optimizer_cpu_offload");
    // Without a fraction Megatron-LM offloads everything, Megatron-Bridge nothing.
    const double share = args_->number("optimizer_offload_fraction").value_or(bridge_ ? 0.0 : 1.0);
    if (offloads) {
      if (share < 0 || share > 1) args_->fail("optimizer_offload_fraction", "a number from 0 to 1");
      if (share > 0)
        plan_->set("train.optimizer_offload", share, args_->spelled("optimizer_cpu_offload"));
      else
        plan_->assumed.push_back(args_->spelled("optimizer_cpu_offload") +
                                 " moves nothing: optimizer_offload_fraction is 0");
    }
    const bool keeps_remainders = args_->flag("store_param_remainders", true);
    if (!args_->flag("use_precision_aware_optimizer")) {
      if (bridge_ && !args_->has("use_precision_aware_optimizer"))
        plan_->assumed.push_back(
            "train.optimizer_dtype = fp32: the file states none; a recipe in Python may");
      return;
    }
    set_moments(offloads);
    // Megatron-LM's FusedAdam keeps only the lower 16 bits of an fp32 original, unless it is
    // offloaded or its parameter is in 8 bits (megatron/core/optimizer/__init__.py:588 at
    // d98e8a64).
    const std::string precision = plan_->text_of("train.precision");
    if (keeps_remainders && !offloads && (precision.empty() || precision == "bf16") &&
        plan_->whole_of("train.zero") == 1)
      plan_->set("train.param_remainders", true, args_->spelled("use_precision_aware_optimizer"));
  }

 private:
  void set_muon(const std::string& optimizer) {
    plan_->set("train.optimizer", "muon", args_->spelled("optimizer"));
    const std::string mode = args_->text("muon_tp_mode").value_or("duplicated");
    if (mode == "blockwise" || mode == "distributed")
      plan_->set("train.muon_tp", mode, args_->spelled("muon_tp_mode"));
    else if (mode != "duplicated")
      args_->fail("muon_tp_mode", "duplicated, blockwise or distributed");
    if (optimizer == "adaptive_muon")
      plan_->not_expressed.push_back(args_->spelled("optimizer") +
                                     " adaptive_muon: its second moment is not there");
    if (bridge_ && optimizer == "dist_muon")
      plan_->not_expressed.push_back(
          args_->spelled("optimizer") +
          " dist_muon: gradients are scattered, and Adam's state of the embedding is cut");
  }

  // Sets the number format of Adam's moments: a scenario has one for both. HybridDeviceOptimizer,
  // which offloads, is not told of it and keeps fp32 (megatron/core/optimizer/__init__.py).
  void set_moments(bool offloads) {
    const std::string first = number_format(args_, "exp_avg_dtype", "fp32"),
                      second = number_format(args_, "exp_avg_sq_dtype", "fp32");
    if (offloads) {
      if (first != "fp32")
        plan_->assumed.push_back(fmt::format("{} {} has no effect beside {}: moments stay fp32",
                                             args_->spelled("exp_avg_dtype"), first,
                                             args_->spelled("optimizer_cpu_offload")));
      return;
    }
    if (first == "bf16" || first == "fp16" || first == "fp8")
      plan_->set("train.optimizer_dtype", first, args_->spelled("exp_avg_dtype"));
    if (first != second)
      plan_->not_expressed.push_back(fmt::format("{} {}: taken as {}, as the first moment",
                                                 args_->spelled("exp_avg_sq_dtype"), second,
                                                 first));
  }

  MegatronArguments* args_;
  bool bridge_;
  ImportedPlan* plan_;
};

}  // namespace

std::string number_format(MegatronArguments* arguments, std::string_view name,
                          const std::string& otherwise) {
  const std::string text = arguments->text(name).value_or("auto");
  if (text == "auto") return otherwise;
  for (const auto& [theirs, ours] : {std::pair{"bfloat16", "bf16"},
                                     {"float16", "fp16"},
                                     {"float32", "fp32"},
                                     {"uint8", "fp8"}}) {
    if (text == ours || text.find(theirs) != std::string::npos) return ours;
  }
  arguments->fail(name, "fp32, bf16, fp16 or fp8");
  return otherwise;
}

void set_megatron_optimizer(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan) {
  MegatronOptimizer(arguments, style, plan).set();
}

}  // namespace tandem
