// Megatron-LM's arguments that change neither time nor memory, and those that a scenario has no key
// for. Declared in interop/megatron/arguments.h.
#include "interop/document/fields.h"
#include "interop/megatron/arguments.h"

namespace tandem {
namespace {

// Arguments that a scenario has no key for. `what`: what Tandem simulates instead; it is told if
// the value is not `usual`.
struct NotExpressedArgument {
  std::string_view name, usual, what;
};

constexpr NotExpressedArgument kNotExpressed[] = {
    {"moe_dispatch_fwd_dtype", "bf16", "tokens are sent in 16 bits"},
    {"moe_combine_bwd_dtype", "bf16", "tokens are sent in 16 bits"},
    {"moe_shared_expert_overlap", "False", "shared experts run before the others"},
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
    {"cache_mla_latents", "False", "as without"},
    {"activation_offload_fraction", "1.0", "all of the modules' arrays are offloaded"},
    {"delta_offload_bytes_across_pp_ranks", "0", "all ranks offload alike"},
    {"distribute_saved_activations", "False", "saved activations are not cut over tensor ranks"},
    {"deterministic_mode", "False", "kernels are as fast as others"},
    {"fp32_residual_connection", "False", "residuals are as wide as activations"},
    {"first_last_layers_bf16", "False", "all layers have one precision"},
    {"overlap_param_gather_with_optimizer_step", "False", "the gather waits for the optimizer"},
    {"tp_comm_overlap_cfg", "", "its YAML is not read: overlap.tensor_file takes JSON"},
    {"tp_comm_overlap_rs_dgrad", "False", "as without"},
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
    {"expert_tensor_parallel_num_weight_shards", "", "as without"},
    {"tensor_parallel_num_weight_shards", "", "as without"},
    {"use_nccl_ub", "False", "as without"},
    {"nccl_ub", "False", "as without"},
    {"use_kitchen_attention", "False", "as without"},
    {"defer_embedding_wgrad_compute", "False", "the embedding's gradient is not put off"},
    {"muon_num_ns_steps", "5", "Newton-Schulz has five steps"},
    {"muon_fp32_matmul_prec", "medium", "Newton-Schulz multiplies in 16 bits"},
    {"muon_scalar_optimizer", "adam", "Adam updates what is no matrix"},
    {"muon_use_syrk", "False", "squares are computed whole"},
    {"muon_split_qkv", "True", "queries, keys and values are orthogonalized one by one"},
    {"use_layer_wise_param_layout", "True", "Adam's state is cut by bytes"},
    {"main_grads_dtype", "fp32", "gradients are kept as train.gradient_dtype says"},
    {"main_params_dtype", "fp32", "master parameters are fp32"},
    {"megatron_fsdp_main_grads_dtype", "auto", "gradients are kept as train.gradient_dtype says"},
    {"megatron_fsdp_main_params_dtype", "fp32", "master parameters are fp32"},
    {"megatron_fsdp_grad_comm_dtype", "auto", "gradients are sent as train.gradient_dtype says"},
    {"outer_dp_sharding_strategy", "no_shard", "replicas of the shards are whole"},
    {"enable_full_sharding_in_hsdp", "False", "replicas of the shards are whole"},
    {"use_sharp", "False", "cluster.in_network_reduction says it"},
    {"gtp_remat_opt_in_modules", "", "weights are not gathered again"},
    {"fsdp_double_buffer", "False", "as without"},
    {"moe_use_upcycling", "False", "as without"}};

// Arguments that do nothing unless another one is set. If that one is set, its reader takes them.
constexpr std::string_view kIdle =
    "add_position_embedding cp_comm_type *lora_rank mamba_* moe_layer_freq moe_paged_stash_* "
    "qk_head_dim qk_pos_emb_head_dim v_head_dim vocab_size torch_fsdp2_* tp_comm_bulk_* "
    "tp_comm_overlap_* group_query_attention num_query_groups recompute_method linear_* dsa_* "
    "exp_avg* microbatch_group* account_for* padded_* transformer_impl "
    "position_embedding_type cuda_graph_modules cuda_graph_scope add_qkv* ";

// Arguments that never change time or memory.
constexpr std::string_view kQuiet =
    "reuse_grad_buf_for_mxfp8_param_ag clone_scatter* no_load_* no_save_* no_record* "
    "calculate_per_token_loss "
    "overlap_p2p_communication_warmup* use_fused_weighted* moe_enable_routing_replay "
    "test_mode flash_decode offset_sampling* strict_* use_layer_wise* *lr lr_* *_lr_* adam_* "
    "lion_* muon_* sgd_* adaptive_* *weight_decay* clip_grad loss_scale* initial_loss_scale "
    "min_loss_scale hysteresis *dropout init_method* *_init_method* *seed data_* *data_path* "
    "*_path *_dir *dataset* *dataloader* split mock_data num_workers *tokenizer* *_file "
    "tiktoken_* vocab_extra_ids special_tokens metadata_path trust_remote_code "
    "null_tokenizer* eod_* reset_* *_mask_* create_attention_mask* mmap_bin_files save* load* "
    "*ckpt* *checkpoint* finetune exit_* eval* *_eval_* train_iters train_samples "
    "train_sync_interval skip_train iterations_to_skip log_* logging_level tensorboard* "
    "wandb* one_logger* enable_one_logger otel_* timing_log* barrier_with* profile* *profil* "
    "nvtx* record_* memory_snapshot* app_tag* straggler* disable_straggler* enable_ft_package "
    "calc_ft* ft_* inprocess* rerun* error_injection* fault_injector* flight_recorder* "
    "check_* verify* distributed_backend distributed_timeout* *gloo* local_rank rank "
    "lazy_mpu* use_cpu_init* perform_initialization init_model_with* manual_gc* empty_unused* "
    "openai_gelu onnx_safe chat_template use_gigatoken allow_ambiguous_pad_tokens enable_msc "
    "*validation* use_one_sent_docs create_all_gather_group fake_process_group temperature top_k "
    "prompts num_tokens_to_generate incoming_requests* model_provider enable_chunked_prefill "
    "use_legacy_static_engine decode_only_cuda_graphs output_bert_embeddings "
    "apply_wd_to_qk_layernorm run_workload_inspector_server *norm_epsilon layernorm_* "
    "apply_layernorm_1p *rope* rotary* yarn_* mscale* mrope* "
    "max_position_embeddings inference* rl_* grpo* langrl* retro* dino* vision* swin* ict* "
    "bert* biencoder* retriever* indexer_* img_* patch_dim num_channels num_classes "
    "classes_fraction iter_per_epoch fim_* mask_* short_seq_prob sample_rate query_in_block* "
    "block_data* evidence* titles* embedding_path kitchen_attention_backend te_rng* kd_* logits_* "
    "logit_* "
    "export_* qk_clip* moe_aux_loss* moe_z_loss* moe_router_* moe_token_drop* "
    "moe_input_jitter* moe_per_layer* moe_routing_trace* moe_upcycling* moe_permute* "
    "moe_grouped_gemm moe_*_num_sms* moe_hybridep* moe_*_interleave_size moe_*_dtype "
    "moe_apply_probs* moe_ncclep* moe_use_legacy* moe_extended_tp moe_single* mtp_loss* "
    "fp8_margin fp8_interval fp8_amax* fp4_recipe num_layers_at_* use_mcore_models "
    "deprecated_* *_deprecated use_legacy_models enable_experimental experimental* async_* "
    "adlr* start_* end_* override_* non_persistent* *_fusion use_te_* "
    "use_transformer_engine_op* cross_entropy_* apply_query_key* attention_softmax_in_fp32 "
    "relative_attention* glu_linear* activation_func_clamp* mup_* use_mup mamba_inference* "
    "mamba_training* use_mamba_mem* tp_comm_bootstrap* tp_comm_split* sharp_* "
    "nccl_* high_priority* ddp_average* ddp_pad* "
    "gradient_reduce_div* align_grad_reduce make_vocab_size* "
    "cuda_graph_warmup* wgrad_deferral* num_dataset* global_rank master_* node_rank rdzv_* "
    "max_restarts redirects tee standalone transformer_pipeline* "
    "overlap_p2p_comm_warmup* dsa_* gdp_* linear_* gtp_* "
    "megatron_fsdp_version fsdp_* offload_* pin_cpu* optimizer_offload* use_persistent* "
    "group_query_attention add_qkv* tensor_model_parallel_comm* consumed_* iteration do_* "
    "curr_* params_dtype phase_* main_* exp_avg* decoupled* transformer_impl model_type "
    "variable_seq* encoder_* decoder_seq_length  "
    "padded_* sft* perform_rl* refit_method num_query_groups min_offloaded* "
    "delay_offload* max_tokens_to_oom max_seqlen_per* mlp_chunks_for_prefill "
    "prefill* moe_deepep* num_speculative* symmetric* batch_invariant* "
    "flash_attention_version mhc_* suggested_comm* microbatch_group* account_for* is_hybrid* "
    "warmup gpu_sniff* classes* replication* result_* dump_* head_lr_mult dist_ckpt* "
    "recompute_method position_embedding_type valid_* spiky* ";

}  // namespace

std::optional<std::string_view> not_expressed_argument(std::string_view name,
                                                       std::string_view value) {
  const bool nothing = value.empty() || value == "None" || value == "null" || value == "[]" ||
                       value == "False" || value == "false";
  for (const NotExpressedArgument& row : kNotExpressed) {
    if (row.name != name) continue;
    const bool usually_on = row.usual == "True";
    // Off and empty are usual, but off is not for a switch that is usually on. torch.float32 is
    // fp32.
    const bool usual = value == row.usual || (nothing && !usually_on) ||
                       (usually_on && (value == "true" || value.empty() || value == "None")) ||
                       (row.usual == "fp32" && value == "torch.float32");
    return usual ? std::string_view() : row.what;
  }
  return std::nullopt;
}

bool is_quiet_argument(std::string_view name) {
  return matches_word(name, kIdle) || matches_word(name, kQuiet);
}

}  // namespace tandem
