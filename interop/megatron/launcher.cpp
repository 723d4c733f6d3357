#include "interop/megatron/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/split.h"
#include "interop/document/fields.h"

namespace tandem {
namespace {

// Programs that a script may start, by globs of their names: a file's without its folders, a
// module's behind -m, or a command's. The first row that matches counts.
struct ProgramRow {
  std::string_view globs;
  std::string_view kind;     // "T5, an encoder-decoder"; empty: an entry point that is supported
  std::string_view instead;  // the file to import instead; empty: none
};

// Entry points of Megatron-LM and of its forks (Megatron-DeepSpeed, Pai-Megatron-Patch, MindSpeed).
constexpr ProgramRow kMegatron[] = {
    {"pretrain_bert*.py", "BERT, an encoder", ""},
    {"pretrain_t5*.py", "T5, an encoder-decoder", ""},
    {"pretrain_ict.py pretrain_biencoder*.py pretrain_retro*.py", "a model with a retriever", ""},
    {"pretrain_vlm*.py pretrain_vision*.py pretrain_llava*.py pretrain_multimodal*.py "
     "pretrain_*vl.py",
     "a model with a vision tower", ""},
    {"pretrain_dit*.py pretrain_sora*.py", "a diffusion model", ""},
    {"train_rl.py", "training with rollouts", ""},
    {"pretrain_*.py finetune_gpt*.py posttrain_gpt.py", "", ""}};

constexpr std::string_view kConfigs =
    "the model's config.json and the trainer's ds_config.json "
    "or Accelerate YAML";
constexpr ProgramRow kOthers[] = {
    {"llamafactory-cli llamafactory*", "LLaMA-Factory", kConfigs},
    {"axolotl axolotl.*", "Axolotl", kConfigs},
    {"swift swift.*", "ms-swift", kConfigs},
    {"megatron", "ms-swift's Megatron", "a log of its run, which has Megatron-LM's arguments"},
    {"composer", "LLM-Foundry",
     "the model's config.json, and the sizes with --set parallel.tp=..."},
    {"levanter.*", "Levanter", "the model's config.json, and the sizes with --set parallel.tp=..."},
    {"MaxText* maxtext*", "MaxText", "the model's config.json, and the sizes with --set ..."},
    {"deepy.py", "gpt-neox", "a log of its run"},
    {"run_train.py", "nanotron",
     "the model's config.json, and the sizes with --set parallel.tp=..."},
    {"torchtitan* torchtitan.*", "torchtitan",
     "its TOML of before February 2026, or the model's config.json and the sizes with --set"},
    {"megatron_*_pretraining.py megatron_*_finetuning.py megatron_*_continue_training.py", "NeMo 1",
     "its YAML"},
    {"setup_experiment.py run_recipe.py run_script.py run_pretrain*.py", "Megatron-Bridge",
     "run_config.yaml, which Megatron-Bridge writes beside its checkpoints"},
    {"nemo nemo_run*", "NeMo 2", "run_config.yaml of its run"},
    {"run_grpo*.py run_sft.py run_dpo*.py nemo_rl.*", "NeMo-RL",
     "the YAML of its --config, and the overrides with --set"},
    {"primus-cli primus primus.*", "Primus", "the YAML of its experiment, or a log of its run"},
    {"accelerate", "a trainer that Accelerate starts", kConfigs},
    {"deepspeed", "a trainer that DeepSpeed starts",
     "the model's config.json, and ds_config.json"}};

struct StartedProgram {
  std::string name, where;
};

// Adds the programs that a command may start, in order.
void add_programs(const ShellCommand& command, const std::string& path,
                  std::vector<StartedProgram>* programs) {
  if (!command.empty() && command[0].text == "echo") return;
  std::string before;
  bool may_start = true;  // only assignments and commands such as "srun" came before
  for (const ShellWord& word : command) {
    std::istringstream parts(word.text);
    for (std::string part; parts >> part; before = part) {
      std::erase_if(part, [](char c) { return c == '\'' || c == '"'; });
      const std::string name = part.substr(part.rfind('/') + 1);
      if (name.ends_with(".py") || before == "-m" || before == "--module" || may_start)
        programs->push_back({name, fmt::format("{}:{}", path, word.line)});
      may_start = may_start && (name.find('=') != std::string::npos ||
                                matches_any(name, {"srun", "sudo", "nohup", "exec", "env", "time",
                                                   "eval", "bash", "sh", "-c", "-u", "uv", "run"}));
    }
  }
}

// Returns whether a text has one of these words, with or without "=" and a value.
bool has_word_in(const std::string& text, std::string_view globs) {
  std::istringstream parts(text);
  for (std::string part; parts >> part;) {
    if (matches_word(part.substr(0, part.find('=')), globs)) return true;
  }
  return false;
}

bool has_word(const ShellCommand& command, std::string_view globs) {
  return std::ranges::any_of(command,
                             [&](const ShellWord& word) { return has_word_in(word.text, globs); });
}

// Returns whether a command or a variable has one of these words.
bool has_word(const ShellScript& script, std::string_view globs) {
  const auto in_variables = [&](const std::map<std::string, ShellVariable>& variables) {
    return std::ranges::any_of(variables, [&](const auto& named) {
      return std::ranges::any_of(named.second.words,
                                 [&](const std::string& text) { return has_word_in(text, globs); });
    });
  };
  return std::ranges::any_of(
             script.commands,
             [&](const ShellCommand& command) { return has_word(command, globs); }) ||
         in_variables(script.variables) || std::ranges::any_of(script.environments, in_variables);
}

constexpr std::string_view kSlimeFlags =
    "--rollout-batch-size --actor-num-nodes --actor-num-gpus-per-node";

// Returns the file that a command sources, without its folders; nothing: it is another command.
std::optional<std::string> file_sourced_by(const ShellCommand& command) {
  if (command.size() < 2 || (command[0].text != "source" && command[0].text != "."))
    return std::nullopt;
  return command[1].text.substr(command[1].text.rfind('/') + 1);
}

// Returns the script that a command starts, as in "srun bash run.sh --a"; nothing: it starts none.
std::optional<std::string> script_started_by(const ShellCommand& command) {
  if (command.empty() ||
      !matches_word(command[0].text, "bash sh sbatch srun mpirun mpiexec qsub nohup *.sh"))
    return std::nullopt;
  for (const ShellWord& word : command) {
    if (word.text.ends_with(".sh")) return word.text.substr(word.text.rfind('/') + 1);
  }
  return std::nullopt;
}

Error refused(const StartedProgram& program, std::string_view kind, std::string_view instead) {
  return Error::at(
      program.where,
      instead.empty()
          ? fmt::format("found {}, which trains {}: expected a decoder-only language model",
                        program.name, kind)
          : fmt::format("found {}, which starts {}: its flags are not Megatron-LM's; give {}",
                        program.name, kind, instead));
}

const ProgramRow* row_of(const StartedProgram& program, std::span<const ProgramRow> rows) {
  const auto row = std::ranges::find_if(
      rows, [&](const ProgramRow& known) { return matches_word(program.name, known.globs); });
  return row == rows.end() ? nullptr : &*row;
}

bool trains(const ShellCommand& command, Launcher launcher) {
  if (launcher == Launcher::Slime) return has_word(command, kSlimeFlags);
  if (launcher == Launcher::Arguments) return has_word(command, "*torchrun *.py");
  std::vector<StartedProgram> programs;
  add_programs(command, "", &programs);
  return std::ranges::any_of(programs, [](const StartedProgram& program) {
    const ProgramRow* row = row_of(program, kMegatron);
    return row != nullptr && row->kind.empty();  // an entry point that is supported
  });
}

}  // namespace

Result<Launcher> launcher_of(const ShellScript& script, const std::string& path) {
  std::vector<StartedProgram> programs;
  for (const ShellCommand& command : script.commands) add_programs(command, path, &programs);
  for (const StartedProgram& program : programs) {
    const ProgramRow* row = row_of(program, kMegatron);
    if (row == nullptr) continue;
    if (row->kind.empty()) return Launcher::Megatron;
    return refused(program, row->kind, "");
  }
  if (has_word(script, kSlimeFlags)) return Launcher::Slime;
  for (const StartedProgram& program : programs) {
    if (const ProgramRow* row = row_of(program, kOthers))
      return refused(program, row->kind, row->instead);
  }
  const auto python = std::ranges::find_if(
      programs, [](const StartedProgram& program) { return program.name.ends_with(".py"); });
  if (python != programs.end())
    return Error::at(python->where,
                     fmt::format("found {}, which is no entry point of Megatron-LM's or of a fork "
                                 "that is known, expected one such as pretrain_gpt.py",
                                 python->name));
  if (!script.uncalled.empty() && trainings_of(script, Launcher::Arguments).empty()) {
    const auto& [name, line] = *script.uncalled.begin();
    return Error::at(fmt::format("{}:{}", path, line),
                     fmt::format("found no training, but the function {}, which is not called "
                                 "here: call it with its arguments",
                                 name));
  }
  if (has_word(script,
               "--num-layers --tensor-model-parallel-size --micro-batch-size "
               "--num-attention-heads --global-batch-size --pipeline-model-parallel-size"))
    return Launcher::Arguments;
  for (const ShellCommand& command : script.commands) {
    const auto name = file_sourced_by(command);
    if (!name) continue;
    return Error::at(fmt::format("{}:{}", path, command[0].line),
                     fmt::format("found no flags, but {}, which is read here: give {} with the "
                                 "values that are set here",
                                 *name, *name));
  }
  for (const ShellCommand& command : script.commands) {
    if (const auto name = script_started_by(command))
      return Error::at(fmt::format("{}:{}", path, command[0].line),
                       fmt::format("found no training, but {}, which is started here: give the "
                                   "script of the training with the values that are set here, or "
                                   "a log of its run",
                                   *name));
  }
  if (script.ended > 0)
    return Error::at(fmt::format("{}:{}", path, script.ended),
                     "found exit before Megatron-LM's flags, expected a training before it");
  return Error::at(path,
                   "found a text without Megatron-LM's flags, expected a launch script, a log or "
                   "one of the other kinds of files");
}

std::vector<std::size_t> trainings_of(const ShellScript& script, Launcher launcher) {
  std::vector<std::size_t> trainings;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    if (trains(script.commands[i], launcher)) trainings.push_back(i);
  }
  return trainings;
}

std::vector<StartedCommand> commands_of(const ShellScript& script, const std::string& path,
                                        std::string_view globs) {
  std::vector<StartedCommand> found;
  for (const ShellCommand& command : script.commands) {
    if (!command.empty() && command[0].text == "echo") continue;
    StartedCommand started;
    for (const ShellWord& word : command) {
      // A word may be a whole command, for eval or bash -c.
      const bool is_command = word.text.find(" -m ") != std::string::npos ||
                              word.text.find(".py ") != std::string::npos;
      for (const std::string& part :
           is_command ? split_words(word.text) : std::vector<std::string>{word.text}) {
        const bool may_start =
            part.ends_with(".py") || (!started.before.empty() &&
                                      matches_any(started.before.back().text, {"-m", "--module"}));
        if (!started.name.empty()) {
          started.behind.push_back({part, word.line});
        } else if (may_start && matches_word(part.substr(part.rfind('/') + 1), globs)) {
          started.name = part;
          started.where = fmt::format("{}:{}", path, word.line);
        } else {
          started.before.push_back({part, word.line});
        }
      }
    }
    if (!started.name.empty()) found.push_back(std::move(started));
  }
  return found;
}

Status check_alike(const std::vector<StartedCommand>& commands) {
  const StartedCommand* first = nullptr;
  for (const StartedCommand& command : commands) {
    // Others convert checkpoints, as verl.model_merger does.
    if (command.name.find("train") == std::string::npos) continue;
    if (first == nullptr) first = &command;
    if (command.name != first->name ||
        word_texts(command.before, 0) != word_texts(first->before, 0) ||
        word_texts(command.behind, 0) != word_texts(first->behind, 0))
      return Error::at(command.where, fmt::format("found a training that differs from that of {}, "
                                                  "expected one: remove the other",
                                                  first->where));
  }
  return Done{};
}

void list_sourced_files(const ShellScript& script,
                        const std::function<std::string(int line)>& place, ImportedPlan* lists) {
  for (const ShellCommand& command : script.commands) {
    const auto name = file_sourced_by(command);
    // Environments of Python and of shells are not wanted.
    if (name &&
        !matches_any(*name, {"activate", "*conda*", "*bashrc", "*profile", "*env", "*env.sh",
                             "*environment*", "modules*", "setvars.sh", "*.env"}))
      lists->wanted.push_back({*name, place(command[0].line)});
  }
}

void list_branches(const ShellScript& script, const std::string& path, ImportedPlan* plan) {
  for (const int line : script.unset)
    plan->assumed.push_back(
        fmt::format("{}:{}: variables that have no value there are empty", path, line));
  for (const int line : script.checks)
    plan->assumed.push_back(
        fmt::format("{}:{}: the check before this exit counts as passed", path, line));
  for (const int line : script.failed)
    plan->assumed.push_back(
        fmt::format("{}:{}: the command in $(... || echo ...) counts as failed", path, line));
  for (const int line : script.read_once)
    plan->assumed.push_back(fmt::format(
        "{}:{}: how often the loop goes round is not known: it is read once", path, line));
  for (const int line : script.repeated)
    plan->assumed.push_back(
        fmt::format("{}:{}: the rounds of the loop differ: the last one counts", path, line));
  for (const int line : script.branches)
    plan->assumed.push_back(fmt::format(
        "{}:{}: all branches are read in order, the last assignment counts", path, line));
}

}  // namespace tandem
