// The layers of a config.json, one by one: the attention and the MLP that each has.
#pragma once

#include <vector>

#include "interop/document/fields.h"
#include "interop/model/hugging_face_sizes.h"
#include "interop/model/layers.h"

namespace tandem {

// Returns the layers. Assumptions go into the plan.
Result<std::vector<ImportedLayer>> layers_of(const HfModel& model, FieldReader* fields,
                                             ImportedPlan* plan);

}  // namespace tandem
