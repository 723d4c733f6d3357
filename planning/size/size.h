// Size: compares what to buy or rent for a training: candidates against deadline, budget and each
// other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "planning/simulate/simulate.h"
#include "planning/size/economics.h"
#include "planning/size/size_inputs.h"
#include "planning/tune/search.h"
#include "planning/tune/space.h"

namespace tandem {

// A candidate: a job on a number of GPUs of a kind, without a plan yet.
struct SizeCase {
  std::string job, candidate;  // its points on the file's axes: the first; all others
  Scenario scenario;  // with its own `gpus`; its plan is a placeholder except for the batch
  SizeInputs inputs;
};

// A candidate with the plan that was found for it.
struct SizedCandidate {
  std::string job, candidate;
  int gpus = 0;
  std::string reason;  // why it is ruled out; empty: it can be recommended
  std::optional<Found> plan;
  std::optional<RunResult> result;
  double ramp_s = 0;  // seconds of the iterations before the whole batch
  Economics economics;
  // The candidate's iteration with the fabric 2 and 4 times oversubscribed, and with NICs 10 %
  // slower and faster, over its own iteration.
  double oversubscribed_2 = 1, oversubscribed_4 = 1, slower_nics = 1, faster_nics = 1;
  // Whether no other candidate of the job that fits is both faster (p95) and cheaper. Late ones
  // count as well.
  bool on_frontier = false;
  bool recommended = false;  // the cheapest of the job that is not ruled out
};

// How a change of an input changes the recommended candidate of a job.
struct InputChange {
  std::string job, input;                   // "price.node_hour +10 %"
  double days_change = 0, cost_change = 0;  // as shares
  std::string recommended;                  // the new choice, if it changes
};

// A candidate's network compared with the best one for the same nodes and GPUs.
struct NetworkComparison {
  std::string job, candidate, best;
  int gpus = 0;
  // Its iteration over the best one's. The best one is the cheaper one as long as its node-hour
  // costs less than so many times this one's.
  double times_as_long = 1;
};

struct SizeResult {
  std::vector<SizedCandidate> sized;  // one for each case, in order
  std::vector<InputChange> input_changes;
  std::vector<NetworkComparison> tiers;
  double seed = 1;
};

struct SizeOptions {
  int jobs = 1;
  Engine engine = Engine::SimGrid;
  std::function<bool()> stop = [] { return false; };  // called on several threads at once
  OnRuns on_runs = {};                                // called while plans are played
};

// Returns the runs of a file as candidates. Errors: as make_scenario() and take_size_inputs().
Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);
Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);

// Returns the values that plans are chosen from if the user names none: those of large jobs.
std::vector<std::string> usual_space(const Scenario& scenario);

// Returns the scenario with the plan, without published figures, a baseline or a search for
// bandwidth.
Scenario planned(const SizeCase& c, const Found& plan);

// Tunes each candidate, plays its plan and adds up its costs. `among`: as for Space; each key
// replaces that of usual_space(). Error::Failed: it was stopped.
Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options);

nlohmann::ordered_json to_json(const SizeResult& result);

}  // namespace tandem
