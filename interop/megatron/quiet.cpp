// Megatron-LM's arguments that a scenario has no key for, and globs of those that change neither
// time nor memory. Declared in interop/megatron/arguments.h.
#include <algorithm>

#include "base/csv.h"
#include "interop/document/fields.h"
#include "interop/megatron/arguments.h"

namespace tandem {
namespace {

// An argument that a scenario has no key for. `told`: what the user reads if the value differs from
// `usual`, mostly what is simulated instead.
struct NotExpressedArgument {
  std::string_view name, usual, told;
};

constexpr NotExpressedArgument kNotExpressed[] = {
    {"moe_dispatch_fwd_dtype", "bf16", "tokens are sent in 16 bits"},
    {"moe_combine_bwd_dtype", "bf16", "tokens are sent in 16 bits"},
    {"moe_paged_stash", "False", "activations of experts stay where they are"},
    {"overlap_dispatch_backward_with_experts_wgrad", "False", "weight gradients are not put off"},
    {"gradient_accumulation_fusion", "True", "gradients are added as by the fused kernel"},
    {"bias_dropout_fusion", "True", "bias and dropout are one kernel"},
    {"apply_rope_fusion", "True", "rotary embeddings are one kernel"},
    {"fp8_wgrad", "True", "weight gradients are computed in fp8 too"},
    {"te_precision_config_file", "", "all layers have one precision"},
    {"kitchen_config_file", "", "all layers have one precision"},
    {"kitchen_recipe_number", "", "all layers have one precision"},
    {"fp8_output_proj", "False", "the head is computed in 16 bits"},
    {"optimizer_cuda_graph", "False", "the optimizer is launched kernel by kernel"},
    {"mlp_chunks_for_training", "1", "an MLP's activations are there at once"},
    {"mtp_use_repeated_layer", "False", "each layer of multi-token prediction has its own weights"},
    {"freeze_all_layers", "False", "all layers are trained"},
    {"use_tp_pp_dp_mapping", "False", "data-parallel ranks stand nearer than pipeline ranks"},
    {"use_ring_exchange_p2p", "False", "transfers are NCCL's"},
    {"pipeline_model_parallel_comm_backend", "nccl", "transfers are NCCL's"},
    {"ddp_reduce_scatter_with_fp32_accumulation", "False", "gradients are reduced by NCCL"},
    {"moe_expert_rank_capacity_factor", "", "no token is dropped"},
    {"moe_shared_expert_gate", "False", "shared experts have no gate"},
    {"fp16_lm_cross_entropy", "False", "the loss is computed in fp32"},
    {"cache_mla_latents", "False", "no latents are cached"},
    {"activation_offload_fraction", "1.0", "all of the modules' arrays are offloaded"},
    {"delta_offload_bytes_across_pp_ranks", "0", "all ranks offload alike"},
    {"distribute_saved_activations", "False", "saved activations are not cut over tensor ranks"},
    {"deterministic_mode", "False", "kernels are as fast as others"},
    {"fp32_residual_connection", "False", "residuals are as wide as activations"},
    {"first_last_layers_bf16", "False", "all layers have one precision"},
    {"overlap_param_gather_with_optimizer_step", "False", "the gather waits for the optimizer"},
    {"tp_comm_overlap_cfg", "", "its YAML is not read: overlap.tensor_file takes JSON"},
    {"tp_comm_overlap_rs_dgrad", "False",
     "reduce-scatters of inputs' gradients follow their product"},
    {"ddp_num_buckets", "", "buckets are of Megatron's default size"},
    {"hierarchical_context_parallel_sizes", "", "context parallelism has one level"},
    {"hybrid_context_parallel", "False", "every sequence is cut alike"},
    {"attention_output_gate", "False", "attention's output has no gate"},
    {"enable_mhc_connections", "False", "one residual stream"},
    {"heterogeneous_layers_config_path", "", "layers are as the flags say"},
    {"heterogeneous_layers_config_encoded_json", "", "layers are as the flags say"},
    {"spec", "", "layers are Megatron's own"},
    {"yaml_cfg", "", "that file is not read"},
    {"rampup_batch_size", "", "the batch is the full one from the start on"},
    {"expert_tensor_parallel_num_weight_shards", "",
     "each expert's weights are cut by parallel.expert_tp alone"},
    {"tensor_parallel_num_weight_shards", "", "weights are cut by parallel.tp alone"},
    {"use_nccl_ub", "False", "NCCL's buffers are not registered"},
    {"nccl_ub", "False", "NCCL's buffers are not registered"},
    {"use_kitchen_attention", "False", "attention is Transformer Engine's"},
    {"defer_embedding_wgrad_compute", "False", "the embedding's gradient is not put off"},
    {"muon_num_ns_steps", "5", "Newton-Schulz has five steps"},
    {"muon_fp32_matmul_prec", "medium", "Newton-Schulz multiplies in 16 bits"},
    {"muon_scalar_optimizer", "adam", "Adam updates what is no matrix"},
    {"muon_use_syrk", "False", "squares are computed whole"},
    {"muon_split_qkv", "True", "queries, keys and values are orthogonalized one by one"},
    {"use_layer_wise_param_layout", "True", "Adam's state is cut by bytes"},
    {"main_params_dtype", "fp32", "master parameters are fp32"},
    {"megatron_fsdp_main_params_dtype", "fp32", "master parameters are fp32"},
    {"outer_dp_sharding_strategy", "no_shard", "replicas of the shards are whole"},
    {"enable_full_sharding_in_hsdp", "False", "replicas of the shards are whole"},
    {"use_sharp", "False", "cluster.in_network_reduction says it"},
    {"gtp_remat_opt_in_modules", "", "weights are not gathered again"},
    {"fsdp_double_buffer", "False", "buffers are there once"},
    {"sft", "False", "sequences are not packed: attention is over whole ones"},
    {"moe_use_upcycling", "False", "no dense model is turned into experts"},
    {"moe_extended_tp", "False", "experts are spread over parallel.ep"},
    {"moe_router_topk_limited_devices", "", "a token may go to all ranks"},
    {"use_mamba_mem_eff_path", "True", "Mamba's scans keep what the fused kernel keeps"},
    {"batch_invariant_mode", "False", "kernels are as fast as others"},
    {"empty_unused_memory_level", "0", "PyTorch's cache is not emptied"},
    {"nccl_communicator_config_path", "", "that file is not read: communicators are NCCL's own"},
    {"tp_comm_split_ag", "True", "overlap.gemm is as the newer tp_comm_overlap_ag says"},
    {"tp_comm_split_rs", "True", "overlap.gemm is as the newer tp_comm_overlap_rs says"},
    {"async_tensor_model_parallel_allreduce", "True",
     "all-reduces of inputs' gradients are as overlap.tensor says"},
    {"offload_optimizer_states", "False", "the optimizer's states stay on the GPU"},
    {"encoder_tensor_model_parallel_size", "0", "no encoder has GPUs of its own"},
    {"encoder_pipeline_model_parallel_size", "0", "no encoder has GPUs of its own"},
    {"retro_add_retriever", "False", "nothing is retrieved"},
    {"export_kd_teacher_load", "", "no teacher runs beside the model"},
    {"logits_load_dir", "", "no teacher's logits are read"},
    {"dataloader_inter_document_masking", "False", "attention is over whole sequences"},
    {"variable_seq_lengths", "False", "all sequences have one length"},
    {"checkpoint_in_cpu", "False", "checkpoints of activations stay on the GPU"}};

// Arguments that have an effect only beside another one, whose reader then reads them: mamba_*
// beside a hybrid model. Left unread, they have none.
constexpr std::string_view kIdle =
    "add_position_embedding cp_comm_type *lora_rank mamba_* moe_layer_freq moe_paged_stash_* "
    "moe_router_topk moe_router_num_groups moe_router_group_topk moe_router_enable_expert_bias "
    "qk_head_dim qk_pos_emb_head_dim v_head_dim vocab_size torch_fsdp2_* tp_comm_bulk_* "
    "tp_comm_overlap_* group_query_attention num_query_groups recompute_method linear_* dsa_* "
    "exp_avg* microbatch_group* account_for* padded_* transformer_impl position_embedding_type "
    "cuda_graph_modules cuda_graph_scope add_qkv*";

// The lists below, by theme, are of arguments that never change time or memory. An argument that a
// reader has read, or that kNotExpressed names, is not looked for here, even if a glob matches it.

// Learning rates, losses and numbers of the optimizer.
constexpr std::string_view kQuietOptimizer =
    "calculate_per_token_loss *lr lr_* *_lr_* adam_* lion_* muon_* sgd_* adaptive_* "
    "*weight_decay* apply_wd_to_qk_layernorm clip_grad loss_scale* initial_loss_scale "
    "min_loss_scale hysteresis decoupled* params_dtype pipeline_dtype spiky*";

// Initial weights, seeds and regularization.
constexpr std::string_view kQuietInitial =
    "*dropout init_method* *_init_method* *seed use_cpu_init* *initialization init_model_with* "
    "te_rng* mup_* use_mup";

// Data sets, tokenizers and masks.
constexpr std::string_view kQuietData =
    "data_args* data_cache* data_impl data_per_class* data_sharding data_parallel_random_init "
    "*data_path* *_path *_dir *dataset* *dataloader* split mock_data num_workers *tokenizer* "
    "*_file tiktoken_* vocab_extra_ids special_tokens trust_remote_code eod_* reset_* *_mask_* "
    "create_attention_mask* mask_* mmap_bin_files fim_* short_seq_prob sample_rate "
    "use_one_sent_docs chat_template use_gigatoken allow_ambiguous_pad_tokens *msc "
    "decoder_seq_length make_vocab_size* sft_* max_seqlen_per* max_position_embeddings";

// Checkpoints, evaluation, and how long a run lasts.
constexpr std::string_view kQuietRun =
    "no_load_* no_save_* save* load* *ckpt* *on_missing_checkpoint pretrained_checkpoint "
    "use_checkpoint_args use_checkpoint_lr* use_checkpoint_opt* *_from_checkpoint* "
    "universal_checkpoint deepspeed_activation_checkpointing contigious_checkpointing replication* "
    "non_persistent* async_save async_strategy finetune exit_* eval* *_eval_* *validation* valid_* "
    "test_mode train_iters train_samples train_tokens train_sync_interval skip_train "
    "iterations_to_skip consumed_* iteration do_* curr_* phase_* start_* end_* override_* strict_* "
    "warmup iter_per_epoch";

// Logs, profilers and checks.
constexpr std::string_view kQuietLogs =
    "no_record* log_* logging_level tensorboard* wandb* one_logger* enable_one_logger otel_* "
    "timing_log* barrier_with* *profil* nvtx* record_* memory_snapshot* app_tag* straggler* "
    "disable_straggler* result_* dump_* check_* verify* run_workload_inspector_server gpu_sniff*";

// Faults and restarts.
constexpr std::string_view kQuietFaults =
    "enable_ft_package calc_ft* ft_* inprocess* rerun* error_injection* fault_injector* "
    "flight_recorder* max_restarts";

// How processes start and meet.
constexpr std::string_view kQuietLaunch =
    "distributed_backend distributed_timeout* *gloo* local_rank rank global_rank master_* "
    "node_rank rdzv_* redirects tee standalone lazy_mpu* create_all_gather_group "
    "fake_process_group tensor_model_parallel_comm* sharp_* nccl_all_reduce_for_prefill "
    "high_priority* tp_comm_bootstrap* manual_gc*";

// Inference and reinforcement learning.
constexpr std::string_view kQuietInference =
    "flash_decode offset_sampling* inference* temperature top_k prompts num_tokens_to_generate "
    "incoming_requests* *chunked_prefill use_legacy_static_engine decode_only_cuda_graphs "
    "max_tokens_to_oom mlp_chunks_for_prefill prefill* num_speculative* symmetric* "
    "batch_invariant_backend rl_* grpo* langrl* perform_rl* refit_method export_*";

// Other models than language models.
constexpr std::string_view kQuietOtherModels =
    "openai_gelu onnx_safe output_bert_embeddings retro* dino* vision* swin* ict* bert* biencoder* "
    "retriever* indexer_* img_* patch_dim num_channels num_classes classes* query_in_block* "
    "block_data* evidence* titles* kd_* adlr* model_type model_provider is_hybrid*";

// Numbers inside layers, and kernels that take as long.
constexpr std::string_view kQuietLayers =
    "reuse_grad_buf_for_mxfp8_param_ag use_fused_weighted* mla_down_proj_fusion use_te_* "
    "use_transformer_engine_op* *norm_epsilon layernorm_eps* layernorm_zero* apply_layernorm_1p "
    "*rope* rotary* yarn_* mscale* relative_attention* *query_key_layer_scaling "
    "attention_softmax_in_fp32 glu_linear* activation_func_clamp* qk_clip* logits_* logit_* "
    "kitchen_attention_backend flash_attention_version mhc_* transformer_pipeline* fp8_margin "
    "fp8_interval fp8_amax* fp4_recipe num_layers_at_*";

// Routing of experts.
constexpr std::string_view kQuietExperts =
    "moe_enable_routing_replay moe_aux_loss* moe_z_loss* moe_token_drop* "
    "moe_router_load_balancing* moe_router_dtype moe_router_score_function moe_router_pre_softmax "
    "moe_router_topk_scaling_factor moe_router_bias_update_rate moe_router_force_* "
    "moe_router_fusion moe_router_padding_* moe_input_jitter* moe_per_layer* moe_routing_trace* "
    "moe_upcycling* moe_permute* moe_grouped_gemm moe_*_num_sms* moe_hybridep* "
    "moe_*_interleave_size moe_*_dtype moe_apply_probs* moe_ncclep* moe_use_legacy* moe_single* "
    "moe_deepep* moe_loss_coeff moe_min_capacity moe_top2_2nd* create_moe_param_group mtp_loss*";

// Buffers and details of parallelism.
constexpr std::string_view kQuietParallel =
    "pipeline_parallel delay_grad_reduce clone_scatter* overlap_p2p_communication_warmup* "
    "overlap_p2p_comm_warmup* ddp_average* ddp_pad* gradient_reduce_div* align_grad_reduce "
    "cuda_graph_warmup* wgrad_deferral* gdp_* gtp_* megatron_fsdp_version fsdp_manual* "
    "fsdp_db_use* suggested_comm* pin_cpu* scatter_gather_tensors_in_pipeline "
    "*contiguous_buffers_in* min_offloaded* delay_offload*";

// Versions of Megatron-LM's code.
constexpr std::string_view kQuietVersions =
    "use_mcore_models use_legacy_models deprecated_* *_deprecated enable_experimental";

constexpr std::string_view kQuiet[] = {
    kQuietOptimizer, kQuietInitial,  kQuietData,      kQuietRun,         kQuietLogs,
    kQuietFaults,    kQuietLaunch,   kQuietInference, kQuietOtherModels, kQuietLayers,
    kQuietExperts,   kQuietParallel, kQuietVersions};

// Returns Tandem's name of a type, "bf16" for "bfloat16" and "torch.bfloat16"; else the value.
std::string_view type_of(std::string_view value) {
  const std::string_view name = value.starts_with("torch.") ? value.substr(6) : value;
  if (name == "float32") return "fp32";
  if (name == "bfloat16") return "bf16";
  if (name == "float16") return "fp16";
  return value;
}

// Returns whether the value is the usual one, however it is written: 1 for 1.0. None is always
// usual. False is usual for all but switches that are usually on.
bool is_usual(const NotExpressedArgument& row, std::string_view value) {
  const bool is_usually_on = row.usual == "True";
  if (is_usually_on) return value == "True" || value == "true" || is_none(value);
  if (is_off(value) || type_of(value) == row.usual) return true;
  const auto number = parse_number(value), usual = parse_number(row.usual);
  return number.ok() && usual.ok() && *number == *usual;
}

}  // namespace

std::optional<std::string_view> not_expressed_argument(std::string_view name,
                                                       std::string_view value) {
  const auto* const row = std::ranges::find(kNotExpressed, name, &NotExpressedArgument::name);
  if (row == std::end(kNotExpressed)) return std::nullopt;
  return is_usual(*row, value) ? "" : row->told;
}

bool is_quiet_argument(std::string_view name) {
  return matches_word(name, kIdle) || std::ranges::any_of(kQuiet, [&](std::string_view globs) {
           return matches_word(name, globs);
         });
}

}  // namespace tandem
