// Reads launch scripts of Megatron-LM, and MLPerf's configurations. interop/shell expands variables
// and splits the script into commands. From a launch script come the flags of commands that launch
// training. An MLPerf configuration sets variables, and its name has sizes too. Declared in
// interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

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
constexpr MlperfRow kMlperf[] = {{"TENSOR_MODEL_PARALLEL", "tensor_model_parallel_size"},
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
                                 {"DGXNGPU", "gpus_per_node"}};

bool is_mlperf_quiet(std::string_view name) {
  return matches_any(
      name, {"WALLTIME*", "DGXSYSTEM", "MAX_STEPS", "SEGMENT", "NEXP",   "SBATCH*", "*_CHECK*",
             "VAL_*",     "LOAD*",     "SEED",      "TARGET*", "NCCL_*", "CUDA_*",  "NVTE_*",
             "UB_*",      "MC_*",      "SLURM*",    "HYDRA*",  "*_DIR",  "*_PATH",  "*LR",
             "WARMUP*",   "LR*",       "BINDCMD",   "MINIBS"});
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

// Lists the files that a script reads into itself.
void list_sourced_files(const ShellScript& script, const std::string& path, ImportedPlan* lists) {
  for (const ShellCommand& command : script.commands) {
    if (command.size() < 2 || (command[0].text != "source" && command[0].text != ".")) continue;
    const std::string name = command[1].text.substr(command[1].text.rfind('/') + 1);
    // Environments of Python and of shells.
    if (matches_any(name, {"activate", "*conda*", "*bashrc", "*profile", "*env", "*env.sh",
                           "*environment*", "modules*", "setvars.sh", "*.env"}))
      continue;
    lists->wanted.push_back({name, fmt::format("{}:{}", path, command[0].line)});
  }
}

// Adds what slime (slime/backends/megatron_utils/arguments.py) sets by itself, and says what of it
// is not covered.
void set_slime(const std::string& path, MegatronArguments* arguments, ImportedPlan* lists) {
  if (!arguments->flag("fp16")) arguments->add_field("bf16", "True", path);
  arguments->add_field("use_distributed_optimizer", "True", path);
  if (const auto nodes = arguments->whole("actor_num_nodes", 1))
    arguments->add_field("nnodes", fmt::format("{}", *nodes),
                         arguments->place_of("actor_num_nodes"));
  if (const auto gpus = arguments->whole("actor_num_gpus_per_node", 1))
    arguments->add_field("gpus_per_node", fmt::format("{}", *gpus),
                         arguments->place_of("actor_num_gpus_per_node"));
  lists->not_expressed.push_back(
      path + ": slime's rollouts are not covered: the trainer's part of an iteration is");
}

Result<ImportedPlan> import_mlperf(const ShellScript& script, const ImportContext& context) {
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
    const std::string where = fmt::format("{}:{}", context.path, value.line);
    const std::string text = value.words.empty() ? "" : value.words[0];
    const auto row = std::find_if(std::begin(kMlperf), std::end(kMlperf),
                                  [&](const MlperfRow& one) { return one.variable == variable; });
    if (row != std::end(kMlperf)) {
      arguments.add_field(std::string(row->field), text, where);
    } else if (is_mlperf_quiet(variable)) {
      ++lists.without_effect;
    } else {
      lists.not_understood.push_back(fmt::format("{}: {}={}", where, variable, text));
    }
  }
  list_sourced_files(script, context.path, &lists);
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
  if (count > 0 && gpus && *gpus % block == 0) {
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

// Returns true for "--a" and "--a=1", not for "-1".
bool is_flag(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

// Returns the word without the quotes around it, as eval takes it.
std::string unquoted(const std::string& word) {
  const bool quoted =
      word.size() >= 2 && (word[0] == '\'' || word[0] == '"') && word.back() == word[0];
  return quoted ? word.substr(1, word.size() - 2) : word;
}

// Splits a word at blanks and ends of lines.
ShellCommand words_in(const ShellWord& word) {
  ShellCommand words;
  std::istringstream in(word.text);
  for (std::string part; in >> part;) words.push_back({part, word.line});
  return words;
}

// Adds the flags of a command with their values. One word may hold several flags. A variable that
// has no value, "${EXTRA}", is noted in `unset`. Returns the number of flags.
int add_flags(const ShellCommand& command, const std::string& path, MegatronArguments* to,
              std::vector<std::string>* unset) {
  if (!command.empty() && command[0].text == "echo") return 0;
  std::vector<ShellWord> words;
  for (const ShellWord& word : command) {
    // A word may be a whole command, for eval or bash -c.
    const bool several =
        word.text.find(" --") != std::string::npos || word.text.find(".py ") != std::string::npos;
    if (!several && (!is_flag(word.text) || word.text.find(' ') == std::string::npos)) {
      words.push_back(word);
      continue;
    }
    for (const ShellWord& part : words_in(word)) words.push_back(part);
  }
  int flags = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_flag(words[i].text)) continue;
    std::string flag = words[i].text;
    std::vector<std::string> values;
    if (const std::size_t equals = flag.find('='); equals != std::string::npos) {
      values.push_back(flag.substr(equals + 1));
      flag.resize(equals);
    }
    const int line = words[i].line;
    // The values end before the next flag or the program's name. A variable among them that has no
    // value may stand for further flags, so it is no value.
    while (i + 1 < words.size() && !is_flag(words[i + 1].text) &&
           !words[i + 1].text.ends_with(".py")) {
      const std::string& value = words[++i].text;
      if (values.empty() || !value.starts_with("${")) {
        values.push_back(unquoted(value));
      } else {
        unset->push_back(
            fmt::format("{}:{}: {}: that has no value there", path, words[i].line, value));
      }
    }
    to->add_flag(flag, values, fmt::format("{}:{}", path, line));
    ++flags;
  }
  return flags;
}

}  // namespace

Result<ImportedPlan> import_shell_script(const ShellScript& script, const ImportContext& context) {
  if (mlperf_name(context.path) || script.variables.contains("MINIBS") ||
      script.variables.contains("TENSOR_MODEL_PARALLEL"))
    return import_mlperf(script, context);
  ASSIGN_OR_RETURN(const Launcher launcher, launcher_of(script, context.path));
  MegatronArguments arguments(context.path);
  std::vector<std::string> unset;
  int flags = 0;
  for (const ShellCommand& command : script.commands) {
    const bool launches = std::any_of(command.begin(), command.end(), [](const ShellWord& word) {
      return word.text.ends_with(".py") || word.text.find(".py ") != std::string::npos ||
             word.text.find("torchrun") != std::string::npos;
    });
    if (launches) flags += add_flags(command, context.path, &arguments, &unset);
  }
  if (flags == 0) {
    // The script launches nothing: it has the flags for another one, in variables or in commands.
    for (const ShellCommand& command : script.commands)
      flags += add_flags(command, context.path, &arguments, &unset);
    for (const auto& [name, value] : script.variables) {
      ShellCommand words;
      for (const std::string& word : value.words) words.push_back({word, value.line});
      flags += add_flags(words, context.path, &arguments, &unset);
    }
  }
  ImportedPlan lists;
  list_sourced_files(script, context.path, &lists);
  if (launcher == Launcher::Slime) set_slime(context.path, &arguments, &lists);
  if (const auto world = script.variables.find("WORLD_SIZE");
      world != script.variables.end() && !arguments.has("nnodes") && !world->second.words.empty() &&
      world->second.words[0].find_first_not_of("0123456789") == std::string::npos)
    arguments.add_field("world_size", world->second.words[0],
                        fmt::format("{}:{}", context.path, world->second.line));
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (launch script)",
                                   MegatronStyle::Megatron, context.before, context.gpus));
  // Who starts the arguments may set the precision itself, as slime does.
  if (launcher == Launcher::Arguments)
    std::erase_if(plan.keys, [](const ImportedKey& key) {
      return key.where.empty() &&
             (key.key == "train.precision" || key.key == "train.flash_attention");
    });
  RETURN_IF_ERROR(plan.add(lists));
  plan.not_understood.insert(plan.not_understood.end(), unset.begin(), unset.end());
  list_branches(script, context.path, &plan);
  return plan;
}

}  // namespace tandem
