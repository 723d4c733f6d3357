// Places of imported keys: the line of the field that a key was made of.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "interop/document/document.h"
#include "interop/imported_plan.h"

namespace tandem {

// "train.log:12" of a field by its name; empty: the file has none of that name.
using PlaceOfField = std::function<std::string(std::string_view field)>;

// Sets `where` of the keys that have none: the place of the field that their comment begins with,
// or of one that such a key is read from.
void place_keys(const PlaceOfField& place_of, ImportedPlan* plan);

// The same in a document: fields of its own, in its parts by "part.field", or in any of them.
void place_keys(const DocumentNode& document, const std::string& path, ImportedPlan* plan);

}  // namespace tandem
