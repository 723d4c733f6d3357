// Rules: the advice of tuning guides, as tests of a layout. A search begins with a plan that keeps
// all of it, and reports at its end which rules the best plans keep.
#pragma once

#include <span>
#include <string_view>

#include "planning/tune/space.h"
#include "scenarios/scenario.h"

namespace tandem {

struct Rule {
  std::string_view name;
  std::string_view source;
  bool (*applies)(const Scenario& base);
  bool (*holds)(const Scenario& base, const Layout& layout);
};

// The rules of ChatLearn's tuning guide and of Megatron-LM's parallelism guide.
std::span<const Rule> rules();

bool keeps_all(const Scenario& base, const Layout& layout);

// Returns a small part of the space that contains all plans which keep the rules.
Space space_of_rules(const Space& space, const Scenario& base);

// Returns a part of the space with good plans and few others: tp inside a node, micro batches of 1
// and 2, whole experts, cp only for long sequences.
Space space_of_likely_plans(const Space& space, const Scenario& base);

// From this length on Megatron-LM's guide cuts sequences (cp).
inline constexpr int kLongSequence = 8192;

}  // namespace tandem
