// The plan that Megatron-LM's arguments describe: how the model is cut, what overlaps.
#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/megatron/megatron.h"
#include "interop/places.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

// Integers that are taken as they are; those equal to the default are left out.
struct SizeRow {
  std::string_view name, key;
  Whole usual;
};
constexpr SizeRow kSizes[] = {{"tensor_model_parallel_size", "parallel.tp", 0},
                              {"pipeline_model_parallel_size", "parallel.pp", 0},
                              {"context_parallel_size", "parallel.cp", 1},
                              {"expert_model_parallel_size", "parallel.ep", 1},
                              {"micro_batch_size", "parallel.micro_batch", 0},
                              {"global_batch_size", "parallel.global_batch", 0},
                              {"seq_length", "model.seq", 0}};

// Switches by what Megatron-LM and a scenario have without a word.
struct SwitchRow {
  std::string_view name, key;
  bool usual, ours;
};
constexpr SwitchRow kSwitches[] = {
    {"fp8_param_gather", "train.fp8_param_gather", false, false},
    {"masked_softmax_fusion", "train.fused_softmax", true, true},
    {"cross_entropy_loss_fusion", "train.fused_cross_entropy", false, true},
    {"overlap_moe_expert_parallel_comm", "overlap.expert", false, false},
    {"delay_wgrad_compute", "overlap.delay_wgrad", false, false}};

// fp8_recipe in a scenario's words.
constexpr std::pair<std::string_view, std::string_view> kRecipes[] = {
    {"delayed", ""}, {"tensorwise", "current"}, {"blockwise", "blockwise"}, {"mxfp8", "mxfp8"}};

class MegatronPlan {
 public:
  MegatronPlan(MegatronArguments* arguments, MegatronStyle style, const ImportedPlan& before,
               Whole gpus, ImportedPlan* plan)
      : a_(arguments), style_(style), before_(before), gpus_(gpus), plan_(plan) {}

  void set() {
    set_sizes();
    set_stages();
    set_precision();
    set_kernels();
    set_dispatcher();
    set_recompute();
    set_data();
    set_tensor_overlap();
    set_optimizer();
  }

 private:
  bool bridge() const { return style_ == MegatronStyle::Bridge; }
  // Of this file, or of those before it.
  Whole model_layers() const {
    const auto own = plan_->whole_of("model.layers");
    return own ? *own : before_.whole_of("model.layers").value_or(0);
  }
  Whole dp() const { return dp_; }

  void set_sizes() {
    for (const SizeRow& row : kSizes) {
      const auto value = a_->whole(row.name, 1);
      if (value && *value != row.usual) plan_->set(row.key, *value, a_->spelled(row.name));
    }
    tp_ = a_->whole("tensor_model_parallel_size", 1).value_or(1);
    pp_ = a_->whole("pipeline_model_parallel_size", 1).value_or(1);
    cp_ = a_->whole("context_parallel_size", 1).value_or(1);
    set_gpus();
    // A dense model has no experts to cut.
    const bool dense = !plan_->value_of("model.layers").empty() && !a_->has("num_experts");
    if (const auto etp = a_->whole("expert_tensor_parallel_size", 1); etp && *etp != tp_ && !dense)
      plan_->set("parallel.expert_tp", *etp, a_->spelled("expert_tensor_parallel_size"));
    if (const auto schedule = a_->text("step_batch_size_schedule");
        schedule && plan_->value_of("parallel.global_batch").empty()) {
      // "0:384 200B:768": the last one is what most tokens are trained with.
      const std::string last = schedule->substr(schedule->rfind(':') + 1);
      if (const auto list = python_list("[" + last + "]"); list && list->size() == 1) {
        plan_->set("parallel.global_batch", list->front(), a_->spelled("step_batch_size_schedule"));
        plan_->assumed.push_back(fmt::format(
            "parallel.global_batch = {}: the last of the schedule '{}'", list->front(), *schedule));
      } else {
        a_->fail("step_batch_size_schedule", "AT:BATCH ...");
      }
    }
    if (cp_ > 1) set_context();
    if (a_->flag("sequence_parallel") && tp_ > 1)
      plan_->set("train.sequence_parallel", true, a_->spelled("sequence_parallel"));
  }

  void set_gpus() {
    auto world = a_->whole("world_size", 1);
    std::string from = a_->spelled("world_size");
    const auto nodes = a_->whole("nnodes", 1), each = a_->whole("gpus_per_node", 1);
    if (!world && (nodes || each)) {
      world = nodes.value_or(1) * each.value_or(8);
      from = "nodes x GPUs a node";
    }
    const auto replicas = a_->whole("data_parallel_size", 1);
    const Whole block = tp_ * pp_ * cp_;
    if (world) {
      plan_->set("cluster.gpus", *world, from);
    } else if (replicas) {
      plan_->set("parallel.dp", *replicas, a_->spelled("data_parallel_size"));
    }
    if (gpus_ > 0) world = gpus_;
    dp_ = world ? *world / block : replicas.value_or(0);
  }

  void set_context() {
    std::string type = a_->text("cp_comm_type").value_or("p2p");
    std::erase_if(type, [](char c) { return c == '[' || c == ']' || c == '\'' || c == '"'; });
    type = type.substr(0, type.find_first_of(" ,"));
    if (type == "a2a")
      plan_->set_text("parallel.cp_comm", "all_to_all", a_->spelled("cp_comm_type"));
    if (type == "allgather" || type == "all_gather")
      plan_->set_text("parallel.cp_comm", "all_gather", a_->spelled("cp_comm_type"));
    if (type == "a2a+p2p")
      plan_->not_expressed.push_back(a_->spelled("cp_comm_type") + " a2a+p2p: taken as a ring");
    if (type == "p2p" || type == "a2a+p2p")
      plan_->set("overlap.context", true, "Transformer Engine's ring, always on");
  }

  void set_stages() {
    const Whole layers = model_layers();
    Whole vpp = 1;
    std::string from;
    if (const auto layout = a_->text("pipeline_model_parallel_layout")) {
      const auto shape = layout_shape(*layout);
      if (!shape || shape->stages % pp_ != 0) {
        a_->fail("pipeline_model_parallel_layout",
                 fmt::format("E, t, m, L and bars for a multiple of {} stages", pp_));
        return;
      }
      from = a_->spelled("pipeline_model_parallel_layout");
      plan_->set_text("parallel.layout", *layout, from);
      vpp = shape->stages / pp_;
    } else if (const auto sizes = a_->whole("virtual_pipeline_model_parallel_size", 1)) {
      vpp = *sizes;
      from = a_->spelled("virtual_pipeline_model_parallel_size");
    } else if (const auto stages = a_->whole("num_virtual_stages_per_pipeline_rank", 1)) {
      vpp = *stages;
      from = a_->spelled("num_virtual_stages_per_pipeline_rank");
    } else if (const auto each = a_->whole("num_layers_per_virtual_pipeline_stage", 1)) {
      from = a_->spelled("num_layers_per_virtual_pipeline_stage");
      const Whole all = layers + (a_->flag("account_for_embedding_in_pipeline_split") ? 1 : 0) +
                        (a_->flag("account_for_loss_in_pipeline_split") ? 1 : 0);
      if (layers == 0 || all % (pp_ * *each) != 0) {
        a_->fail("num_layers_per_virtual_pipeline_stage",
                 layers == 0 ? "num_layers too, here or in an earlier file"
                             : fmt::format("a divisor of {} layers / {} stages", all, pp_));
        return;
      }
      vpp = all / pp_ / *each;
    }
    a_->whole("num_layers_per_virtual_pipeline_stage");
    if (vpp > 1) plan_->set("parallel.vpp", vpp, from);
    vpp_ = vpp;
    if (!a_->has("pipeline_model_parallel_layout")) set_layers_per_stage(layers);
    set_transfers();
  }

  // First and last ranks with other numbers of layers, or embedding and loss counted as layers.
  void set_layers_per_stage(Whole layers) {
    const auto first = a_->whole("decoder_first_pipeline_num_layers");
    const auto last = a_->whole("decoder_last_pipeline_num_layers");
    const Whole embedding = a_->flag("account_for_embedding_in_pipeline_split") ? 1 : 0;
    const Whole loss = a_->flag("account_for_loss_in_pipeline_split") ? 1 : 0;
    if (pp_ == 1 || (!first && !last && embedding + loss == 0)) return;
    if (layers == 0) {
      plan_->not_expressed.push_back(
          "layers of first and last stages: import the model's file before this one");
      return;
    }
    const Whole stages = pp_ * vpp_;
    std::vector<Whole> list;
    std::string_view name = "decoder_first_pipeline_num_layers";
    if (first || last) {
      if (!first) name = "decoder_last_pipeline_num_layers";
      const Whole ranks = pp_ - (first ? 1 : 0) - (last ? 1 : 0);
      const Whole rest = layers - first.value_or(0) - last.value_or(0);
      for (Whole stage = 0; stage < stages; ++stage) {
        const Whole rank = stage % pp_;
        const Whole own = first && rank == 0        ? *first
                          : last && rank == pp_ - 1 ? *last
                                                    : rest / std::max<Whole>(1, ranks);
        list.push_back(own / vpp_);
      }
    } else {
      name = embedding > 0 ? "account_for_embedding_in_pipeline_split"
                           : "account_for_loss_in_pipeline_split";
      list.assign(static_cast<std::size_t>(stages), (layers + embedding + loss) / stages);
      list.front() -= embedding;
      list.back() -= loss;
    }
    Whole sum = 0;
    for (const Whole of : list) sum += of;
    if (sum != layers) {
      a_->fail(name, fmt::format("{} layers over {} stages", layers, stages));
      return;
    }
    plan_->set_toml("parallel.layers_per_stage", fmt::format("[{}]", fmt::join(list, ", ")),
                    a_->spelled(name));
  }

  void set_transfers() {
    const bool overlaps = a_->flag("overlap_p2p_comm", true) && vpp_ > 1;
    a_->flag("batch_p2p_comm");
    if (pp_ > 1 && vpp_ > 1 && !overlaps)
      plan_->set("overlap.p2p", false, a_->spelled("overlap_p2p_comm"));
    if (pp_ > 1 && !overlaps)
      plan_->set("overlap.batch_p2p", true, "Megatron-LM's where transfers do not overlap");
    const auto group = a_->whole("microbatch_group_size_per_vp_stage", 1);
    if (group && vpp_ > 1 && *group != pp_)
      plan_->set("schedule.group", *group, a_->spelled("microbatch_group_size_per_vp_stage"));
  }

  void set_precision() {
    const bool bf16 = a_->flag("bf16"), fp16 = a_->flag("fp16");
    const auto fp8 = a_->text("fp8"), fp4 = a_->text("fp4");
    const auto mixed = a_->text("mixed_precision");
    const bool named = mixed.has_value();
    const std::string recipe = a_->text("fp8_recipe").value_or("delayed");
    const auto off = [](const std::optional<std::string>& word) {
      return !word || *word == "False" || *word == "false";
    };
    if (!off(fp4) || (named && mixed->find("fp4") != std::string::npos)) {
      plan_->set_text("train.precision", "nvfp4", a_->spelled(named ? "mixed_precision" : "fp4"));
    } else if (!off(fp8) || (named && mixed->find("fp8") != std::string::npos)) {
      plan_->set_text("train.precision", "fp8", a_->spelled(named ? "mixed_precision" : "fp8"));
      set_recipe(named && off(fp8) ? *mixed : recipe, named && off(fp8));
    } else if (fp16 || (named && mixed->starts_with("fp16"))) {
      plan_->set_text("train.precision", "fp16", a_->spelled(named ? "mixed_precision" : "fp16"));
    } else if (!bf16 && !named && !bridge()) {
      plan_->set_text("train.precision", "fp32", "neither --bf16 nor --fp16");
    }
    if (fp16 && (a_->flag("accumulate_allreduce_grads_in_fp32") || a_->flag("grad_reduce_in_fp32")))
      plan_->set_text("train.gradient_dtype", "fp32",
                      a_->spelled("accumulate_allreduce_grads_in_fp32"));
    const bool bf16_sums =
        a_->flag("grad_reduce_in_bf16") ||
        (a_->has("grad_reduce_in_fp32") && !a_->flag("grad_reduce_in_fp32", true));
    a_->flag("accumulate_allreduce_grads_in_fp32");
    if (bf16_sums && !fp16) {
      plan_->set_text("train.gradient_dtype", "bf16", a_->spelled("grad_reduce_in_bf16"));
      gradient_bytes_ = 2;
    }
  }

  void set_recipe(const std::string& recipe, bool in_name) {
    for (const auto& [theirs, ours] : kRecipes) {
      const bool fits = in_name ? recipe.find(theirs) != std::string::npos : recipe == theirs;
      if (fits && !ours.empty())
        plan_->set_text("train.fp8_recipe", ours, a_->spelled("fp8_recipe"));
      if (fits) return;
    }
    if (in_name && recipe.find("current") != std::string::npos)
      plan_->set_text("train.fp8_recipe", "current", a_->spelled("mixed_precision"));
    if (in_name && recipe.find("subchannel") != std::string::npos)
      plan_->set_text("train.fp8_recipe", "blockwise", a_->spelled("mixed_precision"));
    if (!in_name)
      plan_->not_understood.push_back(fmt::format("{} {}", a_->spelled("fp8_recipe"), recipe));
  }

  void set_kernels() {
    std::string backend = a_->text("attention_backend").value_or("auto");
    backend = backend.substr(backend.rfind('.') + 1);
    const bool local = a_->text("transformer_impl").value_or("transformer_engine") == "local";
    const bool asked = a_->flag("use_flash_attn");
    if (asked || backend == "flash" || backend == "fused" || (backend == "auto" && !local)) {
      plan_->set(
          "train.flash_attention", true,
          asked ? a_->spelled("use_flash_attn") : a_->spelled("attention_backend") + " " + backend);
    } else if (!before_.value_of("train.flash_attention").empty()) {
      plan_->set("train.flash_attention", false, a_->spelled("attention_backend"));
    }
    for (const SwitchRow& row : kSwitches) {
      const bool value = a_->flag(row.name, row.usual);
      if (value != row.ours) plan_->set(row.key, value, a_->spelled(row.name));
    }
    const bool gelu = a_->flag("bias_gelu_fusion", true),
               swiglu = a_->flag("bias_swiglu_fusion", true);
    const bool gated = plan_->value_of("model.gated_mlp") == "true";
    if (gated ? !swiglu : !gelu)
      plan_->set("train.fused_bias_gelu", false,
                 a_->spelled(gated ? "bias_swiglu_fusion" : "bias_gelu_fusion"));
    if (a_->flag("no_persist_layer_norm"))
      plan_->set("train.fused_norm", false, a_->spelled("no_persist_layer_norm"));
    constexpr std::string_view kNoGraphs = "none";
    const std::string graphs = a_->text("cuda_graph_impl").value_or(std::string(kNoGraphs));
    const bool old = a_->flag("enable_cuda_graph") || a_->flag("external_cuda_graph");
    if (graphs != kNoGraphs || old) {
      plan_->set("train.cuda_graphs", true,
                 a_->spelled(old ? "enable_cuda_graph" : "cuda_graph_impl"));
      for (const char* name : {"cuda_graph_modules", "cuda_graph_scope"}) {
        const std::string scope = a_->text(name).value_or("[]");
        if (scope != "[]" && scope != "full")
          plan_->not_expressed.push_back(
              fmt::format("{} {}: all of a pass is in the graph", a_->spelled(name), scope));
      }
    }
  }

  // Where one GPU has all experts it says nothing.
  void set_dispatcher() {
    std::string word =
        a_->text("moe_token_dispatcher_type").value_or(bridge() ? "alltoall" : "allgather");
    const std::string backend = a_->text("moe_flex_dispatcher_backend").value_or("deepep");
    const bool old = a_->flag("moe_enable_deepep");
    if (word == "flex" || old) word = backend;
    if (a_->whole("expert_model_parallel_size").value_or(1) == 1 || word == "alltoall") return;
    if (word == "ncclep") {
      plan_->assumed.push_back("ncclep sends as DeepEP does");
      word = "deepep";
    }
    plan_->set_text("parallel.dispatcher", word, a_->spelled("moe_token_dispatcher_type"));
  }

  void set_recompute() {
    std::string granularity = a_->text("recompute_granularity").value_or("");
    std::string from = a_->spelled("recompute_granularity");
    if (a_->flag("recompute_activations") && granularity.empty()) {
      granularity = "selective";
      from = a_->spelled("recompute_activations");
    }
    std::string modules = a_->text("recompute_modules").value_or("core_attn");
    std::erase_if(modules, [](char c) { return c == '[' || c == ']' || c == '\'' || c == '"'; });
    std::replace(modules.begin(), modules.end(), ',', ' ');
    std::string list;
    for (const std::string& word : split(modules, " "))
      list += word.empty() ? "" : (list.empty() ? "" : ", ") + word;
    if (a_->flag("moe_layer_recompute") && granularity.empty()) {
      granularity = "selective";
      list = "moe";
      from = a_->spelled("moe_layer_recompute");
    }
    const std::string method = a_->text("recompute_method").value_or("uniform");
    const auto layers = a_->whole("recompute_num_layers");
    if (granularity == "full") {
      plan_->set_text("train.recompute", "full", from);
      if (method == "block" && layers)
        plan_->set("train.recompute_layers", *layers, a_->spelled("recompute_num_layers"));
      if (method == "uniform" && layers.value_or(1) > 1)
        plan_->not_expressed.push_back(
            fmt::format("{} {}: with uniform, each layer is a chunk of its own",
                        a_->spelled("recompute_num_layers"), *layers));
    } else if (granularity == "selective") {
      plan_->set_text("train.recompute", "selective", from);
      if (list != "core_attn")
        plan_->set_text("train.recompute_modules", list, a_->spelled("recompute_modules"));
    } else if (!granularity.empty()) {
      a_->fail("recompute_granularity", "full or selective");
    }
  }

  void set_data() {
    const bool distributed = a_->flag("use_distributed_optimizer", bridge());
    if (bridge() && !a_->has("use_distributed_optimizer"))
      plan_->assumed.push_back("train.zero = 1: Megatron-Bridge's distributed optimizer");
    Whole zero = distributed ? 1 : 0;
    std::string from = a_->spelled("use_distributed_optimizer");
    if (a_->flag("use_megatron_fsdp") || a_->flag("use_custom_fsdp")) {
      const std::string strategy =
          a_->text("data_parallel_sharding_strategy").value_or("optim_grads_params");
      from = a_->spelled("data_parallel_sharding_strategy");
      zero = strategy == "no_shard"      ? 0
             : strategy == "optim"       ? 1
             : strategy == "optim_grads" ? 2
                                         : 3;
    } else {
      a_->text("data_parallel_sharding_strategy");
    }
    if (a_->flag("use_torch_fsdp2")) {
      zero = 3;
      from = a_->spelled("use_torch_fsdp2");
      if (!a_->flag("torch_fsdp2_reshard_after_forward", true))
        plan_->set("train.reshard_after_forward", false,
                   a_->spelled("torch_fsdp2_reshard_after_forward"));
    }
    if (zero > 0) plan_->set("train.zero", zero, from);
    if (const auto instances = a_->whole("num_distributed_optimizer_instances", 1);
        instances.value_or(1) > 1) {
      if (dp() > 0 && dp() % *instances == 0) {
        plan_->set("parallel.hsdp_shard", dp() / *instances,
                   a_->spelled("num_distributed_optimizer_instances"));
      } else {
        plan_->not_expressed.push_back(
            fmt::format("{} {}: how many GPUs shard is not known without the job's",
                        a_->spelled("num_distributed_optimizer_instances"), *instances));
      }
    }
    const bool by_default = bridge() && dp() != 1;
    const bool reduces = a_->flag("overlap_grad_reduce", by_default);
    const bool gathers = a_->flag("overlap_param_gather", by_default && zero > 0);
    const bool aligned = a_->flag("align_param_gather", !bridge() || (pp_ > 1 && vpp_ > 1));
    if (bridge() && by_default && !a_->has("overlap_grad_reduce"))
      plan_->assumed.push_back(
          "overlap.grad_reduce and param_gather: on in Megatron-Bridge with dp > 1");
    if (reduces) plan_->set("overlap.grad_reduce", true, a_->spelled("overlap_grad_reduce"));
    if (gathers) {
      plan_->set("overlap.param_gather", true, a_->spelled("overlap_param_gather"));
      if (vpp_ == 1 || !aligned)
        plan_->set(
            "overlap.align_param_gather", false,
            vpp_ == 1 ? "forced off without virtual stages" : a_->spelled("align_param_gather"));
    }
    const auto bucket = a_->whole("ddp_bucket_size", 1);
    if (!reduces || pp_ > 1 || zero == 3) return;
    const Whole usual =
        bridge() ? Whole{128} * 1024 * 1024 : std::max(Whole{40'000'000}, Whole{1'000'000} * dp());
    const Whole parameters = bucket.value_or(usual);
    plan_->set("overlap.bucket_MB", static_cast<double>(parameters * gradient_bytes_) / 1e6,
               fmt::format("{} parameters of {} bytes", parameters, gradient_bytes_));
  }

  // Transformer Engine's methods where nobody sets them GEMM by GEMM.
  void set_tensor_overlap() {
    if (!a_->flag("tp_comm_overlap") || tp_ == 1) return;
    const std::string from = a_->spelled("tp_comm_overlap");
    if (plan_->value_of("train.sequence_parallel").empty()) {
      plan_->set("train.sequence_parallel", true, from);
      plan_->assumed.push_back("train.sequence_parallel = true: " + from + " needs it");
    }
    plan_->set_text("overlap.tensor", "ring", from + ": Transformer Engine's default methods");
    const auto gemm = [&](std::string_view name, std::string_view method, std::string_view why) {
      plan_->set_text("overlap.gemm." + std::string(name), method, why);
    };
    const bool dense = plan_->value_of("model.experts").empty();
    const bool rs = a_->flag("tp_comm_overlap_rs", true), ag = a_->flag("tp_comm_overlap_ag", true);
    gemm("proj_fprop", rs ? "pipelined" : "off", rs ? from : a_->spelled("tp_comm_overlap_rs"));
    if (dense)
      gemm("fc2_fprop", rs ? "pipelined" : "off", rs ? from : a_->spelled("tp_comm_overlap_rs"));
    if (!ag) {
      for (const char* name : {"qkv_fprop", "proj_dgrad", "fc1_fprop", "fc2_dgrad"}) {
        if (dense || name[0] != 'f') gemm(name, "off", a_->spelled("tp_comm_overlap_ag"));
      }
    }
    for (const auto& [flag, suffix] :
         {std::pair{"tp_comm_bulk_dgrad", "_dgrad"}, std::pair{"tp_comm_bulk_wgrad", "_wgrad"}}) {
      if (a_->flag(flag, true)) continue;
      gemm(fmt::format("qkv{}", suffix), "off", a_->spelled(flag));
      if (dense) gemm(fmt::format("fc1{}", suffix), "off", a_->spelled(flag));
    }
  }

  void set_optimizer() {
    std::string optimizer = a_->text("optimizer").value_or("adam");
    if (optimizer.starts_with("dist_")) optimizer.erase(0, 5);
    if (optimizer == "sgd" || optimizer == "muon")
      plan_->set_text("train.optimizer", optimizer, a_->spelled("optimizer"));
    else if (optimizer != "adam")
      plan_->not_understood.push_back(fmt::format("{} {}", a_->spelled("optimizer"), optimizer));
    if (!a_->flag("use_precision_aware_optimizer")) return;
    std::string states = a_->text("exp_avg_dtype").value_or("fp32");
    if (states.find("bfloat16") != std::string::npos) states = "bf16";
    if (states.find("float16") != std::string::npos) states = "fp16";
    if (states == "bf16" || states == "fp16" || states == "fp8")
      plan_->set_text("train.optimizer_dtype", states, a_->spelled("exp_avg_dtype"));
  }

  MegatronArguments* a_;
  MegatronStyle style_;
  const ImportedPlan& before_;
  Whole gpus_;
  ImportedPlan* plan_;
  Whole tp_ = 1, pp_ = 1, cp_ = 1, vpp_ = 1, dp_ = 0, gradient_bytes_ = 4;
};

// A model of an earlier file has the vocabulary of its tokenizer.
void pad_vocabulary(MegatronArguments* arguments, const ImportedPlan& before, ImportedPlan* plan) {
  const auto vocab = before.whole_of("model.vocab");
  if (!vocab || !plan->value_of("model.vocab").empty()) return;
  const Whole multiple = arguments->whole("make_vocab_size_divisible_by", 1).value_or(128) *
                         plan->whole_of("parallel.tp").value_or(1);
  const Whole padded = (*vocab + multiple - 1) / multiple * multiple;
  if (padded != *vocab)
    plan->set("model.vocab", padded,
              fmt::format("{} padded to a multiple of {}", *vocab, multiple));
}

}  // namespace

Result<ImportedPlan> import_megatron(MegatronArguments* arguments, const std::string& source,
                                     MegatronStyle style, const ImportedPlan& before,
                                     std::int64_t gpus) {
  ImportedPlan plan;
  plan.sources.push_back(source);
  set_megatron_model(arguments, style, &plan);
  RETURN_IF_ERROR(arguments->status());
  MegatronPlan(arguments, style, before, gpus, &plan).set();
  pad_vocabulary(arguments, before, &plan);
  RETURN_IF_ERROR(arguments->status());
  arguments->list_left(&plan);
  place_keys([&](std::string_view field) { return arguments->place_of(field); }, &plan);
  return plan;
}

}  // namespace tandem
