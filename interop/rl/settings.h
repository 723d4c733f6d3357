// Reads the settings of reinforcement-learning trainers, from YAML and from overrides on a command
// line, into one list of dotted names.
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

// Returns the name of Hydra's first YAML file, without folders and ending: "ppo" of
// "--config-name=ppo".
std::optional<ShellWord> hydra_config(const ShellCommand& words);

// Adds torchrun's --nnodes and --nproc-per-node as nnodes and gpus_per_node.
void add_torchrun(const StartedCommand& command, const std::string& path, MegatronArguments* to);

// Settings that a scenario has no key for, and what is simulated instead. `names`: separated by
// blanks. The user is told `what` if a value is not the `usual` one.
struct SettingNote {
  std::string_view names, usual, what;
};

// Lists in the plan the settings under `prefix` whose values are not the usual ones.
void note_settings(std::string_view prefix, std::span<const SettingNote> rows,
                   MegatronArguments* settings, ImportedPlan* plan);

// Notes the model that a setting names: its config.json has to be given too.
void note_model(std::string_view setting, MegatronArguments* settings, ImportedPlan* plan);

// Checks that the settings under `prefix`, which the trainer writes over the model's config.json,
// are the values of the given config.json, as the model is read from there.
void check_model_overrides(const std::string& prefix, const ImportContext& context,
                           MegatronArguments* settings);

// Notes that every sequence is taken as `seq` tokens long, the longest that is allowed.
void assume_longest(std::int64_t seq, ImportedPlan* plan);

}  // namespace tandem
