// Tune: finds the best plan for a model on a number of GPUs of a cluster.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "planning/simulate/simulate.h"
#include "planning/tune/refinement.h"
#include "planning/tune/rules.h"
#include "planning/tune/search.h"
#include "planning/tune/space.h"
#include "scenarios/scenario.h"

namespace tandem {

// Compares a guide's rule with the search: the fastest plan that keeps it and the fastest that
// breaks it; nothing if no plan does.
struct RuleCheck {
  std::string rule, source;
  std::optional<Found> keeps, breaks;
  // The search for the slower of the two came to its end. Otherwise a faster one may exist.
  bool complete = true;
};

// One of the search's best plans, played on an engine.
struct Finalist {
  std::string label;  // "1", "2", ..., "rules", "own"
  Candidate candidate;
  std::optional<Nanoseconds> stage_level_ns;  // none for the scenario's own plan and refined ones
  Result<RunResult> result;
  Refinement refinement = {};
};

// One of the search's best plans, played without and with refinements.
struct Refined {
  struct With {
    Refinement refinement;
    Result<RunResult> result;
  };

  Candidate candidate;
  RunResult plain;  // without refinement
  std::vector<With> with;

  // Returns the seconds by which this result's iteration is shorter than the plain plan's;
  // negative: it is longer.
  double saved_s(const RunResult& result) const { return plain.iteration_s - result.iteration_s; }
};

struct Tuned {
  std::string scenario;
  SearchCounts counts;
  bool complete = true;  // the whole space was searched
  double search_s = 0;   // on the wall clock
  // At stage level: the best plan's time, and a time that no plan of the space beats; 0: not known.
  // On an engine, some plans take up to a few per cent less than the bound.
  Nanoseconds best_ns = 0, bound_ns = 0;

  // Returns the largest share by which the best plan may be above the best possible, at stage
  // level; nothing if that is not known.
  std::optional<double> gap() const;
  std::vector<Finalist> finalists;  // the best by simulated iteration, then "rules" and "own"
  std::vector<RuleCheck> verdicts;
  std::vector<Refined> refined;  // empty if the space asks for no refinement
  // Keys that the scenario sets and a search's plans do not have. Without them, a plan's settings
  // are the whole plan.
  std::vector<std::string> cleared;
  std::string framework;  // of options; it can run all plans but perhaps the scenario's own
  // The settings of options, which each plan has beside its own.
  std::vector<std::pair<std::string, std::string>> trainer;
  // Says whose memory plans count where nothing names a framework; empty: something does, or all
  // count alike.
  std::string assumes;
  std::string own_breaks;  // the framework's rule that the scenario's own plan breaks; empty: none
  bool own_is_known = true;  // false: rules cannot tell whether the framework runs that plan
  std::string own_refused;   // of options; then "own" is no finalist
};

struct TuneOptions {
  const Framework* framework = nullptr;  // the space is narrowed to its plans
  // The framework's settings (trainer_settings()), which the scenario has.
  std::vector<std::pair<std::string, std::string>> trainer = {};
  // The Error of the scenario's own plan, in whose place it has another (own_plan.h); empty: none.
  std::string own_refused = {};
  int keep = 5;
  int refine = 3;  // how many of the best pipelines are refined
  int jobs = 1;    // threads of the search, then simulations at once
  Engine engine = Engine::SimGrid;
  Detail detail = Detail::None;  // of the finalists' RunResults
  std::function<bool()> stop = [] { return false; };
  // The search ends after this time. Plans that are not played on the engine after twice this time
  // get an Error. 0: no limit.
  double seconds = 0;
  OnRuns on_runs = {};  // called while plans are played
  // Called with each new fastest plan, and whether it is from the search among the rules' plans.
  std::function<void(const Found&, bool of_rules)> on_better = [](const Found&, bool) {};
};

// Searches the space at stage level, first among the plans that keep all rules. Then plays the best
// plans on the engine, and beside them the best plan of the rules and the scenario's own. Then
// plays the best plans with each refinement that the space allows, and adds the refined ones.
// Errors: a scenario with uniform costs; a space without plans, or without one that fits into
// memory.
Result<Tuned> tune(const Scenario& base, const Space& space, const TuneOptions& options);

nlohmann::ordered_json to_json(const Tuned& tuned);

}  // namespace tandem
