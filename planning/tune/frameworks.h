// Frameworks: the rules that a plan must keep so that Megatron-LM, NeMo, ChatLearn, DeepSpeed,
// PyTorch's FSDP or torchtitan can run it, as one table with the source of each rule.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planning/tune/space.h"
#include "scenarios/scenario.h"

namespace tandem {

// The values that a key may have: "train.zero", "0,1".
struct AllowedValues {
  std::string_view key, values;  // separated by commas
  std::string_view source;
};

// A rule about the values of several keys together.
struct FrameworkRule {
  // The last part of a candidate that the rule looks at. It may look at the parts before as well.
  // OfCut: it looks at the layout, whose layers are cut evenly.
  enum Part { OfCut, OfLayout, OfPlaying, OfSharing };

  std::string_view what, source;
  Part part;
  bool (*holds)(const Scenario& base, const Candidate& candidate);
};

struct Framework {
  std::string_view name, title;
  std::span<const AllowedValues> values;
  std::span<const FrameworkRule> rules;
  std::string_view trainer;  // train.framework, which counts for memory
  // train.cross_entropy, if not the trainer's usual one: Megatron-LM's arguments refuse "te", and
  // Accelerate's trainers have Transformers' loss.
  std::string_view loss = {};
};

std::span<const Framework> frameworks();

// Returns the framework of this name. Error: there is none; it names the nearest.
Result<const Framework*> framework_named(const std::string& name);

// Returns the framework's settings that count for memory, such as "train.framework", "fsdp", where
// the scenario states none.
std::vector<std::pair<std::string, std::string>> trainer_settings(const Framework& framework,
                                                                  const Scenario& scenario);

// Returns the first rule that the plan breaks, as text such as "train.zero = 0,1"; empty: none.
// `lists_layers`: the plan says how many layers each stage has, and keeps all rules of even cuts.
std::string broken_rule(const Framework& framework, const Scenario& base,
                        const Candidate& candidate, bool lists_layers = false);

// Returns the settings of the scenario that emit_plan() needs beside a plan's: the model's layers
// and their letters, the experts, the sequence, the GPUs of the job and of a node, the batch.
std::map<std::string, std::string> facts_for_flags(const Scenario& scenario);

}  // namespace tandem
