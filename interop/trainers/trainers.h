// Readers of the files of PyTorch trainers. is_X() tells whether a file is of the format,
// import_X() makes its plan. None of these files states the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/plan/imported_plan.h"
#include "interop/shell/shell.h"

namespace tandem {

// ds_config.json. Fields that are "auto", which Hugging Face's trainer fills in, are left open.
bool is_deepspeed(const DocumentNode& document);
Result<ImportedPlan> import_deepspeed(const DocumentNode& document, const ImportContext& context);

// torchtitan's TOML files, which it had until February 2026. `has_file`: the document is such a
// file; false: overrides alone, whose other values are not the defaults.
bool is_torchtitan(const DocumentNode& document);
Result<ImportedPlan> import_torchtitan(const DocumentNode& document, const ImportContext& context,
                                       bool has_file = true);

// Sets the fp8 of a plan by torchtitan's converters, which [model] lists.
void set_titan_fp8(const std::vector<std::string>& converters, const DocumentNode& document,
                   const ImportContext& context, ImportedPlan* plan);

// The options of torchtitan's command line, in a script, over the TOML file that is given with it.
bool has_torchtitan_overrides(const std::string& text, const std::vector<ImportSource>& beside);
Result<ImportedPlan> import_torchtitan_overrides(const ShellScript& script,
                                                 const ImportContext& context);

// Accelerate's YAML with an fsdp_config or a deepspeed_config.
bool is_accelerate(const DocumentNode& document);
Result<ImportedPlan> import_accelerate(const DocumentNode& document, const ImportContext& context);

// YAML of transformers' TrainingArguments, LLaMA-Factory's among them.
bool is_training_arguments(const DocumentNode& document);
Result<ImportedPlan> import_training_arguments(const DocumentNode& document,
                                               const ImportContext& context);

}  // namespace tandem
