// Reads Accelerate's YAML for PyTorch's FSDP, as `accelerate config` writes it: number of GPUs,
// precision, sharding (fsdp_config) and parallel sizes (parallelism_config). Declared in
// interop/trainers/trainers.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "interop/document/fields.h"
#include "interop/plan/places.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

// Fields that change neither time nor memory.
constexpr std::string_view kQuietAccelerate =
    "compute_environment distributed_type machine_rank num_machines main_* rdzv_* "
    "same_network tpu_* use_cpu debug enable_cpu* downcast_bf16 fsdp_version fsdp_auto_wrap* "
    "fsdp_transformer_layer* fsdp_state_dict* fsdp_forward_prefetch fsdp_cpu_ram* fsdp_sync_* "
    "fsdp_use_orig* dynamo_config";

// Returns the strategy's name. Older versions write its number, from 1 on.
std::optional<std::string> sharding_strategy(FieldReader* fsdp) {
  constexpr std::string_view kStrategies[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                              "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  const DocumentNode* node = fsdp->node({"fsdp_sharding_strategy"});
  if (node == nullptr) return std::nullopt;
  std::string text = node->text();
  text.erase(0, text.find_first_not_of('_'));
  if (const auto number = whole_number(*node);
      number && *number >= 1 && *number <= static_cast<std::int64_t>(std::size(kStrategies)))
    text = kStrategies[*number - 1];
  if (std::find(std::begin(kStrategies), std::end(kStrategies), text) == std::end(kStrategies))
    fsdp->fail("fsdp_sharding_strategy", fmt::format("one of {}", fmt::join(kStrategies, ", ")));
  return text;
}

void set_sharding(FieldReader* fsdp, ImportedPlan* plan) {
  const auto strategy = sharding_strategy(fsdp);
  const auto reshard = fsdp->node({"fsdp_reshard_after_forward"});
  // FSDP 1 has a strategy, FSDP 2 a flag. The strategy may stand in the flag's field.
  bool cuts_parameters = true;
  if (const auto* flag = reshard == nullptr ? nullptr : std::get_if<bool>(&reshard->value))
    cuts_parameters = *flag;
  const auto* word = reshard == nullptr ? nullptr : std::get_if<std::string>(&reshard->value);
  const std::string name = strategy ? *strategy : word != nullptr ? *word : "";
  if (name == "SHARD_GRAD_OP" || name == "HYBRID_SHARD_ZERO2") cuts_parameters = false;
  if (name == "NO_SHARD") {
    plan->not_expressed.push_back("NO_SHARD: replicas are whole");
  } else {
    plan->set("train.zero", cuts_parameters ? 3 : 2,
              strategy ? "fsdp_sharding_strategy" : "fsdp_reshard_after_forward");
  }
  if (name.starts_with("HYBRID_SHARD"))
    plan->not_expressed.push_back(name + ": what shards inside is parallel.hsdp_shard");
  if (fsdp->text({"fsdp_backward_prefetch"}).value_or("") == "NO_PREFETCH")
    plan->not_expressed.push_back("NO_PREFETCH: the next layer is gathered ahead in backward too");
  plan->set("overlap.grad_reduce", true, "FSDP reduces layer by layer");
  plan->set("overlap.param_gather", true, "FSDP gathers the next layer ahead");
  if (fsdp->flag({"fsdp_activation_checkpointing"}).value_or(false))
    plan->set("train.recompute", "full", "fsdp_activation_checkpointing");
  if (fsdp->flag({"fsdp_offload_params", "fsdp_cpu_offload"}).value_or(false))
    plan->not_expressed.push_back("fsdp_offload_params: parameters stay on the GPU");
}

}  // namespace

bool is_accelerate(const DocumentNode& document) { return document.find("fsdp_config") != nullptr; }

Result<ImportedPlan> import_accelerate(const DocumentNode& document, const ImportContext& context) {
  ImportedPlan plan;
  plan.sources.push_back(context.path + " (Accelerate, FSDP)");
  FieldReader top(document, context.path);
  FieldReader fsdp(top.section("fsdp_config", "a map of settings"), context.path);
  FieldReader parallel(top.section("parallelism_config", "a map of settings"), context.path);
  if (const auto gpus = top.whole({"num_processes"}, 1))
    plan.set("cluster.gpus", *gpus, "num_processes");
  const DocumentNode* mixed = top.node({"mixed_precision"});
  const std::string precision = mixed == nullptr ? "no" : mixed->text();
  // YAML reads a bare no as false.
  const bool none = precision == "no" || precision == "false";
  if (!none && !matches_any(precision, {"bf16", "fp16", "fp8"}))
    top.fail("mixed_precision", "no, bf16, fp16 or fp8");
  plan.set("train.precision", none ? "fp32" : precision, "mixed_precision");
  if (precision == "bf16" || precision == "fp8")
    plan.set("train.gradient_dtype", "bf16", "gradients are reduced as they are");
  plan.set("train.framework", "fsdp", "Accelerate's FSDP");
  plan.set("train.cross_entropy", "unfused", "Transformers' loss");
  set_sharding(&fsdp, &plan);
  for (const auto& [field, key] :
       {std::pair{"parallelism_config_tp_size", IntegerKey("parallel.tp")},
        std::pair{"parallelism_config_cp_size", IntegerKey("parallel.cp")}}) {
    if (const auto size = parallel.whole({field}, 1); size && *size > 1)
      plan.set(key, *size, field);
  }
  // PyTorch's "alltoall" passes keys and values on round a ring, which is the key's default.
  const auto comm = parallel.text({"parallelism_config_cp_comm_strategy"}).value_or("allgather");
  if (plan.has("parallel.cp") && comm == "allgather")
    plan.set("parallel.cp_comm", "all_gather", "parallelism_config_cp_comm_strategy");
  if (comm != "allgather" && comm != "alltoall")
    parallel.fail("parallelism_config_cp_comm_strategy", "allgather or alltoall");
  const auto replicas = parallel.whole({"parallelism_config_dp_replicate_size"}, 1);
  const auto shard = parallel.whole({"parallelism_config_dp_shard_size"}, 1);
  // hsdp_shard counts context ranks, as they shard too. Accelerate's size does not.
  const auto cp = parallel.whole({"parallelism_config_cp_size"}, 1);
  if (replicas.value_or(1) > 1 && shard)
    plan.set("parallel.hsdp_shard", product_of({*shard, cp.value_or(1)}),
             "parallelism_config_dp_shard_size");
  for (FieldReader* reader : {&top, &fsdp, &parallel}) {
    RETURN_IF_ERROR(reader->status());
    list_unread(*reader, kQuietAccelerate, context.path, &plan);
  }
  place_keys(document, context.path, &plan);
  return plan;
}

}  // namespace tandem
