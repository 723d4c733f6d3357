// Places of imported keys: the line of the field that a key comes from.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "interop/document/document.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// Returns where the field of that name stands, "train.log:12"; empty: the file has none.
using PlaceOfField = std::function<std::string(std::string_view field)>;

// Sets `where` of the keys that have none to the place of the field that their comment begins with,
// else of a field that the key is usually read from.
void place_keys(const PlaceOfField& place_of, ImportedPlan* plan);

// Does the same for a document, whose fields are found at its top, by a path "part.field", or in
// any map at its top.
void place_keys(const DocumentNode& document, const std::string& path, ImportedPlan* plan);

}  // namespace tandem
