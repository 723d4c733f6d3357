// Reads MLPerf's configurations: shell scripts that export variables such as
// TENSOR_MODEL_PARALLEL=4, which stand for Megatron-LM's arguments. The names of NVIDIA's files
// state sizes too. A file that a script sources is read in its place, if it was given. Declared in
// interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/megatron/files.h"
#include "interop/megatron/launcher.h"
#include "interop/megatron/megatron.h"
#include "interop/shell/shell.h"

namespace tandem {
namespace {

// MLPerf's variables for Megatron-LM's fields, by globs: NVIDIA's names, those of MLCommons'
// reference, "TENSOR_PARALLEL_SIZE", and AMD's, "TP".
struct MlperfRow {
  std::string_view variables, field;
};
constexpr MlperfRow kMlperf[] = {
    {"TENSOR_MODEL_PARALLEL* TENSOR_PARALLEL* TP", "tensor_model_parallel_size"},
    {"PIPELINE_MODEL_PARALLEL* PIPELINE_PARALLEL* PP", "pipeline_model_parallel_size"},
    {"INTERLEAVED_PIPELINE VIRTUAL_PIPELINE*", "virtual_pipeline_model_parallel_size"},
    {"CONTEXT_PARALLEL* CP", "context_parallel_size"},
    {"EXPERT_MODEL_PARALLEL* EXPERT_PARALLEL* EP", "expert_model_parallel_size"},
    {"EXPERT_TENSOR_*PARALLEL*", "expert_tensor_parallel_size"},
    {"PIPELINE_LAYOUT", "pipeline_model_parallel_layout"},
    {"MICRO_BATCH_SIZE MBS", "micro_batch_size"},
    {"GLOBAL_BATCH_SIZE GBS", "global_batch_size"},
    {"SEQUENCE_LENGTH", "seq_length"},
    {"MOE_TOKEN_DISPATCHER_TYPE", "moe_token_dispatcher_type"},
    {"RECOMPUTE_MODULES", "recompute_modules"},
    {"TP_COMM_OVERLAP", "tp_comm_overlap"},
    {"SEQUENCE_PARALLEL SP", "sequence_parallel"},
    {"ASYM_PP_EMBED", "account_for_embedding_in_pipeline_split"},
    {"ASYM_PP_LOSS", "account_for_loss_in_pipeline_split"},
    {"DGXNNODES NNODES", "nnodes"},
    {"DGXNGPU GPUS_PER_NODE", "gpus_per_node"},
    {"USE_DIST_OPTIMIZER", "use_distributed_optimizer"},
    {"OVERLAP_GRAD_REDUCE", "overlap_grad_reduce"},
    {"OVERLAP_PARAM_GATHER", "overlap_param_gather"},
    {"ALIGN_PARAM_GATHER", "align_param_gather"},
    {"OVERLAP_PARAM_GATHER_WITH_OPTIM_STEP", "overlap_param_gather_with_optimizer_step"},
    {"DEFER_EMBEDDING_WGRAD_COMPUTE", "defer_embedding_wgrad_compute"},
    {"TP_PP_DP_MAPPING", "use_tp_pp_dp_mapping"},
    {"FP8", "fp8"},
    {"FP8_RECIPE", "fp8_recipe"},
    {"FP8_PARAM_GATHER", "fp8_param_gather"},
    {"FP8_DPA", "fp8_dot_product_attention"},
    {"FP4", "fp4"},
    {"FP8_PARAMS", "fp8_param_gather"},
    {"ACG", "recompute_granularity"},
    {"ACM", "recompute_method"},
    {"ACL", "recompute_num_layers"}};

// Variables that change neither time nor memory, by globs.
constexpr std::string_view kMlperfQuiet =
    "WALLTIME* DGXSYSTEM MAX_STEPS SEGMENT NEXP SBATCH* *_CHECK* VAL_* LOAD* SEED TARGET* "
    "NCCL_* CUDA_* NVTE_* UB_* MC_* SLURM* HYDRA* *_DIR *_PATH *LR WARMUP* LR* BINDCMD MINIBS "
    "FP8_AMAX* FP8_REDUCE_AMAX FP4_RECIPE WGRAD_DEFERRAL* MLPERF_* TOKENIZERS_* HF_* TQDM* "
    "PYTORCH_* NEMO_* TRAIN_ONLY OMP_NUM* MODEL_SIZE SIZE *_EVERY* GC_* VBOOST* ATTEMPT_* "
    "OPT_LR* *_CKPT* EVAL* SKIP_EVALS START_* LEGACY_DATASET TAG DATADIR CONT NPAR FROM_HF "
    "STEP_TIME* DEPENDENCIES REMOTE USER HOST ACCOUNT PARTITION TIME MAX_RETRIES IMAGE "
    "TMP_NPY_INDEX "
    "NODE_RANK MASTER_* PYTHONPATH MODEL *MLLOG*";

// The parts of a name such as "config_DGXB200_64x8x144xtp4pp8cp2_cg.sh".
struct MlperfName {
  std::string machine;                          // "DGXB200"
  std::int64_t nodes = 0, gpus_per_node = 0;    // 64 and 8
  std::int64_t microbatches = 0;                // 144 of an iteration, on each replica
  std::int64_t tp = 0, pp = 0, cp = 0, ep = 0;  // 0: not in the name
};

// Returns the number that follows `letters` at `at`, and moves `at` past it; 0: there is none.
std::int64_t digits_behind(const std::string& text, std::string_view letters, std::size_t* at) {
  if (text.compare(*at, letters.size(), letters) != 0) return 0;
  std::size_t end = *at + letters.size();
  std::int64_t value = 0;
  const std::size_t begin = end;
  while (end < text.size() && end - begin < 9 &&
         std::isdigit(static_cast<unsigned char>(text[end])) != 0)
    value = value * 10 + (text[end++] - '0');
  if (end == begin) return 0;
  *at = end;
  return value;
}

// Reads a file's name; nothing: it has another form.
std::optional<MlperfName> mlperf_name(const std::string& path) {
  constexpr std::string_view kPrefix = "config_";
  const std::string name = std::filesystem::path(path).stem().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::size_t machine_end = name.find('_', kPrefix.size());
  if (machine_end == std::string::npos) return std::nullopt;
  MlperfName found;
  found.machine = name.substr(kPrefix.size(), machine_end - kPrefix.size());
  std::size_t at = machine_end + 1;
  found.nodes = digits_behind(name, "", &at);
  found.gpus_per_node = digits_behind(name, "x", &at);
  found.microbatches = digits_behind(name, "x", &at);
  if (found.nodes == 0 || found.gpus_per_node == 0 || found.microbatches == 0) return std::nullopt;
  at += at < name.size() && name[at] == 'x' ? 1 : 0;
  found.tp = digits_behind(name, "tp", &at);
  found.pp = digits_behind(name, "pp", &at);
  found.cp = digits_behind(name, "cp", &at);
  found.ep = digits_behind(name, "ep", &at);
  return found;
}

// Returns the preset of a machine's name; empty: none.
std::string_view preset_of_machine(std::string_view machine) {
  constexpr std::pair<std::string_view, std::string_view> kPresets[] = {
      {"DGXH100", "dgx-h100"},     {"DGXH200", "dgx-h200"},  {"DGXB200", "dgx-b200"},
      {"DGXB300", "dgx-b300"},     {"DGXA100", "dgx-a100"},  {"DGXGB200", "gb200-nvl72"},
      {"DGXGB300", "gb300-nvl72"}, {"GB200", "gb200-nvl72"}, {"GB300", "gb300-nvl72"}};
  for (const auto& [name, preset] : kPresets) {
    if (name == machine) return preset;
  }
  return "";
}

// Returns a variable's value; empty: it is not set.
std::string variable_of(const ShellScript& script, std::string_view name) {
  const auto found = script.variables.find(std::string(name));
  return found == script.variables.end() || found->second.words.empty() ? ""
                                                                        : found->second.words[0];
}

// A script's text with the files that it sources in place of their `source` lines.
struct IncludedScript {
  std::string text;
  std::vector<std::string> places;  // of each line: "config_common.sh:3"
};

// Adds a script's lines to *all, with those of the files that it sources and that were given.
void include(const std::string& text, const std::string& path, const ImportContext& context,
             int depth, IncludedScript* all) {
  constexpr int kMostIncluded = 20;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    const std::vector<std::string> words = split_words(line);
    if (words.size() > 1 && (words[0] == "source" || words[0] == ".") && depth < kMostIncluded) {
      const std::string& file = words.back();  // "$(dirname $0)/config_common.sh"
      if (const ImportSource* source =
              context.beside_by_name(file.substr(file.find_last_of("/)") + 1))) {
        include(source->text, source->path, context, depth + 1, all);
        continue;
      }
    }
    all->text += line + '\n';
    all->places.push_back(where);
  }
}

void add_name_fields(const MlperfName& name, const std::string& path,
                     MegatronArguments* arguments) {
  const auto add = [&](const char* field, std::int64_t value) {
    if (value > 0) arguments->add_field(field, fmt::format("{}", value), path);
  };
  add("nnodes", name.nodes);
  add("gpus_per_node", name.gpus_per_node);
  add("tensor_model_parallel_size", name.tp);
  add("pipeline_model_parallel_size", name.pp);
  add("context_parallel_size", name.cp);
  add("expert_model_parallel_size", name.ep);
}

// Returns the field that a variable stands for; empty: none. Those of Primus may have the field's
// own name: PRIMUS_APPLY_ROPE_FUSION.
std::string field_of(const std::string& variable) {
  constexpr std::string_view kPrimus = "PRIMUS_";
  const bool is_primus = variable.starts_with(kPrimus);
  const std::string name = is_primus ? variable.substr(kPrimus.size()) : variable;
  for (const MlperfRow& row : kMlperf) {
    if (matches_word(name, row.variables)) return std::string(row.field);
  }
  return is_primus ? lower_case(name) : "";
}

// Adds a variable that stands for an argument to the arguments; lists any other in *lists.
void add_variable(const std::string& variable, std::string value, const std::string& where,
                  MegatronArguments* arguments, ImportedPlan* lists) {
  const std::string field = field_of(variable);
  if (variable.starts_with("LORA_")) {
    lists->not_expressed.push_back(fmt::format(
        "{}: {}={}: all weights are trained: adapters are not covered", where, variable, value));
  } else if (matches_word(variable, kMlperfQuiet)) {
    ++lists->without_effect;
  } else if (!field.empty()) {
    if (value == "True" && field == "fp8") value = "hybrid";
    if (value == "True" && field == "fp4") value = "nvfp4";
    arguments->add_field(field, value, where, variable);
  } else if (variable == "EXP" && value.ends_with(".yaml")) {  // Primus' experiment
    lists->wanted.push_back(
        {.name = value.substr(value.rfind('/') + 1), .where = where, .states_plan = true});
  } else {
    lists->not_understood.push_back(fmt::format("{}: {}={}", where, variable, value));
  }
}

// Sets the global batch: the microbatches of MINIBS, or else of the file's name, times replicas
// (dp) and microbatch size.
void set_mlperf_batch(const ShellScript& script, const std::optional<MlperfName>& name,
                      ImportedPlan* plan) {
  std::int64_t microbatches = name ? name->microbatches : 0;
  if (const auto list = python_list("[" + variable_of(script, "MINIBS") + "]");
      list && list->size() == 1)
    microbatches = list->front();
  const auto gpus = plan->whole_of("cluster.gpus");
  const std::int64_t gpus_of_replica = product_of({plan->whole_of("parallel.tp").value_or(1),
                                                   plan->whole_of("parallel.pp").value_or(1),
                                                   plan->whole_of("parallel.cp").value_or(1)});
  if (microbatches == 0 || !gpus || *gpus % gpus_of_replica != 0) return;
  plan->set("parallel.global_batch",
            product_of({microbatches, *gpus / gpus_of_replica,
                        plan->whole_of("parallel.micro_batch").value_or(1)}),
            fmt::format("{} microbatches a replica", microbatches));
}

}  // namespace

bool is_mlperf(const std::string& text, const std::string& path) {
  const auto sets = [&](const std::string& variable) {
    return text.starts_with(variable) || text.find(" " + variable) != std::string::npos ||
           text.find("\n" + variable) != std::string::npos;
  };
  return mlperf_name(path) || sets("MINIBS=") || sets("TENSOR_MODEL_PARALLEL=");
}

Result<ImportedPlan> import_mlperf(const std::string& own_text, const ImportContext& context) {
  IncludedScript included;
  include(own_text, context.path, context, 0, &included);
  ASSIGN_OR_RETURN(const ShellScript script, parse_shell(included.text, context.path));
  const auto place = [&](int line) {
    const auto at = static_cast<std::size_t>(line);
    return at > 0 && at <= included.places.size() ? included.places[at - 1] : context.path;
  };
  const auto name = mlperf_name(context.path);
  MegatronArguments arguments(context.path);
  if (name) add_name_fields(*name, context.path, &arguments);
  ImportedPlan lists;  // what is not understood and the like, added to the plan at the end
  for (const auto& [variable, value] : script.variables)
    add_variable(variable, value.words.empty() ? "" : value.words[0], place(value.line), &arguments,
                 &lists);
  if (context.path.find("lora") != std::string::npos)
    lists.not_expressed.push_back(
        context.path +
        ": LoRA's benchmark, by its folder: all weights are trained: adapters are "
        "not covered");
  list_sourced_files(script, place, &lists);
  if (script.variables.contains("FP8") && !script.variables.contains("FP8_RECIPE")) {
    arguments.add_field("fp8_recipe", "delayed", "");
    if (variable_of(script, "FP8") == "True")
      lists.assumed.push_back(context.path + ": FP8_RECIPE is not stated: delayed scaling");
  }
  // In MLCommons' reference recompute_modules without recompute_granularity means selective
  // recompute (deepseek_v3_pretrain_config of Megatron-Bridge 0.3). Messages then name the modules'
  // line and spelling.
  const std::string_view modules = "recompute_modules";
  if (arguments.has(modules) && !arguments.has("recompute_granularity"))
    arguments.add_field("recompute_granularity", "selective", arguments.place_of(modules),
                        arguments.spelled(modules));
  // NeMo's recipes for MLPerf train in bf16.
  arguments.add_field("bf16", "True", context.path);
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (MLPerf configuration)",
                                   MegatronStyle::Bridge, context.before, context.gpus));
  RETURN_IF_ERROR(plan.add(lists));
  if (!arguments.has("global_batch_size")) set_mlperf_batch(script, name, &plan);
  if (name && !preset_of_machine(name->machine).empty())
    plan.set("cluster.preset", preset_of_machine(name->machine), name->machine);
  else if (name)
    plan.not_understood.push_back(
        fmt::format("{}: machine {}: name a preset with --cluster", context.path, name->machine));
  return plan;
}

}  // namespace tandem
