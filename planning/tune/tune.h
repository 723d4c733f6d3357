// Tune: the best plan for a model, a number of GPUs and a cluster.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "planning/tune/refinement.h"
#include "planning/tune/rules.h"
#include "planning/tune/search.h"
#include "planning/tune/space.h"
#include "scenarios/config/scenario.h"
#include "scenarios/run/run.h"

namespace tandem {

// A rule of the guides against the search: the fastest plan that keeps it and the fastest that
// breaks it; nothing where no plan does.
struct Verdict {
  std::string rule, source;
  std::optional<Found> keeps, breaks;
  bool complete = true;  // the slower side was searched to its end; else it may be a little faster
};

// A plan of the search's best, through an engine.
struct Finalist {
  std::string label;  // "1", "2", ..., "rules", "own"
  Candidate candidate;
  std::optional<Nanoseconds> stage_level_ns;  // nothing for the scenario's own, and what is refined
  Result<RunResult> result;
  Refinement refinement = {};
};

// What refinements are worth to one of the search's best plans.
struct Refined {
  struct With {
    Refinement refinement;
    Result<RunResult> result;
  };

  Candidate candidate;
  RunResult plain;  // without any
  std::vector<With> with;

  // Seconds of the plain plan's iteration that it saves; below 0: it takes longer.
  double saved_s(const RunResult& result) const { return plain.iteration_s - result.iteration_s; }
};

struct Tuned {
  std::string scenario;
  SearchCounts counts;
  bool complete = true;  // the whole space was searched
  double search_s = 0;   // on the wall
  // At stage level: the best plan, and what no plan of the space takes less than; 0: not known. Of
  // what plans take in an engine the second is an estimate: some take up to a few per cent less.
  Nanoseconds best_ns = 0, bound_ns = 0;

  // How far at most the best plan is above the best possible, at stage level; nothing where that is
  // not known.
  std::optional<double> gap() const;
  std::vector<Finalist> finalists;  // the best by their simulated iteration, then "rules" and "own"
  std::vector<Verdict> verdicts;
  std::vector<Refined> refined;  // none where the space asks for no refinement
  // Keys that the scenario sets and plans of a search do not have: without them a plan's settings
  // are the whole plan.
  std::vector<std::string> cleared;
  std::string framework;   // all plans but the scenario's own are what it runs; empty: any
  std::string own_breaks;  // the rule of it that the scenario's own plan breaks; empty: none
};

struct TuneOptions {
  const Framework* framework = nullptr;  // that the space is narrowed to
  int keep = 5;
  int refine = 3;  // of the best plans that are pipelines, those to be refined
  int jobs = 1;    // threads of the search, then simulations at once
  Engine engine = Engine::SimGrid;
  // Of the finalists' RunResults; a timeline only of the best and of the scenario's own.
  Detail detail = Detail::None;
  std::function<bool()> stop = [] { return false; };
  // The search ends after so long, and what is not played through the engine after twice as long
  // says so; 0: it takes the time that it takes.
  double seconds = 0;
  OnRuns on_runs = {};  // while plans are played
  // A new fastest plan, and whether it came from the rules alone.
  std::function<void(const Found&, bool of_rules)> on_better = [](const Found&, bool) {};
};

// Searches the space at stage level, first among the plans that keep all rules; plays the best
// through the engine, and with them the best of the rules and the scenario's own plan. Then the
// best are played once more with each refinement that the space allows; what comes out stands among
// the best. Errors: a scenario with uniform costs; a space without plans, or none that fits into
// memory.
Result<Tuned> tune(const Scenario& base, const Space& space, const TuneOptions& options);

nlohmann::ordered_json to_json(const Tuned& tuned);

}  // namespace tandem
