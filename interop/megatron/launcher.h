// Recognises what a launch script starts, by the names of its programs.
//
//   torchrun --nproc_per_node 8 pretrain_gpt.py ...   -> Megatron-LM
//   python3 -m verl.trainer.main_ppo ...              -> verl, whose flags are not Megatron-LM's
//   MODEL_ARGS=(--num-layers 32 --hidden-size 4096)   -> nothing: arguments that another one starts
#pragma once

#include <string>

#include "base/result.h"
#include "interop/shell/shell.h"

namespace tandem {

enum class Launcher {
  Megatron,   // Megatron-LM's entry point for a GPT, or a fork's
  Slime,      // slime, whose trainer takes Megatron-LM's flags and sets some itself
  Arguments,  // no program, but Megatron-LM's flags in variables
};

// Returns what the script starts. Errors: a program that takes other flags, or that trains no
// decoder-only language model; no program and no flags of Megatron-LM's. They say what the script
// looks like, and which files say more.
Result<Launcher> launcher_of(const ShellScript& script, const std::string& path);

}  // namespace tandem
