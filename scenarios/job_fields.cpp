// The keys of [model], [parallel], [schedule], [train] and [overlap], each with the member of a
// Scenario that it sets. AT(member) finds the member. Declared in scenarios/fields.h.
#include "scenarios/fields.h"
#include "workload/model/layer_keys.h"

namespace tandem {
namespace {

// The most SMs that a key accepts: more than any GPU has.
constexpr int kMostSms = 1000;

// A key that names files. Setting it does nothing, because the keys of those files were added to
// the run's settings before (imported_files.h).
Field imported_from(AnyKey key) {
  return {key, [](const Setting&, Scenario*) -> Status { return Done{}; }};
}

std::vector<Field> plain_fields() {
  return {
      imported_from("model.from"), keys::name("model.name", AT(job.model_name)),
      keys::whole("model.layers", AT(job.model.layers), 1),
      keys::whole("model.hidden", AT(job.model.hidden), 1),
      keys::whole("model.seq", AT(job.model.seq), 1),
      keys::whole("model.vocab", AT(job.model.vocab), 1),
      keys::flag("model.tied_embeddings", AT(job.model.tied_embeddings)),
      keys::choice<bool>("model.norm", {{"layernorm", false}, {"rmsnorm", true}},
                         AT(job.model.rms_norm)),
      keys::flag("model.learned_positions", AT(job.model.learned_positions)),
      keys::whole("model.mtp_layers", AT(job.model.mtp_layers), 0, 1000),
      keys::text("model.pattern", AT(job.pattern)), keys::text("model.routing", AT(job.routing)),
      imported_from("parallel.from"), keys::whole("parallel.tp", AT(job.plan.tp), 1),
      keys::whole("parallel.pp", AT(job.plan.pp), 1),
      keys::whole("parallel.vpp", AT(job.plan.vpp), 1),
      keys::whole("parallel.dp", AT(job.plan.dp), 1),
      keys::whole("parallel.cp", AT(job.plan.cp), 1),
      keys::choice<ContextComm>("parallel.cp_comm",
                                {{"ring", ContextComm::Ring},
                                 {"all_gather", ContextComm::AllGather},
                                 {"all_to_all", ContextComm::AllToAll}},
                                AT(job.plan.context_comm)),
      keys::whole("parallel.ep", AT(job.plan.ep), 1),
      keys::whole("parallel.expert_tp", AT(job.plan.expert_tp), 1),
      keys::choice<Dispatcher>("parallel.dispatcher",
                               {{"alltoall", Dispatcher::AllToAll},
                                {"allgather", Dispatcher::AllGather},
                                {"deepep", Dispatcher::DeepEp},
                                {"hybridep", Dispatcher::HybridEp}},
                               AT(job.plan.dispatcher)),
      keys::flag("parallel.fp8_dispatch", AT(job.plan.fp8_dispatch)),
      keys::whole("parallel.hsdp_shard", AT(job.plan.hsdp_shard), 1),
      keys::whole("parallel.zero_hpz", AT(job.plan.zero_hpz), 1),
      keys::whole("parallel.micro_batch", AT(job.plan.micro_batch), 1),
      keys::whole("parallel.global_batch", AT(job.plan.global_batch), 1),
      keys::numbers("parallel.layers_per_stage", AT(job.plan.layers_per_stage), 1'000'000),
      keys::text("parallel.layout", AT(job.layout)),
      keys::flag("parallel.scatter_gather", AT(job.plan.scatter_gather)),
      // filled() puts these texts into the {} of the key's help: here the orders' names, and the
      // defaults with one stage a rank and with two.
      Field(keys::text("schedule.order", AT(job.order.name)))
          .filled(fmt::join(order_names(), ", "), default_order(1), default_order(2)),
      Field(keys::whole("schedule.group", AT(job.order.group), 1))
          .filled(order_list([](const OrderTraits& order) { return order.groups; })),
      Field(keys::number("schedule.memory_limit", AT(job.order.memory_limit), 1, keys::kPositive))
          .filled(order_list([](const OrderTraits& order) { return order.made_for_costs(); })),
      keys::choice<bool>("schedule.vocabulary", {{"stage", false}, {"parallel", true}},
                         AT(job.vocabulary_parallel)),
      keys::whole("schedule.vocabulary_algorithm", AT(job.vocabulary_algorithm), 1, 2),
      keys::whole("schedule.budget", AT(job.order_budget), 1),
      keys::text("train.precision", AT(job.plan.precision)),
      keys::choice<Fp8Recipe>("train.fp8_recipe",
                              {{"delayed", Fp8Recipe::Delayed},
                               {"current", Fp8Recipe::Current},
                               {"blockwise", Fp8Recipe::Blockwise},
                               {"mxfp8", Fp8Recipe::Mxfp8},
                               {"rowwise", Fp8Recipe::Rowwise}},
                              AT(job.plan.fp8_recipe)),
      keys::choice<AmaxReduction>("train.amax_reduction",
                                  {{"all", AmaxReduction::All},
                                   {"tensor", AmaxReduction::Tensor},
                                   {"none", AmaxReduction::None}},
                                  AT(job.plan.amax_reduction)),
      keys::text("train.gradient_dtype", AT(job.plan.gradient_dtype)),
      keys::choice<bool>("train.optimizer", {{"adam", false}, {"muon", true}}, AT(job.plan.muon)),
      keys::choice<MuonTensor>("train.muon_tp",
                               {{"duplicated", MuonTensor::Duplicated},
                                {"blockwise", MuonTensor::Blockwise},
                                {"distributed", MuonTensor::Distributed}},
                               AT(job.plan.muon_tensor)),
      keys::flag("train.param_remainders", AT(job.plan.param_remainders)),
      keys::text("train.optimizer_dtype", AT(job.plan.moment_dtype)),
      keys::number("train.optimizer_offload", AT(job.plan.optimizer_offload), 1, {.most = 1}),
      keys::choice<Recompute>("train.recompute",
                              {{"none", Recompute::None},
                               {"selective", Recompute::Selective},
                               {"full", Recompute::Full}},
                              AT(job.plan.recompute)),
      keys::words("train.recompute_modules", kRecomputeModules, AT(job.plan.recompute_modules)),
      keys::whole("train.recompute_layers", AT(job.plan.recompute_layers), -1),  // -1: all
      keys::words("train.activation_offload_modules", kOffloadModules,
                  AT(job.plan.offload_modules)),
      keys::whole("train.activation_offload_layers", AT(job.plan.offload_layers), 0),
      keys::flag("train.flash_attention", AT(job.plan.flash_attention)),
      keys::flag("train.fp8_attention", AT(job.plan.fp8_attention)),
      keys::flag("train.fused_softmax", AT(job.plan.fusion.softmax)),
      keys::flag("train.fused_bias_gelu", AT(job.plan.fusion.bias_gelu)),
      keys::flag("train.fused_norm", AT(job.plan.fusion.norm)),
      keys::choice<CrossEntropy>("train.cross_entropy",
                                 {{"unfused", CrossEntropy::Unfused},
                                  {"native", CrossEntropy::Native},
                                  {"te", CrossEntropy::TransformerEngine},
                                  {"chunked", CrossEntropy::Chunked}},
                                 AT(job.plan.cross_entropy)),
      keys::flag("train.fused_cross_entropy", AT(job.fused_cross_entropy)),
      keys::choice<Trainer>("train.framework",
                            {{"megatron", Trainer::Megatron},
                             {"torchtitan", Trainer::Torchtitan},
                             {"deepspeed", Trainer::DeepSpeed},
                             {"fsdp", Trainer::Fsdp}},
                            AT(job.plan.trainer)),
      keys::flag("train.expandable_segments", AT(job.plan.expandable_segments)),
      keys::flag("train.cuda_graphs", AT(job.plan.cuda_graphs)),
      keys::words("train.cuda_graph_scope", kCudaGraphModules, AT(job.plan.cuda_graph_modules)),
      keys::whole("train.zero", AT(job.plan.zero), 0, 3),
      keys::flag("train.reshard_after_forward", AT(job.plan.reshard_after_forward)),
      keys::flag("train.fp8_param_gather", AT(job.plan.fp8_param_gather)),
      keys::flag("train.sequence_parallel", AT(job.plan.sequence_parallel)),
      Field(keys::flag("overlap.p2p", AT(job.overlap_p2p)))
          .filled(order_list(
              [](const OrderTraits& o) { return o.exchanges == BatchedP2p::EachAction; })),
      keys::flag("overlap.batch_p2p", AT(job.batch_p2p)),
      keys::flag("overlap.grad_reduce", AT(job.data.grad_reduce)),
      keys::flag("overlap.param_gather", AT(job.data.param_gather)),
      keys::flag("overlap.align_param_gather", AT(job.data.align_param_gather)),
      keys::number("overlap.bucket_MB", AT(job.bucket_bytes), MB,
                   {.most = 1e6, .above_least = true}),
      keys::choice<TensorMethod>("overlap.tensor",
                                 {{"off", TensorMethod::Off},
                                  {"bulk", TensorMethod::Bulk},
                                  {"pipelined", TensorMethod::Pipelined},
                                  {"ring", TensorMethod::Ring}},
                                 AT(job.tensor.method)),
      keys::text("overlap.tensor_file", AT(job.tensor.file)),
      keys::text("overlap.tensor_setting", AT(job.tensor.setting)),
      keys::flag("overlap.context", AT(job.plan.overlap_context)),
      keys::flag("overlap.expert", AT(job.expert_overlap)),
      keys::whole("overlap.data_sms", AT(job.data.sms), 0, kMostSms),
      keys::whole("overlap.p2p_sms", AT(job.p2p_sms), 0, kMostSms),
      keys::whole("overlap.context_sms", AT(job.plan.context_sms), 0, kMostSms),
      keys::flag("overlap.delay_wgrad", AT(job.plan.delay_wgrad)),
      keys::flag("overlap.shared_experts", AT(job.plan.shared_expert_overlap)),
      keys::whole("overlap.expert_sms", AT(job.plan.expert_sms), 0, kMostSms)};
}

}  // namespace

std::vector<Field> job_fields() {
  std::vector<Field> fields = plain_fields();
  for (const KeyRow& row : kJobRows) {
    if (!row.name.starts_with("overlap.gemm.")) continue;
    const TextKey key(row);
    const auto gemm = [name = std::string(key.last_word())](Scenario& s) -> std::string& {
      return s.job.tensor.gemms[name];
    };
    fields.emplace_back(keys::text(key, gemm));
  }
  for (const BoundKey<Model>& key : layer_keys()) fields.emplace_back(key, AT(job.model));
  return fields;
}

}  // namespace tandem
