// Frameworks: what a plan must keep for Megatron-LM, NeMo, DeepSpeed or PyTorch's FSDP to run it,
// as one table with the source of each rule.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planning/tune/space.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// The values that a key may have.
struct AllowedValues {
  std::string_view key, values;  // "train.zero", "0,1"
  std::string_view source;
};

// What values of several keys ask of one another.
struct FrameworkRule {
  // The part of a candidate that decides it, with those before it.
  enum Part { OfLayout, OfPlaying, OfSharing };

  std::string_view what, source;
  Part part;
  bool (*holds)(const Scenario& base, const Candidate& candidate);
};

struct Framework {
  std::string_view name, title;
  std::span<const AllowedValues> values;
  std::span<const FrameworkRule> rules;
};

std::span<const Framework> frameworks();

// An Error names the nearest.
Result<const Framework*> framework_named(const std::string& name);

// The first of its rules that the plan breaks, as text: "train.zero = 0,1"; empty: none.
std::string broken_rule(const Framework& framework, const Scenario& base,
                        const Candidate& candidate);

}  // namespace tandem
