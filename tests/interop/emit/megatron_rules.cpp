// The rules of Megatron-LM, Megatron-Bridge and ChatLearn. Declared in
// tests/interop/emit/emit_rules.h.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/interop/emit/emit_rules.h"

namespace tandem {
namespace {

using F = const Fields&;

bool muon(F f) { return f.text("optimizer").ends_with("muon"); }
long long tp(F f) { return f.num("tensor_model_parallel_size", 1); }
long long pp(F f) { return f.num("pipeline_model_parallel_size", 1); }
long long cp(F f) { return f.num("context_parallel_size", 1); }
long long ep(F f) { return f.num("expert_model_parallel_size", 1); }
long long etp(F f) { return f.num("expert_tensor_parallel_size", tp(f)); }
long long gpus(F f) { return f.num("script.gpus", 1); }
long long dp(F f) { return std::max(1LL, gpus(f) / (tp(f) * pp(f) * cp(f))); }
long long layers(F f) { return f.num("script.layers", 0); }
// ChatLearn's names begin with "train_".
long long micro_batch(F f) { return f.num("micro_batch_size", f.num("train_micro_batch_size", 1)); }
long long global_batch(F f) {
  return f.num("global_batch_size", f.num("train_global_batch_size", 1));
}
long long microbatches(F f) { return global_batch(f) / (micro_batch(f) * dp(f)); }

std::string layout(F f) { return f.text("pipeline_model_parallel_layout"); }
std::string pattern(F f) { return f.text("hybrid_layer_pattern", f.text("script.hybrid")); }
bool is_hybrid(F f) { return !pattern(f).empty(); }
long long segments(F f) {
  const std::string text = pattern(f);
  return std::count(text.begin(), text.end(), '|') + 1;
}

// Writes out "(tt|)*2t*3" as "tt|tt|ttt".
std::string unrolled(const std::string& text) {
  std::string all, last;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '*') {
      std::size_t end = at + 1;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
      for (int i = std::stoi(text.substr(at + 1, end - at - 1)); i > 1; --i) all += last;
      at = end;
      continue;
    }
    const std::size_t close = text[at] == '(' ? text.find(')', at) : at;
    last = text[at] == '(' ? unrolled(text.substr(at + 1, close - at - 1)) : text.substr(at, 1);
    all += last;
    at = close + 1;
  }
  return all;
}

long long count_in_layout(F f, char letter) {
  const std::string text = unrolled(layout(f));
  return std::count(text.begin(), text.end(), letter);
}
long long layout_stages(F f) { return count_in_layout(f, '|') + 1; }

// The stages that a flag states for a rank; 0: none does.
long long stated_vpp(F f) {
  return f.num("num_virtual_stages_per_pipeline_rank",
               f.num("virtual_pipeline_model_parallel_size", 0));
}
long long vpp(F f) {
  if (!layout(f).empty()) return layout_stages(f) / pp(f);
  if (is_hybrid(f) && segments(f) > 1) return segments(f) / pp(f);
  return std::max(1LL, stated_vpp(f));
}

long long account(F f) {
  return (f.on("account_for_embedding_in_pipeline_split") ? 1 : 0) +
         (f.on("account_for_loss_in_pipeline_split") ? 1 : 0);
}
bool overlaps_p2p(F f) {
  return vpp(f) > 1 && f.text("overlap_p2p_communication") != "False" &&
         f.text("overlap_p2p_comm") != "False";
}
std::string fp8(F f) { return f.text("fp8_format", f.text("fp8")); }
std::string fp4(F f) { return f.text("fp4_format", f.text("fp4")); }
// Megatron-LM's default recipe; a rule of Megatron-Bridge's wants it to be stated.
std::string recipe(F f) { return f.text("fp8_recipe", "delayed"); }
bool fsdp(F f) { return f.on("use_megatron_fsdp"); }
bool sharded(F f) { return f.on("use_distributed_optimizer") || fsdp(f); }
std::string granularity(F f) { return f.text("recompute_granularity"); }
bool expert_overlap(F f) { return f.on("overlap_moe_expert_parallel_comm"); }
bool graphs(F f) { return f.text("cuda_graph_impl", "none") != "none"; }

// The modules of selective recompute; the core of attention where none are stated.
bool repeats(F f, std::string_view module) {
  std::string text = f.text("recompute_modules", "core_attn");
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (word == module) return true;
  }
  return false;
}

// Says whether a CUDA graph holds a module: it is in its list, or it has none.
bool graphs_module(F f, std::string_view module) {
  std::string text = f.text("cuda_graph_scope", f.text("cuda_graph_modules"));
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream in(text);
  std::string word;
  if (!(in >> word)) return true;
  do {
    if (word == module) return true;
  } while (in >> word);
  return false;
}

// Says whether all words of a list are among the known ones.
bool knows(F f, const std::string& list, const std::string& known) {
  std::string text = f.text(list);
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if ((" " + known + " ").find(" " + word + " ") == std::string::npos) return false;
  }
  return true;
}

bool known_modules(F f) {
  return knows(f, "recompute_modules",
               "core_attn moe_act layernorm mla_up_proj mlp moe shared_experts gdn_norm_out "
               "gdp_in_proj gdp_qkv mhc");
}

bool offloads(F f, std::string_view module) {
  return f.text("offload_modules").find(module) != std::string::npos;
}
bool offloads_experts(F f) {
  return offloads(f, "expert_fc1") || offloads(f, "moe_act") || offloads(f, "fused_group_mlp");
}

// A stage's part of the rest of the last group of microbatches.
bool groups_microbatches(F f) {
  const long long group = f.num("microbatch_group_size_per_virtual_pipeline_stage",
                                f.num("microbatch_group_size_per_vp_stage", pp(f)));
  if (vpp(f) == 1 || pp(f) == 1) return true;
  const long long rest = microbatches(f) % group;
  return group >= pp(f) && group <= microbatches(f) && (rest == 0 || rest >= pp(f));
}

bool has_no_stage_flags(F f) {
  return stated_vpp(f) == 0 && layout(f).empty() && account(f) == 0 &&
         !f.contains("num_layers_per_virtual_pipeline_stage");
}

// The fields of ChatLearn's MegatronPolicyTrainerConfig and its parents, of its
// MegatronModelArchitectureConfig and of RuntimeConfig, as far as plans have to do with them.
bool has_chatlearn_field(const std::string& name) {
  const std::string known =
      " models.policy_trainer.num_gpu models.policy_trainer.bf16 "
      "models.policy_trainer.tensor_model_parallel_size "
      "models.policy_trainer.pipeline_model_parallel_size "
      "models.policy_trainer.context_parallel_size "
      "models.policy_trainer.expert_model_parallel_size "
      "models.policy_trainer.expert_tensor_parallel_size "
      "models.policy_trainer.virtual_pipeline_model_parallel_size "
      "models.policy_trainer.pipeline_model_parallel_layout "
      "models.policy_trainer.sequence_parallel "
      "models.policy_trainer.decoder_first_pipeline_num_layers "
      "models.policy_trainer.decoder_last_pipeline_num_layers models.policy_trainer.seq_length "
      "models.policy_trainer.recompute_granularity models.policy_trainer.recompute_method "
      "models.policy_trainer.recompute_num_layers models.policy_trainer.recompute_modules "
      "models.policy_trainer.use_distributed_optimizer "
      "models.policy_trainer.gradient_accumulation_fusion "
      "models.policy_trainer.megatron_model_cfg.moe_grouped_gemm "
      "models.policy_trainer.megatron_model_cfg.moe_token_dispatcher_type "
      "models.policy_trainer.megatron_model_cfg.attention_backend "
      "models.policy_trainer.megatron_model_cfg.cross_entropy_loss_fusion "
      "models.policy_trainer.megatron_model_cfg.bias_swiglu_fusion "
      "models.policy_trainer.megatron_model_cfg.overlap_p2p_comm "
      "models.policy_trainer.megatron_model_cfg.batch_p2p_comm "
      "models.policy_trainer.megatron_model_cfg.overlap_moe_expert_parallel_comm "
      "runtime_args.train_micro_batch_size runtime_args.train_global_batch_size ";
  return known.find(" " + name + " ") != std::string::npos;
}

constexpr std::string_view kAll = "megatron nemo chatlearn";
constexpr std::string_view kArguments = "NVIDIA/Megatron-LM megatron/training/arguments.py";
constexpr std::string_view kConfig =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py";
constexpr std::string_view kState = "NVIDIA/Megatron-LM megatron/core/parallel_state.py";
constexpr std::string_view kBlock =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py";
constexpr std::string_view kLayout =
    "NVIDIA/Megatron-LM megatron/core/transformer/pipeline_parallel_layer_layout.py";
constexpr std::string_view kBridgeConfig =
    "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/config.py";
constexpr std::string_view kBridgeModel =
    "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/models/gpt_provider.py";
constexpr std::string_view kBridgeOverrides =
    "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/utils/omegaconf_utils.py";
constexpr std::string_view kBridgeOverlap =
    "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/comm_overlap.py";
constexpr std::string_view kChatLearn = "alibaba/ChatLearn chatlearn/configs/megatron_config.py";

const EmitRule kRules[] = {
    {kAll, "tp x pp x cp divides the GPUs", kArguments, "432",
     [](F f) { return gpus(f) % (tp(f) * pp(f) * cp(f)) == 0; }, "context_parallel_size=3"},
    {kAll, "micro batch x dp divides the global batch", kArguments, "715",
     [](F f) { return global_batch(f) % (micro_batch(f) * dp(f)) == 0; }, "micro_batch_size=3"},
    {kAll, "expert tp x ep x pp divides the GPUs", kState, "881",
     [](F f) { return gpus(f) % (etp(f) * ep(f) * pp(f)) == 0; }, "expert_tensor_parallel_size=3"},
    {kAll, "ep divides the experts, of which there are some", kArguments, "1657",
     [](F f) {
       const long long experts = f.num("script.experts", 0);
       return ep(f) == 1 || (experts > 0 && experts % ep(f) == 0);
     },
     "script.experts=6"},
    {kAll, "tp divides the heads", kConfig, "1446",
     [](F f) { return f.num("script.heads", 1) % tp(f) == 0; }, "script.heads=31"},
    {kAll, "tp divides the groups of queries, or they divide tp", kConfig, "1461",
     [](F f) {
       const long long groups = f.num("script.kv_heads", tp(f));
       return groups % tp(f) == 0 || tp(f) % groups == 0;
     },
     "script.kv_heads=3"},
    {kAll, "cp > 1: 2 cp divides the sequence", kArguments, "1336",
     [](F f) { return cp(f) == 1 || f.num("script.seq", 0) % (2 * cp(f)) == 0; },
     "script.seq=8190"},
    {"nemo", "sequences are cut with tp > 1 only",
     "NVIDIA/Megatron-LM megatron/core/model_parallel_config.py", "503",
     [](F f) { return !f.on("sequence_parallel") || tp(f) > 1; }, "tensor_model_parallel_size=1"},
    {"megatron", "stages are stated by one flag", kArguments, "928",
     [](F f) {
       return f.contains("num_layers_per_virtual_pipeline_stage") +
                  f.contains("num_virtual_stages_per_pipeline_rank") + !layout(f).empty() <=
              1;
     },
     "pipeline_model_parallel_layout=Et*4|(t*4|)*6t*4L"},
    {kAll, "pp divides a layout's stages", kArguments, "945",
     [](F f) { return layout(f).empty() || layout_stages(f) % pp(f) == 0; },
     "pipeline_model_parallel_layout=Et*8|t*8|t*16L"},
    {kAll, "a layout has all layers, one embedding and one loss", kLayout, "103",
     [](F f) {
       return layout(f).empty() || (count_in_layout(f, 't') == layers(f) &&
                                    count_in_layout(f, 'E') == 1 && count_in_layout(f, 'L') == 1);
     },
     "pipeline_model_parallel_layout=Et*8|t*8|t*8|t*7L"},
    {kAll, "a layout stands without flags that count embedding and loss", kConfig, "2242",
     [](F f) { return layout(f).empty() || account(f) == 0; },
     "pipeline_model_parallel_layout=Et*8|t*8|t*8|t*8L account_for_loss_in_pipeline_split=True"},
    {"megatron chatlearn", "pp divides the layers that are counted", kArguments, "997",
     [](F f) {
       return !layout(f).empty() || is_hybrid(f) || (layers(f) + account(f)) % pp(f) == 0;
     },
     "script.layers=34"},
    {"nemo megatron chatlearn", "pp x vpp divides the layers that are counted", kBlock, "176",
     [](F f) {
       return !layout(f).empty() || is_hybrid(f) ||
              (layers(f) + account(f)) % (pp(f) * vpp(f)) == 0;
     },
     "script.layers=36"},
    {"nemo", "without a layout or such flags vpp divides a rank's layers", kBridgeModel, "253",
     [](F f) {
       return !layout(f).empty() || is_hybrid(f) || account(f) > 0 || stated_vpp(f) == 0 ||
              layers(f) / pp(f) % stated_vpp(f) == 0;
     },
     "script.layers=36"},
    {kAll, "stages that count embedding or loss have layers enough", kBlock, "195",
     [](F f) { return account(f) == 0 || (layers(f) + account(f)) / (pp(f) * vpp(f)) >= 1; },
     "account_for_embedding_in_pipeline_split=True script.layers=3"},
    {kAll, "virtual stages want pp > 1, and > 2 without overlapped transfers", kArguments, "1000",
     [](F f) { return vpp(f) == 1 || pp(f) > (overlaps_p2p(f) ? 1 : 2); },
     "pipeline_model_parallel_size=2 overlap_p2p_communication=False overlap_p2p_comm=False"},
    {"megatron", "a hybrid's stages are bars of its pattern alone", kArguments, "804",
     [](F f) { return !is_hybrid(f) || has_no_stage_flags(f); }, "hybrid_layer_pattern=M*M*|M*M*"},
    {"megatron", "pp divides a hybrid's segments", kArguments, "847",
     [](F f) { return !is_hybrid(f) || segments(f) == 1 || segments(f) % pp(f) == 0; },
     "hybrid_layer_pattern=M*|M*|M*"},
    {"megatron", "pp divides a hybrid's layers where its pattern has no bars",
     "NVIDIA/Megatron-LM megatron/core/models/hybrid/hybrid_layer_allocation.py", "436",
     [](F f) {
       return !is_hybrid(f) || segments(f) > 1 ||
              static_cast<long long>(pattern(f).size()) % pp(f) == 0;
     },
     "hybrid_layer_pattern=M*M"},
    {kAll, "groups of microbatches are pp or more, and so is the last one",
     "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py", "1160", groups_microbatches,
     "global_batch_size=24"},
    {kAll, "sharded optimizers divide the ranks that they share", kState, "922",
     [](F f) { return dp(f) * cp(f) % f.num("num_distributed_optimizer_instances", 1) == 0; },
     "num_distributed_optimizer_instances=3"},
    {kAll, "sharded optimizers divide an expert's replicas", kState, "1447",
     [](F f) {
       const long long replicas = gpus(f) / (etp(f) * ep(f) * pp(f));
       return f.num("script.experts", 0) == 0 ||
              replicas % f.num("num_distributed_optimizer_instances", 1) == 0;
     },
     "num_distributed_optimizer_instances=8"},
    {kAll, "several sharded optimizers are distributed ones",
     "NVIDIA/Megatron-LM megatron/core/distributed/distributed_data_parallel.py", "358",
     [](F f) { return f.num("num_distributed_optimizer_instances", 1) == 1 || sharded(f); },
     "num_distributed_optimizer_instances=2 use_distributed_optimizer=False"},
    {kAll, "gathers overlap with a distributed optimizer only", kArguments, "1025",
     [](F f) { return !f.on("overlap_param_gather") || sharded(f); },
     "overlap_param_gather=True use_distributed_optimizer=False"},
    {kAll, "gathers overlap beside reductions only", kArguments, "1028",
     [](F f) { return !f.on("overlap_param_gather") || f.on("overlap_grad_reduce"); },
     "overlap_param_gather=True overlap_grad_reduce=False"},
    {"megatron", "Megatron-FSDP writes fsdp_dtensor, and nobody else does", kArguments,
     "1169, 1676", [](F f) { return fsdp(f) == (f.text("ckpt_format") == "fsdp_dtensor"); },
     "use_megatron_fsdp=True"},
    {"nemo", "Megatron-FSDP writes fsdp_dtensor, and nobody else does", kBridgeConfig, "1107, 1531",
     [](F f) { return fsdp(f) == (f.text("checkpoint.ckpt_format") == "fsdp_dtensor"); },
     "use_megatron_fsdp=True"},
    {kAll, "Megatron-FSDP wants more connections than one", kArguments, "1166",
     [](F f) { return !fsdp(f) || f.text("env.CUDA_DEVICE_MAX_CONNECTIONS", "1") != "1"; },
     "use_megatron_fsdp=True env.CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {"megatron chatlearn", "tp or cp wants one connection before Blackwell", kArguments, "1477",
     [](F f) {
       return (tp(f) == 1 && cp(f) == 1) || fsdp(f) || expert_overlap(f) ||
              f.text("env.CUDA_DEVICE_MAX_CONNECTIONS") == "1";
     },
     "overlap_moe_expert_parallel_comm= env.CUDA_DEVICE_MAX_CONNECTIONS="},
    {kAll, "tensor communication overlaps if sequences are cut", kArguments, "1441",
     [](F f) { return !f.on("tp_comm_overlap") || f.on("sequence_parallel"); },
     "tp_comm_overlap=True sequence_parallel=False"},
    {"megatron nemo", "userbuffers take no fp4, and no fp8 with blockwise scales",
     "NVIDIA/TransformerEngine transformer_engine/pytorch/module/base.py", "754",
     [](F f) { return !f.on("tp_comm_overlap") || (recipe(f) != "blockwise" && fp4(f).empty()); },
     "tp_comm_overlap=True fp8_recipe=blockwise"},
    {kAll, "bf16 or fp16", kConfig, "1432", [](F f) { return !f.on("bf16") || !f.on("fp16"); },
     "bf16=True fp16=True"},
    {kAll, "fp8 or fp4", kArguments, "1100", [](F f) { return fp8(f).empty() || fp4(f).empty(); },
     "fp8=hybrid fp4=e2m1"},
    {kAll, "parameters are gathered in 8 bits with a distributed optimizer only", kArguments,
     "1095", [](F f) { return !f.on("fp8_param_gather") || sharded(f); },
     "fp8_param_gather=True use_distributed_optimizer=False"},
    {kAll, "parameters are gathered in 8 bits with fp8 only", kConfig, "1566",
     [](F f) { return !f.on("fp8_param_gather") || !fp8(f).empty(); },
     "fp8_param_gather=True fp8_format= fp8="},
    {kAll, "parameters are gathered in 4 bits with fp4 only", kConfig, "1578",
     [](F f) { return !f.on("fp4_param_gather") || !fp4(f).empty(); }, "fp4_param_gather=True"},
    {"megatron nemo", "gathers in mxfp8 share the gradients' buffer", kBridgeConfig, "1495",
     [](F f) {
       return fsdp(f) || !f.on("fp8_param_gather") || recipe(f) != "mxfp8" ||
              f.on("reuse_grad_buf_for_mxfp8_param_ag");
     },
     "fp8_recipe=mxfp8"},
    {"nemo", "fp8 states its recipe, whose default is tensorwise",
     "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/mixed_precision.py", "50",
     [](F f) { return fp8(f).empty() || f.contains("mixed_precision.fp8_recipe"); },
     "mixed_precision.fp8_recipe="},
    {"nemo", "data parallelism and optimizer agree on sharding", kBridgeConfig, "2114",
     [](F f) {
       return f.text("ddp.use_distributed_optimizer") ==
              f.text("optimizer.use_distributed_optimizer");
     },
     "optimizer.use_distributed_optimizer=False"},
    {"nemo", "the overlap section repeats what data parallelism says", kBridgeOverlap, "569",
     [](F f) {
       for (const std::string name : {"overlap_grad_reduce", "overlap_param_gather"}) {
         if (f.text("comm_overlap." + name) != f.text("ddp." + name)) return false;
       }
       return f.contains("comm_overlap.tp_comm_overlap");
     },
     "comm_overlap.overlap_grad_reduce=False"},
    {"nemo", "graphs want Transformer Engine's random numbers", kBridgeModel, "235",
     [](F f) { return !graphs(f) || f.on("rng.te_rng_tracker"); }, "cuda_graph_impl=local"},
    {"nemo", "graphs are Transformer Engine's, as local ones are of whole iterations",
     "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/utils/cuda_graph.py", "148",
     [](F f) { return f.text("cuda_graph_impl") != "local"; }, "cuda_graph_impl=local"},
    {"nemo", "sections are objects where a recipe has a name or None", kBridgeOverrides, "479",
     [](F f) {
       return f.text("mixed_precision._target_").ends_with(".MixedPrecisionConfig") &&
              f.text("comm_overlap._target_").ends_with(".CommOverlapConfig");
     },
     "comm_overlap._target_="},
    {"nemo", "an object has no map in place of another object", kBridgeOverlap, "628",
     [](F f) { return f.text("comm_overlap.tp_comm_overlap_cfg") == "null"; },
     "comm_overlap.tp_comm_overlap_cfg="},
    {"nemo", "parameters and transfers have a type",
     "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/mixed_precision.py", "148",
     [](F f) {
       const char* const type = f.on("bf16") ? "torch.bfloat16," : "torch.float";
       return f.text("mixed_precision.params_dtype").find(type) != std::string::npos &&
              f.text("mixed_precision.pipeline_dtype").find(type) != std::string::npos;
     },
     "mixed_precision.params_dtype="},
    {"nemo", "what a recipe may have set is replaced", kBridgeOverrides, "148",
     [](F f) {
       return std::ranges::all_of(
           std::initializer_list<const char*>{
               "model.context_parallel_size", "model.expert_model_parallel_size",
               "model.expert_tensor_parallel_size", "model.sequence_parallel",
               "model.virtual_pipeline_model_parallel_size", "model.pipeline_model_parallel_layout",
               "model.account_for_loss_in_pipeline_split", "model.recompute_granularity",
               "model.recompute_method", "model.recompute_num_layers", "model.recompute_modules",
               "model.cuda_graph_impl", "mixed_precision.fp8", "mixed_precision.fp4",
               "comm_overlap.overlap_moe_expert_parallel_comm", "ddp.use_megatron_fsdp"},
           [&](const char* name) { return f.contains(name); });
     },
     "model.context_parallel_size="},
    {"nemo", "transfers overlap or are batched, by the stated number of stages",
     "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py", "1086",
     [](F f) {
       const bool several = pp(f) > 1 && stated_vpp(f) > 1;  // a layout does not count
       const auto flag = [&](const char* name, bool usual) {
         return f.contains(name) ? f.on(name) : usual;
       };
       return !flag("comm_overlap.overlap_p2p_comm", several) ||
              !flag("comm_overlap.batch_p2p_comm", pp(f) > 1 && !several);
     },
     "virtual_pipeline_model_parallel_size= comm_overlap.batch_p2p_comm="},
    {"nemo", "a hybrid has one stage a rank",
     "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/models/hybrid/hybrid_provider.py", "291",
     [](F f) { return !is_hybrid(f) || vpp(f) == 1; },
     "hybrid_layer_pattern=M*|M*|M*|M*|M*|M*|M*|M*"},
    {"nemo", "a layout's stages are those that are stated", kConfig, "2280",
     [](F f) {
       return layout(f).empty() || stated_vpp(f) == 0 || stated_vpp(f) * pp(f) == layout_stages(f);
     },
     "pipeline_model_parallel_layout=Et*8|t*8|t*8|t*8L"},
    {kAll, "an offloaded optimizer is precision-aware", kArguments, "1885",
     [](F f) { return !f.on("optimizer_cpu_offload") || f.on("use_precision_aware_optimizer"); },
     "optimizer_cpu_offload=True use_precision_aware_optimizer="},
    {kAll, "an offloaded optimizer gathers 8 bits with delayed scaling only", kArguments, "1889",
     [](F f) {
       return !f.on("optimizer_cpu_offload") || !f.on("fp8_param_gather") || recipe(f) == "delayed";
     },
     "optimizer_cpu_offload=True fp8_param_gather=True fp8_recipe=mxfp8"},
    {kAll, "narrow states want a precision-aware optimizer",
     "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py", "475",
     [](F f) {
       return f.text("exp_avg_dtype", "fp32") == "fp32" || f.on("use_precision_aware_optimizer");
     },
     "exp_avg_dtype=bf16 use_precision_aware_optimizer="},
    {kAll, "offloaded moments are fp32", "NVIDIA/Megatron-LM megatron/core/optimizer/__init__.py",
     "600",
     [](F f) {
       return !f.on("optimizer_cpu_offload") || f.text("exp_avg_dtype", "fp32") == "fp32";
     },
     "optimizer_cpu_offload=True exp_avg_dtype=bf16"},
    {kAll, "moments are of one type", "NVIDIA/Megatron-LM megatron/core/optimizer/__init__.py",
     "570", [](F f) { return f.text("exp_avg_dtype") == f.text("exp_avg_sq_dtype"); },
     "exp_avg_dtype=bf16 exp_avg_sq_dtype=fp32"},
    {kAll, "Muon does not run with FSDP", kArguments, "1740",
     [](F f) { return !muon(f) || !fsdp(f); }, "optimizer=muon use_megatron_fsdp=True"},
    {kAll, "Muon does not run in fp16", "NVIDIA/Megatron-LM megatron/core/optimizer/__init__.py",
     "775", [](F f) { return !muon(f) || !f.on("fp16"); }, "optimizer=muon fp16=True"},
    {kAll, "a precision-aware optimizer is Adam",
     "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py", "434",
     [](F f) { return !muon(f) || !f.on("use_precision_aware_optimizer"); },
     "optimizer=muon use_precision_aware_optimizer=True"},
    {kAll, "Muon has one instance of the distributed optimizer",
     "NVIDIA/Megatron-LM megatron/core/optimizer/layer_wise_optimizer.py", "524",
     [](F f) { return !muon(f) || f.num("num_distributed_optimizer_instances", 1) == 1; },
     "optimizer=muon num_distributed_optimizer_instances=2"},
    {"nemo", "Muon has no distributed optimizer, but for its name",
     "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/recipes/kimi/h100/kimi_k2.py", "74",
     [](F f) {
       return !muon(f) || (!f.on("ddp.use_distributed_optimizer") && !f.on("overlap_param_gather"));
     },
     "optimizer.optimizer=dist_muon optimizer=dist_muon"},
    {"megatron", "the loss is not Transformer Engine's", kArguments, "1697",
     [](F f) { return f.text("cross_entropy_fusion_impl") != "te"; },
     "cross_entropy_fusion_impl=te"},
    {"megatron nemo", "modules are offloaded if the switch is on", kConfig, "2127",
     [](F f) {
       return f.on("fine_grained_activation_offloading") == f.contains("offload_modules");
     },
     "fine_grained_activation_offloading=True offload_modules="},
    {"megatron nemo", "modules that are offloaded are known", kConfig, "2132",
     [](F f) {
       return knows(f, "offload_modules",
                    "core_attn attn_proj expert_fc1 fused_group_mlp moe_act attn_norm mlp_norm "
                    "qkv_linear gdp_qkv");
     },
     "offload_modules=mlp"},
    {"megatron nemo", "attention's projection is offloaded with its core", kConfig, "2148",
     [](F f) { return !offloads(f, "attn_proj") || offloads(f, "core_attn"); },
     "offload_modules=attn_proj"},
    {"megatron nemo", "nothing is offloaded inside recomputed experts", kConfig, "2164",
     [](F f) {
       return granularity(f) != "selective" || !repeats(f, "moe") || !offloads_experts(f);
     },
     "recompute_granularity=selective recompute_modules=moe offload_modules=moe_act"},
    {"megatron nemo", "the fused experts are offloaded whole, by the fuser", kConfig, "2186",
     [](F f) {
       return !offloads(f, "fused_group_mlp") ||
              (f.on("use_transformer_engine_op_fuser") && !offloads(f, "expert_fc1") &&
               !offloads(f, "moe_act"));
     },
     "offload_modules=fused_group_mlp"},
    {"megatron nemo", "layers are offloaded without pp and recompute, and not all", kConfig, "1884",
     [](F f) {
       const long long offloaded = f.num("cpu_offloading_num_layers", 0);
       return offloaded == 0 || (offloaded < layers(f) && pp(f) == 1 && granularity(f).empty());
     },
     "cpu_offloading_num_layers=2"},
    {"megatron nemo", "graphs have nothing offloaded", kConfig, "2800",
     [](F f) {
       return !graphs(f) ||
              (!f.contains("cpu_offloading_num_layers") && !f.contains("offload_modules"));
     },
     "cuda_graph_impl=local cpu_offloading_num_layers=2"},
    {"megatron nemo", "graphs hold no experts that take varying numbers of tokens",
     "NVIDIA/Megatron-LM megatron/core/transformer/cuda_graph_config.py", "35 of 85902ef5",
     [](F f) { return !graphs(f) || f.num("script.experts", 0) == 0 || !graphs_module(f, "moe"); },
     "cuda_graph_impl=local"},
    {"megatron nemo", "Transformer Engine's graphs beside overlapped experts hold no MLPs", kConfig,
     "3063",
     [](F f) {
       return !expert_overlap(f) || f.text("cuda_graph_impl") != "transformer_engine" ||
              !(graphs_module(f, "moe") || graphs_module(f, "mlp"));
     },
     "cuda_graph_impl=transformer_engine cuda_graph_modules=mlp"},
    {kAll, "recompute is full or selective", kConfig, "1902",
     [](F f) {
       return granularity(f).empty() || granularity(f) == "full" || granularity(f) == "selective";
     },
     "recompute_granularity=some"},
    {kAll, "full recompute says how and of how many layers", kConfig, "1913, 1919",
     [](F f) {
       const std::string how = f.text("recompute_method");
       return granularity(f) != "full" ||
              ((how == "uniform" || how == "block") && f.contains("recompute_num_layers"));
     },
     "recompute_granularity=full"},
    {kAll, "selective recompute says neither", kConfig, "1927",
     [](F f) {
       return granularity(f) != "selective" ||
              (!f.contains("recompute_num_layers") && !f.contains("recompute_method"));
     },
     "recompute_granularity=selective recompute_num_layers=1"},
    {kAll, "recomputed modules are known ones", kConfig, "1959", known_modules,
     "recompute_modules=core_attnmoe"},
    {kAll, "delayed scaling repeats neither moe_act nor layernorm", kConfig, "2001",
     [](F f) {
       return granularity(f) != "selective" || fp8(f).empty() || recipe(f) != "delayed" ||
              (!repeats(f, "moe_act") && !repeats(f, "layernorm"));
     },
     "fp8=hybrid fp8_format=hybrid fp8_recipe=delayed recompute_granularity=selective "
     "recompute_modules=layernorm"},
    {kAll, "layers are not both graphs and recomputed whole", kConfig, "2855",
     [](F f) { return !graphs(f) || granularity(f) != "full"; },
     "cuda_graph_impl=local recompute_granularity=full"},
    {kAll, "overlapped experts want virtual stages in a pipeline", kConfig, "3007",
     [](F f) { return !expert_overlap(f) || pp(f) == 1 || vpp(f) > 1; },
     "num_virtual_stages_per_pipeline_rank= virtual_pipeline_model_parallel_size="},
    {kAll, "overlapped experts want ep > 1", kConfig, "3013",
     [](F f) { return !expert_overlap(f) || ep(f) > 1; }, "expert_model_parallel_size=1"},
    {kAll, "overlapped experts want all-to-all", kConfig, "3016",
     [](F f) {
       return !expert_overlap(f) || f.text("moe_token_dispatcher_type", "allgather") != "allgather";
     },
     "moe_token_dispatcher_type=allgather"},
    {kAll, "overlapped experts are not recomputed", kConfig, "3021, 3030",
     [](F f) {
       return !expert_overlap(f) || (granularity(f) != "full" && !f.contains("recompute_method") &&
                                     (granularity(f).empty() || !repeats(f, "moe")));
     },
     "recompute_granularity=selective recompute_modules=moe"},
    {kAll, "overlapped experts work in 16 bits", kConfig, "3035",
     [](F f) { return !expert_overlap(f) || f.on("bf16") || f.on("fp16"); }, "bf16=False"},
    {kAll, "weight gradients are delayed beside overlapped experts only", kConfig, "3075",
     [](F f) { return !f.on("delay_wgrad_compute") || expert_overlap(f); },
     "delay_wgrad_compute=True overlap_moe_expert_parallel_comm="},
    {kAll, "moe_act is recomputed with grouped GEMMs only", kConfig, "1964",
     [](F f) {
       return granularity(f) != "selective" || !repeats(f, "moe_act") || f.on("moe_grouped_gemm");
     },
     "recompute_granularity=selective recompute_modules=moe_act moe_grouped_gemm="},
    {kAll, "experts are one grouped GEMM, which is off unless it is stated", kConfig, "850",
     [](F f) { return f.num("script.experts", 0) == 0 || f.on("moe_grouped_gemm"); },
     "moe_grouped_gemm="},
    {kAll, "DeepEP and HybridEP are flexible dispatchers", kConfig, "1744, 1754",
     [](F f) {
       return !f.contains("moe_flex_dispatcher_backend") ||
              f.text("moe_token_dispatcher_type") == "flex";
     },
     "moe_flex_dispatcher_backend=deepep"},
    {"chatlearn", "every field is in its configuration", kChatLearn, "15, 263, 379",
     [](F f) {
       return std::ranges::all_of(f, [](const auto& field) {
         return field.first.find('.') == std::string::npos || field.first.starts_with("script.") ||
                field.first.starts_with("env.") || has_chatlearn_field(field.first);
       });
     },
     "models.policy_trainer.overlap_grad_reduce=True"},
    {"chatlearn", "there are GPUs", kChatLearn, "345",
     [](F f) { return f.num("models.policy_trainer.num_gpu", 0) > 0; },
     "models.policy_trainer.num_gpu=0"},
};

}  // namespace

std::span<const EmitRule> megatron_rules() { return kRules; }

}  // namespace tandem
