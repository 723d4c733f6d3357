// The keys of [model], [parallel], [schedule], [train] and [overlap].
#include "scenarios/fields.h"
#include "workload/model/layer_keys.h"

namespace tandem {
namespace {

// The most SMs that a key accepts: more than any GPU has.
constexpr int kMostSms = 1000;

// A key that names files. Their keys were added to the run's settings before (imported_files.h), so
// that setting this one does nothing.
Field imported_from(std::string key, std::string help) {
  return {std::move(key), std::move(help),
          [](const Setting&, Scenario*) -> Status { return Done{}; }};
}

std::vector<Field> plain_fields() {
  // These texts list the orders by their traits, from the table of orders.
  const std::string orders = fmt::format(
      "text: {}, auto (one made for the stages at hand, see Orders that are found), or a CSV file "
      "in PyTorch's form beside the scenario; default {}, {} for vpp > 1",
      fmt::join(order_names(), ", "), default_order(1), default_order(2));
  const std::string group =
      fmt::format("integer: {}'s microbatches a group and stage; default pp",
                  order_list([](const OrderTraits& order) { return order.groups; }));
  const std::string memory_limit = fmt::format(
      "number: most activations alive on a rank, of one stage each; {}; default the order's own; "
      "auto: of all its stages each, from F to W, default what the GPU's memory holds",
      order_list([](const OrderTraits& order) { return order.made_for_costs(); }));
  const std::string overlap_p2p = fmt::format(
      "true or false: pipeline transfers beside compute; default true but for {}",
      order_list([](const OrderTraits& o) { return o.exchanges == BatchedP2p::EachAction; }));
  return {
      imported_from("model.from",
                    "text or list of texts: files of other tools that give the keys of [model], as "
                    "tandem import reads them"),
      keys::name("model.name", "text: shown in tables", AT(job.model_name)),
      keys::whole("model.layers", "integer: transformer layers", AT(job.model.layers), 1),
      keys::whole("model.hidden", "integer: hidden size h", AT(job.model.hidden), 1),
      keys::whole("model.seq", "integer: tokens a sequence s", AT(job.model.seq), 1),
      keys::whole("model.vocab", "integer: vocabulary V", AT(job.model.vocab), 1),
      keys::flag(
          "model.tied_embeddings",
          "true or false: the head multiplies by the embedding, or by a matrix of its own; default "
          "true",
          AT(job.model.tied_embeddings)),
      keys::choice<bool>(
          "model.norm",
          "text: layernorm or rmsnorm; default as GPT without gated_mlp, as Llama with",
          {{"layernorm", false}, {"rmsnorm", true}}, AT(job.model.rms_norm)),
      keys::flag("model.learned_positions",
                 "true or false: positions have embeddings; default as without gated_mlp",
                 AT(job.model.learned_positions)),
      keys::whole(
          "model.mtp_layers",
          "integer: layers of multi-token prediction, behind the head on the last stage; default "
          "0",
          AT(job.model.mtp_layers), 0, 1000),
      keys::text(
          "model.pattern",
          "text: layers of several kinds in their order, as in 'dense*3 + moe*58'; each kind has a "
          "table [model.kinds.NAME] with the keys of a layer that differ from [model]'s; default "
          "all layers are alike",
          AT(job.pattern)),
      imported_from("parallel.from",
                    "text or list of texts: files of other tools that give all other keys of the "
                    "plan, and the model where nothing else does"),
      keys::whole("parallel.tp", "integer: tensor parallel size; default 1", AT(job.plan.tp), 1),
      keys::whole("parallel.pp", "integer: pipeline parallel size; default 1", AT(job.plan.pp), 1),
      keys::whole(
          "parallel.vpp",
          "integer: stages a rank holds (virtual pipeline size); default 1, 2 for an order in a V",
          AT(job.plan.vpp), 1),
      keys::whole("parallel.dp", "integer: data parallel size; default cluster.gpus / (tp pp cp)",
                  AT(job.plan.dp), 1),
      keys::whole("parallel.cp",
                  "integer: context parallel size, GPUs that share a sequence; default 1",
                  AT(job.plan.cp), 1),
      keys::choice<ContextComm>(
          "parallel.cp_comm",
          "text: how attention reaches the whole sequence: ring (key and value parts pass round), "
          "all_gather (of them) or all_to_all (heads for positions); default ring",
          {{"ring", ContextComm::Ring},
           {"all_gather", ContextComm::AllGather},
           {"all_to_all", ContextComm::AllToAll}},
          AT(job.plan.context_comm)),
      keys::whole(
          "parallel.ep",
          "integer: expert parallel size, GPUs of tp x cp x dp that share a layer's experts; "
          "default 1",
          AT(job.plan.ep), 1),
      keys::whole("parallel.expert_tp",
                  "integer: neighbouring GPUs of tp x cp x dp that an expert is cut over; default "
                  "tp",
                  AT(job.plan.expert_tp), 1),
      keys::choice<Dispatcher>(
          "parallel.dispatcher",
          "text: what takes tokens to their experts: alltoall (copies), allgather (all tokens to "
          "all), deepep or hybridep (a token once to a GPU or node); default alltoall",
          {{"alltoall", Dispatcher::AllToAll},
           {"allgather", Dispatcher::AllGather},
           {"deepep", Dispatcher::DeepEp},
           {"hybridep", Dispatcher::HybridEp}},
          AT(job.plan.dispatcher)),
      keys::flag("parallel.fp8_dispatch",
                 "true or false: tokens go to their experts in fp8 with a scale for 128 numbers, "
                 "and come back in 16 bits, forward and backward; default false",
                 AT(job.plan.fp8_dispatch)),
      keys::whole(
          "parallel.hsdp_shard",
          "integer: with train.zero, neighbouring GPUs of dp x cp that cut parameters among them "
          "(HSDP), the others being replicas of those; a divisor of dp x cp, times tp a multiple "
          "of ep x expert_tp; default all",
          AT(job.plan.hsdp_shard), 1),
      keys::whole("parallel.zero_hpz",
                  "integer: with train.zero = 3, neighbouring GPUs of dp x cp that hold a second "
                  "cut of the dense parameters among them, which backwards gather (hpZ of ZeRO++); "
                  "default none",
                  AT(job.plan.zero_hpz), 1),
      keys::whole("parallel.micro_batch", "integer: sequences a microbatch b; default 1",
                  AT(job.plan.micro_batch), 1),
      keys::whole("parallel.global_batch",
                  "integer: sequences an iteration, of all replicas; default micro_batch x dp",
                  AT(job.plan.global_batch), 1),
      keys::numbers("parallel.layers_per_stage",
                    "list of integers: layers of every stage; default even",
                    AT(job.plan.layers_per_stage), 1'000'000),
      keys::text("parallel.layout",
                 "text: what each stage has, in Megatron-LM's letters (see Layout), or auto: the "
                 "numbers of layers with which the iteration is shortest and fits; default "
                 "parallel.layers_per_stage",
                 AT(job.layout)),
      keys::flag(
          "parallel.scatter_gather",
          "true or false: each tensor rank sends 1/tp of a pipeline transfer, gathered again "
          "behind it; default false",
          AT(job.plan.scatter_gather)),
      keys::text("schedule.order", orders, AT(job.order.name)),
      keys::whole("schedule.group", group, AT(job.order.group), 1),
      keys::number("schedule.memory_limit", memory_limit, AT(job.order.memory_limit), 1,
                   keys::kPositive),
      keys::choice<bool>("schedule.vocabulary",
                         "text: stage (the embedding on the first stage, the head on the last) or "
                         "parallel (both cut over the pipeline's ranks, see Vocabulary "
                         "parallelism); default stage",
                         {{"stage", false}, {"parallel", true}}, AT(job.vocabulary_parallel)),
      keys::whole(
          "schedule.vocabulary_algorithm",
          "integer: with schedule.vocabulary = parallel, 1 (two reductions between the last "
          "stage's forward and backward) or 2 (one); default 2",
          AT(job.vocabulary_algorithm), 1, 2),
      keys::whole("schedule.budget",
                  "integer: with schedule.order = auto, the orders that the search plays stage by "
                  "stage; default about three seconds of work",
                  AT(job.order_budget), 1),
      keys::text("train.precision", "text: fp32, fp16, bf16, fp8 or nvfp4; default bf16",
                 AT(job.plan.precision)),
      keys::choice<Fp8Recipe>(
          "train.fp8_recipe",
          "text: scales of fp8 by Transformer Engine's recipes: delayed (a tensor's, from steps "
          "before), current (a tensor's own), blockwise (of 128 numbers) or mxfp8 (of 32); default "
          "delayed",
          {{"delayed", Fp8Recipe::Delayed},
           {"current", Fp8Recipe::Current},
           {"blockwise", Fp8Recipe::Blockwise},
           {"mxfp8", Fp8Recipe::Mxfp8}},
          AT(job.plan.fp8_recipe)),
      keys::choice<AmaxReduction>(
          "train.amax_reduction",
          "text: ranks over which delayed scales' largest numbers are reduced behind each pass: "
          "all (tp x cp x dp), tensor (tp x cp) or none; default all",
          {{"all", AmaxReduction::All},
           {"tensor", AmaxReduction::Tensor},
           {"none", AmaxReduction::None}},
          AT(job.plan.amax_reduction)),
      keys::text("train.gradient_dtype",
                 "text: fp16, bf16 or fp32; default fp16 with fp16, else fp32",
                 AT(job.plan.gradient_dtype)),
      keys::text("train.optimizer_dtype",
                 "text: fp32, fp16, bf16 or fp8, of each of Adam's two moments; default fp32",
                 AT(job.plan.moment_dtype)),
      keys::number("train.optimizer_offload",
                   "number: the share of the optimizer's states that the CPU keeps and updates; "
                   "default 0",
                   AT(job.plan.optimizer_offload), 1, {.most = 1}),
      keys::choice<Recompute>(
          "train.recompute",
          "text: none, selective (train.recompute_modules) or full; default none",
          {{"none", Recompute::None},
           {"selective", Recompute::Selective},
           {"full", Recompute::Full}},
          AT(job.plan.recompute)),
      keys::words("train.recompute_modules",
                  "text: what selective recompute repeats, by Megatron's names: of core_attn, "
                  "layernorm, mla_up_proj, mlp, moe, moe_act and shared_experts some, with commas; "
                  "default core_attn",
                  kRecomputeModules, AT(job.plan.recompute_modules)),
      keys::whole("train.recompute_layers",
                  "integer: full recompute of the first so many layers of a stage; default all",
                  AT(job.plan.recompute_layers), 0),
      keys::flag(
          "train.flash_attention",
          "true or false: attention's core is one kernel that keeps no s x s matrix; default false",
          AT(job.plan.flash_attention)),
      keys::flag("train.fused_softmax",
                 "true or false: scale, mask and softmax in one kernel; default true",
                 AT(job.plan.fusion.softmax)),
      keys::flag("train.fused_bias_gelu",
                 "true or false: the MLP's bias and activation in one kernel; default true",
                 AT(job.plan.fusion.bias_gelu)),
      keys::flag("train.fused_norm", "true or false: a norm in one kernel; default true",
                 AT(job.plan.fusion.norm)),
      keys::flag("train.fused_cross_entropy",
                 "true or false: cross entropy in one kernel; default true",
                 AT(job.plan.fusion.cross_entropy)),
      keys::flag(
          "train.cuda_graphs",
          "true or false: passes are launched as CUDA graphs, so that the CPU's time to launch "
          "kernels does not count; default false",
          AT(job.plan.cuda_graphs)),
      keys::words("train.cuda_graph_scope",
                  "text: what is in the graphs: of attn, mamba, mlp, moe (or of it moe_router and "
                  "moe_preprocess) and head (with the embedding) some, with commas; default all",
                  kCudaGraphModules, AT(job.plan.cuda_graph_modules)),
      keys::whole(
          "train.zero",
          "integer: what the data-parallel ranks cut among them: 0 nothing, 1 the optimizer's "
          "state (Megatron's distributed optimizer), 2 gradients too, 3 parameters too; default 0",
          AT(job.plan.zero), 0, 3),
      keys::flag(
          "train.reshard_after_forward",
          "true or false, with train.zero = 3: a layer's parameters go after its forward and are "
          "gathered again for its backward; false: they stay until then; default true, with pp > 1 "
          "false and no other: they stay from a stage's first microbatch to its last",
          AT(job.plan.reshard_after_forward)),
      keys::flag("train.fp8_param_gather",
                 "true or false: parameters are gathered in fp8, half the bytes; default false",
                 AT(job.plan.fp8_param_gather)),
      keys::flag(
          "train.sequence_parallel",
          "true or false: reduce-scatter and all-gather instead of tensor all-reduces; default "
          "false",
          AT(job.plan.sequence_parallel)),
      keys::flag("overlap.p2p", overlap_p2p, AT(job.overlap_p2p)),
      keys::flag("overlap.batch_p2p",
                 "true or false: an exchange is issued as one group; default false",
                 AT(job.batch_p2p)),
      keys::flag(
          "overlap.grad_reduce",
          "true or false: gradients are reduced bucket by bucket, each when its last one is there; "
          "default false: all in one at the end",
          AT(job.data.grad_reduce)),
      keys::flag(
          "overlap.param_gather",
          "true or false: updated parameters are gathered bucket by bucket, each ahead of its "
          "first forward; default false: all in one behind the optimizer; with train.zero = 3 "
          "each layer's ahead of each pass, default true",
          AT(job.data.param_gather)),
      keys::flag(
          "overlap.align_param_gather",
          "true or false: all stages gather at once from the iteration's start on, or each bucket "
          "when the one before it is used; default true",
          AT(job.data.align_param_gather)),
      keys::number("overlap.bucket_MB",
                   "number: MB of gradients a bucket; default one layer a bucket; with pp > 1 one "
                   "stage, but the "
                   "first by Megatron-LM's rule (max(40 million, a million a replica) parameters)",
                   AT(job.bucket_bytes), MB, {.most = 1e6, .above_least = true}),
      keys::choice<TensorMethod>(
          "overlap.tensor",
          "text: off, bulk (beside an independent GEMM), pipelined (GEMM and collective in parts) "
          "or ring (tp - 1 steps, each beside a part); needs train.sequence_parallel; default off",
          {{"off", TensorMethod::Off},
           {"bulk", TensorMethod::Bulk},
           {"pipelined", TensorMethod::Pipelined},
           {"ring", TensorMethod::Ring}},
          AT(job.tensor.method)),
      keys::text("overlap.tensor_file",
                 "text: a JSON file of Transformer Engine's userbuffers settings, relative to the "
                 "scenario",
                 AT(job.tensor.file)),
      keys::text("overlap.tensor_setting", "text: the name of a setting in that file",
                 AT(job.tensor.setting)),
      keys::text("overlap.gemm.qkv_fprop",
                 "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before the QKV "
                 "product; default overlap.tensor's",
                 AT(job.tensor.gemms["qkv_fprop"])),
      keys::text("overlap.gemm.qkv_dgrad",
                 "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the gather of its saved input; "
                 "default overlap.tensor's",
                 AT(job.tensor.gemms["qkv_dgrad"])),
      keys::text(
          "overlap.gemm.qkv_wgrad",
          "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter of its input's "
          "gradient; default overlap.tensor's",
          AT(job.tensor.gemms["qkv_wgrad"])),
      keys::text("overlap.gemm.proj_fprop",
                 "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter behind the "
                 "projection; default overlap.tensor's",
                 AT(job.tensor.gemms["proj_fprop"])),
      keys::text(
          "overlap.gemm.proj_dgrad",
          "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before its input's "
          "gradient; default overlap.tensor's",
          AT(job.tensor.gemms["proj_dgrad"])),
      keys::text(
          "overlap.gemm.fc1_fprop",
          "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before the MLP's "
          "first product; default overlap.tensor's",
          AT(job.tensor.gemms["fc1_fprop"])),
      keys::text("overlap.gemm.fc1_dgrad",
                 "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the gather of its saved input; "
                 "default overlap.tensor's",
                 AT(job.tensor.gemms["fc1_dgrad"])),
      keys::text(
          "overlap.gemm.fc1_wgrad",
          "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter of its input's "
          "gradient; default overlap.tensor's",
          AT(job.tensor.gemms["fc1_wgrad"])),
      keys::text("overlap.gemm.fc2_fprop",
                 "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the reduce-scatter behind the "
                 "second; default overlap.tensor's",
                 AT(job.tensor.gemms["fc2_fprop"])),
      keys::text(
          "overlap.gemm.fc2_dgrad",
          "text: METHOD, METHOD:SMS or METHOD:SMS:SPLITS for the all-gather before its input's "
          "gradient; default overlap.tensor's",
          AT(job.tensor.gemms["fc2_dgrad"])),
      keys::flag("overlap.context",
                 "true or false: the ring's steps beside attention's parts; default false",
                 AT(job.plan.overlap_context)),
      keys::flag(
          "overlap.expert",
          "true or false: expert communication beside the other direction's compute; default false",
          AT(job.expert_overlap)),
      keys::whole(
          "overlap.data_sms",
          "integer: SMs that gradients and parameters on their way take from compute; default 0",
          AT(job.data.sms), 0, kMostSms),
      keys::whole("overlap.p2p_sms", "integer: SMs that a pipeline transfer takes; default 0",
                  AT(job.p2p_sms), 0, kMostSms),
      keys::whole("overlap.context_sms", "integer: SMs that context communication takes; default 0",
                  AT(job.plan.context_sms), 0, kMostSms),
      keys::flag(
          "overlap.delay_wgrad",
          "true or false: experts' weight gradients beside the exchange behind their inputs' "
          "(Megatron's --delay-wgrad-compute); default false",
          AT(job.plan.delay_wgrad)),
      keys::whole("overlap.expert_sms",
                  "integer: SMs that expert communication takes; default 0, with "
                  "parallel.dispatcher = deepep 20",
                  AT(job.plan.expert_sms), 0, kMostSms)};
}

}  // namespace

std::vector<Field> job_fields() {
  std::vector<Field> fields = plain_fields();
  for (const Key<Model>& key : layer_keys()) fields.emplace_back("model.", key, AT(job.model));
  return fields;
}

}  // namespace tandem
