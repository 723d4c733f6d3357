// Refinement: what is made for a plan's own stages once a search has found it: which layers each
// has, where the vocabulary is, in which order they act.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planning/tune/space.h"
#include "scenarios/config/scenario.h"

namespace tandem {

// Each off: layers are even, the vocabulary is on the first and the last stage, the order is the
// plan's.
struct Refinement {
  bool layout = false;      // parallel.layout = auto
  bool vocabulary = false;  // schedule.vocabulary = parallel
  bool order = false;       // schedule.order = auto, at the plan's stages a rank

  bool any() const { return layout || vocabulary || order; }
  bool operator==(const Refinement&) const = default;
};

// A key of a scenario that turns a part of it on or off.
struct RefinementKey {
  std::string_view key, off, on;  // `off` of schedule.order: any named order
  bool Refinement::*part;
};
std::span<const RefinementKey> refinement_keys();

// All that the space allows, a part at a time first. Only nothing: the space asks for none.
std::vector<Refinement> refinements_in(const Space& space);

// The plan's scenario, refined. REQUIRES: several pipeline ranks.
Scenario refined(const Scenario& base, const Candidate& candidate, const Refinement& refinement);
// Keys and values, and a line, as of the candidate by itself.
std::vector<std::pair<std::string, std::string>> settings_of(const Candidate& candidate,
                                                             const Refinement& refinement);
std::string text_of(const Candidate& candidate, const Refinement& refinement);
// "layout auto, order auto"; empty: none.
std::string text_of(const Refinement& refinement);

}  // namespace tandem
