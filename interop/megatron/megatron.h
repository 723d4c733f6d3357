// Turns Megatron-LM's arguments into keys of a scenario. Arguments that are not stated have the
// defaults that Megatron-LM or Megatron-Bridge gives or derives.
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

// The program whose defaults hold for arguments that are not stated.
enum class MegatronStyle { Megatron, Bridge };

// Imports the arguments of one file (`source`). `before`: what earlier files said, such as the
// model. `gpus`: the number of GPUs instead of the arguments'; 0: theirs.
Result<ImportedPlan> import_megatron(MegatronArguments* arguments, const std::string& source,
                                     MegatronStyle style, const ImportedPlan& before,
                                     std::int64_t gpus);

// Gives arguments of Megatron-LM before 2023 and of Megatron-DeepSpeed today's names, and states
// their defaults that today are others. num_experts may then be a list, one number a layer.
void translate_older_arguments(MegatronArguments* arguments, ImportedPlan* plan);

// Sets the model of the arguments, if they have one, and whether it predicts further tokens.
void set_megatron_model(MegatronArguments* arguments, MegatronStyle style,
                        const ImportedPlan& before, ImportedPlan* plan);

// Pads the vocabulary size of an earlier file, which is the tokenizer's, as Megatron-LM does: to a
// multiple of make_vocab_size_divisible_by x tp.
void pad_earlier_vocabulary(MegatronArguments* arguments, const ImportedPlan& before,
                            ImportedPlan* plan);

// Returns whether some layers have a size above 0, "experts": of this file's model, or of an
// earlier file's.
bool some_layers_have(std::string_view size, const ImportedPlan& before, const ImportedPlan& plan);

// Returns a field's number format, "bf16" for "torch.bfloat16"; `otherwise`: it is auto or missing.
std::string number_format(MegatronArguments* arguments, std::string_view name,
                          const std::string& otherwise);

// Sets precision, kernels and recompute. Returns the bytes in which a gradient is reduced.
int set_megatron_kernels(MegatronArguments* arguments, MegatronStyle style,
                         const ImportedPlan& before, ImportedPlan* plan);

// Returns how context ranks communicate: "p2p", "a2a", "allgather" or "a2a+p2p". If the layers
// differ in it, returns the first one's and lists that. `layers`: of the model; 0: unknown.
std::string megatron_context_type(MegatronArguments* arguments, std::int64_t layers,
                                  ImportedPlan* plan);

// Sets the optimizer. REQUIRES: precision and ZeRO are set.
void set_megatron_optimizer(MegatronArguments* arguments, MegatronStyle style, ImportedPlan* plan);

// Lists the sizes whose value is a shell variable that is never set under `open`, and removes the
// keys that have their defaults. `before`, `gpus`: as in import_megatron.
void ask_for_open_sizes(const MegatronArguments& arguments, const ImportedPlan& before,
                        std::int64_t gpus, ImportedPlan* plan);

}  // namespace tandem
