// Lists the refinements that a space allows and applies one to a plan. A refinement turns some of
// three parts on: an uneven layout, parallel vocabulary, an order made for the plan.
#include "planning/tune/refinement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tandem {
namespace {

constexpr RefinementKey kKeys[] = {
    {"parallel.layout", "even", "auto", &Refinement::layout},
    {"schedule.vocabulary", "stage", "parallel", &Refinement::vocabulary},
    {"schedule.order", "", kAutoOrder, &Refinement::order}};

int parts_of(const Refinement& refinement) {
  return static_cast<int>(
      std::ranges::count_if(kKeys, [&](const RefinementKey& key) { return refinement.*key.part; }));
}

}  // namespace

std::span<const RefinementKey> refinement_keys() { return kKeys; }

std::vector<Refinement> refinements_in(const Space& space) {
  std::vector<Refinement> all = {{}};
  // From the last key to the first, so that among equally many parts the layout comes before the
  // vocabulary, and the vocabulary before the order.
  for (auto key = std::rbegin(kKeys); key != std::rend(kKeys); ++key) {
    std::vector<Refinement> with;
    for (const Refinement& so_far : all) {
      for (const bool on : {false, true}) {
        if (!space.allows_refinement(key->key, on)) continue;
        Refinement next = so_far;
        next.*(key->part) = on;
        with.push_back(next);
      }
    }
    all = std::move(with);
  }
  std::ranges::stable_sort(all, {}, parts_of);
  return all;
}

Scenario refined(const Scenario& base, const Candidate& candidate, const Refinement& refinement) {
  Scenario scenario = scenario_with(base, candidate);
  if (!refinement.any()) return scenario;
  scenario.name += " + " + refinement_text(refinement);
  JobSettings& job = scenario.job;
  if (refinement.layout) job.layout = "auto";
  if (refinement.vocabulary) {
    job.vocabulary_parallel = true;
    job.plan.vocabulary = job.vocabulary_algorithm;
  }
  if (refinement.order) {
    job.order.name = kAutoOrder;
    // Both belong to the plan's own order.
    job.order.memory_limit = 0;
    job.order.group = 0;
    // Marks vpp as set by the user; order = auto may otherwise choose another.
    scenario.places.emplace("parallel.vpp", base.path);
  }
  return scenario;
}

std::vector<std::pair<std::string, std::string>> plan_settings(const Candidate& candidate,
                                                               const Refinement& refinement) {
  auto settings = plan_settings(candidate);
  for (const RefinementKey& key : kKeys) {
    if (!(refinement.*key.part)) continue;
    const auto at = std::ranges::find(settings, key.key, [](const auto& one) { return one.first; });
    if (at != settings.end()) {
      at->second = key.on;
    } else {
      settings.emplace_back(key.key, key.on);
    }
  }
  return settings;
}

std::string refinement_text(const Refinement& refinement) {
  std::string text;
  for (const RefinementKey& key : kKeys) {
    if (refinement.*key.part)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                          key.key.substr(key.key.find('.') + 1), key.on);
  }
  return text;
}

std::string plan_text(const Candidate& candidate, const Refinement& refinement) {
  const std::string text = plan_text(candidate);
  return refinement.any() ? text + " + " + refinement_text(refinement) : text;
}

}  // namespace tandem
