// The data on the machines to buy that size's page shows: sentences, prices, networks, plans, and
// the inputs that the answer depends on.
#pragma once

#include <nlohmann/json.hpp>

#include "planning/size/size.h"

namespace tandem {

// Returns the page's document `purchase` (docs/formats.md).
nlohmann::ordered_json purchase_json(const SizeResult& result);

}  // namespace tandem
