// Turns Megatron-LM's arguments for parallel sizes, batch, layers of each stage, sharding and
// overlaps into keys of a scenario. A missing argument has the default of Megatron-LM or
// Megatron-Bridge. Reading an argument also marks it as understood, so some are read without using
// their value. Declared in interop/megatron/megatron.h.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/csv.h"
#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/megatron/layout.h"
#include "interop/megatron/megatron.h"
#include "interop/plan/places.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

// Integer arguments that become keys unchanged, unless they equal Megatron-LM's default.
struct SizeRow {
  std::string_view name;
  IntegerKey key;
  Whole default_value;  // 0: the key is always set
};
constexpr SizeRow kSizes[] = {{"tensor_model_parallel_size", "parallel.tp", 0},
                              {"pipeline_model_parallel_size", "parallel.pp", 0},
                              {"context_parallel_size", "parallel.cp", 1},
                              {"expert_model_parallel_size", "parallel.ep", 1},
                              {"micro_batch_size", "parallel.micro_batch", 0},
                              {"global_batch_size", "parallel.global_batch", 0},
                              {"seq_length", "model.seq", 0}};

class MegatronPlan {
 public:
  MegatronPlan(MegatronArguments* arguments, MegatronStyle style, const ImportedPlan& before,
               Whole gpus, ImportedPlan* plan)
      : args_(arguments), style_(style), before_(before), gpus_(gpus), plan_(plan) {}

  void set() {
    plan_->set("train.framework", "megatron", "Megatron-LM's arguments");
    set_sizes();
    set_stages();
    gradient_bytes_ = set_megatron_kernels(args_, style_, before_, plan_);
    set_sharding();
    set_data_overlap();
    set_tensor_overlap();
    set_megatron_optimizer(args_, style_, plan_);
  }

 private:
  bool bridge() const { return style_ == MegatronStyle::Bridge; }
  // Returns a size of this file's model, or of an earlier file's; 0: unknown.
  Whole model_size(IntegerKey key) const {
    return plan_->whole_of(key).value_or(before_.whole_of(key).value_or(0));
  }

  void set_sizes() {
    for (const SizeRow& row : kSizes) {
      const auto value = args_->whole(row.name, 1);
      // A stated default says something where an earlier file states another value.
      if (value && (*value != row.default_value || before_.has(row.key)))
        plan_->set(row.key, *value, args_->spelled(row.name));
    }
    tp_ = args_->whole("tensor_model_parallel_size", 1).value_or(1);
    pp_ = args_->whole("pipeline_model_parallel_size", 1).value_or(1);
    cp_ = args_->whole("context_parallel_size", 1).value_or(1);
    set_gpus();
    // A dense model has no experts to cut.
    const bool dense = plan_->has("model.layers") && !args_->has("num_experts");
    const auto etp = args_->whole("expert_tensor_parallel_size", 1);
    if (etp && *etp != tp_ && !dense)
      plan_->set("parallel.expert_tp", *etp, args_->spelled("expert_tensor_parallel_size"));
    set_batch_schedule();
    if (cp_ > 1) set_context();
    const auto before = before_.whole_of("parallel.tp");  // of --set, too
    if (args_->flag("sequence_parallel") && (tp_ > 1 || before.value_or(1) > 1))
      plan_->set("train.sequence_parallel", true, args_->spelled("sequence_parallel"));
  }

  // Takes the last batch of a schedule, which trains most tokens: in "0:384 200B:768" the batch is
  // 768 from 200 B tokens on.
  void set_batch_schedule() {
    const auto schedule = args_->text("step_batch_size_schedule");
    if (!schedule || plan_->has("parallel.global_batch")) return;
    const std::string last = schedule->substr(schedule->rfind(':') + 1);
    if (const auto list = python_list("[" + last + "]"); list && list->size() == 1) {
      plan_->set("parallel.global_batch", list->front(),
                 args_->spelled("step_batch_size_schedule"));
      plan_->assumed.push_back(fmt::format(
          "parallel.global_batch = {}: the last of the schedule '{}'", list->front(), *schedule));
    } else {
      args_->fail("step_batch_size_schedule", "AT:BATCH ...");
    }
  }

  // Sets the number of GPUs, or else of replicas (dp). A batch that is not stated is one microbatch
  // on each replica, as in Megatron-LM.
  void set_gpus() {
    auto world = args_->whole("world_size", 1);
    std::string from = args_->spelled("world_size");
    const auto nodes = args_->whole("nnodes", 1), gpus_per_node = args_->whole("gpus_per_node", 1);
    const bool is_open = args_->open_value("nnodes") || args_->open_value("gpus_per_node");
    if (!world && !is_open && (nodes || gpus_per_node)) {
      world = product_of({nodes.value_or(1), gpus_per_node.value_or(8)});
      from = "nodes x GPUs a node";
      if (!gpus_per_node)
        plan_->assumed.push_back("8 GPUs a node: the file states only how many nodes");
    }
    const auto replicas = args_->whole("data_parallel_size", 1);
    const Whole gpus_of_replica = product_of({tp_, pp_, cp_});
    if (world) {
      plan_->set("cluster.gpus", *world, from);
    } else if (replicas) {
      plan_->set("parallel.dp", *replicas, args_->spelled("data_parallel_size"));
    }
    if (gpus_ > 0) world = gpus_;  // --gpus overrides the file
    dp_ = world ? *world / gpus_of_replica : replicas.value_or(0);
    const auto micro = plan_->whole_of("parallel.micro_batch");
    if (dp_ > 0 && micro && !plan_->has("parallel.global_batch") &&
        !args_->has("step_batch_size_schedule"))
      plan_->set("parallel.global_batch", product_of({*micro, dp_}),
                 args_->spelled("global_batch_size") + ": a microbatch on each replica");
  }

  void set_context() {
    const std::string type = megatron_context_type(args_, model_size("model.layers"), plan_);
    if (type == "a2a") plan_->set("parallel.cp_comm", "all_to_all", args_->spelled("cp_comm_type"));
    if (type == "allgather" || type == "all_gather")
      plan_->set("parallel.cp_comm", "all_gather", args_->spelled("cp_comm_type"));
    if (type == "a2a+p2p")
      plan_->not_expressed.push_back(args_->spelled("cp_comm_type") + " a2a+p2p: taken as a ring");
    // Mamba and linear attention scan over positions, so a rank needs all positions of some heads:
    // context parallelism is then by all-to-all.
    const bool has_scans = std::any_of(plan_->keys.begin(), plan_->keys.end(), [](const auto& key) {
      return key.key.ends_with(".mixer") && (key.value == KeyValue(std::string("mamba")) ||
                                             key.value == KeyValue(std::string("linear")));
    });
    if (has_scans && type != "a2a") {
      plan_->set("parallel.cp_comm", "all_to_all", "Mamba's layers and delta nets");
      plan_->not_expressed.push_back(args_->spelled("cp_comm_type") + " " + type +
                                     ": attention changes heads for positions, as the scans do");
    } else if (type == "p2p" || type == "a2a+p2p")
      plan_->set("overlap.context", true, "Transformer Engine's ring, always on");
  }

  // Returns the number of layers between the bars of a hybrid model's pattern: "M*|M-M" is {2, 3}.
  std::vector<Whole> pattern_segments() {
    const std::string pattern = args_->text("hybrid_layer_pattern").value_or("");
    std::vector<Whole> segments;
    for (const std::string& segment : split(pattern.substr(0, pattern.find('/')), "|"))
      segments.push_back(static_cast<Whole>(segment.size()));
    return segments;
  }

  // Sets the layers of each stage and the virtual stages of each rank (vpp). The first of these
  // that is stated counts: a layout, bars in a hybrid model's pattern, a number.
  void set_stages() {
    const Whole layers = model_size("model.layers");
    const std::vector<Whole> segments = pattern_segments();
    if (pp_ == 1 && segments.size() > 1)
      plan_->not_expressed.push_back(args_->spelled("hybrid_layer_pattern") +
                                     ": bars cut nothing without pipeline stages");
    const auto layout = args_->text("pipeline_model_parallel_layout");
    const bool has_bars = segments.size() > 1 && pp_ > 1;
    const bool is_valid = layout     ? set_layout(*layout, layers)
                          : has_bars ? set_segments(segments)
                                     : set_virtual_stages(layers);
    if (!is_valid) return;
    const std::string_view name = "virtual_pipeline_model_parallel_size";
    if (args_->whole(name, 1).value_or(vpp_) != vpp_)
      args_->fail(name, fmt::format("{}, as the stages have it", vpp_));
    args_->whole("num_layers_per_virtual_pipeline_stage");  // marks it as understood
    if (!layout && !plan_->has("parallel.layers_per_stage")) set_layers_per_stage(layers);
    set_transfers();
  }

  void set_vpp(Whole vpp, const std::string& from) {
    vpp_ = vpp;
    if (vpp > 1) plan_->set("parallel.vpp", vpp, from);
  }

  // Sets parallel.layers_per_stage from a layout. Where multi-token prediction is on a stage before
  // the loss, sets parallel.layout instead. Returns false if the layout does not fit the model.
  bool set_layout(const std::string& layout, Whole layers) {
    const auto stages = layout_stages(layout);
    if (!stages || static_cast<Whole>(stages->size()) % pp_ != 0) {
      args_->fail("pipeline_model_parallel_layout",
                  fmt::format("E, t, m, L and bars for a multiple of {} stages", pp_));
      return false;
    }
    const std::string from = args_->spelled("pipeline_model_parallel_layout");
    std::vector<Whole> layers_of_stage;
    Whole sum = 0;
    for (const LayoutStage& stage : *stages) sum += layers_of_stage.emplace_back(stage.layers);
    if (layers > 0 && sum != layers) {
      args_->fail("pipeline_model_parallel_layout",
                  fmt::format("{} t, as many as there are layers", layers));
      return false;
    }
    const LayoutStage &first = stages->front(), &last = stages->back();
    if (first.embeddings == 0 || last.losses == 0)
      plan_->not_expressed.push_back(
          from + ": the embedding is on the first stage, and the loss on the last");
    if (pp_ > 1 && first.embeddings == 1 && last.losses == 1 && has_mtp_before_loss(*stages)) {
      plan_->set("parallel.layout", layout, from);
    } else {
      if (std::any_of(stages->begin(), stages->end() - 1,
                      [](const LayoutStage& stage) { return stage.mtp_layers != 0; }))
        plan_->not_expressed.push_back(from + ": multi-token prediction is on the last stage");
      plan_->set("parallel.layers_per_stage", layers_of_stage, from);
    }
    set_vpp(static_cast<Whole>(stages->size()) / pp_, from);
    return true;
  }

  // Sets the layers of each stage from a hybrid's pattern. False: some rank would have more stages.
  bool set_segments(const std::vector<Whole>& segments) {
    if (static_cast<Whole>(segments.size()) % pp_ != 0) {
      args_->fail("hybrid_layer_pattern", fmt::format("bars for a multiple of {} stages", pp_));
      return false;
    }
    const std::string from = args_->spelled("hybrid_layer_pattern");
    plan_->set("parallel.layers_per_stage", segments, from);
    set_vpp(static_cast<Whole>(segments.size()) / pp_, from);
    return true;
  }

  // Sets a rank's virtual stages from their number or their layers. False: the layers do not split.
  bool set_virtual_stages(Whole layers) {
    for (const char* name :
         {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"}) {
      if (const auto stages = args_->whole(name, 1)) {
        set_vpp(*stages, args_->spelled(name));
        return true;
      }
    }
    const std::string_view name = "num_layers_per_virtual_pipeline_stage";
    const auto layers_of_stage = args_->whole(name, 1);
    if (!layers_of_stage) return true;
    // The embedding and the loss may count as a layer each.
    const Whole all = layers + (args_->flag("account_for_embedding_in_pipeline_split") ? 1 : 0) +
                      (args_->flag("account_for_loss_in_pipeline_split") ? 1 : 0);
    if (layers == 0 || all % product_of({pp_, *layers_of_stage}) != 0) {
      args_->fail(name, layers == 0 ? "num_layers too, here or in an earlier file"
                                    : fmt::format("a divisor of {} layers / {} stages", all, pp_));
      return false;
    }
    set_vpp(all / pp_ / *layers_of_stage, args_->spelled(name));
    return true;
  }

  // Sets the layers of each stage where they are uneven: the first or last rank has a number of
  // its own, or the embedding or the loss counts as a layer. Stage s is on rank s % pp, and a
  // rank's number is the sum over its virtual stages.
  void set_layers_per_stage(Whole layers) {
    const auto first = args_->whole("decoder_first_pipeline_num_layers");
    const auto last = args_->whole("decoder_last_pipeline_num_layers");
    const Whole embedding = args_->flag("account_for_embedding_in_pipeline_split") ? 1 : 0;
    const Whole loss = args_->flag("account_for_loss_in_pipeline_split") ? 1 : 0;
    if (pp_ == 1 || (!first && !last && embedding + loss == 0)) return;
    if (layers == 0) {
      plan_->not_expressed.push_back(
          "layers of first and last stages: import the model's file before this one");
      return;
    }
    const Whole stages = product_of({pp_, vpp_});
    std::vector<Whole> layers_of_stage;
    const std::string_view name = first           ? "decoder_first_pipeline_num_layers"
                                  : last          ? "decoder_last_pipeline_num_layers"
                                  : embedding > 0 ? "account_for_embedding_in_pipeline_split"
                                                  : "account_for_loss_in_pipeline_split";
    const auto refuse = [&] {
      args_->fail(name, fmt::format("{} layers over {} stages", layers, stages));
    };
    // At most two stages have no layer: that of the embedding and that of the loss.
    if (stages > layers + 2) return refuse();
    if (first || last) {
      const Whole middle_ranks = pp_ - (first ? 1 : 0) - (last ? 1 : 0);
      const Whole middle_layers = layers - first.value_or(0) - last.value_or(0);
      for (Whole stage = 0; stage < stages; ++stage) {
        const Whole rank = stage % pp_;
        Whole layers_of_rank = middle_layers / std::max<Whole>(1, middle_ranks);
        if (last && rank == pp_ - 1) layers_of_rank = *last;
        if (first && rank == 0) layers_of_rank = *first;
        layers_of_stage.push_back(layers_of_rank / vpp_);
      }
    } else {
      layers_of_stage.assign(static_cast<std::size_t>(stages),
                             (layers + embedding + loss) / stages);
      layers_of_stage.front() -= embedding;
      layers_of_stage.back() -= loss;
    }
    if (std::accumulate(layers_of_stage.begin(), layers_of_stage.end(), Whole{0}) != layers ||
        *std::ranges::min_element(layers_of_stage) < 0)
      return refuse();
    plan_->set("parallel.layers_per_stage", layers_of_stage, args_->spelled(name));
  }

  void set_transfers() {
    const bool overlaps = args_->flag("overlap_p2p_comm", true) && vpp_ > 1;
    const bool batches = args_->flag("batch_p2p_comm", true);
    if (pp_ > 1 && vpp_ > 1 && !overlaps)
      plan_->set("overlap.p2p", false, args_->spelled("overlap_p2p_comm"));
    if (pp_ > 1 && !overlaps && batches)
      plan_->set("overlap.batch_p2p", true, "Megatron-LM's where transfers do not overlap");
    const auto group = args_->whole("microbatch_group_size_per_vp_stage", 1);
    if (group && vpp_ > 1 && *group != pp_)
      plan_->set("schedule.group", *group, args_->spelled("microbatch_group_size_per_vp_stage"));
  }

  // Sets train.zero: the distributed optimizer is ZeRO 1, FSDP ZeRO 2 or 3. Later flags win.
  void set_sharding() {
    const bool is_distributed = args_->flag("use_distributed_optimizer", bridge());
    if (bridge() && !args_->has("use_distributed_optimizer"))
      plan_->assumed.push_back("train.zero = 1: Megatron-Bridge's distributed optimizer");
    shard_by("use_distributed_optimizer", is_distributed ? 1 : 0);
    // A layer-wise optimizer gives each rank the states of whole layers: ZeRO 1.
    if (args_->text("optimizer").value_or("").starts_with("dist_"))
      shard_by("optimizer", 1);
    else if (args_->flag("use_layer_wise_distributed_optimizer"))
      shard_by("use_layer_wise_distributed_optimizer", 1);
    // Megatron-DeepSpeed's flag. DeepSpeed's own JSON file also states the stage.
    if (const auto stage = args_->whole("zero_stage"); stage && args_->flag("deepspeed")) {
      shard_by("zero_stage", *stage);
      if (*stage > 3) args_->fail("zero_stage", "0 to 3");
    }
    set_fsdp();
    if (zero_ > 0) plan_->set("train.zero", zero_, args_->spelled(sharded_by_));
    set_optimizer_instances();
  }

  void shard_by(std::string_view name, Whole zero) {
    sharded_by_ = name;
    zero_ = zero;
  }

  void set_fsdp() {
    const bool is_megatron = args_->flag("use_megatron_fsdp") || args_->flag("use_custom_fsdp");
    const bool is_torch = args_->flag("use_torch_fsdp2");
    is_fsdp_ = is_megatron || is_torch;
    const std::string_view name = "data_parallel_sharding_strategy";
    const std::string strategy = args_->text(name).value_or("optim_grads_params");
    constexpr std::string_view kZero[] = {"no_shard", "optim", "optim_grads"};  // 0, 1, 2, else 3
    if (is_megatron) shard_by(name, std::ranges::find(kZero, strategy) - std::begin(kZero));
    if (!is_torch) return;
    shard_by("use_torch_fsdp2", 3);
    if (!args_->flag("torch_fsdp2_reshard_after_forward", true))
      plan_->set("train.reshard_after_forward", false,
                 args_->spelled("torch_fsdp2_reshard_after_forward"));
  }

  // Sets the ranks that share one of several copies of the optimizer's states: of 32 dp x cp ranks
  // with 4 instances, 8.
  void set_optimizer_instances() {
    const std::string_view name = "num_distributed_optimizer_instances";
    const Whole instances = args_->whole(name, 1).value_or(1);
    if (instances == 1 || zero_ == 0) return;
    const Whole ranks = product_of({dp_, cp_});  // 0: unknown
    if (ranks > 0 && ranks % instances == 0) {
      plan_->set("parallel.hsdp_shard", ranks / instances, args_->spelled(name));
    } else {
      plan_->not_expressed.push_back(
          fmt::format("{} {}: how many GPUs shard is not known without the job's",
                      args_->spelled(name), instances));
    }
  }

  // Sets how gradient reduction and parameter gathering overlap with compute. REQUIRES:
  // set_sharding and set_stages have run.
  void set_data_overlap() {
    const bool by_default = bridge() && dp_ != 1;  // an unknown dp, 0, counts as more than 1
    // Megatron-FSDP overlaps what it shards, whatever the flags say (megatron_fsdp.py:328 in
    // megatron/core/distributed/fsdp at d98e8a64), and so does PyTorch's FSDP2.
    const bool forces_reduces = is_fsdp_ && zero_ >= 2, forces_gathers = is_fsdp_ && zero_ == 3;
    const bool reduces = args_->flag("overlap_grad_reduce", by_default) || forces_reduces;
    const bool gathers =
        args_->flag("overlap_param_gather", by_default && zero_ > 0) || forces_gathers;
    const std::string forced = "FSDP's, always on";
    const bool aligned = args_->flag("align_param_gather", !bridge() || (pp_ > 1 && vpp_ > 1));
    // The default decides both, or the gather alone if FSDP forces the reduction.
    const char* const field = forces_reduces ? "overlap_param_gather" : "overlap_grad_reduce";
    if (by_default && !forces_gathers && !args_->has(field))
      plan_->assumed.push_back(
          fmt::format("overlap.{}: on in Megatron-Bridge with dp > 1",
                      forces_reduces ? "param_gather" : "grad_reduce and param_gather"));
    if (reduces)
      plan_->set("overlap.grad_reduce", true,
                 forces_reduces ? forced : args_->spelled("overlap_grad_reduce"));
    if (gathers) {
      plan_->set("overlap.param_gather", true,
                 forces_gathers ? forced : args_->spelled("overlap_param_gather"));
      if (vpp_ == 1 || !aligned)
        plan_->set(
            "overlap.align_param_gather", false,
            vpp_ == 1 ? "forced off without virtual stages" : args_->spelled("align_param_gather"));
    }
    const auto bucket = args_->number("ddp_bucket_size");  // in parameters
    if (bucket.value_or(1) <= 0) args_->fail("ddp_bucket_size", "a number above 0");
    // With a pipeline a rank has one bucket, and in FSDP a bucket is a layer, unless nothing is
    // sharded (mcore_fsdp_adapter.py:172 there). The default size is max(40 M, 1 M x dp) in
    // Megatron-LM and 128 Mi in Megatron-Bridge.
    const bool has_layer_buckets = zero_ == 3 || (is_fsdp_ && zero_ > 0);
    if (!reduces || pp_ > 1 || has_layer_buckets) return;
    const Whole default_size = bridge() ? Whole{128} * 1024 * 1024
                                        : std::max(Whole{40'000'000}, product_of({1'000'000, dp_}));
    constexpr double kMostMB = 1e6;  // a scenario's limit, and more than a GPU's gradients
    const double parameters = bucket.value_or(static_cast<double>(default_size));
    plan_->set("overlap.bucket_MB",
               std::min(parameters * static_cast<double>(gradient_bytes_) / 1e6, kMostMB),
               fmt::format("{:.0f} parameters of {} bytes", parameters, gradient_bytes_));
  }

  // Sets each GEMM's overlap by Transformer Engine's defaults. Flags may switch some off.
  void set_tensor_overlap() {
    if (!args_->flag("tp_comm_overlap") || tp_ == 1) return;
    const std::string from = args_->spelled("tp_comm_overlap");
    if (args_->flag("multi_latent_attention"))  // TELinear, for all layers that follow
      return plan_->assumed.push_back(from + " has no effect: latent attention switches it off");
    if (!plan_->has("train.sequence_parallel")) {
      plan_->set("train.sequence_parallel", true, from);
      plan_->assumed.push_back("train.sequence_parallel = true: " + from + " needs it");
    }
    plan_->set("overlap.tensor", "ring", from + ": Transformer Engine's default methods");
    // Experts replace the MLP, whose GEMMs are fc1 and fc2; shared experts have them again.
    const bool has_mlp = !some_layers_have("experts", before_, *plan_) ||
                         some_layers_have("shared_expert_ffn", before_, *plan_);
    const auto set_gemms = [&](std::initializer_list<TextKey> gemms, std::string_view method,
                               const std::string& why) {
      for (const TextKey key : gemms) {
        if (has_mlp || !key.last_word().starts_with("fc")) plan_->set(key, method, why);
      }
    };
    const auto set_off = [&](std::initializer_list<TextKey> gemms, std::string_view flag) {
      if (!args_->flag(flag, true)) set_gemms(gemms, "off", args_->spelled(flag));
    };
    set_gemms({"overlap.gemm.proj_fprop", "overlap.gemm.fc2_fprop"}, "pipelined", from);
    set_off({"overlap.gemm.proj_fprop", "overlap.gemm.fc2_fprop"}, "tp_comm_overlap_rs");
    set_off({"overlap.gemm.qkv_fprop", "overlap.gemm.proj_dgrad", "overlap.gemm.fc1_fprop",
             "overlap.gemm.fc2_dgrad"},
            "tp_comm_overlap_ag");
    set_off({"overlap.gemm.qkv_dgrad", "overlap.gemm.fc1_dgrad"}, "tp_comm_bulk_dgrad");
    set_off({"overlap.gemm.qkv_wgrad", "overlap.gemm.fc1_wgrad"}, "tp_comm_bulk_wgrad");
  }

  MegatronArguments* args_;
  MegatronStyle style_;
  const ImportedPlan& before_;  // what earlier files said
  Whole gpus_;                  // of the option --gpus; 0: it is not given
  ImportedPlan* plan_;
  Whole tp_ = 1, pp_ = 1, cp_ = 1, vpp_ = 1;
  Whole dp_ = 0;                 // 0: unknown
  Whole zero_ = 0;               // ZeRO stage
  std::string_view sharded_by_;  // the argument that gives it
  bool is_fsdp_ = false;
  Whole gradient_bytes_ = 4;  // of one gradient
};

// Refuses adapters such as LoRA, which MindSpeed-LLM, ms-swift and NeMo enable by these names. An
// adapter's size alone means nothing where the kind of training is "full", as in ms-swift's logs.
void check_adapters(MegatronArguments* arguments) {
  for (const char* kind : {"train_type", "tuner_type", "finetuning_type"}) {
    if (arguments->text(kind) == "full") return;
  }
  for (const char* name :
       {"train_type", "tuner_type", "finetuning_type", "peft", "peft_scheme", "use_lora",
        "enable_lora", "lora_r", "lora_rank", "lora_dim", "lora_target_modules"}) {
    if (!matches_word(arguments->text(name).value_or("none"), "0 False false none null [] {}"))
      arguments->fail(name, "none: adapters are not covered");
  }
}

}  // namespace

Result<ImportedPlan> import_megatron(MegatronArguments* arguments, const std::string& source,
                                     MegatronStyle style, const ImportedPlan& before,
                                     std::int64_t gpus) {
  ImportedPlan plan;
  plan.sources.push_back(source);
  check_adapters(arguments);
  translate_older_arguments(arguments, &plan);
  RETURN_IF_ERROR(arguments->status());
  set_megatron_model(arguments, style, before, &plan);
  RETURN_IF_ERROR(arguments->status());
  MegatronPlan(arguments, style, before, gpus, &plan).set();
  pad_earlier_vocabulary(arguments, before, &plan);
  RETURN_IF_ERROR(arguments->status());
  ask_for_open_sizes(*arguments, before, gpus, &plan);
  arguments->list_unread_flags(some_layers_have("experts", before, plan), &plan);
  place_keys([&](std::string_view field) { return arguments->place_of(field); }, &plan);
  return plan;
}

}  // namespace tandem
