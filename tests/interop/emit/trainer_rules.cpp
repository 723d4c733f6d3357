// The rules of DeepSpeed, Accelerate and torchtitan. Declared in tests/interop/emit/emit_rules.h.
#include <algorithm>

#include "tests/interop/emit/emit_rules.h"

namespace tandem {
namespace {

using F = const Fields&;

long long gpus(F f) { return f.num("script.gpus", 1); }

// DeepSpeed.
long long stage(F f) { return f.num("zero_optimization.stage", 0); }
long long autotp(F f) { return std::max(1LL, f.num("tensor_parallel.autotp_size", 1)); }
long long ulysses(F f) { return f.num("sequence_parallel_size", 1); }
bool autoep(F f) { return f.on("expert_parallel.enabled"); }
long long autoep_size(F f) { return autoep(f) ? f.num("expert_parallel.autoep_size", 1) : 1; }

// Accelerate.
long long sized(F f, const std::string& name) {
  return f.num("parallelism_config.parallelism_config_" + name + "_size", 1);
}
bool has_sizes(F f) {
  return std::ranges::any_of(
      f, [](const auto& field) { return field.first.starts_with("parallelism_config."); });
}
bool has_accelerate_field(const std::string& name) {
  const std::string known =
      " compute_environment distributed_type mixed_precision use_cpu debug num_processes "
      "machine_rank num_machines gpu_ids main_process_ip main_process_port rdzv_backend "
      "same_network main_training_function enable_cpu_affinity fsdp_config.fsdp_version "
      "fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_reshard_after_forward "
      "fsdp_config.fsdp_activation_checkpointing fsdp_config.fsdp_state_dict_type "
      "fsdp_config.fsdp_offload_params fsdp_config.fsdp_transformer_layer_cls_to_wrap "
      "parallelism_config.parallelism_config_dp_replicate_size "
      "parallelism_config.parallelism_config_dp_shard_size "
      "parallelism_config.parallelism_config_tp_size "
      "parallelism_config.parallelism_config_cp_size "
      "parallelism_config.parallelism_config_cp_comm_strategy ";
  return known.find(" " + name + " ") != std::string::npos;
}

// torchtitan.
long long degree(F f, const std::string& name) {
  return f.num("parallelism." + name + "_parallel_degree", 1);
}
long long titan_tp(F f) { return degree(f, "tensor"); }
long long titan_cp(F f) { return degree(f, "context"); }
long long titan_pp(F f) { return degree(f, "pipeline"); }
long long titan_ep(F f) { return degree(f, "expert"); }
long long shards(F f) {
  const long long stated = f.num("parallelism.data_parallel_shard_degree", -1);
  return stated > 0 ? stated
                    : gpus(f) / (f.num("parallelism.data_parallel_replicate_degree", 1) *
                                 titan_tp(f) * titan_cp(f) * titan_pp(f));
}
long long replicas(F f) { return f.num("parallelism.data_parallel_replicate_degree", 1); }
std::string schedule(F f) { return f.text("parallelism.pipeline_parallel_schedule", "1F1B"); }
bool is_single(F f) { return schedule(f) == "1F1B" || schedule(f) == "GPipe"; }
bool splits(F f) {
  return schedule(f) == "InterleavedZeroBubble" || schedule(f) == "ZBVZeroBubble" ||
         schedule(f) == "DualPipeV";
}
long long first_less(F f) {
  return f.num("parallelism.pipeline_parallel_first_stage_less_layers", 1);
}
long long last_less(F f) {
  return f.num("parallelism.pipeline_parallel_last_stage_less_layers", 1);
}
long long counted(F f) { return f.num("script.layers", 0) + first_less(f) + last_less(f); }
long long stages(F f) {
  const long long each = f.num("parallelism.pipeline_parallel_layers_per_stage", 0);
  if (each == 0) return titan_pp(f) * (is_single(f) ? 1 : 2);
  return (counted(f) + each - 1) / each;
}
long long micro_tokens(F f) {
  return f.num("training.num_tokens_per_microbatch_per_dp_rank", 16384);
}
long long microbatches(F f) { return f.num("parallelism.num_pp_microbatches", 1); }
bool compiles(F f) { return f.on("compile.enable"); }

bool has_titan_option(const std::string& name) {
  const std::string known =
      " compile.enable compile.enable_async_tensor_parallel parallelism.context_parallel_degree "
      "parallelism.context_parallel_load_balancer parallelism.data_parallel_replicate_degree "
      "parallelism.data_parallel_shard_degree parallelism.no_enable_sequence_parallel "
      "parallelism.expert_parallel_degree parallelism.fsdp_reshard_after_forward "
      "parallelism.module_fqns_per_model_part parallelism.pipeline_parallel_degree "
      "parallelism.pipeline_parallel_first_stage_less_layers "
      "parallelism.pipeline_parallel_last_stage_less_layers "
      "parallelism.pipeline_parallel_layers_per_stage parallelism.num_pp_microbatches "
      "parallelism.pipeline_parallel_schedule parallelism.pipeline_parallel_schedule_csv "
      "parallelism.tensor_parallel_degree training.disable_cuda_graphs training.dtype "
      "training.max_context_length training.mixed_precision_param "
      "training.mixed_precision_reduce training.num_tokens_per_microbatch_per_dp_rank "
      "training.num_tokens_per_train_step activation-checkpoint ";
  return known.find(" " + name + " ") != std::string::npos;
}

constexpr std::string_view kDeepSpeedConfig = "deepspeedai/DeepSpeed deepspeed/runtime/config.py";
constexpr std::string_view kEngine = "deepspeedai/DeepSpeed deepspeed/runtime/engine.py";
constexpr std::string_view kFolding =
    "deepspeedai/DeepSpeed deepspeed/module_inject/auto_ep_folding.py";
constexpr std::string_view kClusterConfig =
    "huggingface/accelerate src/accelerate/commands/config/config_args.py";
constexpr std::string_view kParallelism =
    "huggingface/accelerate src/accelerate/parallelism_config.py";
constexpr std::string_view kLaunch = "huggingface/accelerate src/accelerate/commands/launch.py";
constexpr std::string_view kDims = "pytorch/torchtitan torchtitan/distributed/parallel_dims.py";
constexpr std::string_view kPipeline =
    "pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py";
constexpr std::string_view kTitanTrainer = "pytorch/torchtitan torchtitan/trainer.py";
constexpr std::string_view kTitanConfigs = "pytorch/torchtitan torchtitan/config/configs.py";
constexpr std::string_view kDecoder = "pytorch/torchtitan torchtitan/models/common/decoder.py";
constexpr std::string_view kSchedules = "pytorch/pytorch torch/distributed/pipelining/schedules.py";

const EmitRule kRules[] = {
    {"deepspeed", "batch is micro batch x accumulation x ranks that have batches of their own",
     kDeepSpeedConfig, "937",
     [](F f) {
       // Tensor ranks count; the pipeline's are the script's.
       const long long ranks = gpus(f) / ulysses(f) / f.num("script.pp", 1);
       return !f.contains("train_batch_size") ||
              f.num("train_batch_size", 0) == f.num("train_micro_batch_size_per_gpu", 1) *
                                                  f.num("gradient_accumulation_steps", 1) * ranks;
     },
     "train_batch_size=65"},
    {"deepspeed", "micro batch and accumulation are above 0", kDeepSpeedConfig, "933, 935",
     [](F f) {
       return f.num("train_micro_batch_size_per_gpu", 0) > 0 &&
              f.num("gradient_accumulation_steps", 0) > 0;
     },
     "gradient_accumulation_steps=0"},
    {"deepspeed", "bf16 or fp16", kDeepSpeedConfig, "827",
     [](F f) { return !f.on("bf16.enabled") || !f.on("fp16.enabled"); },
     "bf16.enabled=True fp16.enabled=True"},
    {"deepspeed", "gradients travel in a known type", kDeepSpeedConfig, "223",
     [](F f) {
       const std::string type = f.text("communication_data_type", "fp32");
       return type == "fp32" || type == "fp16" || type == "bf16";
     },
     "communication_data_type=fp8"},
    {"deepspeed", "gradients are kept as parameters are without ZeRO", kEngine, "2021",

     [](F f) { return stage(f) > 0 || !f.contains("data_types.grad_accum_dtype"); },
     "data_types.grad_accum_dtype=fp32 zero_optimization.stage=0"},
    {"deepspeed", "stages are up to 3", kDeepSpeedConfig, "1025",
     [](F f) { return stage(f) >= 0 && stage(f) <= 3; }, "zero_optimization.stage=4"},
    {"deepspeed", "pipelines shard optimizers at most",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/engine.py", "77",
     [](F f) { return f.num("script.pp", 1) == 1 || stage(f) < 2; },
     "script.pp=2 zero_optimization.stage=2"},
    // Versions before 2026 refuse stage 3 altogether; this one takes it with neither AutoTP nor
    // sequences that are cut.
    {"deepspeed", "AutoEP without stage 3", kEngine, "1872",
     [](F f) { return !autoep(f) || stage(f) < 3; }, "zero_optimization.stage=3"},
    {"deepspeed", "AutoEP's ranks are whole groups", kFolding, "111",
     [](F f) { return gpus(f) / f.num("script.pp", 1) % autoep_size(f) == 0; },
     "expert_parallel.autoep_size=3"},
    {"deepspeed", "AutoEP divides the experts",
     "deepspeedai/DeepSpeed deepspeed/module_inject/auto_ep_config.py", "285",
     [](F f) { return !autoep(f) || f.num("script.experts", 0) % autoep_size(f) == 0; },
     "script.experts=6"},
    {"deepspeed", "AutoEP with AutoTP without pipeline", kFolding, "206",
     [](F f) { return !autoep(f) || autotp(f) == 1 || f.num("script.pp", 1) == 1; },
     "tensor_parallel.autotp_size=2 script.pp=2"},
    {"deepspeed", "AutoEP with AutoTP or with cut sequences", kFolding, "210",
     [](F f) { return !autoep(f) || autotp(f) == 1 || ulysses(f) == 1; },
     "tensor_parallel.autotp_size=2 sequence_parallel_size=2"},
    {"deepspeed", "AutoEP with AutoTP spreads experts", kFolding, "240",
     [](F f) { return !autoep(f) || autotp(f) == 1 || autoep_size(f) > 1; },
     "tensor_parallel.autotp_size=2 expert_parallel.autoep_size=1"},
    {"deepspeed", "AutoEP's experts are whole", kFolding, "214",
     [](F f) { return f.num("expert_parallel.expert_tensor_parallel_size", 1) == 1; },
     "expert_parallel.expert_tensor_parallel_size=2"},
    {"deepspeed", "MiCS divides the ranks",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/mics_utils.py", "178",
     [](F f) {
       const long long shard = f.num("zero_optimization.mics_shard_size", -1);
       return shard <= 0 || gpus(f) / f.num("script.pp", 1) % shard == 0;
     },
     "zero_optimization.mics_shard_size=3"},
    {"deepspeed", "hpZ is 0 or more", "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py",
     "309", [](F f) { return f.num("zero_optimization.zero_hpz_partition_size", 1) >= 0; },
     "zero_optimization.zero_hpz_partition_size=-1"},
    {"deepspeed", "cut sequences divide the ranks",
     "deepspeedai/DeepSpeed deepspeed/runtime/sequence_parallel/parallel_state_sp.py", "29",
     [](F f) { return gpus(f) % ulysses(f) == 0; }, "sequence_parallel_size=3"},

    {"fsdp", "every field is known", kClusterConfig, "155",
     [](F f) {
       return std::ranges::all_of(f, [&](const auto& field) {
         const std::string& name = field.first;
         // Fields in sections are there by their own names, too.
         const bool nested = std::ranges::any_of(
             f, [&](const auto& other) { return other.first.ends_with("." + name); });
         return nested || name.starts_with("script.") || name.starts_with("env.") ||
                has_accelerate_field(name);
       });
     },
     "num_nodes=8"},
    {"fsdp", "a type of distribution is stated", kClusterConfig, "109",
     [](F f) { return f.text("distributed_type") == "FSDP"; }, "distributed_type="},
    {"fsdp", "processes are stated", kLaunch, "1299",
     [](F f) { return f.num("num_processes", -1) == gpus(f); }, "num_processes=-1"},
    {"fsdp", "each machine has as many processes as GPUs",
     "huggingface/accelerate src/accelerate/utils/launch.py", "217",
     [](F f) {
       const long long machines = f.num("num_machines", 1), node = f.num("script.gpus_per_node", 8);
       return f.num("num_processes", 1) % machines == 0 &&
              f.num("num_processes", 1) / machines <= node;
     },
     "num_machines="},
    {"fsdp", "sizes want version 2", kLaunch, "1205",
     [](F f) { return !has_sizes(f) || f.num("fsdp_config.fsdp_version", 1) == 2; },
     "fsdp_config.fsdp_version=1"},
    {"fsdp", "sizes multiply to all processes", kParallelism, "372",
     [](F f) {
       return !has_sizes(f) ||
              sized(f, "dp_replicate") * sized(f, "dp_shard") * sized(f, "tp") * sized(f, "cp") ==
                  f.num("num_processes", 1);
     },
     "parallelism_config.parallelism_config_dp_shard_size="},
    {"fsdp", "sizes are 1 or more", kParallelism, "310",
     [](F f) {
       return sized(f, "dp_replicate") > 0 && sized(f, "dp_shard") > 0 && sized(f, "tp") > 0 &&
              sized(f, "cp") > 0;
     },
     "parallelism_config.parallelism_config_dp_replicate_size=0"},
    {"fsdp", "tp and cp stand beside shards, not beside replicas alone", kParallelism, "336",
     [](F f) {
       return (sized(f, "tp") == 1 && sized(f, "cp") == 1) || sized(f, "dp_replicate") == 1 ||
              sized(f, "dp_shard") > 1;
     },
     "parallelism_config.parallelism_config_dp_replicate_size=16 "
     "parallelism_config.parallelism_config_dp_shard_size=1"},
    {"fsdp", "version 2 reshards or does not",
     "huggingface/accelerate src/accelerate/utils/dataclasses.py", "1859",
     [](F f) {
       const std::string reshard = f.text("fsdp_config.fsdp_reshard_after_forward", "True");
       return reshard == "True" || reshard == "False";
     },
     "fsdp_config.fsdp_reshard_after_forward=FULL_SHARD"},
    {"fsdp", "precision is a known one", kLaunch, "192",
     [](F f) {
       const std::string precision = f.text("mixed_precision", "no");
       return precision == "no" || precision == "fp16" || precision == "bf16" || precision == "fp8";
     },
     "mixed_precision=fp32"},

    {"torchtitan", "every option is known",
     "pytorch/torchtitan tests/unit_tests/test_no_new_cli_options.py", "25",
     [](F f) {
       return std::ranges::all_of(f, [](const auto& field) {
         return field.first.starts_with("script.") || field.first.starts_with("env.") ||
                has_titan_option(field.first);
       });
     },
     "parallelism.pipeline_parallel_microbatch_size=1"},
    {"torchtitan", "degrees are 1 or more and multiply to all GPUs", kDims, "175, 182",
     [](F f) {
       return replicas(f) >= 1 && shards(f) >= 1 && titan_tp(f) >= 1 &&
              replicas(f) * shards(f) * titan_cp(f) * titan_tp(f) * titan_pp(f) == gpus(f);
     },
     "parallelism.data_parallel_shard_degree=3"},
    {"torchtitan", "ep divides shards x cp x tp", kDims, "187",
     [](F f) { return shards(f) * titan_cp(f) * titan_tp(f) % titan_ep(f) == 0; },
     "parallelism.data_parallel_shard_degree=1 parallelism.data_parallel_replicate_degree=8 "
     "parallelism.expert_parallel_degree=16"},
    {"torchtitan", "ep divides the experts", kDecoder, "204",
     [](F f) { return titan_ep(f) == 1 || f.num("script.experts", 0) % titan_ep(f) == 0; },
     "script.experts=6"},
    {"torchtitan", "tp divides the heads and those of keys", kDecoder, "190, 195",
     [](F f) {
       return f.num("script.heads", 0) % titan_tp(f) == 0 &&
              f.num("script.kv_heads", 0) % titan_tp(f) == 0;
     },
     "script.kv_heads=3"},
    {"torchtitan", "a pipeline has microbatches", kTitanTrainer, "125",
     [](F f) { return microbatches(f) > 0; }, "parallelism.num_pp_microbatches=0"},
    {"torchtitan", "neither pipeline nor spread experts with graphs", kTitanTrainer, "172, 192",
     [](F f) {
       return f.on("training.disable_cuda_graphs") || (titan_pp(f) == 1 && titan_ep(f) == 1);
     },
     "training.disable_cuda_graphs="},
    {"torchtitan", "tokens of a microbatch are cut by tp and 2 cp", kTitanTrainer, "302",
     [](F f) {
       const bool cuts = !f.contains("parallelism.no_enable_sequence_parallel");
       const long long context = titan_cp(f) > 1 ? 2 * titan_cp(f) : 1;
       return micro_tokens(f) % ((cuts ? titan_tp(f) : 1) * context) == 0;
     },
     "training.num_tokens_per_microbatch_per_dp_rank=8193 training.num_tokens_per_train_step=-1"},
    {"torchtitan", "tokens of a step are whole microbatches of every rank", kTitanTrainer, "419",
     [](F f) {
       const long long pass = titan_pp(f) > 1 ? microbatches(f) : 1;
       const long long step = f.num("training.num_tokens_per_train_step", -1);
       return step < 0 || step % (micro_tokens(f) * pass * replicas(f) * shards(f)) == 0;
     },
     "training.num_tokens_per_train_step=8191"},
    {"torchtitan", "pp divides the stages", kPipeline, "233",
     [](F f) { return titan_pp(f) == 1 || stages(f) % titan_pp(f) == 0; },
     "parallelism.pipeline_parallel_layers_per_stage=5"},
    {"torchtitan", "schedules of one stage have one, others have more", kPipeline, "244, 252",
     [](F f) { return titan_pp(f) == 1 || (stages(f) / titan_pp(f) == 1) == is_single(f); },
     "parallelism.pipeline_parallel_schedule=1F1B"},
    {"torchtitan", "V schedules have two stages a rank", kPipeline, "567",
     [](F f) {
       return titan_pp(f) == 1 || (schedule(f) != "ZBVZeroBubble" && schedule(f) != "DualPipeV") ||
              stages(f) / titan_pp(f) == 2;
     },
     "parallelism.pipeline_parallel_schedule=ZBVZeroBubble "
     "parallelism.pipeline_parallel_layers_per_stage=2"},
    {"torchtitan", "stages have a layer and what the ends count for", kPipeline, "392, 412, 416",
     [](F f) {
       return titan_pp(f) == 1 ||
              counted(f) / stages(f) >= std::max({1LL, first_less(f), last_less(f)});
     },
     "parallelism.pipeline_parallel_first_stage_less_layers=9"},
    {"torchtitan", "1F1B: no fewer microbatches than stages", kSchedules, "class Schedule1F1B",
     [](F f) {
       return titan_pp(f) == 1 || schedule(f) != "1F1B" || microbatches(f) >= titan_pp(f);
     },
     "parallelism.pipeline_parallel_schedule=1F1B parallelism.num_pp_microbatches=1"},
    {"torchtitan", "interleaved rounds have equally many microbatches", kSchedules,
     "class ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble",
     [](F f) {
       return titan_pp(f) == 1 || !schedule(f).starts_with("Interleaved") ||
              microbatches(f) % std::max(1LL, microbatches(f) / titan_pp(f)) == 0;
     },
     "parallelism.num_pp_microbatches=11"},
    {"torchtitan", "DualPipeV: no fewer microbatches than stages", kSchedules,
     "class ScheduleDualPipeV",
     [](F f) {
       return titan_pp(f) == 1 || schedule(f) != "DualPipeV" || microbatches(f) >= stages(f);
     },
     "parallelism.pipeline_parallel_schedule=DualPipeV parallelism.num_pp_microbatches=1"},
    {"torchtitan", "split backwards are not compiled", kSchedules,
     "_check_torch_compile_compatibility",
     [](F f) { return titan_pp(f) == 1 || !splits(f) || !compiles(f); },
     "parallelism.pipeline_parallel_schedule=InterleavedZeroBubble"},
    {"torchtitan", "the schedule is a known one", kSchedules, "get_schedule_class",
     [](F f) {
       return is_single(f) || splits(f) || schedule(f) == "Interleaved1F1B" ||
              schedule(f) == "LoopedBFS";
     },
     "parallelism.pipeline_parallel_schedule=ZB1P"},
    {"torchtitan", "overlapped tensor communication is compiled", kTitanConfigs, "307",
     [](F f) { return !f.on("compile.enable_async_tensor_parallel") || compiles(f); },
     "compile.enable="},
    {"torchtitan", "types are those of the choices", kTitanConfigs, "94, 102, 145",
     [](F f) {
       const std::string kind = f.text("training.mixed_precision_param", "bfloat16");
       const std::string frees = f.text("parallelism.fsdp_reshard_after_forward", "default");
       return (kind == "bfloat16" || kind == "float32") &&
              f.text("training.mixed_precision_reduce", "float32") == "float32" &&
              (frees == "default" || frees == "always" || frees == "never");
     },
     "training.mixed_precision_reduce=bfloat16"},
    {"torchtitan", "recompute is a policy",
     "pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py", "332",
     [](F f) {
       const std::string policy = f.text("activation-checkpoint", "selective");
       return policy == "selective" || policy == "full" || policy == "none";
     },
     "activation-checkpoint=some"},
};

}  // namespace

std::span<const EmitRule> trainer_rules() { return kRules; }

}  // namespace tandem
