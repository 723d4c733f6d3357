// FamilyDefaults: settings of the framework that ran a family's runs, where no column of a cases
// file gives them.
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
