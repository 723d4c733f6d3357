// Turns Megatron-LM's arguments for precision, fused kernels, CUDA graphs, expert dispatch,
// recompute and offloading into keys of a scenario. Declared in interop/megatron/megatron.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/csv.h"
#include "interop/document/fields.h"
#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

// Flags that become keys unchanged, unless they equal a scenario's default.
struct SwitchRow {
  std::string_view name;
  FlagKey key;
  bool megatron_default, scenario_default;
};
constexpr SwitchRow kSwitches[] = {
    {"fp8_param_gather", "train.fp8_param_gather", false, false},
    {"fp4_param_gather", "train.fp8_param_gather", false, false},
    {"masked_softmax_fusion", "train.fused_softmax", true, true},
    {"overlap_moe_expert_parallel_comm", "overlap.expert", false, false},
    {"delay_wgrad_compute", "overlap.delay_wgrad", false, false}};

// A value of Megatron-LM's fp8_recipe, and that of train.fp8_recipe; empty: a scenario's default.
struct RecipeRow {
  std::string_view megatron, scenario;
};
constexpr RecipeRow kRecipes[] = {
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
    set_shared_experts();
    set_capacity();
    set_recompute();
    set_offload();
    set_cross_entropy();
    return gradient_bytes_;
  }

 private:
  // Sets the number format and the FP8 recipe.
  void set_precision() {
    const bool bf16 = args_->flag("bf16"), fp16 = args_->flag("fp16");
    if (bf16 && fp16) args_->fail("fp16", "it without " + args_->spelled("bf16"));
    const auto fp8 = args_->text("fp8"), fp4 = args_->text("fp4");
    const std::string recipe =
        args_->text("fp8_recipe")
            .value_or(style_ == MegatronStyle::Bridge ? "tensorwise" : "delayed");
    const bool tensor_amax = args_->flag("tp_only_amax_red");
    const auto is_unset = [](const std::optional<std::string>& word) {
      return !word || *word == "False" || *word == "false";
    };
    const auto set_format = [&](std::string_view format, std::string_view field) {
      plan_->set("train.precision", format, args_->spelled(field));
    };
    if (!is_unset(fp4)) {
      set_format("nvfp4", "fp4");
    } else if (!is_unset(fp8)) {
      set_format("fp8", "fp8");
      set_recipe(recipe);
      if (tensor_amax && !plan_->has("train.fp8_recipe"))
        plan_->set("train.amax_reduction", "tensor", args_->spelled("tp_only_amax_red"));
    } else if (fp16) {
      set_format("fp16", "fp16");
    } else if (bf16) {
      set_format("bf16", "bf16");
    } else if (style_ != MegatronStyle::Bridge) {
      plan_->set("train.precision", "fp32", "neither --bf16 nor --fp16");
    }
    set_gradient_dtype(bf16, fp16);
  }

  // Sets the format in which gradients are summed: fp32 with bf16 weights and fp16 with fp16 ones,
  // unless another is stated (megatron/training/arguments.py:1205 at d98e8a64). The fields by which
  // it is stated:
  //   accumulate_allreduce_grads_in_fp32, grad_reduce_in_bf16  Megatron-LM's flags
  //   grad_reduce_in_fp32                                      of its DDP and of Megatron-Bridge
  //   main_grads_dtype                                         of its precision-aware optimizer
  //   megatron_fsdp_main_grads_dtype                           of Megatron-FSDP
  //   use_torch_fsdp2                                          as wide as the weights
  void set_gradient_dtype(bool bf16, bool fp16) {
    const std::string usual = fp16 ? "fp16" : "fp32";  // a scenario's default
    std::string dtype = usual;
    std::string_view field = "accumulate_allreduce_grads_in_fp32";
    const bool sums_in_fp32 = args_->flag(field);
    const bool has_ddp_field = args_->has("grad_reduce_in_fp32");
    const bool reduces_in_fp32 = args_->flag("grad_reduce_in_fp32");
    const bool sums_in_bf16 =
        args_->flag("grad_reduce_in_bf16") || (has_ddp_field && !reduces_in_fp32);
    const bool is_bf16 = bf16 || (style_ == MegatronStyle::Bridge && !fp16);
    const bool has_16_bit_sums = read_main_grads_dtype(sums_in_fp32);
    const std::string weights = is_bf16 ? "bf16" : usual;
    // Megatron-FSDP's fields. They are read in any case, which marks them as understood.
    const std::string kept = number_format(args_, "megatron_fsdp_main_grads_dtype", weights);
    const std::string sent = number_format(args_, "megatron_fsdp_grad_comm_dtype", kept);
    if (args_->flag("use_megatron_fsdp")) {
      field = "megatron_fsdp_main_grads_dtype";
      dtype = kept;
      if (is_bf16 && !sums_in_bf16) list_fsdp_release();
      if (sent != kept)
        plan_->not_expressed.push_back(fmt::format("{} {}: gradients are sent as they are kept",
                                                   args_->spelled("megatron_fsdp_grad_comm_dtype"),
                                                   sent));
    } else if (args_->flag("use_torch_fsdp2")) {  // it has no other format
      field = "use_torch_fsdp2";
      dtype = weights;
    } else if (fp16 && (sums_in_fp32 || reduces_in_fp32)) {
      dtype = "fp32";
    } else if (is_bf16 && (sums_in_bf16 || has_16_bit_sums)) {
      field = sums_in_bf16 ? "grad_reduce_in_bf16" : "main_grads_dtype";
      dtype = "bf16";
    }
    if (dtype != usual) plan_->set("train.gradient_dtype", dtype, args_->spelled(field));
    gradient_bytes_ = dtype == "fp32" ? 4 : 2;
  }

  // Lists that a release of Megatron-FSDP is assumed whose gradients are as wide as the weights.
  // Releases before b969f764 of March 2026, and --use-custom-fsdp, have DDP's fields instead. So a
  // file that has the field, even as null, is of a later release: then nothing is assumed.
  void list_fsdp_release() {
    if (!args_->has_any("megatron_fsdp_main_grads_dtype"))
      plan_->assumed.push_back(
          "train.gradient_dtype = bf16: Megatron-FSDP's; releases before March 2026 keep fp32");
  }

  // Returns whether main_grads_dtype asks for sums in 16 bits. Fails if other fields exclude that.
  // In Megatron-Bridge and verl ("optim." in its name) it is of the optimizer's copy alone: then
  // lists it as not expressed and returns false.
  bool read_main_grads_dtype(bool sums_in_fp32) {
    const std::string name = args_->spelled("main_grads_dtype");
    if (number_format(args_, "main_grads_dtype", "fp32") == "fp32") return false;
    if (!args_->flag("use_precision_aware_optimizer"))
      args_->fail("main_grads_dtype", "fp32 without use_precision_aware_optimizer");
    const bool is_own = style_ == MegatronStyle::Megatron && name.find('.') == std::string::npos;
    if (is_own && sums_in_fp32)
      args_->fail("main_grads_dtype", "fp32 beside accumulate_allreduce_grads_in_fp32");
    if (!is_own)
      plan_->not_expressed.push_back(name + ": gradients are kept as train.gradient_dtype says");
    return is_own;
  }

  void set_recipe(const std::string& recipe) {
    const auto* row = std::ranges::find(kRecipes, recipe, &RecipeRow::megatron);
    if (row == std::end(kRecipes))
      plan_->not_understood.push_back(fmt::format("{} {}", args_->spelled("fp8_recipe"), recipe));
    else if (!row->scenario.empty())
      plan_->set("train.fp8_recipe", row->scenario, args_->spelled("fp8_recipe"));
  }

  void set_kernels() {
    set_attention();
    for (const SwitchRow& row : kSwitches) {
      const bool value = args_->flag(row.name, row.megatron_default);
      if (value != row.scenario_default) plan_->set(row.key, value, args_->spelled(row.name));
    }
    const std::string precision = plan_->text_of("train.precision");
    if (args_->flag("fp8_dot_product_attention") && (precision == "fp8" || precision == "nvfp4") &&
        plan_->flag_of("train.flash_attention"))
      plan_->set("train.fp8_attention", true, args_->spelled("fp8_dot_product_attention"));
    set_fusions();
    set_cuda_graphs();
  }

  void set_attention() {
    std::string backend = args_->text("attention_backend").value_or("auto");
    backend = backend.substr(backend.rfind('.') + 1);
    const bool is_local = args_->text("transformer_impl").value_or("transformer_engine") == "local";
    const bool is_asked = args_->flag("use_flash_attn");
    // Megatron-LM's enumeration. The value is a name, or the number of one.
    constexpr std::string_view kBackends[] = {"flash", "fused", "unfused", "local", "auto"};
    if (backend.size() == 1 && backend[0] >= '1' && backend[0] <= '5')
      backend = kBackends[backend[0] - '1'];
    if (std::find(std::begin(kBackends), std::end(kBackends), backend) == std::end(kBackends))
      args_->fail("attention_backend", "flash, fused, unfused, local or auto");
    if (is_asked || backend == "flash" || backend == "fused" || (backend == "auto" && !is_local)) {
      plan_->set("train.flash_attention", true,
                 is_asked ? args_->spelled("use_flash_attn")
                          : args_->spelled("attention_backend") + " " + backend);
      return;
    }
    const std::string_view field = backend == "auto" ? "transformer_impl" : "attention_backend";
    if (is_stated(field) || before_.has("train.flash_attention"))
      plan_->set("train.flash_attention", false, args_->spelled(field));
  }

  // Returns whether a line of the file has the field. Then even a default is set, so that it holds
  // for the job's other files, which may not state it.
  bool is_stated(std::string_view field) const { return !args_->place_of(field).empty(); }
  // Returns whether experts are spread over GPUs, by this file or else by an earlier one.
  bool cuts_experts() {
    const auto earlier = before_.whole_of("parallel.ep");
    return args_->whole("expert_model_parallel_size").value_or(earlier.value_or(1)) > 1;
  }

  // Sets whether the MLP's activation and the norms are fused kernels.
  void set_fusions() {
    const bool gelu = args_->flag("bias_gelu_fusion", true),
               swiglu = args_->flag("bias_swiglu_fusion", true),
               activation = args_->flag("bias_activation_fusion", true);
    const bool gated = plan_->flag_of("model.gated_mlp") || before_.flag_of("model.gated_mlp");
    const bool is_fused = activation && (gated ? swiglu : gelu);
    if (!is_fused)
      plan_->set("train.fused_bias_gelu", false,
                 args_->spelled(!activation ? "bias_activation_fusion"
                                : gated     ? "bias_swiglu_fusion"
                                            : "bias_gelu_fusion"));
    const bool persists = args_->flag("persist_layer_norm", true);
    if (!persists || args_->flag("no_persist_layer_norm"))
      plan_->set("train.fused_norm", false,
                 args_->spelled(persists ? "no_persist_layer_norm" : "persist_layer_norm"));
  }

  void set_cuda_graphs() {
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
    std::string known;
    for (const std::string& word : args_->words(name, "")) {
      if (word.starts_with("full")) return;
      if (std::ranges::find(kKnown, word) != std::end(kKnown)) {
        known += (known.empty() ? "" : ", ") + word;
      } else {
        plan_->not_expressed.push_back(
            fmt::format("{} {}: launched kernel by kernel", args_->spelled(name), word));
      }
    }
    if (!known.empty()) plan_->set("train.cuda_graph_scope", known, args_->spelled(name));
  }

  // Sets how tokens are sent to experts. A default is set only if they are spread over GPUs.
  void set_dispatcher() {
    const bool bridge = style_ == MegatronStyle::Bridge;
    std::string_view field = "moe_token_dispatcher_type";
    std::string dispatcher = args_->text(field).value_or(bridge ? "alltoall" : "allgather");
    const std::string backend = args_->text("moe_flex_dispatcher_backend").value_or("deepep");
    const bool is_deepep = args_->flag("moe_enable_deepep");  // the older flag
    if (dispatcher == "flex" || is_deepep) dispatcher = backend;
    if (is_deepep && !is_stated(field)) field = "moe_enable_deepep";
    if (!is_stated(field) && (!cuts_experts() || dispatcher == "alltoall")) return;
    if (dispatcher == "ncclep") {
      plan_->assumed.push_back("ncclep sends as DeepEP does");
      dispatcher = "deepep";
    }
    plan_->set("parallel.dispatcher", dispatcher, args_->spelled(field));
    if (dispatcher != "deepep" && dispatcher != "hybridep") return;
    // The last that is stated counts: today's name, else this backend's own, else the other's. Logs
    // of older releases have those of both backends.
    const std::string own = fmt::format("moe_{}_num_sms", dispatcher);
    for (const std::string& name :
         {std::string("moe_hybridep_num_sms"), std::string("moe_deepep_num_sms"), own,
          std::string("moe_flex_dispatcher_num_sms")}) {
      const auto sms = args_->whole(name, 1);
      if (sms) plan_->set("overlap.expert_sms", *sms, args_->spelled(name));
    }
  }

  // Sets whether shared experts run beside the exchange to the others. Megatron-Bridge's models
  // have that on, where a configuration does not say it.
  void set_shared_experts() {
    const bool bridge = style_ == MegatronStyle::Bridge;
    const std::string_view field = "moe_shared_expert_overlap";
    const bool overlaps = args_->flag(field, bridge);
    if (args_->flag("overlap_moe_expert_parallel_comm")) return;
    const bool has_shared = args_->whole("moe_shared_expert_intermediate_size").value_or(0) > 0 ||
                            some_layers_have("shared_expert_ffn", before_, *plan_);
    if (!has_shared || (!is_stated(field) && (overlaps || !cuts_experts()))) return;
    plan_->set("overlap.shared_experts", overlaps,
               is_stated(field) ? args_->spelled(field) : "no --moe-shared-expert-overlap");
  }

  // Sets how many tokens an expert takes at most, as a multiple of the mean.
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

  // Sets which activations are offloaded to the CPU: of some modules, or of some layers, as
  // Transformer Engine does it.
  void set_offload() {
    const bool by_module = args_->flag("fine_grained_activation_offloading");
    const std::string modules =
        fmt::format("{}", fmt::join(args_->words("offload_modules", ""), ", "));
    const auto layers = args_->whole("cpu_offloading_num_layers");
    // In Megatron-LM the number of layers alone switches it on.
    const bool by_layer = args_->flag("cpu_offloading", style_ != MegatronStyle::Bridge);
    if (by_module && !modules.empty())
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
    const bool is_kind_stated = fused && args_->text("cross_entropy_fusion_impl");
    plan_->set(
        "train.cross_entropy", fused ? kind : "unfused",
        args_->spelled(is_kind_stated ? "cross_entropy_fusion_impl" : "cross_entropy_loss_fusion"));
  }

  void set_recompute() {
    std::string granularity = args_->text("recompute_granularity").value_or("");
    std::string from = args_->spelled("recompute_granularity");
    // Megatron-LM before 2022 and Megatron-DeepSpeed have this flag.
    if (args_->flag("checkpoint_activations") && granularity.empty()) {
      granularity = "full";
      from = args_->spelled("checkpoint_activations");
    }
    if (args_->flag("recompute_activations") && granularity.empty()) {
      granularity = "selective";
      from = args_->spelled("recompute_activations");
    }
    std::string modules =
        fmt::format("{}", fmt::join(args_->words("recompute_modules", "core_attn"), ", "));
    if (args_->flag("moe_layer_recompute") && granularity.empty()) {
      granularity = "selective";
      modules = "moe";
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
      if (modules != "core_attn")
        plan_->set("train.recompute_modules", modules, args_->spelled("recompute_modules"));
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

std::string megatron_context_type(MegatronArguments* arguments, std::int64_t layers,
                                  ImportedPlan* plan) {
  const std::string_view name = "cp_comm_type";
  const std::vector<std::string> types = arguments->words(name, "p2p");
  if (types.empty()) return "p2p";
  for (const std::string& type : types) {
    if (!matches_word(type, "p2p a2a a2a+p2p allgather all_gather"))
      arguments->fail(name, "p2p, a2a, allgather or a2a+p2p");
  }
  // Layers of a hybrid's pattern may be halves of a scenario's.
  const auto size = static_cast<std::int64_t>(types.size());
  if (size > 1 && layers > 0 && size != layers && !arguments->has("hybrid_layer_pattern"))
    arguments->fail(name, fmt::format("one word, or one for each of {} layers", layers));
  if (std::ranges::count(types, types.front()) < size)
    plan->not_expressed.push_back(fmt::format("{}: layers differ: all are taken as the first, {}",
                                              arguments->spelled(name), types.front()));
  return types.front();
}

int set_megatron_kernels(MegatronArguments* arguments, MegatronStyle style,
                         const ImportedPlan& before, ImportedPlan* plan) {
  return MegatronKernels(arguments, style, before, plan).set();
}

}  // namespace tandem
