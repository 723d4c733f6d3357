// Hugging Face's config.json: a model.
#pragma once

#include <string>

#include "base/result.h"
#include "interop/document/document.h"
#include "interop/imported_plan.h"

namespace tandem {

// Whether it is one, by its fields.
bool is_hugging_face(const DocumentNode& document);

// The sequence, which it only assumes, is that of `before` where that has one.
Result<ImportedPlan> import_hugging_face(const DocumentNode& document, const std::string& path,
                                         const ImportedPlan& before);

}  // namespace tandem
