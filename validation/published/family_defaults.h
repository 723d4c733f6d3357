// What the framework of a family's runs does and no column of a cases file says.
#pragma once

#include <utility>
#include <vector>

#include "base/key.h"
#include "validation/published/cases.h"

namespace tandem {

// Scenario keys with their values, in order: a later one of a key wins. docs/accuracy.md has each
// with its source.
std::vector<std::pair<const char*, KeyValue>> family_defaults(const Case& run);

}  // namespace tandem
