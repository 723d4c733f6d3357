// Recognises what a launch script starts, by the names of its programs.
//
//   torchrun --nproc_per_node 8 pretrain_gpt.py ...   -> Megatron-LM
//   composer train.py a.yaml                          -> LLM-Foundry, whose flags are others
//   MODEL_ARGS=(--num-layers 32 --hidden-size 4096)   -> no program: another script uses these
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/plan/imported_plan.h"
#include "interop/shell/shell.h"

namespace tandem {

enum class Launcher {
  Megatron,   // Megatron-LM's entry point for a GPT, or a fork's
  Slime,      // slime, whose trainer takes Megatron-LM's flags and sets some itself
  Arguments,  // no program, but Megatron-LM's flags in variables
};

// Returns what the script starts. Errors: a program that takes other flags, or that trains no
// decoder-only language model; neither a program nor Megatron-LM's flags. An Error names the
// program, and the file to import instead.
Result<Launcher> launcher_of(const ShellScript& script, const std::string& path);

// Returns which of the script's commands start the training: those of an entry point, in slime
// those with its flags, and for other programs those that start a program in Python.
std::vector<std::size_t> trainings_of(const ShellScript& script, Launcher launcher);

// A command that starts a program, cut in three: "torchrun --nnodes 2 -m", "verl.trainer.main_ppo",
// "a=1".
struct StartedCommand {
  std::string name, where;      // of the program: "verl.trainer.main_ppo" and "train.sh:12"
  ShellCommand before, behind;  // the words around it
};

// Returns the commands that start a program of such a name, "verl.trainer.*".
std::vector<StartedCommand> commands_of(const ShellScript& script, const std::string& path,
                                        std::string_view globs);

// Checks that commands which train are alike. Error: two differ, with both places.
Status check_alike(const std::vector<StartedCommand>& commands);

// Lists the files that a script sources under `wanted`, each with the place of its line.
void list_sourced_files(const ShellScript& script,
                        const std::function<std::string(int line)>& place, ImportedPlan* lists);

// Lists the lines whose conditions or loops are not known under `assumed`.
void list_branches(const ShellScript& script, const std::string& path, ImportedPlan* plan);

}  // namespace tandem
