// Reads launch scripts of Megatron-LM: the flags of the commands that launch training.
// interop/shell expands variables and splits the script into commands. Declared in
// interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "interop/document/fields.h"
#include "interop/megatron/files.h"
#include "interop/megatron/launcher.h"
#include "interop/megatron/megatron.h"
#include "interop/shell/shell.h"

namespace tandem {
namespace {

// slime's flags that change neither time nor memory of its trainer, or are of rollouts.
constexpr std::string_view kSlimeQuiet =
    "actor_num_* address advantage_estimator apply_chat_template balance_data buffer_* colocate "
    "custom_* debug_* dynamic_sampling* entropy_coef eps_clip* eval_* hf_checkpoint input_key kl_* "
    "label_key loss_* max_tokens_per_gpu metadata_key n_samples_* num_epoch num_rollout "
    "num_steps_per_rollout over_sampling* prompt_data ref_* reward_* rm_* rollout_* "
    "runtime_env_json "
    "sglang_* tool_key update_weight* use_dynamic_batch_size use_kl_loss use_rollout* use_tis "
    "tis_*";

// Sets the batch, the length and the microbatch of slime's trainer, which it takes from those of
// its rollouts (slime/utils/arguments.py:1971, slime/utils/dp_schedule.py:118, THUDM/slime
// 624b824a).
void set_slime_data(const ImportContext& context, MegatronArguments* args, ImportedPlan* lists) {
  const auto size_of = [&](const char* name) { return args->whole(name, 1).value_or(1); };
  // Sets an argument to a value computed from the argument `from`, which messages name instead.
  const auto set = [&](const char* name, std::int64_t value, const char* from) {
    args->add_field(name, fmt::format("{}", value), args->place_of(from), args->spelled(from));
  };
  if (const auto steps = args->whole("num_steps_per_rollout", 1);
      steps && args->has("rollout_batch_size"))
    set("global_batch_size",
        product_of({size_of("rollout_batch_size"), size_of("n_samples_per_prompt")}) / *steps,
        "num_steps_per_rollout");
  const auto answer = args->whole("rollout_max_response_len", 1);
  if (answer) {
    const std::int64_t longest = *answer + args->whole("rollout_max_prompt_len", 0).value_or(0);
    set("seq_length", longest, "rollout_max_response_len");
    lists->assumed.push_back(
        fmt::format("model.seq = {}: every answer is as long as it may be{}", longest,
                    args->has("rollout_max_prompt_len") ? ", and its prompt too"
                                                        : "; prompts are not counted"));
  }
  // With dynamic batches, a microbatch is as many sequences as the GPUs that share them (cp) hold.
  const auto tokens = args->whole("max_tokens_per_gpu", 1);
  if (!args->flag("use_dynamic_batch_size") || !tokens || !args->has("seq_length")) return;
  const std::int64_t cp = size_of("context_parallel_size");
  const std::int64_t gpus =
      context.gpus > 0 ? context.gpus
                       : product_of({size_of("actor_num_nodes"),
                                     args->whole("actor_num_gpus_per_node", 1).value_or(8)});
  const std::int64_t replicas = gpus / product_of({size_of("tensor_model_parallel_size"),
                                                   size_of("pipeline_model_parallel_size"), cp});
  const std::int64_t batch = args->whole("global_batch_size", 1).value_or(0);
  set("micro_batch_size",
      sequences_in(product_of({*tokens, cp}), size_of("seq_length"),
                   replicas > 0 ? batch / replicas : 0),
      "max_tokens_per_gpu");
}

// Adds the arguments that slime sets by itself (slime/backends/megatron_utils/arguments.py), and
// lists what is not covered.
void set_slime(const ImportContext& context, MegatronArguments* arguments, ImportedPlan* lists) {
  const std::string& path = context.path;
  set_slime_data(context, arguments, lists);
  if (!arguments->flag("fp16")) arguments->add_field("bf16", "True", path);
  arguments->add_field("use_distributed_optimizer", "True", path);
  // Copies slime's argument `name` to a launcher's field, whether its value is a number or open.
  const auto set_gpus = [&](const char* name, const char* field) {
    if (const auto number = arguments->whole(name, 1))
      arguments->add_field(field, fmt::format("{}", *number), arguments->place_of(name));
    if (const auto open = arguments->open_value(name))
      arguments->add_field(field, open->value.substr(open->value.find('$')), open->where,
                           open->spelled);
  };
  set_gpus("actor_num_nodes", "nnodes");
  set_gpus("actor_num_gpus_per_node", "gpus_per_node");
  lists->not_expressed.push_back(
      path +
      ": slime's rollouts and models beside the actor (reference, critic) are not covered: "
      "an iteration is one optimizer step of the actor");
  arguments->leave_out(kSlimeQuiet);
}

// One training of a script: its flags, and what they leave open.
struct ScriptTraining {
  MegatronArguments arguments;
  std::vector<std::size_t> commands;  // of the script
  std::vector<std::string> unset;     // lines with variables that have no value
};

// Sets the number of GPUs by mpirun's number of processes. Returns false if no command has it.
bool set_mpirun_processes(const ShellScript& script, const std::string& path,
                          ScriptTraining* training) {
  for (const std::size_t at : training->commands) {
    const ShellCommand& command = script.commands[at];
    if (command.empty() || !matches_any(command[0].text, {"mpirun", "mpiexec"})) continue;
    for (std::size_t i = 1; i + 1 < command.size(); ++i) {
      if (!matches_any(command[i].text, {"-n", "-np", "--np"})) continue;
      training->arguments.add_field("world_size", command[i + 1].text,
                                    fmt::format("{}:{}", path, command[i + 1].line), "mpirun -np");
      return true;
    }
  }
  return false;
}

// Sets the number of GPUs if srun or mpirun starts a process on each. torchrun's flags, which count
// more, are among the arguments already.
void set_launched_gpus(const ShellScript& script, const std::string& path,
                       ScriptTraining* training) {
  MegatronArguments& arguments = training->arguments;
  // A training's own variables, as in "WORLD_SIZE=8 python ...", go before the script's.
  const auto find = [&](const std::string& name) -> const ShellVariable* {
    for (const std::size_t i : training->commands) {
      const auto own = script.environments[i].find(name);
      if (own != script.environments[i].end() && !own->second.words.empty()) return &own->second;
    }
    const auto found = script.variables.find(name);
    return found == script.variables.end() || found->second.words.empty() ? nullptr
                                                                          : &found->second;
  };
  // Returns false if the variable has no value. Messages about a value that is open name Slurm's
  // option for it: "--nodes ${NODES}".
  const auto set = [&](const char* variable, const char* field, const char* option) {
    const ShellVariable* found = find(variable);
    if (found == nullptr) return false;
    const std::string& value = found->words[0];
    const bool is_open = value.starts_with('$');
    arguments.add_field(field, value, fmt::format("{}:{}", path, found->line),
                        is_open ? option : "");
    return true;
  };
  if (const ShellVariable* world = find("WORLD_SIZE");
      world != nullptr && !arguments.has("nnodes") &&
      world->words[0].find_first_not_of("0123456789") == std::string::npos)
    set("WORLD_SIZE", "world_size", "");
  if (arguments.has("nnodes") || arguments.has("gpus_per_node") || arguments.has("world_size"))
    return;
  if (set_mpirun_processes(script, path, training)) return;
  if (set("SLURM_GPUS", "world_size", "--gpus")) return;
  if (!set("SLURM_NNODES", "nnodes", "--nodes")) {
    set("SLURM_NTASKS", "world_size", "--ntasks");
  } else if (!set("SLURM_GPUS_PER_NODE", "gpus_per_node", "--gpus-per-node")) {
    set("SLURM_NTASKS_PER_NODE", "gpus_per_node", "--ntasks-per-node");
  }
}

// Returns true for "--a" and "--a=1", not for "-1".
bool is_flag(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
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
    const bool is_command =
        word.text.find(" --") != std::string::npos || word.text.find(".py ") != std::string::npos;
    if (!is_command && (!is_flag(word.text) || word.text.find(' ') == std::string::npos)) {
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
        values.push_back(unquoted(value));  // as eval takes it
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

// Returns the flags of a script whose commands start no training with flags: it sets them in
// variables or in other commands, for another script to use.
ScriptTraining loose_flags(const ShellScript& script, const std::string& path) {
  ScriptTraining training = {.arguments = MegatronArguments(path), .commands = {}, .unset = {}};
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    const bool launches = std::ranges::any_of(command, [](const ShellWord& word) {
      return word.text.ends_with(".py") || word.text.find(".py ") != std::string::npos ||
             word.text.find("torchrun") != std::string::npos;
    });
    if (launches) continue;
    training.commands.push_back(i);
    add_flags(command, path, &training.arguments, &training.unset);
  }
  auto all = script.environments;
  all.push_back(script.variables);
  for (const auto& variables : all) {
    for (const auto& [name, value] : variables) {
      ShellCommand words;
      for (const std::string& word : value.words) words.push_back({word, value.line});
      add_flags(words, path, &training.arguments, &training.unset);
    }
  }
  return training;
}

// Returns the script's training. Error: there are several that differ.
Result<ScriptTraining> read_training(const ShellScript& script, Launcher launcher,
                                     const std::string& path) {
  std::optional<ScriptTraining> first;
  const auto place = [&](const ScriptTraining& training) {
    return fmt::format("{}:{}", path, script.commands[training.commands[0]].front().line);
  };
  for (const std::size_t i : trainings_of(script, launcher)) {
    ScriptTraining training = {.arguments = MegatronArguments(path), .commands = {i}, .unset = {}};
    if (add_flags(script.commands[i], path, &training.arguments, &training.unset) == 0) continue;
    // slime has flags of its own for the GPUs.
    if (launcher != Launcher::Slime) set_launched_gpus(script, path, &training);
    if (!first) {
      first = std::move(training);
      continue;
    }
    const std::string flag = first->arguments.difference(training.arguments);
    if (!flag.empty())
      return Error::at(place(training),
                       fmt::format("found a training that differs from that of {} in {}, expected "
                                   "one: remove the other",
                                   place(*first), flag));
  }
  if (first) return *std::move(first);
  ScriptTraining loose = loose_flags(script, path);
  if (launcher != Launcher::Slime) set_launched_gpus(script, path, &loose);
  return loose;
}

}  // namespace

Result<ImportedPlan> import_shell_script(const ShellScript& script, const ImportContext& context) {
  ASSIGN_OR_RETURN(const Launcher launcher, launcher_of(script, context.path));
  ASSIGN_OR_RETURN(ScriptTraining training, read_training(script, launcher, context.path));
  MegatronArguments& arguments = training.arguments;
  ImportedPlan lists;
  list_sourced_files(
      script, [&](int line) { return fmt::format("{}:{}", context.path, line); }, &lists);
  if (launcher == Launcher::Slime) {
    set_slime(context, &arguments, &lists);
    set_launched_gpus(script, context.path, &training);
  }
  ASSIGN_OR_RETURN(ImportedPlan plan,
                   import_megatron(&arguments, context.path + " (launch script)",
                                   MegatronStyle::Megatron, context.before, context.gpus));
  // Arguments without a program: the trainer that takes them may set the precision by itself.
  if (launcher == Launcher::Arguments)
    std::erase_if(plan.keys, [](const ImportedKey& key) {
      return key.where.empty() &&
             (key.key == "train.precision" || key.key == "train.flash_attention");
    });
  RETURN_IF_ERROR(plan.add(lists));
  plan.not_understood.insert(plan.not_understood.end(), training.unset.begin(),
                             training.unset.end());
  return plan;
}

}  // namespace tandem
