// Emitters: write a scenario's plan as the flags or the file of another tool, ready to paste.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// Values by scenario key, texts without quotes: "parallel.tp" -> "8". cluster.gpus is the number of
// the job's GPUs. model.layers, model.seq and cluster.gpus_per_node may be missing; so may
// model.experts of a dense model.
using PlanSettings = std::map<std::string, std::string>;

// A setting that is no scenario key: the layers of a hybrid model in the letters of Megatron-LM's
// --hybrid-layer-pattern, separated by blanks: "M - M *".
inline constexpr std::string_view kHybridLayers = "hybrid_layers";

// Returns the formats: megatron, nemo, chatlearn, deepspeed, fsdp, torchtitan.
std::vector<std::string> emit_names();

// Returns the text in the format of that name. Comments in it list the keys that the format cannot
// express, the version of the tool whose rules it follows, and environment variables that the plan
// requires. Error: no format has that name; it names the nearest.
Result<std::string> emit_plan(const std::string& name, const PlanSettings& settings);

}  // namespace tandem
