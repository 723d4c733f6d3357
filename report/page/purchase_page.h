// The document of what to buy on size's page: sentences, bars, what moves the answer, networks,
// plans.
#pragma once

#include <nlohmann/json.hpp>

#include "planning/size/size.h"

namespace tandem {

// Returns the page's document `purchase` (docs/formats.md).
nlohmann::ordered_json purchase_json(const SizeResult& result);

}  // namespace tandem
