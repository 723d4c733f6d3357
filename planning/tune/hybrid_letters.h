// Hybrid models, as Megatron-LM calls them, and the letters of its patterns for their layers.
#pragma once

#include <string>

#include "workload/model/model.h"

namespace tandem {

// Whether the model is what Megatron-LM calls a hybrid: with Mamba layers, or with attention and
// MLP as layers of their own.
bool is_hybrid(const Model& model);

// Returns the letters of a hybrid model's layers, parted by spaces. Returns nothing for other
// models, for multi-token prediction, and if a layer has no letters.
std::string hybrid_letters(const Model& model);

}  // namespace tandem
