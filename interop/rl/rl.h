// Trainers by reinforcement learning: of their files the part that trains the actor (the policy).
// Rollouts, and models beside the actor, are named as not covered.
#pragma once

#include <vector>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/megatron/launcher.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// verl's YAML, and a script's commands that start it.
bool is_verl(const DocumentNode& document);
Result<ImportedPlan> import_verl(const DocumentNode& document, const ImportContext& context);
inline constexpr std::string_view kVerlPrograms = "verl.*";
Result<ImportedPlan> import_verl(const std::vector<StartedCommand>& commands,
                                 const ImportContext& context);

}  // namespace tandem
