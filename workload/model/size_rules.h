// Checks the ranges of a model's and a plan's numbers. Errors name the scenario's keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "workload/model/model.h"

namespace tandem {

// Return the Error "KEY: found VALUE, expected ...". KEY is the first of `keys`, which can all mend
// it. `what` replaces the key in the message if the number comes from several keys.
Error found_word(std::vector<std::string> keys, std::string_view word, std::string_view expected);
Error found_number(std::string_view key, std::int64_t value, std::string_view expected,
                   std::string_view what = {});

Status check_model_sizes(const Model& model);
Status check_plan_sizes(const Plan& plan);
// Checks the size of one microbatch's activation between two layers, uncut.
Status check_activation(const Model& model, const Plan& plan);

}  // namespace tandem
