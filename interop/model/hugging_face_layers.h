// The layers of a config.json, one by one: which attention and which MLP each has.
#pragma once

#include <vector>

#include "interop/fields.h"
#include "interop/model/hugging_face_sizes.h"
#include "interop/model/layers.h"

namespace tandem {

// What is assumed goes into the plan.
Result<std::vector<ImportedLayer>> layers_of(const HfModel& model, FieldReader* fields,
                                             ImportedPlan* plan);

}  // namespace tandem
