// FamilyDefaults: what the framework of a family's runs does, where no column of a cases file says
// it.
#pragma once

#include <utility>
#include <vector>

#include "base/key_value.h"
#include "validation/published/cases.h"

namespace tandem {

// Returns scenario keys with their values; if a key comes twice, the later value counts.
// docs/accuracy.md gives each with its source.
std::vector<std::pair<const char*, KeyValue>> family_defaults(const Case& run);

}  // namespace tandem
