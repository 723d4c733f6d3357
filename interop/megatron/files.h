// The files that Megatron-LM's arguments stand in, and those of its relatives.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/imported_plan.h"

namespace tandem {

// What is known when a file is read.
struct ImportContext {
  const std::string& path;
  const ImportedPlan& before;  // what earlier files said
  std::int64_t gpus = 0;       // 0: not said
};

bool is_megatron_log(const std::string& text);
Result<ImportedPlan> import_megatron_log(const std::string& text, const ImportContext& context);

// MODEL_ARGS: of a functional test.
bool is_megatron_test(const DocumentNode& document);
Result<ImportedPlan> import_megatron_test(const DocumentNode& document,
                                          const ImportContext& context);

// A launch script of Megatron-LM, or an MLPerf configuration, whose name may say the sizes too.
Result<ImportedPlan> import_shell_script(const std::string& text, const ImportContext& context);

// Megatron-Bridge's run_config.yaml.
bool is_bridge(const DocumentNode& document);
Result<ImportedPlan> import_bridge(const DocumentNode& document, const ImportContext& context);

// ChatLearn's YAML: models.policy_trainer.
bool is_chatlearn(const DocumentNode& document);
Result<ImportedPlan> import_chatlearn(const DocumentNode& document, const ImportContext& context);

}  // namespace tandem
