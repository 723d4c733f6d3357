// Reads Accelerate's YAML, as `accelerate config` writes it: number of GPUs, precision, and either
// PyTorch's FSDP by its sharding (fsdp_config) and parallel sizes (parallelism_config), or
// DeepSpeed, whose settings are made a ds_config.json. Declared in
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
    "fsdp_use_orig* dynamo_config fsdp_config deepspeed_config";

// Fields of deepspeed_config that change neither time nor memory.
constexpr std::string_view kQuietPlugin =
    "deepspeed_* zero3_* gradient_clipping offload_*_nvme_path";

// Returns the precision, "no" for fp32.
std::string mixed_precision(FieldReader* top) {
  const DocumentNode* mixed = top->node({"mixed_precision"});
  const std::string precision = mixed == nullptr ? "no" : mixed->text();
  if (precision == "false") return "no";  // YAML reads a bare no as false
  if (!matches_word(precision, "no bf16 fp16 fp8"))
    top->fail("mixed_precision", "no, bf16, fp16 or fp8");
  return precision;
}

// Returns the ds_config.json that Accelerate makes of deepspeed_config (DeepSpeedPlugin in
// accelerate/utils/dataclasses.py).
DocumentNode ds_config(const DocumentNode& document, const std::string& precision,
                       FieldReader* plugin) {
  const DocumentNode* stated = document.find("deepspeed_config");
  const int line = stated == nullptr ? 1 : stated->line;
  // Returns a map with one field: "bf16: {enabled: true}".
  const auto map_of = [](std::string name, const char* field, DocumentNode value) {
    const int at = value.line;
    return DocumentField{std::move(name), {DocumentNode::Map{{field, std::move(value)}}, at}};
  };
  const DocumentNode* stage = plugin->node({"zero_stage"});
  DocumentNode::Map zero = {
      {"stage", stage == nullptr ? DocumentNode{std::int64_t{2}, line} : *stage}};
  for (const std::string part : {"offload_optimizer", "offload_param"}) {
    if (const DocumentNode* device = plugin->node({part + "_device"}))
      zero.push_back(map_of(part, "device", *device));
  }
  DocumentNode::Map config = {{"zero_optimization", {std::move(zero), line}}};
  if (const DocumentNode* steps = plugin->node({"gradient_accumulation_steps"}))
    config.push_back({"gradient_accumulation_steps", *steps});
  if (const DocumentNode* mixed = document.find("mixed_precision"); mixed && precision != "no")
    config.push_back(map_of(precision, "enabled", {true, mixed->line}));
  return {std::move(config), line};
}

// Reads deepspeed_config by its ds_config.json, or asks for the one that it names.
Result<ImportedPlan> import_plugin(const DocumentNode& document, const ImportContext& context) {
  FieldReader top(document, context.path);
  FieldReader plugin(top.section("deepspeed_config", "a map of settings"), context.path);
  const auto gpus = top.whole({"num_processes"}, 1);
  const std::string precision = mixed_precision(&top);
  if (precision == "fp8") top.fail("mixed_precision", "no, bf16 or fp16 beside deepspeed_config");
  const DocumentNode config = ds_config(document, precision, &plugin);
  for (const FieldReader* reader : {&top, &plugin}) RETURN_IF_ERROR(reader->status());
  const std::int64_t job_gpus = context.gpus > 0 ? context.gpus : gpus.value_or(0);
  ImportedPlan plan;
  if (const auto file = plugin.text({"deepspeed_config_file"})) {
    plan.wanted.push_back({.name = file->substr(file->rfind('/') + 1),
                           .where = plugin.place_of("deepspeed_config_file"),
                           .states_plan = true});
  } else {
    ASSIGN_OR_RETURN(
        plan, import_deepspeed(config, {context.path, context.before, job_gpus, context.beside}));
  }
  plan.sources = {context.path + " (Accelerate, DeepSpeed)"};
  if (gpus) plan.set("cluster.gpus", *gpus, "num_processes");
  list_unread(top, kQuietAccelerate, context.path, &plan);
  list_unread(plugin, kQuietPlugin, context.path, &plan);
  place_keys(document, context.path, &plan);
  return plan;
}

// Returns the name of a strategy. Older versions write its number, from 1 on.
std::string strategy_name(const DocumentNode& node, FieldReader* fsdp) {
  constexpr std::string_view kStrategies[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                              "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
  std::string text = node.text();
  text.erase(0, text.find_first_not_of('_'));
  if (const auto number = whole_number(node);
      number && *number >= 1 && *number <= static_cast<std::int64_t>(std::size(kStrategies)))
    text = kStrategies[*number - 1];
  if (std::find(std::begin(kStrategies), std::end(kStrategies), text) == std::end(kStrategies))
    fsdp->fail("fsdp_sharding_strategy", fmt::format("one of {}", fmt::join(kStrategies, ", ")));
  return text;
}

// Sets what FSDP cuts: FSDP 1 has a strategy, FSDP 2 a flag, in whose place a strategy may stand.
void set_sharding(FieldReader* fsdp, ImportedPlan* plan) {
  const DocumentNode* stated = fsdp->node({"fsdp_sharding_strategy"});
  const DocumentNode* reshard = fsdp->node({"fsdp_reshard_after_forward"});
  const auto* flag = reshard == nullptr ? nullptr : std::get_if<bool>(&reshard->value);
  const auto* word = reshard == nullptr ? nullptr : std::get_if<std::string>(&reshard->value);
  std::string strategy = word == nullptr ? "" : *word;
  if (stated != nullptr) strategy = strategy_name(*stated, fsdp);
  const bool keeps_parameters = (flag != nullptr && !*flag) || strategy == "SHARD_GRAD_OP" ||
                                strategy == "HYBRID_SHARD_ZERO2";
  if (strategy == "NO_SHARD") {
    plan->not_expressed.push_back("NO_SHARD: replicas are whole");
  } else {
    plan->set("train.zero", keeps_parameters ? 2 : 3,
              stated != nullptr ? "fsdp_sharding_strategy" : "fsdp_reshard_after_forward");
  }
  if (strategy.starts_with("HYBRID_SHARD"))
    plan->not_expressed.push_back(strategy + ": what shards inside is parallel.hsdp_shard");
  if (fsdp->text({"fsdp_backward_prefetch"}).value_or("") == "NO_PREFETCH")
    plan->not_expressed.push_back("NO_PREFETCH: the next layer is gathered ahead in backward too");
  plan->set("overlap.grad_reduce", true, "FSDP reduces layer by layer");
  plan->set("overlap.param_gather", true, "FSDP gathers the next layer ahead");
  if (fsdp->flag({"fsdp_activation_checkpointing"}).value_or(false))
    plan->set("train.recompute", "full", "fsdp_activation_checkpointing");
  if (fsdp->flag({"fsdp_offload_params", "fsdp_cpu_offload"}).value_or(false))
    plan->not_expressed.push_back("fsdp_offload_params: parameters stay on the GPU");
}

// Sets the sizes of parallelism_config.
void set_parallel_config(FieldReader* parallel, ImportedPlan* plan) {
  for (const auto& [field, key] :
       {std::pair{"parallelism_config_tp_size", IntegerKey("parallel.tp")},
        std::pair{"parallelism_config_cp_size", IntegerKey("parallel.cp")}}) {
    if (const auto size = parallel->whole({field}, 1); size && *size > 1)
      plan->set(key, *size, field);
  }
  // PyTorch's "alltoall" passes keys and values on round a ring, which is the key's default.
  const char* const comm_field = "parallelism_config_cp_comm_strategy";
  const auto comm = parallel->text({comm_field}).value_or("allgather");
  if (plan->has("parallel.cp") && comm == "allgather")
    plan->set("parallel.cp_comm", "all_gather", comm_field);
  if (comm != "allgather" && comm != "alltoall")
    parallel->fail(comm_field, "allgather or alltoall");
  const auto replicas = parallel->whole({"parallelism_config_dp_replicate_size"}, 1);
  const auto shard = parallel->whole({"parallelism_config_dp_shard_size"}, 1);
  // hsdp_shard counts context ranks, as they shard too. Accelerate's size does not.
  const std::int64_t cp = plan->whole_of("parallel.cp").value_or(1);
  if (replicas.value_or(1) > 1 && shard)
    plan->set("parallel.hsdp_shard", product_of({*shard, cp}), "parallelism_config_dp_shard_size");
}

Result<ImportedPlan> import_fsdp(const DocumentNode& document, const ImportContext& context) {
  ImportedPlan plan;
  plan.sources.push_back(context.path + " (Accelerate, FSDP)");
  FieldReader top(document, context.path);
  FieldReader fsdp(top.section("fsdp_config", "a map of settings"), context.path);
  FieldReader parallel(top.section("parallelism_config", "a map of settings"), context.path);
  if (const auto gpus = top.whole({"num_processes"}, 1))
    plan.set("cluster.gpus", *gpus, "num_processes");
  const std::string precision = mixed_precision(&top);
  plan.set("train.precision", precision == "no" ? "fp32" : precision, "mixed_precision");
  if (precision == "bf16" || precision == "fp8")
    plan.set("train.gradient_dtype", "bf16", "gradients are reduced as they are");
  plan.set("train.framework", "fsdp", "Accelerate's FSDP");
  plan.set("train.cross_entropy", "unfused", "Transformers' loss");
  leave_out_mtp(context.before, &plan);
  set_sharding(&fsdp, &plan);
  set_parallel_config(&parallel, &plan);
  for (FieldReader* reader : {&top, &fsdp, &parallel}) {
    RETURN_IF_ERROR(reader->status());
    list_unread(*reader, kQuietAccelerate, context.path, &plan);
  }
  place_keys(document, context.path, &plan);
  return plan;
}

// Returns whether the map of that name has settings. `accelerate config` also writes empty maps.
bool has_settings(const DocumentNode& document, std::string_view name) {
  const DocumentNode* found = document.find(name);
  return found != nullptr && found->map() != nullptr && !found->map()->empty();
}

}  // namespace

bool is_accelerate(const DocumentNode& document) {
  return document.find("fsdp_config") != nullptr || document.find("deepspeed_config") != nullptr;
}

Result<ImportedPlan> import_accelerate(const DocumentNode& document, const ImportContext& context) {
  // Without a type the config that has settings counts, fsdp_config if that cannot be told.
  const DocumentNode* type = document.find("distributed_type");
  const bool is_deepspeed_alone =
      document.find("fsdp_config") == nullptr ||
      (has_settings(document, "deepspeed_config") && !has_settings(document, "fsdp_config"));
  const std::string word = type != nullptr      ? type->text()
                           : is_deepspeed_alone ? "DEEPSPEED"
                                                : "FSDP";
  if (word == "DEEPSPEED") return import_plugin(document, context);
  if (word == "FSDP") return import_fsdp(document, context);
  return Error::at(fmt::format("{}:{}", context.path, type->line),
                   fmt::format("found distributed_type {}, expected FSDP or DEEPSPEED", word));
}

}  // namespace tandem
