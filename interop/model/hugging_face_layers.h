// The layers of a config.json, one by one: which attention and which MLP each has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interop/fields.h"
#include "interop/model/families.h"
#include "interop/model/layers.h"

namespace tandem {

// What a config.json says of the whole model.
struct HfModel {
  std::string type;
  const ModelFamily* family = nullptr;
  std::int64_t layers = 0, hidden = 0, heads = 0, vocab = 0;
  std::string layers_field, hidden_field;  // their names in the file
  bool gated = true;
  bool biases = false;
};

// Fills the model's sizes too. What is assumed goes into the plan.
Result<std::vector<ImportedLayer>> read_layers(FieldReader* fields, HfModel* model,
                                               ImportedPlan* plan);

}  // namespace tandem
