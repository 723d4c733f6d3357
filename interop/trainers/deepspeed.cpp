// Reads DeepSpeed's ds_config.json: precision, parallel sizes, batch, ZeRO and optimizer. Fields
// that are "auto" are taken out first and noted as open; fields that no function reads are listed
// as not understood, or counted if they change nothing. Declared in interop/trainers/trainers.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/plan/places.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

// Sections and fields that change neither time nor memory.
constexpr std::string_view kQuietDeepSpeed =
    "_* scheduler steps_per_print gradient_clipping prescale_* gradient_predivide* wall_clock* "
    "dump_state memory_breakdown tensorboard wandb csv_monitor comet flops_profiler autotuning "
    "checkpoint data_efficiency seed comms_logger zero_allow_untested_optimizer zero_force_* "
    "disable_allgather aio elasticity";

// Fields of zero_optimization that are passed over: sizes of buffers that a scenario does not have,
// and checkpoints.
constexpr std::string_view kQuietZero =
    "allgather_partitions reduce_scatter contiguous_gradients round_robin_gradients "
    "*gather_16bit* *gather_fp16* load_from_fp32* elastic_checkpoint ignore_unused* legacy_stage1 "
    "override_module* log_trace* stage3_max_* sub_group_size memory_efficient_linear "
    "allgather_bucket_size";

// Fields of zero_optimization that a scenario cannot express, and the simplification made instead.
struct NotExpressedZero {
  std::string_view name, taken_as;
};
constexpr NotExpressedZero kNotExpressedZero[] = {
    {"offload_param", "parameters stay on the GPU"},
    {"zero_quantized_weights", "weights are gathered as they are"},
    {"zero_quantized_gradients", "gradients are reduced as they are"},
    {"stage3_prefetch_bucket_size", "the next layer is gathered ahead"},
    {"stage3_param_persistence_threshold", "every parameter is cut"},
    {"zeropp_loco_param", "gradients are reduced as they are"}};

// Sections of which some fields are read here, and others (`quiet`: by name, or name=value) change
// neither time nor memory.
struct InnerSection {
  std::string_view name, read, quiet;
};
constexpr InnerSection kInnerSections[] = {
    {"bf16", "enabled", "check_grad_overflow"},
    {"bfloat16", "enabled", "check_grad_overflow"},
    {"fp16", "enabled", "auto_cast loss_scale* initial_scale_power *hysteresis min_loss_scale"},
    {"torch_autocast", "enabled dtype", "lower_precision_safe_modules"},
    {"data_types", "grad_accum_dtype", ""},
    {"tensor_parallel", "autotp_size tp_size",
     "dtype preset_model partition_config injection_policy_tuple keep_module_on_host "
     "tp_grain_size=1"},
    {"expert_parallel", "enabled autoep_size",
     "preset_model *_pattern *_attr expert_w* validate_* route* score_* top_k load_balance_coeff "
     "has_shared_experts num_*_groups expert_activation use_grouped_mm comm_*_*"},
    {"compile", "", "backend kwargs debug_log keep_* double_buffer *_threshold"}};
constexpr InnerSection kOffloadOptimizer = {
    "offload_optimizer", "device ratio",
    "nvme_path buffer_* pin_memory pipeline_* fast_init convert_grad_on_cpu cpuadam_cores_perc"};

bool is_false(const DocumentNode* value) {
  const auto* flag = value == nullptr ? nullptr : std::get_if<bool>(&value->value);
  return flag != nullptr && !*flag;
}

// Returns whether a field of zero_optimization is off by its value (false, a size of 0 or 1, no
// device) or has no effect in this stage.
bool is_off_in_zero(const DocumentNode& value, std::string_view name, Whole stage) {
  if (name.starts_with("stage3") && stage < 3) return true;
  if (const auto* flag = std::get_if<bool>(&value.value)) return !*flag;
  if (const auto* whole = std::get_if<Whole>(&value.value)) return *whole <= 1;
  const DocumentNode* device = value.find("device");
  return device != nullptr && device->text() != "cpu" && device->text() != "nvme";
}

// A field that is "auto", which Hugging Face's trainer fills in: "bf16.enabled", and its line.
struct AutoField {
  std::string name;
  int line = 0;
};

// Returns the document without the fields that are "auto", and appends these to `autos`.
DocumentNode without_autos(const DocumentNode& node, const std::string& prefix,
                           std::vector<AutoField>* autos) {
  if (node.map() == nullptr) return node;
  DocumentNode::Map rest;
  for (const DocumentField& field : *node.map()) {
    const std::string name = prefix.empty() ? field.key : prefix + '.' + field.key;
    if (const auto* text = std::get_if<std::string>(&field.value.value); text && *text == "auto") {
      autos->push_back({name, field.value.line});
    } else {
      rest.push_back({field.key, without_autos(field.value, name, autos)});
    }
  }
  return {std::move(rest), node.line};
}

// A field, and the key that stays open if the field is "auto".
struct KeyOfAuto {
  std::string_view field, key;
};
constexpr KeyOfAuto kKeysOfAutos[] = {{"train_micro_batch_size_per_gpu", "parallel.micro_batch"},
                                      {"train_batch_size", "parallel.global_batch"},
                                      {"bf16.enabled", "train.precision"},
                                      {"bfloat16.enabled", "train.precision"},
                                      {"fp16.enabled", "train.precision"}};

class DeepSpeedPlan {
 public:
  DeepSpeedPlan(const DocumentNode& document, const std::vector<AutoField>& autos,
                const ImportContext& context, ImportedPlan* plan)
      : context_(context), plan_(plan), top_(document, context.path) {
    for (const AutoField& field : autos) note_auto(field);
  }

  Status read() {
    set_precision();
    set_gradients();
    set_parallel();
    set_batch();
    set_zero();
    if (is_bf16_ && gradient_bytes_ == 2 && !plan_->has("train.zero"))
      plan_->assumed.push_back(
          "train.gradient_dtype = bf16: without ZeRO releases before 2026 keep gradients in fp32");
    RETURN_IF_ERROR(top_.status());
    if (fault_) return *fault_;
    if (top_.node({"activation_checkpointing"}) != nullptr)
      plan_->not_expressed.push_back(
          "activation_checkpointing: how layers are recomputed, not which: train.recompute says");
    note_optimizer();
    for (const InnerSection& row : kInnerSections) {
      const DocumentNode* node = top_.node({row.name});
      if (node == nullptr) continue;
      if (node->map() != nullptr)
        list_section(*node, row);
      else
        list_if_on(std::string(row.name), *node);
    }
    list_unread(top_, kQuietDeepSpeed, context_.path, plan_);
    return top_.status();
  }

 private:
  void note_auto(const AutoField& field) {
    const std::string where = fmt::format("{}:{}", context_.path, field.line);
    const auto row = std::ranges::find(kKeysOfAutos, field.name, &KeyOfAuto::field);
    if (row != std::end(kKeysOfAutos)) {
      plan_->open.push_back({std::string(row->key), where, field.name + " = auto"});
      is_precision_open_ |= row->key == "train.precision";
    } else if (field.name == "zero_optimization.reduce_bucket_size") {
      // Hugging Face's trainer sets the square of the hidden size.
      const Whole hidden = context_.before.whole_of("model.hidden").value_or(0);
      if (hidden > 0) bucket_elements_ = static_cast<double>(product_of({hidden, hidden}));
      plan_->assumed.push_back(fmt::format(
          "{}: {} elements a bucket, {}", where, bucket_elements_,
          hidden > 0 ? "the square of the model's hidden size, as Hugging Face's trainer sets it"
                     : "DeepSpeed's default: no earlier file states the hidden size"));
    } else {
      ++plan_->without_effect;
    }
  }
  // Lists the fields of a section that nothing here reads and that are on. Those of a section that
  // is switched off, by `enabled` or its device, have no effect.
  void list_section(const DocumentNode& node, const InnerSection& row) {
    const DocumentNode* device = node.find("device");
    const bool is_off =
        is_false(node.find("enabled")) || (device && matches_any(device->text(), {"none"}));
    for (const DocumentField& field : *node.map()) {
      if (matches_word(field.key, row.read)) continue;
      if (is_off || matches_word(field.key, row.quiet) ||
          matches_word(field.key + '=' + field.value.text(), row.quiet))
        ++plan_->without_effect;
      else
        list_if_on(fmt::format("{}.{}", row.name, field.key), field.value);
    }
  }
  void list_if_on(const std::string& name, const DocumentNode& value) {
    if (value.is_null() || is_false(&value) || whole_number(value) == 0)
      ++plan_->without_effect;
    else
      plan_->not_understood.push_back(
          fmt::format("{}:{}: {} = {}", context_.path, value.line, name, value.text()));
  }
  // Returns a field that is a map; null: it is not there.
  const DocumentNode* section(std::string_view name) {
    const DocumentNode* node = top_.node({name});
    if (node == nullptr || node->map() != nullptr) return node;
    top_.fail(name, "a map of settings");
    return nullptr;
  }
  void keep_fault(const FieldReader& inner) {
    if (const Status status = inner.status(); !status.ok() && !fault_) fault_ = status.error();
  }
  bool enabled(std::string_view name) {
    const DocumentNode* node = section(name);
    if (node == nullptr) return false;
    FieldReader inner(*node, context_.path);
    const bool on = inner.flag({"enabled"}).value_or(false);
    keep_fault(inner);
    return on;
  }

  void set_precision() {
    const bool autocast = enabled("torch_autocast");
    const DocumentNode* dtype = autocast ? top_.node({"torch_autocast"})->find("dtype") : nullptr;
    const bool autocast_fp16 = dtype != nullptr && dtype->text() == "float16";
    const std::string stated_before =
        is_precision_open_ ? context_.before.text_of("train.precision") : "";
    is_bf16_ = enabled("bf16") || enabled("bfloat16") || (autocast && !autocast_fp16) ||
               matches_any(stated_before, {"bf16", "fp8", "nvfp4"});
    is_fp16_ = enabled("fp16") || autocast_fp16 || stated_before == "fp16";
    const bool is_half = is_bf16_ || is_fp16_;
    if (enabled("fp16") && (enabled("bf16") || enabled("bfloat16")))
      top_.fail("fp16", "bf16 or fp16 enabled, not both");
    // A precision that is "auto" is open no more where another field or an earlier file states it.
    if (is_half)
      std::erase_if(plan_->open, [](const OpenKey& key) { return key.key == "train.precision"; });
    const bool is_unknown = is_precision_open_ && !is_half;
    if (!is_unknown && stated_before.empty()) {  // else an earlier file's key stands
      if (is_bf16_)
        plan_->set("train.precision", "bf16", "bf16.enabled");
      else if (is_fp16_)
        plan_->set("train.precision", "fp16", "fp16.enabled");
      else
        plan_->set("train.precision", "fp32", "neither bf16 nor fp16");
    }
    if (enabled("amp")) plan_->not_expressed.push_back("amp.enabled: Apex's mixed precision");
  }

  // Sets the type of gradients. DeepSpeed has one for sending and one for keeping them, a scenario
  // one for both: fp32 if either is.
  void set_gradients() {
    const bool is_half = is_bf16_ || is_fp16_;
    gradient_bytes_ = is_half ? 2 : 4;
    const std::string sent_as = top_.text({"communication_data_type"}).value_or("");
    std::string kept_as;  // empty: as the parameters
    if (const DocumentNode* node = section("data_types")) {
      FieldReader inner(*node, context_.path);
      kept_as = inner.text({"grad_accum_dtype"}).value_or("");
      keep_fault(inner);
    }
    if (sent_as == "fp32" || kept_as == "fp32") {
      gradient_bytes_ = 4;
      plan_->set("train.gradient_dtype", "fp32",
                 sent_as == "fp32" ? "communication_data_type" : "data_types.grad_accum_dtype");
      if (sent_as != kept_as && is_half)
        plan_->not_expressed.push_back(
            sent_as == "fp32"
                ? "data_types.grad_accum_dtype: gradients are kept in fp32, as they are sent"
                : "communication_data_type: gradients are sent in fp32, as they are kept");
    } else if (is_bf16_) {
      plan_->set("train.gradient_dtype", "bf16", "gradients are reduced as they are");
    }
  }

  void set_parallel() {
    if (const DocumentNode* node = section("tensor_parallel")) {
      FieldReader inner(*node, context_.path);
      autotp_ = std::max<Whole>(1, inner.whole({"autotp_size", "tp_size"}).value_or(0));
      if (autotp_ > 1) plan_->set("parallel.tp", autotp_, "tensor_parallel.autotp_size");
      keep_fault(inner);
    }
    if (const DocumentNode* node = section("expert_parallel")) {
      FieldReader inner(*node, context_.path);
      const auto ep = inner.whole({"autoep_size"}, 1);
      if (inner.flag({"enabled"}).value_or(false) && ep)
        plan_->set("parallel.ep", *ep, "expert_parallel.autoep_size");
      keep_fault(inner);
    }
    if (const auto ulysses = top_.whole({"sequence_parallel_size"}, 1); ulysses && *ulysses > 1) {
      plan_->set("parallel.cp", *ulysses, "sequence_parallel_size: Ulysses");
      plan_->set("parallel.cp_comm", "all_to_all", "sequence_parallel_size: Ulysses");
    }
  }

  // Sets the batch: micro-batch x accumulation steps x dp. If the number of GPUs is known, it gives
  // dp, and a size that is left out follows from the others. Without a script's own groups
  // train_batch_size counts each of AutoTP's tensor ranks, though these share their sequences
  // (deepspeed/runtime/config.py:724 and 937 at edaa7221).
  void set_batch() {
    auto micro = top_.whole({"train_micro_batch_size_per_gpu"}, 1);
    const auto steps = top_.whole({"gradient_accumulation_steps"}, 1);
    auto global = top_.whole({"train_batch_size"}, 1);
    if (global && *global % autotp_ != 0)
      top_.fail("train_batch_size", fmt::format("a multiple of autotp_size = {}", autotp_));
    if (global) global = *global / autotp_;
    const Whole dp = context_.data_parallel(*plan_);
    const Whole passes = product_of({dp, steps.value_or(1)});
    if (global && dp > 0) check_batch(*global, micro, steps, dp);
    if (!micro && global && dp > 0 && *global / passes > 0) micro = *global / passes;
    if (!global && micro && dp > 0) global = product_of({*micro, passes});
    if (micro) plan_->set("parallel.micro_batch", *micro, "train_micro_batch_size_per_gpu");
    if (global) {
      plan_->set("parallel.global_batch", *global,
                 !top_.has("train_batch_size") ? "micro-batch x accumulation steps x dp"
                 : autotp_ > 1                 ? "train_batch_size / autotp_size"
                                               : "train_batch_size");
    } else if (steps.value_or(1) > 1) {
      plan_->not_expressed.push_back(fmt::format(
          "gradient_accumulation_steps = {}: the batch is not known without --gpus", *steps));
    }
  }

  // Checks that the batch of all replicas (`global`) is micro-batch x accumulation steps x dp, as
  // DeepSpeed does (deepspeed/runtime/config.py, _batch_assertion). A size that is not stated may
  // have any value. Elastic training sets its own sizes.
  void check_batch(Whole global, std::optional<Whole> micro, std::optional<Whole> steps, Whole dp) {
    const Whole known = product_of({micro.value_or(1), steps.value_or(1), dp, autotp_});
    const bool all_known = micro && steps;
    if (top_.has("elasticity")) return;
    const bool fits = all_known ? global * autotp_ == known : global * autotp_ % known == 0;
    if (!fits)
      top_.fail("train_batch_size",
                fmt::format("{}{}: micro-batch {} x accumulation steps {} x {} ranks",
                            all_known ? "" : "a multiple of ", known, micro.value_or(1),
                            steps.value_or(1), product_of({dp, autotp_})));
  }

  // Sets a key from a field, in which 1 and -1 mean none. `is_used`: DeepSpeed reads the field in
  // this ZeRO stage.
  void set_whole_above_one(FieldReader* zero, const char* field, IntegerKey key, bool is_used) {
    const Whole value = zero->whole({field}, -1).value_or(0);
    if (value > 1 && is_used) plan_->set(key, value, fmt::format("zero_optimization.{}", field));
  }

  // Sets the share of the optimizer that is in the CPU's memory. Stage 3 alone reads `ratio`
  // (ZeRO-Offload++); the others offload all (runtime/zero/offload_config.py).
  void set_offload(FieldReader* zero, Whole stage) {
    if (zero->node({"cpu_offload"}) != nullptr && zero->flag({"cpu_offload"}).value_or(false))
      plan_->set("train.optimizer_offload", 1.0, "zero_optimization.cpu_offload");
    const DocumentNode* node = zero->node({"offload_optimizer"});
    if (node == nullptr || node->map() == nullptr) return;
    FieldReader offload(*node, context_.path);
    const std::string device = offload.text({"device"}).value_or("none");
    double share = offload.number({"ratio"}).value_or(1);
    if (share < 0 || share > 1) offload.fail("ratio", "a number from 0 to 1");
    keep_fault(offload);
    list_section(*node, kOffloadOptimizer);
    if (device != "cpu" && device != "nvme") return;
    if (share < 1 && stage < 3) {
      plan_->not_expressed.push_back(fmt::format(
          "{}:{}: ratio = {}: stage 3 alone reads it, all of the optimizer is offloaded",
          context_.path, node->find("ratio")->line, share));
      share = 1;
    }
    plan_->set("train.optimizer_offload", share, "zero_optimization.offload_optimizer");
    if (device == "nvme")
      plan_->not_expressed.push_back(
          "zero_optimization.offload_optimizer: device = nvme: taken as the CPU's memory");
  }

  void set_zero() {
    const DocumentNode* node = section("zero_optimization");
    if (node == nullptr) return;
    FieldReader zero(*node, context_.path);
    const Whole stage = zero.whole({"stage"}).value_or(0);
    if (stage > 3) zero.fail("stage", "0 to 3");
    if (stage > 0) plan_->set("train.zero", stage, "zero_optimization.stage");
    const bool overlaps = zero.flag({"overlap_comm"}).value_or(stage == 3);
    const auto bucket = zero.number({"reduce_bucket_size"});
    if (bucket.value_or(1) <= 0) zero.fail("reduce_bucket_size", "a number above 0");
    if (overlaps && stage > 0)
      plan_->set("overlap.grad_reduce", true, "zero_optimization.overlap_comm");
    if (stage == 3)
      plan_->set("overlap.param_gather", true, "stage 3 gathers the next layer ahead");
    if (overlaps && (stage == 1 || stage == 2)) {
      const double elements = bucket.value_or(bucket_elements_);
      plan_->set("overlap.bucket_MB", elements * gradient_bytes_ / 1e6,
                 fmt::format("{:.0f} elements of {} bytes", elements, gradient_bytes_));
    }
    set_whole_above_one(&zero, "zero_hpz_partition_size", "parallel.zero_hpz", stage == 3);
    set_whole_above_one(&zero, "mics_shard_size", "parallel.hsdp_shard", stage == 3);
    set_offload(&zero, stage);
    for (const NotExpressedZero& row : kNotExpressedZero) {
      const DocumentNode* value = zero.node({row.name});
      if (value == nullptr) continue;
      if (!is_off_in_zero(*value, row.name, stage))
        plan_->not_expressed.push_back(fmt::format("{}:{}: {} = {}: {}", context_.path, value->line,
                                                   row.name, value->text(), row.taken_as));
    }
    list_unread(zero, kQuietZero, context_.path, plan_);
    keep_fault(zero);
  }

  void note_optimizer() {
    const DocumentNode* node = top_.node({"optimizer"});
    const DocumentNode* type = node == nullptr ? nullptr : node->find("type");
    if (type == nullptr) return;
    const std::string name = lower_case(type->text());
    if (name != "adam" && name != "adamw")
      plan_->not_expressed.push_back(fmt::format("optimizer.type = {}: taken as Adam", name));
  }

  const ImportContext& context_;
  ImportedPlan* plan_;
  FieldReader top_;
  std::optional<Error> fault_;  // of a section
  bool is_bf16_ = false, is_fp16_ = false;
  Whole autotp_ = 1;  // AutoTP's tensor ranks
  int gradient_bytes_ = 4;
  double bucket_elements_ = 5e8;    // unless the file states it; DeepSpeed's default
  bool is_precision_open_ = false;  // the file leaves it "auto"
};

}  // namespace

bool is_deepspeed(const DocumentNode& document) {
  const auto* map = document.map();
  return map != nullptr && std::any_of(map->begin(), map->end(), [](const DocumentField& field) {
           return matches_any(field.key,
                              {"zero_optimization", "train_batch_size",
                               "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"});
         });
}

Result<ImportedPlan> import_deepspeed(const DocumentNode& document, const ImportContext& context) {
  RETURN_IF_ERROR(check_unique(document, context.path));  // as DeepSpeed does
  std::vector<AutoField> autos;
  const DocumentNode stated = without_autos(document, "", &autos);
  ImportedPlan plan;
  plan.sources.push_back(context.path + " (DeepSpeed ds_config.json)");
  // Megatron-DeepSpeed's loss and kernels are Megatron-LM's.
  if (!context.before.has("train.framework"))
    plan.set("train.framework", "deepspeed", "DeepSpeed's configuration");
  RETURN_IF_ERROR(DeepSpeedPlan(stated, autos, context, &plan).read());
  leave_out_mtp(context.before, &plan);
  place_keys(document, context.path, &plan);
  return plan;
}

}  // namespace tandem
