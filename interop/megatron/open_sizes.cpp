// Asks for sizes that a script leaves to a variable without a value, "--num-experts $EXPERTS": no
// default may stand in for them. Declared in interop/megatron/megatron.h.
#include <algorithm>

#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

// An argument and the key that it decides.
struct OpenSizeRow {
  std::string_view argument, key;
};
constexpr OpenSizeRow kOpenSizes[] = {{"tensor_model_parallel_size", "parallel.tp"},
                                      {"pipeline_model_parallel_size", "parallel.pp"},
                                      {"context_parallel_size", "parallel.cp"},
                                      {"expert_model_parallel_size", "parallel.ep"},
                                      {"micro_batch_size", "parallel.micro_batch"},
                                      {"global_batch_size", "parallel.global_batch"},
                                      {"seq_length", "model.seq"}};

// Arguments that are asked for as flags alone. In YAML a reference to another setting may stand for
// the default.
constexpr OpenSizeRow kOpenFlags[] = {
    {"world_size", "cluster.gpus"},
    {"nnodes", "cluster.gpus"},
    {"gpus_per_node", "cluster.gpus"},
    {"expert_tensor_parallel_size", "parallel.expert_tp"},
    {"virtual_pipeline_model_parallel_size", "parallel.vpp"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.vpp"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.vpp"},
    {"pipeline_model_parallel_layout", "parallel.layers_per_stage"},
    {"decoder_first_pipeline_num_layers", "parallel.layers_per_stage"},
    {"decoder_last_pipeline_num_layers", "parallel.layers_per_stage"},
    {"microbatch_group_size_per_vp_stage", "schedule.group"},
    {"num_distributed_optimizer_instances", "parallel.hsdp_shard"},
    {"optimizer_offload_fraction", "train.optimizer_offload"},
    {"num_query_groups", "model.kv_heads"},
    {"kv_channels", "model.head_dim"},
    {"ffn_hidden_size", "model.ffn_hidden"},
    {"num_experts", "model.experts"},
    {"moe_router_topk", "model.top_k"},
    {"moe_ffn_hidden_size", "model.expert_ffn_hidden"},
    {"moe_shared_expert_intermediate_size", "model.shared_expert_ffn"},
    {"vocab_size", "model.vocab"},
    {"mtp_num_layers", "model.mtp_layers"}};

}  // namespace

void ask_for_open_sizes(const MegatronArguments& arguments, const ImportedPlan& before,
                        std::int64_t gpus, ImportedPlan* plan) {
  const auto ask = [&](const OpenSizeRow& row, const MegatronArguments::OpenValue& open) {
    plan->open.push_back({std::string(row.key), open.where, open.spelled + " " + open.value});
    std::erase_if(plan->keys, [&](const ImportedKey& key) { return key.key == row.key; });
  };
  // A model of this file, which no earlier file states.
  const bool has_model = plan->states_model() && !before.states_model();
  const bool has_gpus = gpus > 0 || plan->has("cluster.gpus");
  for (const OpenSizeRow& row : kOpenSizes) {
    if (const auto open = arguments.open_value(row.argument)) ask(row, *open);
  }
  for (const OpenSizeRow& row : kOpenFlags) {
    const auto open = arguments.open_value(row.argument);
    if (!open || !open->spelled.starts_with("--")) continue;
    if (row.key == "cluster.gpus" && has_gpus) continue;  // --gpus or another argument states them
    if (row.key.starts_with("model.") && !has_model) continue;  // the model is another file's
    if (row.key == "train.optimizer_offload" && !plan->has("train.optimizer_offload"))
      continue;  // nothing is moved
    ask(row, *open);
  }
}

}  // namespace tandem
