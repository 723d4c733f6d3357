// Settings of trainers by reinforcement learning, as one list of dotted names: from YAML, and from
// overrides on a command line.
//
//   policy: {megatron_cfg: {enabled: true}}      -> policy.megatron_cfg.enabled = True
//   +trainer.nnodes=2                            -> trainer.nnodes = 2
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/megatron/arguments.h"
#include "interop/megatron/launcher.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// Adds the document's values by the names of the maps around them.
void add_document(const DocumentNode& map, const std::string& path, const std::string& prefix,
                  MegatronArguments* to);

// Adds a command's words of the form NAME=VALUE.
void add_overrides(const StartedCommand& command, const std::string& path, MegatronArguments* to);

// Returns the YAML that Hydra begins with, without its folders and ending: "--config-name=ppo".
std::optional<ShellWord> hydra_config(const ShellCommand& words);

// Adds torchrun's nodes and GPUs of a node as nnodes and gpus_per_node.
void add_torchrun(const StartedCommand& command, const std::string& path, MegatronArguments* to);

// A row of settings, with blanks between, and what is simulated where one is not `usual`.
struct SettingNote {
  std::string_view names, usual, what;
};

// Adds to `plan` the settings under `prefix` that such rows name.
void note_settings(std::string_view prefix, std::span<const SettingNote> rows,
                   MegatronArguments* settings, ImportedPlan* plan);

// Sets no multi-token prediction where an earlier file's model has some.
void leave_out_mtp(const ImportedPlan& before, ImportedPlan* plan);

}  // namespace tandem
