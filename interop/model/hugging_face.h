// Hugging Face's config.json: imports a model.
#pragma once

#include <string>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// Returns whether a document is a config.json, by its fields.
bool is_hugging_face(const DocumentNode& document);

// Imports the model. The sequence is that of `before` if that has one; else it is assumed.
Result<ImportedPlan> import_hugging_face(const DocumentNode& document, const std::string& path,
                                         const ImportedPlan& before);

}  // namespace tandem
