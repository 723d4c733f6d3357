// The keys of [model], [parallel], [schedule], [train] and [overlap], but for those of layers.
#pragma once

#include "keys/key_row.h"

namespace tandem {

inline constexpr KeyRow kJobRows[] = {
    {"model.from",
     "text or list of texts: files of other tools that give the keys of [model], as tandem import "
     "reads them"},
    {"model.name", "text: names the job in the tables of tandem size"},
    {"model.layers", "integer: transformer layers"},
    {"model.hidden", "integer: hidden size h"},
    {"model.seq", "integer: tokens a sequence s"},
    {"model.vocab", "integer: vocabulary V"},
    {"model.tied_embeddings",
     "true or false: the head multiplies by the embedding, or by a matrix of its own; default "
     "true"},
    {"model.norm", "text: layernorm or rmsnorm; default as GPT without gated_mlp, as Llama with"},
    {"model.learned_positions",
     "true or false: positions have embeddings; default as without gated_mlp"},
    {"model.mtp_layers",
     "integer: layers of multi-token prediction, behind the head on the last stage; default 0"},
    {"model.pattern",
     "text: layers of several kinds in their order, as in 'dense*3 + moe*58'; each kind has a "
     "table [model.kinds.NAME] with the keys of a layer that differ from [model]'s; default all "
     "layers are alike"},
    {"model.routing",
     "text: forced: all experts get equally many tokens; or a file that says how many each gets, "
     "relative to the scenario: a CSV, or Megatron-LM's router_trace_rank0.jsonl with those of the "
     "other ranks beside it, which are all of one expert group and of no pipeline; default forced"},
    {"parallel.from",
     "text or list of texts: files of other tools that give all other keys of the plan, and the "
     "model where nothing else does"},
    {"parallel.tp", "integer: tensor parallel size; default 1"},
    {"parallel.pp", "integer: pipeline parallel size; default 1"},
    {"parallel.vpp",
     "integer: stages a rank holds (virtual pipeline size); default 1, 2 for an order in a V"},
    {"parallel.dp", "integer: data parallel size; default cluster.gpus / (tp pp cp)"},
    {"parallel.cp", "integer: context parallel size, GPUs that share a sequence; default 1"},
    {"parallel.cp_comm",
     "text: how attention reaches the whole sequence: ring (key and value parts pass round), "
     "all_gather (of them) or all_to_all (heads for positions); default ring"},
    {"parallel.ep",
     "integer: expert parallel size, GPUs of tp x cp x dp that share a layer's experts; default 1"},
    {"parallel.expert_tp",
     "integer: neighbouring GPUs of tp x cp x dp that an expert is cut over; default tp"},
    {"parallel.dispatcher",
     "text: what takes tokens to their experts: alltoall (copies), allgather (all tokens to all), "
     "deepep or hybridep (a token once to a GPU or node); default alltoall"},
    {"parallel.fp8_dispatch",
     "true or false: tokens go to their experts in fp8 with a scale for 128 numbers, and come back "
     "in 16 bits, forward and backward; default false"},
    {"parallel.hsdp_shard",
     "integer: with train.zero, neighbouring GPUs of dp x cp that cut parameters among them "
     "(HSDP); the others are replicas of these. It divides dp x cp, and tp times it is a multiple "
     "of ep x expert_tp; default all"},
    {"parallel.zero_hpz",
     "integer: with train.zero = 3, neighbouring GPUs of dp x cp with a second cut of parameters "
     "(experts if ep = 1), which backwards gather (hpZ of ZeRO++); default none"},
    {"parallel.micro_batch", "integer: sequences a microbatch b; default 1"},
    {"parallel.global_batch",
     "integer: sequences an iteration, of all replicas; default micro_batch x dp"},
    {"parallel.layers_per_stage", "list of integers: layers of every stage; default even"},
    {"parallel.layout",
     "text: what each stage has, in Megatron-LM's letters (see Layout), or auto: the numbers of "
     "layers with which the iteration is shortest and fits; default parallel.layers_per_stage"},
    {"parallel.scatter_gather",
     "true or false: each tensor rank sends 1/tp of a pipeline transfer, gathered again behind it; "
     "default false"},
    {"schedule.order",
     "text: {}, auto (one made for the stages at hand, see Orders that are found), or a file in "
     "PyTorch's or Primus's form beside the scenario; default {}, {} for vpp > 1"},
    {"schedule.group", "integer: {}'s microbatches a group and stage; default pp"},
    {"schedule.memory_limit",
     "number: most activations alive on a rank, of one stage each; {}; default the order's own; "
     "auto: of all its stages each, from F to W, default what the GPU's memory holds"},
    {"schedule.budget",
     "integer: with schedule.order = auto, the orders that the search plays stage by stage; "
     "default about three seconds of work"},
    {"schedule.vocabulary",
     "text: stage (the embedding on the first stage, the head on the last) or parallel (both cut "
     "over the pipeline's ranks, see Vocabulary parallelism); default stage"},
    {"schedule.vocabulary_algorithm",
     "integer: with schedule.vocabulary = parallel, 1 (two reductions between the last stage's "
     "forward and backward) or 2 (one); default 2"},
    {"train.precision", "text: fp32, fp16, bf16, fp8 or nvfp4; default bf16"},
    {"train.fp8_recipe",
     "text: scales of fp8 by Transformer Engine's recipes: delayed (a tensor's, from steps "
     "before), current (a tensor's own), blockwise (of 128 numbers) or mxfp8 (of 32), or by "
     "torchao's rowwise (of a row or column); default delayed"},
    {"train.amax_reduction",
     "text: ranks over which delayed scales' largest numbers are reduced behind each pass: all (tp "
     "x cp x dp), tensor (tp x cp) or none; default all"},
    {"train.gradient_dtype", "text: fp16, bf16 or fp32; default fp16 with fp16, else fp32"},
    {"train.optimizer",
     "text: adam, or muon as in Megatron-LM: with one moment, for the matrices of layers; Adam for "
     "all else; default adam"},
    {"train.muon_tp",
     "text: how Muon orthogonalizes a matrix that tensor ranks cut: duplicated (each the whole "
     "one), blockwise (each its part) or distributed (all together); default duplicated"},
    {"train.param_remainders",
     "true or false: of the fp32 originals of bf16 parameters only the other 16 bits are kept, as "
     "Megatron-LM's precision-aware optimizer does; default false"},
    {"train.optimizer_dtype",
     "text: fp32, fp16, bf16 or fp8, of each of Adam's two moments; default fp32"},
    {"train.optimizer_offload",
     "number: the share of the optimizer's states that the CPU keeps and updates; default 0"},
    {"train.recompute", "text: none, selective (train.recompute_modules) or full; default none"},
    {"train.recompute_modules",
     "text: what selective recompute repeats, by Megatron's names: of core_attn, layernorm, "
     "mla_up_proj, mlp, moe, moe_act and shared_experts some, with commas; default core_attn"},
    {"train.recompute_layers",
     "integer: full recompute of the first so many layers of a stage; -1: of all; default -1"},
    {"train.activation_offload_modules",
     "text: the modules of a layer that keep what their backward needs in the CPU's memory, by "
     "Megatron's names: of attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, "
     "moe_act and fused_group_mlp some, with commas; default none"},
    {"train.activation_offload_layers",
     "integer: the first so many layers of a stage keep all that their backward needs in the CPU's "
     "memory, under full recompute their inputs; default 0"},
    {"train.flash_attention",
     "true or false: attention's core is one kernel that keeps no s x s matrix; default false"},
    {"train.fp8_attention",
     "true or false, with fp8 or nvfp4 and train.flash_attention: attention's forward multiplies "
     "in "
     "fp8; default false"},
    {"train.fused_softmax", "true or false: scale, mask and softmax in one kernel; default true"},
    {"train.fused_bias_gelu",
     "true or false: the MLP's bias and activation in one kernel; default true"},
    {"train.fused_norm", "true or false: a norm in one kernel; default true"},
    {"train.cross_entropy",
     "text: how the loss is computed: unfused, native (Megatron-LM's fused kernels), te "
     "(Transformer Engine's) or chunked (a part of the tokens at a time); default what is usual "
     "with train.framework: te for megatron and fsdp, native for torchtitan, unfused for "
     "deepspeed"},
    {"train.fused_cross_entropy",
     "true or false: true is train.cross_entropy = native, false unfused"},
    {"train.framework",
     "text: whose buffers and losses count for memory: megatron, torchtitan, deepspeed (with "
     "Transformers) or fsdp; default costs.software's; where neither is set, deepspeed for ZeRO 2 "
     "and 3 in 16 bits without tensor and pipeline parallelism, as it holds the most, else "
     "megatron"},
    {"train.expandable_segments",
     "true or false: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, with which PyTorch wastes "
     "about 1 % of the memory; default false"},
    {"train.cuda_graphs",
     "true or false: passes are launched as CUDA graphs, so that the CPU's time to launch kernels "
     "does not count; default false"},
    {"train.cuda_graph_scope",
     "text: what is in the graphs: of attn, mamba, mlp, moe (or of it moe_router and "
     "moe_preprocess) and head (with the embedding) some, with commas; default all"},
    {"train.zero",
     "integer: what the data-parallel ranks cut among them: 0 nothing, 1 the optimizer's state "
     "(Megatron's distributed optimizer), 2 gradients too, 3 parameters too; default 0"},
    {"train.reshard_after_forward",
     "true or false, with train.zero = 3: a layer's parameters are freed after its forward and "
     "gathered again for its backward; false: they stay until then; default true. With pp > 1 it "
     "is always false: they stay from a stage's first microbatch to its last"},
    {"train.fp8_param_gather",
     "true or false, with train.precision = fp8 or nvfp4: layers' parameters are gathered in fp8, "
     "half the bytes; default false"},
    {"train.sequence_parallel",
     "true or false: reduce-scatter and all-gather instead of tensor all-reduces; default false"},
    {"overlap.p2p", "true or false: pipeline transfers beside compute; default true but for {}"},
    {"overlap.batch_p2p", "true or false: an exchange is issued as one group; default false"},
    {"overlap.grad_reduce",
     "true or false: gradients are reduced bucket by bucket, each when its last one is there; "
     "default false: all in one at the end"},
    {"overlap.param_gather",
     "true or false: updated parameters are gathered bucket by bucket, each ahead of its first "
     "forward; default false: all in one behind the optimizer; with train.zero = 3 each layer's "
     "ahead of each pass, default true"},
    {"overlap.align_param_gather",
     "true or false: gathers of all stages begin with the iteration (true), or each bucket's when "
     "the one before it is used; default true"},
    {"overlap.bucket_MB",
     "number: MB of gradients a bucket; default one layer a bucket; with pp > 1 one stage, but the "
     "first by Megatron-LM's rule (max(40 million, a million a replica) parameters)"},
    {"overlap.tensor",
     "text: off, bulk (beside an independent GEMM), pipelined (GEMM and collective in parts) or "
     "ring (tp - 1 steps, each beside a part); needs train.sequence_parallel; default off, with "
     "NeMo's profiles bulk beside the products of gradients"},
    {"overlap.tensor_file",
     "text: a JSON file of Transformer Engine's userbuffers settings, relative to the scenario"},
    {"overlap.tensor_setting", "text: the name of a setting in that file"},
    {"overlap.gemm.qkv_fprop",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before the QKV product; "
     "default overlap.tensor's"},
    {"overlap.gemm.qkv_dgrad",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the gather of its saved input; default "
     "overlap.tensor's"},
    {"overlap.gemm.qkv_wgrad",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter of its input's "
     "gradient; default overlap.tensor's"},
    {"overlap.gemm.proj_fprop",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter behind the projection; "
     "default overlap.tensor's"},
    {"overlap.gemm.proj_dgrad",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before its input's "
     "gradient; default overlap.tensor's"},
    {"overlap.gemm.fc1_fprop",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before the MLP's first "
     "product; default overlap.tensor's"},
    {"overlap.gemm.fc1_dgrad",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the gather of its saved input; default "
     "overlap.tensor's"},
    {"overlap.gemm.fc1_wgrad",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter of its input's "
     "gradient; default overlap.tensor's"},
    {"overlap.gemm.fc2_fprop",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter behind the second; "
     "default overlap.tensor's"},
    {"overlap.gemm.fc2_dgrad",
     "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before its input's "
     "gradient; default overlap.tensor's"},
    {"overlap.context", "true or false: the ring's steps beside attention's parts; default false"},
    {"overlap.expert",
     "true or false: expert communication beside the other direction's compute; default false"},
    {"overlap.data_sms",
     "integer: SMs that gradients and parameters on their way take from compute; default 0"},
    {"overlap.p2p_sms", "integer: SMs that a pipeline transfer takes; default 0"},
    {"overlap.context_sms", "integer: SMs that context communication takes; default 0"},
    {"overlap.delay_wgrad",
     "true or false: experts' weight gradients beside the exchange behind their inputs' "
     "(Megatron's --delay-wgrad-compute); default false"},
    {"overlap.shared_experts",
     "true or false: shared experts run beside the exchange to the others (Megatron's "
     "--moe-shared-expert-overlap), or ahead of it; default true"},
    {"overlap.expert_sms",
     "integer: SMs that expert communication takes; default 0, with parallel.dispatcher = deepep "
     "20"}};

}  // namespace tandem
