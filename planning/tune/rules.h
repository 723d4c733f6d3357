// Rules: what tuning guides advise, as questions to a layout. A search begins with a plan that
// keeps them, and says at its end which of them the best plans keep.
#pragma once

#include <span>
#include <string_view>

#include "planning/tune/space.h"
#include "scenarios/config/scenario.h"

namespace tandem {

struct Rule {
  std::string_view name;
  std::string_view source;
  bool (*applies)(const Scenario& base);
  bool (*holds)(const Scenario& base, const Layout& layout);
};

// Those of ChatLearn's tuning guide and of Megatron-LM's parallelism guide.
std::span<const Rule> rules();

bool keeps_all(const Scenario& base, const Layout& layout);

// A small part of the space that has all plans which keep them.
Space where_rules_look(const Space& space, const Scenario& base);

// Part of the space that has good plans and few others: tp inside a node, micro batches of 1 and 2,
// whole experts, cp for long sequences alone.
Space where_plans_are_likely(const Space& space, const Scenario& base);

// From here on sequences are cut (cp), by Megatron-LM's guide.
inline constexpr int kLongSequence = 8192;

}  // namespace tandem
