// The rules that each framework's own check of its arguments makes, as predicates over the fields
// of an emitted text. They are read from the frameworks' sources and know nothing of the emitters.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// The fields of an emitted text by name, and under "script.NAME" what the training script's other
// flags say: layers, heads, kv_heads, seq, experts, gpus, gpus_per_node, hybrid. Variables of the
// environment are under "env.NAME". Switches are True or False.
struct Fields : std::map<std::string, std::string> {
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  long long num(const std::string& name, long long otherwise) const;
  bool on(const std::string& name) const { return text(name) == "True"; }
};

// Reads a text that was emitted for this framework. Fields in sections have both names: "ddp.x" and
// "x"; of those that are null only the first.
Fields fields_of(const std::string& framework, const std::string& text);

struct EmitRule {
  std::string_view frameworks;  // those that it is a rule of: "megatron nemo"
  std::string_view what;
  std::string_view file, lines;  // where it is checked; versions stand in kVersions
  bool (*holds)(const Fields& fields);
  // Fields that break it on a good plan of its first framework: "a=1 b=". An empty value removes
  // the field.
  std::string_view broken;
};

std::span<const EmitRule> megatron_rules();  // Megatron-LM, Megatron-Bridge, ChatLearn
std::span<const EmitRule> trainer_rules();   // DeepSpeed, Accelerate, torchtitan

// The versions that the rules were read from.
struct RuleVersion {
  std::string_view framework, repository, commit, date;
};
inline constexpr RuleVersion kVersions[] = {
    {"megatron", "NVIDIA/Megatron-LM", "d98e8a64ddf34856e74b24714e3bedb2f5a39553", "2026-08-22"},
    {"nemo", "NVIDIA-NeMo/Megatron-Bridge", "067f987df03b8355b03192d88d70f1709fedf51a",
     "2026-08-22"},
    {"chatlearn", "alibaba/ChatLearn", "b7af31a972eb6c420ef0b5c04ea920820d68f784", "2025-10-23"},
    {"deepspeed", "deepspeedai/DeepSpeed", "edaa7221267243c7be7fb49c5d5f5c4fb97b4641",
     "2026-08-22"},
    {"fsdp", "huggingface/accelerate", "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83", "2026-07-24"},
    {"torchtitan", "pytorch/torchtitan", "b5bcd76c66d0acb1a08b176d9639425bc55e0b2a", "2026-08-21"},
    // The overlap of Megatron-LM's tensor communication.
    {"", "NVIDIA/TransformerEngine", "d0067d0da6cb01811b8072a7d304f0e00344ce2b", "2026-08-22"},
    // PyTorch's schedules, which torchtitan runs.
    {"", "pytorch/pytorch", "00722e648b740f91d0e71494baa17891749fd291", ""}};

}  // namespace tandem
