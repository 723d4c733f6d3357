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

// Sets `where` of the keys that have none. The place is that of the field that their comment begins
// with, or of a field that such a key is usually read from.
void place_keys(const PlaceOfField& place_of, ImportedPlan* plan);

// Does the same for a document: finds fields at its top, in its parts by "part.field", or in any
// part.
void place_keys(const DocumentNode& document, const std::string& path, ImportedPlan* plan);

}  // namespace tandem
