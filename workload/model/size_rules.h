// Ranges of a model's and a plan's numbers. Errors carry the scenario's keys.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

// "KEY: found VALUE, expected ..."; `what` stands in place of the key where the number is of
// several.
Error found_number(std::string_view key, std::int64_t value, std::string_view expected,
                   std::string_view what = {});

Status check_sizes(const Model& model);
Status check_sizes(const Plan& plan);
// Of one microbatch between two layers, uncut.
Status check_activation(const Model& model, const Plan& plan);

}  // namespace tandem
