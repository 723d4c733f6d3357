// Turns Megatron-LM's arguments into keys of a scenario, with all that Megatron derives or has on
// by default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/megatron/arguments.h"
#include "interop/plan/imported_plan.h"

namespace tandem {

// The program whose defaults hold where nothing is said.
enum class MegatronStyle { Megatron, Bridge };

// `before`: what earlier files said, such as the model. `gpus` 0: what the arguments say.
Result<ImportedPlan> import_megatron(MegatronArguments* arguments, const std::string& source,
                                     MegatronStyle style, const ImportedPlan& before,
                                     std::int64_t gpus);

// Sets the model of the arguments, if they have one.
void set_megatron_model(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan);

// Sets precision, kernels and recompute. Returns the bytes in which a gradient is reduced.
int set_megatron_kernels(MegatronArguments* arguments, MegatronStyle style,
                         const ImportedPlan& before, ImportedPlan* plan);

// Sets the optimizer. REQUIRES: precision and ZeRO are set.
void set_megatron_optimizer(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan);

}  // namespace tandem
