// Importers of the files that hold Megatron-LM's arguments, and of its relatives' files.
#pragma once

#include <string>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/plan/imported_plan.h"
#include "interop/shell/shell.h"

namespace tandem {

// A log of Megatron-LM, torchtitan, NeMo, DeepSpeed or MLPerf: its arguments, if it has
// Megatron-LM's block of them, and what it measures.
bool is_log(const std::string& text);
Result<ImportedPlan> import_log(const std::string& text, const ImportContext& context);

// A functional test's YAML file, which has MODEL_ARGS.
bool is_megatron_test(const DocumentNode& document);
Result<ImportedPlan> import_megatron_test(const DocumentNode& document,
                                          const ImportContext& context);

// An MLPerf configuration, whose name may say the sizes too.
bool is_mlperf(const std::string& text, const std::string& path);
Result<ImportedPlan> import_mlperf(const std::string& text, const ImportContext& context);

// A launch script of Megatron-LM.
Result<ImportedPlan> import_shell_script(const ShellScript& script, const ImportContext& context);

// Megatron-Bridge's run_config.yaml.
bool is_bridge(const DocumentNode& document);
Result<ImportedPlan> import_bridge(const DocumentNode& document, const ImportContext& context);

// NeMo 1's YAML: trainer, and a model with micro_batch_size and optim.
bool is_nemo1(const DocumentNode& document);
Result<ImportedPlan> import_nemo1(const DocumentNode& document, const ImportContext& context);

// Primus' YAML of an experiment: modules.pre_trainer or post_trainer. It names other files, which
// are read where they are given beside it.
bool is_primus(const DocumentNode& document);
Result<ImportedPlan> import_primus(const DocumentNode& document, const ImportContext& context);

// ChatLearn's YAML: models.policy_trainer.
bool is_chatlearn(const DocumentNode& document);
Result<ImportedPlan> import_chatlearn(const DocumentNode& document, const ImportContext& context);

}  // namespace tandem
