// Importers of reinforcement-learning trainers' files. They read the part that trains the actor
// (the policy); rollouts and the other models are listed as not covered.
#pragma once

#include <vector>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/megatron/launcher.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// verl's YAML, and a script's commands that start it or its recipe DAPO.
bool is_verl(const DocumentNode& document);
Result<ImportedPlan> import_verl(const DocumentNode& document, const ImportContext& context);
inline constexpr std::string_view kVerlPrograms = "verl.* recipe.dapo.*";
Result<ImportedPlan> import_verl(const std::vector<StartedCommand>& commands,
                                 const ImportContext& context);

// NeMo-RL's YAML, with the files under its `defaults`.
bool is_nemo_rl(const DocumentNode& document);
Result<ImportedPlan> import_nemo_rl(const DocumentNode& document, const ImportContext& context);

// A script's commands that start OpenRLHF.
inline constexpr std::string_view kOpenRlhfPrograms = "openrlhf.*";
Result<ImportedPlan> import_openrlhf(const std::vector<StartedCommand>& commands,
                                     const ImportContext& context);

}  // namespace tandem
