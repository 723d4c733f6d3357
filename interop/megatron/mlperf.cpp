// Reads MLPerf's configurations, which set variables: NVIDIA's, whose names have sizes too, and
// AMD's. What they source is read in its place, where it is given. Declared in
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

// MLPerf's variables for Megatron-LM's fields.
struct MlperfRow {
  std::string_view variable, field;
};
constexpr MlperfRow kMlperf[] = {
    {"TENSOR_MODEL_PARALLEL", "tensor_model_parallel_size"},
    {"PIPELINE_MODEL_PARALLEL", "pipeline_model_parallel_size"},
    {"INTERLEAVED_PIPELINE", "virtual_pipeline_model_parallel_size"},
    {"CONTEXT_PARALLEL", "context_parallel_size"},
    {"EXPERT_PARALLEL", "expert_model_parallel_size"},
    {"EXPERT_TENSOR_PARALLEL", "expert_tensor_parallel_size"},
    {"PIPELINE_LAYOUT", "pipeline_model_parallel_layout"},
    {"MICRO_BATCH_SIZE", "micro_batch_size"},
    {"RECOMPUTE_MODULES", "recompute_modules"},
    {"TP_COMM_OVERLAP", "tp_comm_overlap"},
    {"SEQUENCE_PARALLEL", "sequence_parallel"},
    {"ASYM_PP_EMBED", "account_for_embedding_in_pipeline_split"},
    {"ASYM_PP_LOSS", "account_for_loss_in_pipeline_split"},
    {"DGXNNODES", "nnodes"},
    {"DGXNGPU", "gpus_per_node"},
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
    // AMD's names.
    {"NNODES", "nnodes"},
    {"GPUS_PER_NODE", "gpus_per_node"},
    {"TP", "tensor_model_parallel_size"},
    {"PP", "pipeline_model_parallel_size"},
    {"CP", "context_parallel_size"},
    {"EP", "expert_model_parallel_size"},
    {"SP", "sequence_parallel"},
    {"MBS", "micro_batch_size"},
    {"GBS", "global_batch_size"},
    {"FP8_PARAMS", "fp8_param_gather"},
    {"ACG", "recompute_granularity"},
    {"ACM", "recompute_method"},
    {"ACL", "recompute_num_layers"}};

bool is_mlperf_quiet(std::string_view name) {
  return matches_any(name, {"WALLTIME*",
                            "DGXSYSTEM",
                            "MAX_STEPS",
                            "SEGMENT",
                            "NEXP",
                            "SBATCH*",
                            "*_CHECK*",
                            "VAL_*",
                            "LOAD*",
                            "SEED",
                            "TARGET*",
                            "NCCL_*",
                            "CUDA_*",
                            "NVTE_*",
                            "UB_*",
                            "MC_*",
                            "SLURM*",
                            "HYDRA*",
                            "*_DIR",
                            "*_PATH",
                            "*LR",
                            "WARMUP*",
                            "LR*",
                            "BINDCMD",
                            "MINIBS",
                            "FP8_AMAX*",
                            "FP8_REDUCE_AMAX",
                            "FP4_RECIPE",
                            "WGRAD_DEFERRAL*",
                            "MLPERF_*",
                            "TOKENIZERS_*",
                            "HF_*",
                            "TQDM*",
                            "PYTORCH_*",
                            "NEMO_*",
                            "TRAIN_ONLY",
                            "OMP_NUM*",
                            "MODEL_SIZE",
                            "SIZE",
                            "*_EVERY*",
                            "GC_*",
                            "VBOOST*",
                            "ATTEMPT_*",
                            "OPT_LR*",
                            "*_CKPT*",
                            "EVAL*",
                            "SKIP_EVALS",
                            "START_*",
                            "LEGACY_DATASET",
                            "TAG",
                            "DATADIR",
                            "CONT",
                            "NPAR",
                            "FROM_HF",
                            "STEP_TIME*",
                            "DEPENDENCIES",
                            "REMOTE"});
}

// The parts of an MLPerf configuration's name: the machine, the nodes, the GPUs of each, the
// microbatches of an iteration on a replica, and sizes (0: not in the name).
struct MlperfName {
  std::string gpu;
  std::int64_t nodes = 0, gpus = 0, microbatches = 0, tp = 0, pp = 0, cp = 0, ep = 0;
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

// Reads "config_DGXB200_64x8x144xtp4pp8cp2_cg.sh"; nothing: the name has another form.
std::optional<MlperfName> mlperf_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  if (!name.starts_with("config_")) return std::nullopt;
  const std::size_t second = name.find('_', 7);
  if (second == std::string::npos) return std::nullopt;
  MlperfName found;
  found.gpu = name.substr(7, second - 7);
  std::size_t at = second + 1;
  found.nodes = digits_behind(name, "", &at);
  found.gpus = digits_behind(name, "x", &at);
  found.microbatches = digits_behind(name, "x", &at);
  if (found.nodes == 0 || found.gpus == 0 || found.microbatches == 0) return std::nullopt;
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

std::string variable_of(const ShellScript& script, std::string_view name) {
  const auto found = script.variables.find(std::string(name));
  return found == script.variables.end() || found->second.words.empty() ? ""
                                                                        : found->second.words[0];
}

// The lines of a script, and of those that it reads into itself where they are given beside it.
struct IncludedScript {
  std::string text;
  std::vector<std::string> places;  // of each line: "config_common.sh:3"
};

void include(const std::string& text, const std::string& path, const ImportContext& context,
             int depth, IncludedScript* all) {
  constexpr int kMostIncluded = 20;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    const std::vector<std::string> words = split_words(line);
    if (words.size() > 1 && (words[0] == "source" || words[0] == ".") && depth < kMostIncluded) {
      const std::string& file = words.back();
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
  const auto field = [&](std::string_view to, std::int64_t value) {
    if (value > 0) arguments.add_field(std::string(to), fmt::format("{}", value), context.path);
  };
  if (name) {
    field("nnodes", name->nodes);
    field("gpus_per_node", name->gpus);
    field("tensor_model_parallel_size", name->tp);
    field("pipeline_model_parallel_size", name->pp);
    field("context_parallel_size", name->cp);
    field("expert_model_parallel_size", name->ep);
  }
  ImportedPlan lists;  // what is not understood and the like, added to the plan at the end
  for (const auto& named : script.variables) {
    const std::string& variable = named.first;
    const ShellVariable& value = named.second;
    const std::string where = place(value.line);
    std::string text = value.words.empty() ? "" : value.words[0];
    const auto row = std::find_if(std::begin(kMlperf), std::end(kMlperf),
                                  [&](const MlperfRow& one) { return one.variable == variable; });
    if (row != std::end(kMlperf)) {
      if (text == "True" && row->field == "fp8") text = "hybrid";
      if (text == "True" && row->field == "fp4") text = "nvfp4";
      arguments.add_field(std::string(row->field), text, where, variable);
    } else if (variable.starts_with("LORA_")) {
      lists.not_expressed.push_back(fmt::format(
          "{}: {}={}: all weights are trained: adapters are not covered", where, variable, text));
    } else if (is_mlperf_quiet(variable)) {
      ++lists.without_effect;
    } else {
      lists.not_understood.push_back(fmt::format("{}: {}={}", where, variable, text));
    }
  }
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
  // NeMo's recipes for MLPerf train in bf16.
  arguments.add_field("bf16", "True", context.path);
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (MLPerf configuration)",
                                   MegatronStyle::Bridge, context.before, context.gpus));
  RETURN_IF_ERROR(plan.add(lists));
  const std::string microbatches = variable_of(script, "MINIBS");
  std::int64_t count = name ? name->microbatches : 0;
  if (const auto list = python_list("[" + microbatches + "]"); list && list->size() == 1)
    count = list->front();
  const auto gpus = plan.whole_of("cluster.gpus");
  const std::int64_t block = product_of({plan.whole_of("parallel.tp").value_or(1),
                                         plan.whole_of("parallel.pp").value_or(1),
                                         plan.whole_of("parallel.cp").value_or(1)});
  if (count > 0 && gpus && *gpus % block == 0 && !arguments.has("global_batch_size")) {
    plan.set("parallel.global_batch",
             product_of({count, *gpus / block, plan.whole_of("parallel.micro_batch").value_or(1)}),
             fmt::format("{} microbatches a replica", count));
  }
  if (name && !preset_of_machine(name->gpu).empty())
    plan.set("cluster.preset", preset_of_machine(name->gpu), name->gpu);
  else if (name)
    plan.not_understood.push_back(
        fmt::format("{}: machine {}: name a preset with --cluster", context.path, name->gpu));
  return plan;
}

}  // namespace tandem
