// Emitters: write a scenario's plan as the flags or the file of another tool, ready to paste.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// Values by scenario key, texts without quotes: "parallel.tp" -> "8". cluster.gpus is the job's.
// model.layers, model.seq and cluster.gpus_per_node are used where they are known.
using PlanSettings = std::map<std::string, std::string>;

// The setting that is no key: the letters of a hybrid model's layers in Megatron-LM's patterns, one
// word a layer: "M - M *".
inline constexpr std::string_view kHybridLayers = "hybrid_layers";

// Returns megatron, nemo, chatlearn, deepspeed, fsdp, torchtitan.
std::vector<std::string> emit_names();

// Returns the text. What the format cannot say is a comment in it, and so are the version whose
// rules it keeps and the environment variables that this requires. An Error names the nearest
// format.
Result<std::string> emit_plan(const std::string& name, const PlanSettings& settings);

}  // namespace tandem
