// Refinement: improves a plan that a search has found by making something for its own stages: their
// numbers of layers, the place of the vocabulary, or the order in which they act.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planning/tune/space.h"
#include "scenarios/scenario.h"

namespace tandem {

// The parts that are refined. If all are off, the stages have equally many layers, the vocabulary
// is on the first and last stage, and the order is the plan's.
struct Refinement {
  bool layout = false;      // parallel.layout = auto
  bool vocabulary = false;  // schedule.vocabulary = parallel
  bool order = false;       // schedule.order = auto, with the plan's number of stages on a rank

  bool any() const { return layout || vocabulary || order; }
  bool operator==(const Refinement&) const = default;
};

// A scenario key that turns a part on or off.
struct RefinementKey {
  std::string_view key, off, on;  // values; `off` of schedule.order is empty: any order but auto
  bool Refinement::*part;
};
std::span<const RefinementKey> refinement_keys();

// Returns all refinements that the space allows, those with the fewest parts first. If the space
// asks for none, it returns only the empty refinement.
std::vector<Refinement> refinements_in(const Space& space);

// Returns the plan's scenario, refined. REQUIRES: several pipeline ranks.
Scenario refined(const Scenario& base, const Candidate& candidate, const Refinement& refinement);
// Return the refined candidate as keys and values, and as a line of text.
std::vector<std::pair<std::string, std::string>> plan_settings(const Candidate& candidate,
                                                               const Refinement& refinement);
std::string plan_text(const Candidate& candidate, const Refinement& refinement);
// Returns "layout auto, order auto"; empty: no refinement.
std::string refinement_text(const Refinement& refinement);

}  // namespace tandem
