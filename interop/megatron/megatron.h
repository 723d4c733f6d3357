// Megatron-LM's arguments as keys of a scenario, with all that Megatron derives or has on without
// being told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/imported_plan.h"
#include "interop/megatron/arguments.h"

namespace tandem {

// Whose defaults hold where nothing is said.
enum class MegatronStyle { Megatron, Bridge };

// `before`: what earlier files said, such as the model; `gpus` 0: what the arguments say.
Result<ImportedPlan> import_megatron(MegatronArguments* arguments, const std::string& source,
                                     MegatronStyle style, const ImportedPlan& before,
                                     std::int64_t gpus);

// The model of the arguments, if they have one.
void set_megatron_model(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan);

// Precision, kernels and recompute. Returns the bytes in which a gradient is reduced.
int set_megatron_kernels(MegatronArguments* arguments, MegatronStyle style,
                         const ImportedPlan& before, ImportedPlan* plan);

}  // namespace tandem
