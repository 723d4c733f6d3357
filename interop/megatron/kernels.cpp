// Reads precision, kernels and recompute from Megatron-LM's arguments. Declared in
// interop/megatron/megatron.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/csv.h"
#include "base/split.h"
#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

// Switches. `usual`: Megatron-LM's default; `ours`: a scenario's.
struct SwitchRow {
  std::string_view name;
  FlagKey key;
  bool usual, ours;
};
constexpr SwitchRow kSwitches[] = {
    {"fp8_param_gather", "train.fp8_param_gather", false, false},
    {"fp4_param_gather", "train.fp8_param_gather", false, false},
    {"masked_softmax_fusion", "train.fused_softmax", true, true},
    {"overlap_moe_expert_parallel_comm", "overlap.expert", false, false},
    {"delay_wgrad_compute", "overlap.delay_wgrad", false, false}};

// The values of fp8_recipe in a scenario's words.
constexpr std::pair<std::string_view, std::string_view> kRecipes[] = {
    {"delayed", ""}, {"tensorwise", "current"}, {"blockwise", "blockwise"}, {"mxfp8", "mxfp8"}};

class MegatronKernels {
 public:
  MegatronKernels(MegatronArguments* arguments, MegatronStyle style, const ImportedPlan& before,
                  ImportedPlan* plan)
      : args_(arguments), style_(style), before_(before), plan_(plan) {}

  int set() {
    set_precision();
    set_kernels();
    set_dispatcher();
    set_capacity();
    set_recompute();
    set_offload();
    set_cross_entropy();
    return gradient_bytes_;
  }

 private:
  void set_precision() {
    const bool bf16 = args_->flag("bf16"), fp16 = args_->flag("fp16");
    const auto fp8 = args_->text("fp8"), fp4 = args_->text("fp4");
    // Megatron-Bridge names all at once: "bf16_with_fp8_current_scaling_mixed".
    const auto mixed = args_->text("mixed_precision");
    const bool named = mixed.has_value();
    const std::string recipe =
        args_->text("fp8_recipe")
            .value_or(style_ == MegatronStyle::Bridge ? "tensorwise" : "delayed");
    const bool tensor_amax = args_->flag("tp_only_amax_red");
    const auto off = [](const std::optional<std::string>& word) {
      return !word || *word == "False" || *word == "false";
    };
    if (!off(fp4) || (named && mixed->find("fp4") != std::string::npos)) {
      plan_->set("train.precision", "nvfp4", args_->spelled(named ? "mixed_precision" : "fp4"));
    } else if (!off(fp8) || (named && mixed->find("fp8") != std::string::npos)) {
      plan_->set("train.precision", "fp8", args_->spelled(named ? "mixed_precision" : "fp8"));
      set_recipe(named && off(fp8) ? *mixed : recipe, named && off(fp8));
      if (tensor_amax && !plan_->has("train.fp8_recipe"))
        plan_->set("train.amax_reduction", "tensor", args_->spelled("tp_only_amax_red"));
    } else if (fp16 || (named && mixed->starts_with("fp16"))) {
      plan_->set("train.precision", "fp16", args_->spelled(named ? "mixed_precision" : "fp16"));
    } else if (bf16 || (named && mixed->starts_with("bf16"))) {
      plan_->set("train.precision", "bf16", args_->spelled(named ? "mixed_precision" : "bf16"));
    } else if (!named && style_ != MegatronStyle::Bridge) {
      plan_->set("train.precision", "fp32", "neither --bf16 nor --fp16");
    }
    const std::string precision = plan_->text_of("train.precision");
    if (named && (precision == "fp8" || precision == "nvfp4") && !args_->has("fp8_param_gather") &&
        !args_->has("fp4_param_gather") && mixed->find("subchannel") == std::string::npos) {
      plan_->set("train.fp8_param_gather", true, args_->spelled("mixed_precision"));
      plan_->assumed.push_back("train.fp8_param_gather = true: by Megatron-Bridge's " + *mixed);
    }
    if (fp16 &&
        (args_->flag("accumulate_allreduce_grads_in_fp32") || args_->flag("grad_reduce_in_fp32")))
      plan_->set("train.gradient_dtype", "fp32",
                 args_->spelled("accumulate_allreduce_grads_in_fp32"));
    else if (fp16)
      gradient_bytes_ = 2;
    const bool bf16_sums =
        args_->flag("grad_reduce_in_bf16") ||
        (args_->has("grad_reduce_in_fp32") && !args_->flag("grad_reduce_in_fp32", true));
    args_->flag("accumulate_allreduce_grads_in_fp32");  // counts it as taken, as bf16 has it anyway
    if (bf16_sums && !fp16) {
      plan_->set("train.gradient_dtype", "bf16", args_->spelled("grad_reduce_in_bf16"));
      gradient_bytes_ = 2;
    }
  }

  // Sets the recipe. `in_name`: `recipe` is the name of a mixed precision that contains it.
  void set_recipe(const std::string& recipe, bool in_name) {
    for (const auto& [theirs, ours] : kRecipes) {
      const bool fits = in_name ? recipe.find(theirs) != std::string::npos : recipe == theirs;
      if (fits && !ours.empty()) plan_->set("train.fp8_recipe", ours, args_->spelled("fp8_recipe"));
      if (fits) return;
    }
    // Two names differ from their recipes: "subchannel", and NanoV2's "current".
    const bool blocks =
        recipe.find("subchannel") != std::string::npos || recipe.find("nanov2") == 0;
    if (in_name && (blocks || recipe.find("current") != std::string::npos))
      plan_->set("train.fp8_recipe", blocks ? "blockwise" : "current",
                 args_->spelled("mixed_precision"));
    if (!in_name)
      plan_->not_understood.push_back(fmt::format("{} {}", args_->spelled("fp8_recipe"), recipe));
  }

  void set_kernels() {
    std::string backend = args_->text("attention_backend").value_or("auto");
    backend = backend.substr(backend.rfind('.') + 1);
    const bool local = args_->text("transformer_impl").value_or("transformer_engine") == "local";
    const bool asked = args_->flag("use_flash_attn");
    // Megatron-LM's enumeration. The value is a name, or the number of one.
    constexpr std::string_view kBackends[] = {"flash", "fused", "unfused", "local", "auto"};
    if (backend.size() == 1 && backend[0] >= '1' && backend[0] <= '5')
      backend = kBackends[backend[0] - '1'];
    if (std::find(std::begin(kBackends), std::end(kBackends), backend) == std::end(kBackends))
      args_->fail("attention_backend", "flash, fused, unfused, local or auto");
    if (asked || backend == "flash" || backend == "fused" || (backend == "auto" && !local)) {
      plan_->set("train.flash_attention", true,
                 asked ? args_->spelled("use_flash_attn")
                       : args_->spelled("attention_backend") + " " + backend);
    } else if (before_.has("train.flash_attention")) {
      plan_->set("train.flash_attention", false, args_->spelled("attention_backend"));
    }
    for (const SwitchRow& row : kSwitches) {
      const bool value = args_->flag(row.name, row.usual);
      if (value != row.ours) plan_->set(row.key, value, args_->spelled(row.name));
    }
    const std::string precision = plan_->text_of("train.precision");
    if (args_->flag("fp8_dot_product_attention") && (precision == "fp8" || precision == "nvfp4") &&
        plan_->flag_of("train.flash_attention"))
      plan_->set("train.fp8_attention", true, args_->spelled("fp8_dot_product_attention"));
    const bool gelu = args_->flag("bias_gelu_fusion", true),
               swiglu = args_->flag("bias_swiglu_fusion", true),
               activation = args_->flag("bias_activation_fusion", true);
    const bool gated = plan_->flag_of("model.gated_mlp");
    if (!activation || (gated ? !swiglu : !gelu))
      plan_->set("train.fused_bias_gelu", false,
                 args_->spelled(!activation ? "bias_activation_fusion"
                                : gated     ? "bias_swiglu_fusion"
                                            : "bias_gelu_fusion"));
    const bool persists = args_->flag("persist_layer_norm", true);
    if (!persists || args_->flag("no_persist_layer_norm"))
      plan_->set("train.fused_norm", false,
                 args_->spelled(persists ? "no_persist_layer_norm" : "persist_layer_norm"));
    constexpr std::string_view kNoGraphs = "none";
    const std::string graphs = args_->text("cuda_graph_impl").value_or(std::string(kNoGraphs));
    const bool older = args_->flag("enable_cuda_graph"),
               external = args_->flag("external_cuda_graph");
    if (graphs != kNoGraphs || older || external) {
      plan_->set("train.cuda_graphs", true,
                 args_->spelled(older      ? "enable_cuda_graph"
                                : external ? "external_cuda_graph"
                                           : "cuda_graph_impl"));
      for (const char* name : {"cuda_graph_modules", "cuda_graph_scope"}) set_graph_scope(name);
    }
  }

  // Sets which parts of a layer are in CUDA graphs, from "attn moe_router" or "[attn, mlp]". "full"
  // means all: nothing is set.
  void set_graph_scope(const char* name) {
    constexpr std::string_view kKnown[] = {"attn", "mamba",      "mlp",
                                           "moe",  "moe_router", "moe_preprocess"};
    std::string scope = args_->text(name).value_or(""), known;
    std::ranges::replace_if(
        scope, [](char c) { return std::string_view("[]',\"").find(c) != std::string_view::npos; },
        ' ');
    for (const std::string& word : split(scope, " ")) {
      if (word.empty()) continue;
      if (word.starts_with("full")) return;
      const bool is_known = std::ranges::find(kKnown, word) != std::end(kKnown);
      if (is_known) known += (known.empty() ? "" : ", ") + word;
      if (!is_known)
        plan_->not_expressed.push_back(
            fmt::format("{} {}: launched kernel by kernel", args_->spelled(name), word));
    }
    if (!known.empty()) plan_->set("train.cuda_graph_scope", known, args_->spelled(name));
  }

  // Sets the dispatcher. It has no effect where one GPU has all experts, and is left out.
  void set_dispatcher() {
    const bool bridge = style_ == MegatronStyle::Bridge;
    std::string word =
        args_->text("moe_token_dispatcher_type").value_or(bridge ? "alltoall" : "allgather");
    const std::string backend = args_->text("moe_flex_dispatcher_backend").value_or("deepep");
    const bool old = args_->flag("moe_enable_deepep");
    if (word == "flex" || old) word = backend;
    if (args_->whole("expert_model_parallel_size").value_or(1) == 1 || word == "alltoall") return;
    if (word == "ncclep") {
      plan_->assumed.push_back("ncclep sends as DeepEP does");
      word = "deepep";
    }
    plan_->set("parallel.dispatcher", word, args_->spelled("moe_token_dispatcher_type"));
    if (word != "deepep") return;
    for (const char* name : {"moe_flex_dispatcher_num_sms", "moe_deepep_num_sms"}) {
      const auto sms = args_->whole(name, 1);
      if (sms) plan_->set("overlap.expert_sms", *sms, args_->spelled(name));
    }
  }

  // Sets how many tokens an expert takes at most.
  void set_capacity() {
    const auto factor = args_->text("moe_expert_capacity_factor");
    const bool pads = args_->flag("moe_pad_expert_input_to_capacity");
    if (!factor || *factor == "None") return;
    const auto number = parse_number(*factor);
    if (!number.ok() || *number <= 0) {
      args_->fail("moe_expert_capacity_factor", "a number above 0");
      return;
    }
    plan_->set("model.capacity_factor", *number, args_->spelled("moe_expert_capacity_factor"));
    if (pads)
      plan_->set("model.pad_to_capacity", true, args_->spelled("moe_pad_expert_input_to_capacity"));
  }

  // Returns a list, "[core_attn, moe]" or "core_attn moe", with commas alone.
  std::string words_of(const char* name, const char* otherwise) {
    std::string words = args_->text(name).value_or(otherwise), list;
    std::ranges::replace_if(
        words, [](char c) { return std::string_view("[],'\"").find(c) != std::string_view::npos; },
        ' ');
    for (const std::string& word : split_words(words)) list += (list.empty() ? "" : ", ") + word;
    return list;
  }

  // Sets what is offloaded: by module, or as Transformer Engine does it, by layer.
  void set_offload() {
    const bool fine = args_->flag("fine_grained_activation_offloading");
    const std::string modules = words_of("offload_modules", "");
    const auto layers = args_->whole("cpu_offloading_num_layers");
    // Megatron-LM's flag is the number alone.
    const bool by_layer = args_->flag("cpu_offloading", style_ != MegatronStyle::Bridge);
    if (fine && !modules.empty())
      plan_->set("train.activation_offload_modules", modules, args_->spelled("offload_modules"));
    if (by_layer && layers.value_or(0) > 0 && args_->flag("cpu_offloading_activations", true))
      plan_->set("train.activation_offload_layers", *layers,
                 args_->spelled("cpu_offloading_num_layers"));
    if (by_layer && layers.value_or(0) > 0 && args_->flag("cpu_offloading_weights"))
      plan_->not_expressed.push_back(args_->spelled("cpu_offloading_weights") +
                                     ": weights stay on the GPU");
  }

  // Sets how the loss is computed. Megatron-LM's default is unfused, Megatron-Bridge's native
  // (megatron/bridge/models/gpt_provider.py:205 at 067f987d); its recipes name te.
  void set_cross_entropy() {
    const bool fused = args_->flag("cross_entropy_loss_fusion", style_ == MegatronStyle::Bridge);
    const std::string kind = args_->text("cross_entropy_fusion_impl").value_or("native");
    if (kind != "native" && kind != "te") args_->fail("cross_entropy_fusion_impl", "native or te");
    const bool says_kind = fused && args_->text("cross_entropy_fusion_impl");
    plan_->set(
        "train.cross_entropy", fused ? kind : "unfused",
        args_->spelled(says_kind ? "cross_entropy_fusion_impl" : "cross_entropy_loss_fusion"));
  }

  void set_recompute() {
    std::string granularity = args_->text("recompute_granularity").value_or("");
    std::string from = args_->spelled("recompute_granularity");
    // This flag is of Megatron-LM before 2022, and of Megatron-DeepSpeed.
    if (args_->flag("checkpoint_activations") && granularity.empty()) {
      granularity = "full";
      from = args_->spelled("checkpoint_activations");
    }
    if (args_->flag("recompute_activations") && granularity.empty()) {
      granularity = "selective";
      from = args_->spelled("recompute_activations");
    }
    std::string list = words_of("recompute_modules", "core_attn");
    if (args_->flag("moe_layer_recompute") && granularity.empty()) {
      granularity = "selective";
      list = "moe";
      from = args_->spelled("moe_layer_recompute");
    }
    const std::string method = args_->text("recompute_method").value_or("uniform");
    const auto layers = args_->whole("recompute_num_layers");
    if (granularity == "full") {
      plan_->set("train.recompute", "full", from);
      if (method == "block" && layers)
        plan_->set("train.recompute_layers", *layers, args_->spelled("recompute_num_layers"));
      if (method == "uniform" && layers.value_or(1) > 1)
        plan_->not_expressed.push_back(
            fmt::format("{} {}: with uniform, each layer is a chunk of its own",
                        args_->spelled("recompute_num_layers"), *layers));
    } else if (granularity == "selective") {
      plan_->set("train.recompute", "selective", from);
      if (list != "core_attn")
        plan_->set("train.recompute_modules", list, args_->spelled("recompute_modules"));
    } else if (!granularity.empty()) {
      args_->fail("recompute_granularity", "full or selective");
    }
  }

  MegatronArguments* args_;
  MegatronStyle style_;
  const ImportedPlan& before_;
  ImportedPlan* plan_;
  int gradient_bytes_ = 4;
};

}  // namespace

int set_megatron_kernels(MegatronArguments* arguments, MegatronStyle style,
                         const ImportedPlan& before, ImportedPlan* plan) {
  return MegatronKernels(arguments, style, before, plan).set();
}

}  // namespace tandem
