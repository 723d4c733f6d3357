// Emitters: write a scenario's plan as the flags or the file of another tool, ready to paste.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// Values by scenario key, texts without quotes: "parallel.tp" -> "8". cluster.gpus is the job's.
using PlanSettings = std::map<std::string, std::string>;

// Returns megatron, nemo, chatlearn, deepspeed, fsdp, torchtitan.
std::vector<std::string> emit_names();

// Returns the text, which tandem import reads back. What the format cannot say is a comment in it.
// An Error names the nearest format.
Result<std::string> emit_plan(const std::string& name, const PlanSettings& settings);

}  // namespace tandem
