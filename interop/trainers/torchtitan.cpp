// Reads torchtitan's TOML: sizes and pipeline schedule from [parallelism], then batch, precision,
// recompute and model from their tables. A field that is left out has torchtitan's default.
// Declared in interop/trainers/trainers.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "interop/document/fields.h"
#include "interop/plan/places.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

using Whole = std::int64_t;

constexpr Whole kUsualLength = 2048;  // of training.seq_len

// A pipeline schedule: its names in PyTorch and in Tandem, and the stages that a rank has in it.
struct TitanSchedule {
  std::string_view theirs, ours;
  Whole rank_stages;
};
constexpr TitanSchedule kSchedules[] = {{"1F1B", "1f1b", 1},
                                        {"GPipe", "gpipe", 1},
                                        {"Interleaved1F1B", "interleaved", 2},
                                        {"LoopedBFS", "looped-bfs", 2},
                                        {"InterleavedZeroBubble", "interleaved-zb", 2},
                                        {"ZBVZeroBubble", "zbv", 2},
                                        {"DualPipeV", "dualpipev", 2}};

// Tables that change neither time nor memory.
constexpr std::string_view kQuietSections =
    "job profiling metrics lr_scheduler checkpoint compile validation comm fault_tolerance "
    "experimental debug memory_estimation eval";

// A field as torchtitan had it until March 2025, its value that changes nothing, and what it is
// now.
struct OldField {
  std::string_view field, usual, now;
};
constexpr OldField kOldFields[] = {
    {"experimental.pipeline_parallel_degree", "1",
     "parallelism.pipeline_parallel_degree and pipeline_parallel_microbatch_size"},
    {"experimental.context_parallel_degree", "1", "parallelism.context_parallel_degree"},
    {"experimental.enable_async_tensor_parallel", "false",
     "parallelism.enable_async_tensor_parallel"},
    {"training.tensor_parallel_degree", "1", "parallelism.tensor_parallel_degree"},
    {"training.data_parallel_degree", "-1", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_shard_degree", "-1", "parallelism.data_parallel_shard_degree"},
    {"training.data_parallel_replicate_degree", "1", "parallelism.data_parallel_replicate_degree"},
    {"training.data_parallel_type", "fsdp", "parallelism.data_parallel_replicate_degree"},
    {"training.fsdp_reshard_after_forward", "default", "parallelism.fsdp_reshard_after_forward"},
    {"float8.enable_float8_linear", "false", "model.converters = [\"float8\"]"}};

// A field that a scenario has no key for, its value that changes nothing, and what is simulated.
// Unless `switch_field` is true, torchtitan does not read the field; empty: it always does.
struct TitanNote {
  std::string_view field, usual, taken_as, switch_field = {};
};
constexpr TitanNote kTitanNotes[] = {
    {"optimizer.early_step_in_backward", "false", "the optimizer runs behind the backward"},
    {"fault_tolerance.enable", "false", "replicas are those of the data-parallel degrees"},
    {"fault_tolerance.semi_sync_method", "null", "replicas reduce gradients in every step",
     "fault_tolerance.enable"}};

// Checks that no field stands where only old releases have it, which this reader passes over.
Status check_old_fields(const DocumentNode& document, const std::string& path) {
  for (const OldField& old : kOldFields) {
    const DocumentNode* value = document.at(old.field);
    if (value == nullptr || value->text() == old.usual) continue;
    return Error::at(
        value->place(path),
        fmt::format("found {} = {}, as torchtitan had it until March 2025, expected {}", old.field,
                    value->text(), old.now));
  }
  return Done{};
}

class TitanPlan {
 public:
  TitanPlan(const DocumentNode& document, const ImportContext& context, bool has_file,
            ImportedPlan* plan)
      : document_(document), context_(context), has_file_(has_file), plan_(plan) {}

  Status read() {
    FieldReader top(document_, context_.path);
    const auto section = [&](std::string_view name) {
      return FieldReader(top.section(name, "a table"), context_.path);
    };
    FieldReader parallel = section("parallelism"), training = section("training"),
                memory = section("activation_checkpoint"), model = section("model"),
                optimizer = section("optimizer");
    RETURN_IF_ERROR(top.status());
    set_sizes(&parallel);
    set_schedule(&parallel, &training);
    set_training(&training);
    set_recompute(&memory);
    set_model(&model);
    note_eager(training.flag({"compile"}).value_or(false));
    note_fields();
    if (const std::string name = optimizer.text({"name"}).value_or("AdamW");
        name != "AdamW" && name != "Adam")
      plan_->not_expressed.push_back(fmt::format("optimizer.name = {}: taken as Adam", name));
    RETURN_IF_ERROR(optimizer.status());
    plan_->set("train.framework", "torchtitan", "torchtitan's TOML");
    plan_->set("train.flash_attention", true, "PyTorch's scaled dot product attention");
    for (FieldReader* reader : {&parallel, &training, &memory, &model}) {
      RETURN_IF_ERROR(reader->status());
      list_unread_fields(*reader);
    }
    count_sections();
    return Done{};
  }

 private:
  void set_sizes(FieldReader* parallel) {
    const auto degree = [&](std::string_view name, IntegerKey key) {
      const Whole size = parallel->whole({name}, 1).value_or(1);
      if (size > 1) plan_->set(key, size, name);
      return size;
    };
    tp_ = degree("tensor_parallel_degree", "parallel.tp");
    pp_ = degree("pipeline_parallel_degree", "parallel.pp");
    cp_ = degree("context_parallel_degree", "parallel.cp");
    ep_ = degree("expert_parallel_degree", "parallel.ep");
    // Without ep experts are cut like other layers, whatever this field says; with it they are
    // whole by default.
    const Whole expert_tp = parallel->whole({"expert_tensor_parallel_degree"}, 1).value_or(1);
    if (ep_ > 1 && expert_tp != tp_)
      plan_->set("parallel.expert_tp", expert_tp, "expert_tensor_parallel_degree");
    if (cp_ > 1) {
      const std::string method =
          parallel->text({"context_parallel_rotate_method"}).value_or("allgather");
      if (method == "allgather") plan_->set("parallel.cp_comm", "all_gather", "the default");
    }
    if (parallel->flag({"enable_sequence_parallel"}).value_or(true) && tp_ > 1)
      plan_->set("train.sequence_parallel", true, "with tensor_parallel_degree");
    if (parallel->flag({"enable_async_tensor_parallel"}).value_or(false) && tp_ > 1)
      plan_->set("overlap.tensor", "ring", "enable_async_tensor_parallel");
    set_data_parallel(parallel);
    if (parallel->text({"expert_parallel_comm_backend"}).value_or("standard") != "standard")
      plan_->not_expressed.push_back(
          "expert_parallel_comm_backend: tokens are sent by NCCL's all-to-all");
  }

  // Sets the replicas, and FSDP2 (shard degree other than 1), DDP or both (HSDP) between them. A
  // shard degree of -1 means all GPUs that the other degrees leave.
  void set_data_parallel(FieldReader* parallel) {
    const Whole replicas = parallel->whole({"data_parallel_replicate_degree"}, 1).value_or(1);
    const Whole shard = parallel->whole({"data_parallel_shard_degree"}, -1).value_or(-1);
    const Whole replica_gpus = product_of({tp_, pp_, cp_});
    if (shard == 0) parallel->fail("data_parallel_shard_degree", "-1 or an integer from 1 on");
    dp_ = shard > 0 ? product_of({shard, replicas}) : context_.job_gpus() / replica_gpus;
    if (shard > 0) plan_->set("parallel.dp", dp_, "data_parallel_replicate x shard degree");
    // Context ranks cut parameters, too, and so do those that spread experts.
    const bool has_shards = shard != 1 || cp_ > 1;
    if (has_shards || (replicas == 1 && ep_ > 1)) {
      set_fsdp(parallel);
    } else if (replicas > 1) {
      plan_->set("overlap.grad_reduce", true, "DDP reduces bucket by bucket");
      if (pp_ == 1) plan_->set("overlap.bucket_MB", 104.8576, "torchtitan's 100 MiB");
    }
    if (replicas == 1 || !has_shards) return;
    const Whole shard_size =
        shard > 0 ? shard : context_.job_gpus() / product_of({replica_gpus, replicas});
    if (shard_size > 0) {
      // hsdp_shard counts context ranks, as they shard too. torchtitan's degree does not.
      plan_->set("parallel.hsdp_shard", product_of({shard_size, cp_}),
                 "data_parallel_shard_degree");
    } else {
      plan_->not_expressed.push_back(fmt::format(
          "data_parallel_replicate_degree = {}: what shards inside is not known without --gpus",
          replicas));
    }
  }

  void set_fsdp(FieldReader* parallel) {
    plan_->set("train.zero", Whole{3}, "data_parallel_shard_degree: FSDP2");
    plan_->set("overlap.grad_reduce", true, "FSDP2 reduces layer by layer");
    const std::string reshard = parallel->text({"fsdp_reshard_after_forward"}).value_or("default");
    if (reshard == "never" || (reshard == "default" && pp_ > 1))
      plan_->set("train.reshard_after_forward", false, "fsdp_reshard_after_forward");
    if (reshard == "always" && pp_ > 1)
      plan_->not_expressed.push_back(
          "fsdp_reshard_after_forward = always: a pipeline's parameters stay gathered");
  }

  // Sets the batch. With a pipeline an iteration is one run of its schedule (a flush), in which
  // each replica has local_batch_size sequences: torchtitan runs it once for each step of gradient
  // accumulation, and a scenario's pipeline has one flush. Tokens a second and memory are the
  // same. Without a pipeline all microbatches follow each other in any case.
  void set_batch(FieldReader* parallel, FieldReader* training) {
    const Whole micro = parallel->whole({"pipeline_parallel_microbatch_size"}, 1).value_or(1);
    const Whole local = training->whole({"local_batch_size", "batch_size"}, 1).value_or(8);
    const Whole global = training->whole({"global_batch_size"}, -1).value_or(-1);
    const Whole flush = product_of({local, dp_});  // 0: unknown
    if (pp_ > 1 && local % micro != 0)
      parallel->fail("pipeline_parallel_microbatch_size",
                     fmt::format("a divisor of local_batch_size = {}", local));
    const bool is_multiple = flush == 0 || (global > 0 && global % flush == 0);
    if (global >= 0 && !is_multiple)
      training->fail(
          "global_batch_size",
          fmt::format("a multiple of {}: local_batch_size {} x dp {}", flush, local, dp_));
    plan_->set("parallel.micro_batch", pp_ > 1 ? micro : local,
               pp_ > 1 ? "pipeline_parallel_microbatch_size" : "local_batch_size");
    if (global > 0 && pp_ == 1) {
      plan_->set("parallel.global_batch", global, "global_batch_size");
    } else if (flush > 0) {
      plan_->set("parallel.global_batch", flush, "local_batch_size x dp");
      if (global > flush)
        plan_->not_expressed.push_back(fmt::format(
            "{}: a step's {} sequences are {} runs of the pipeline, one after the other, and an "
            "iteration here is one run, of {}: a step takes {} times as long, but for the "
            "optimizer's work, which it has once",
            training->place_of("global_batch_size"), global, global / flush, flush,
            global / flush));
    } else if (pp_ > 1) {
      plan_->not_expressed.push_back(
          fmt::format("local_batch_size = {}: the batch is not known without --gpus", local));
    }
  }

  void set_schedule(FieldReader* parallel, FieldReader* training) {
    const std::string name = parallel->text({"pipeline_parallel_schedule"}).value_or("1F1B");
    const std::string csv = parallel->text({"pipeline_parallel_schedule_csv"}).value_or("");
    set_batch(parallel, training);
    const auto row = std::ranges::find(kSchedules, name, &TitanSchedule::theirs);
    if (pp_ == 1) {
      set_stages(parallel, 1, /*any_number=*/true);  // its fields are read
    } else if (!csv.empty()) {
      plan_->set("schedule.order", csv, "pipeline_parallel_schedule_csv");
      set_stages(parallel, row == std::end(kSchedules) ? 1 : row->rank_stages, /*any_number=*/true);
    } else if (row == std::end(kSchedules)) {
      parallel->fail("pipeline_parallel_schedule",
                     "1F1B, Interleaved1F1B, GPipe or a zero-bubble one");
    } else {
      plan_->set("schedule.order", row->ours, "pipeline_parallel_schedule");
      set_stages(parallel, row->rank_stages, /*any_number=*/false);
    }
  }

  // Sets the stages and their layers. `usual`: the stages of a rank unless fields state others.
  // `any_number`: the schedule takes one stage of a rank and several.
  void set_stages(FieldReader* parallel, Whole usual, bool any_number) {
    const auto layers_per_stage = parallel->whole({"pipeline_parallel_layers_per_stage"}, 1);
    const auto points = parallel->texts({"pipeline_parallel_split_points"});
    const Whole first = parallel->whole({"pipeline_parallel_first_stage_less_layers"}).value_or(1);
    const Whole last = parallel->whole({"pipeline_parallel_last_stage_less_layers"}).value_or(1);
    if (pp_ == 1) return;
    const bool has_points = points && !points->empty();
    const Whole layers = context_.before.whole_of("model.layers").value_or(0);
    Whole stages = product_of({pp_, usual});
    std::string_view stated;  // the field that states the stages
    if (has_points) {
      stages = static_cast<Whole>(points->size()) + 1;
      stated = "pipeline_parallel_split_points";
    } else if (layers_per_stage && layers > 0) {
      // Embedding and head count as `first` and `last` layers. The number of stages is rounded up.
      stages = (layers + first + last - 1) / *layers_per_stage + 1;
      stated = "pipeline_parallel_layers_per_stage";
    }
    const Whole rank_stages = stages / pp_;
    const bool takes_number = any_number || (rank_stages > 1) == (usual > 1);
    if (stages % pp_ != 0 || !takes_number)
      return parallel->fail(
          stated, fmt::format("{} on each of {} ranks: these are {} stages",
                              usual > 1 ? "the same number of stages, at least 2," : "one stage",
                              pp_, stages));
    if (stated.empty() && rank_stages > 1)
      plan_->assumed.push_back(fmt::format("parallel.vpp = {}: as torchtitan has it", rank_stages));
    if (rank_stages > 1) plan_->set("parallel.vpp", rank_stages, "stages a rank of the schedule");
    if (has_points) {
      set_split_layers(*points, layers, parallel);
    } else {
      set_layers(layers, first, last, stages);
    }
  }

  // Sets the layers of each stage by the layers that begin the stages behind the first: "layers.8".
  void set_split_layers(const std::vector<std::string>& points, Whole layers,
                        FieldReader* parallel) {
    std::vector<Whole> list;
    Whole begin = 0;
    for (const std::string& point : points) {
      const auto layer = point.starts_with("layers.")
                             ? whole_number(plain_scalar(point.substr(7), 0))
                             : std::nullopt;
      if (!layer || *layer < begin || (layers > 0 && *layer > layers))
        return parallel->fail("pipeline_parallel_split_points",
                              "layers of the model in order, as layers.8");
      list.push_back(*layer - begin);
      begin = *layer;
    }
    list.push_back(layers - begin);
    if (layers > 0)
      plan_->set("parallel.layers_per_stage", list, "pipeline_parallel_split_points");
    else
      plan_->not_expressed.push_back(
          "pipeline_parallel_split_points: import the model's config.json before");
  }

  // Sets the layers of each stage. Embedding and head count as `first` and `last` layers of the
  // outer stages. If all of these do not divide evenly, the first stages get one more.
  void set_layers(Whole layers, Whole first, Whole last, Whole stages) {
    if (layers == 0 || stages > layers + first + last) return;
    const Whole all = layers + first + last;
    std::vector<Whole> list;
    for (Whole stage = 0; stage < stages; ++stage)
      list.push_back(all / stages + (stage < all % stages ? 1 : 0));
    list.front() -= first;
    list.back() -= last;
    if (list.front() < 0 || list.back() < 0) return;
    if (std::count(list.begin(), list.end(), list[0]) < stages)
      plan_->set("parallel.layers_per_stage", list, "embedding and head count as a layer each");
  }

  void set_training(FieldReader* training) {
    const auto seq = training->whole({"seq_len"}, 1);
    if (seq) plan_->set("model.seq", *seq, "seq_len");
    if (!seq && has_file_) {
      plan_->set("model.seq", kUsualLength, "torchtitan's default");
      plan_->assumed.push_back(
          fmt::format("model.seq = {}: torchtitan's default of training.seq_len", kUsualLength));
    }
    const std::string dtype = training->text({"mixed_precision_param"}).value_or("bfloat16");
    if (dtype == "float32") plan_->set("train.precision", "fp32", "mixed_precision_param");
    if (training->text({"mixed_precision_reduce"}).value_or("float32") == "bfloat16")
      plan_->set("train.gradient_dtype", "bf16", "mixed_precision_reduce");
    if (training->flag({"enable_cpu_offload"}).value_or(false))
      plan_->not_expressed.push_back("enable_cpu_offload: parameters stay on the GPU");
  }

  void set_recompute(FieldReader* memory) {
    const std::string mode = memory->text({"mode"}).value_or("selective");
    if (mode == "full") plan_->set("train.recompute", "full", "activation_checkpoint.mode");
    const double budget = memory->number({"memory_budget"}).value_or(0.5);
    if (mode == "memory_budget" || mode == "memory-budget")
      plan_->not_expressed.push_back(
          fmt::format("{}: activation_checkpoint.mode = memory_budget ({:g}): the compiler chooses "
                      "what is recomputed; here nothing is unless train.recompute is set",
                      memory->place_of("mode"), budget));
    else if (!matches_any(mode, {"selective", "full", "none"}))
      memory->fail("mode", "none, selective, full or memory_budget");
    if (mode != "selective") return;
    plan_->set("train.recompute", "selective", "activation_checkpoint.mode");
    plan_->not_expressed.push_back(fmt::format(
        "activation_checkpoint.mode = selective ({}): taken as the attention core",
        memory->has("selective_ac_option") ? memory->node({"selective_ac_option"})->text() : "op"));
  }

  void set_model(FieldReader* model) {
    set_titan_fp8(model->texts({"converters"}).value_or(std::vector<std::string>()), document_,
                  context_, plan_);
    const std::string name = model->text({"name"}).value_or("");
    const std::string flavor = model->text({"flavor"}).value_or("");
    if (name.starts_with("flux"))
      model->fail("name", "a decoder-only language model: flux is a diffusion model");
    if (!name.empty() && !context_.before.states_model())
      plan_->not_expressed.push_back(fmt::format(
          "model {} {}: its sizes are in torchtitan's code: import its config.json before", name,
          flavor));
  }

  // Notes that the run is not compiled, torchtitan's default, while a compiled one is simulated.
  // `compiles`: training.compile, until mid-2025.
  void note_eager(bool compiles) {
    const DocumentNode* enable = document_.at("compile.enable");
    const auto* on = enable == nullptr ? nullptr : std::get_if<bool>(&enable->value);
    const DocumentNode* parts = document_.at("compile.components");
    const bool has_model = parts == nullptr || parts->text().find("model") != std::string::npos;
    if (has_model && (compiles || (on != nullptr && *on))) return;
    plan_->not_expressed.push_back(fmt::format(
        "{}: a compiled model is simulated; uncompiled, a layer of Llama 8B took 10 % longer on an "
        "H100 and held 10 % more",
        !has_model      ? "compile.components without model"
        : on == nullptr ? "compile.enable = false, the default"
                        : "compile.enable = false"));
  }

  void note_fields() {
    for (const TitanNote& row : kTitanNotes) {
      const DocumentNode* value = document_.at(row.field);
      if (value == nullptr || value->text() == row.usual) continue;
      const DocumentNode* on = document_.at(row.switch_field);
      if (row.switch_field.empty() || (on != nullptr && on->text() == "true"))
        plan_->not_expressed.push_back(fmt::format("{}: {} = {}: {}", value->place(context_.path),
                                                   row.field, value->text(), row.taken_as));
    }
  }

  // Lists the fields that no call has read, or counts them if they have no effect.
  void list_unread_fields(const FieldReader& reader) {
    for (const DocumentField* field : reader.left()) {
      const auto* flag = std::get_if<bool>(&field->value.value);
      if (matches_any(field->key,
                      {"steps", "max_norm", "dataset*", "seed", "deterministic", "gc_*", "*_path",
                       "data_*", "selective_*", "per_op_*", "early_stop", "print_*", "tokenizer*",
                       "disable_loss_parallel", "disable_cuda_graphs", "mixed_precision*",
                       "enable_compiled_autograd", "context_parallel_*", "*_memory_budget_*"}) ||
          (flag != nullptr && !*flag)) {
        ++plan_->without_effect;
      } else {
        plan_->not_understood.push_back(fmt::format(
            "{}: {} = {}", field->value.place(context_.path), field->key, field->value.text()));
      }
    }
  }

  // Counts the fields of tables without effect, and lists tables that are not known.
  void count_sections() {
    for (const DocumentField& section : *document_.map()) {
      const bool quiet = matches_word(section.key, kQuietSections);
      const auto size = section.value.map() == nullptr ? 1 : section.value.map()->size();
      if (quiet) plan_->without_effect += static_cast<int>(size);
      if (!quiet && !matches_any(section.key, {"parallelism", "training", "activation_checkpoint",
                                               "model", "optimizer", "quantize", "float8", "mx"}))
        plan_->not_understood.push_back(
            fmt::format("{}: [{}]", section.value.place(context_.path), section.key));
    }
  }

  const DocumentNode& document_;
  const ImportContext& context_;
  bool has_file_;  // it is a whole TOML file, not overrides alone
  ImportedPlan* plan_;
  Whole tp_ = 1, pp_ = 1, cp_ = 1, ep_ = 1, dp_ = 0;
};

}  // namespace

bool is_torchtitan(const DocumentNode& document) {
  return document.find("parallelism") != nullptr ||
         (document.find("training") != nullptr && document.find("job") != nullptr);
}

Result<ImportedPlan> import_torchtitan(const DocumentNode& document, const ImportContext& context,
                                       bool has_file) {
  ImportedPlan plan;
  plan.sources.push_back(context.path + " (torchtitan TOML)");
  RETURN_IF_ERROR(check_old_fields(document, context.path));
  RETURN_IF_ERROR(TitanPlan(document, context, has_file, &plan).read());
  leave_out_mtp(context.before, &plan);
  place_keys(document, context.path, &plan);
  return plan;
}

}  // namespace tandem
