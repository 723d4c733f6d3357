// Size: what to buy or rent for a training: candidates against deadline, budget and each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "planning/size/economics.h"
#include "planning/size/size_inputs.h"
#include "planning/tune/search.h"
#include "planning/tune/space.h"
#include "scenarios/run/run.h"

namespace tandem {

// A candidate: a job on so many GPUs of a kind, without a plan yet.
struct SizeCase {
  std::string job, candidate;  // its points on the file's axes: the first one; all others
  Scenario scenario;  // with `gpus` of its own; its plan is a placeholder but for the batch
  SizeInputs inputs;
};

// A candidate with its tuned plan.
struct Sized {
  std::string job, candidate;
  int gpus = 0;
  std::string reason;  // why it is out; empty: it can be recommended
  std::optional<Found> plan;
  std::optional<RunResult> result;
  double ramp_s = 0;  // of the iterations before the whole batch
  Economics economics;
  // The iteration with the fabric 2 and 4 times oversubscribed, with NICs 10 % slower and faster;
  // times that of the candidate.
  double oversubscribed_2 = 1, oversubscribed_4 = 1, slower_nics = 1, faster_nics = 1;
  // No other one of the job that fits is both faster (p95) and cheaper; late ones count as well.
  bool on_frontier = false;
  bool recommended = false;  // the cheapest of the job that is not out
};

// What a change of an input does to the recommended candidate of a job.
struct InputChange {
  std::string job, input;                   // "price.node_hour +10 %"
  double days_change = 0, cost_change = 0;  // shares
  std::string recommended;                  // another candidate, where the choice changes
};

// A network against the best one of the same nodes and GPUs.
struct TierWorth {
  std::string job, candidate, best;
  int gpus = 0;
  // The iteration. So many times this one's node-hour may the best one's cost before it is no
  // longer the cheaper.
  double times_as_long = 1;
};

struct SizeResult {
  std::vector<Sized> sized;  // one a case, in their order
  std::vector<InputChange> input_changes;
  std::vector<TierWorth> tiers;
  double seed = 1;
};

struct SizeOptions {
  int jobs = 1;
  Engine engine = Engine::SimGrid;
  std::function<bool()> stop = [] { return false; };  // asked on several threads at once
  OnRuns on_runs = {};                                // while plans are played
};

// The runs of a file as candidates. Errors as make_scenario and take_size_inputs have them.
Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);
Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);

// Where nothing is said among what plans are chosen: what large jobs are run with.
std::vector<std::string> usual_space(const Scenario& scenario);

// With the plan, and nothing to compare it with.
Scenario planned(const SizeCase& c, const Found& plan);

// Tunes each, plays the plans, adds up. `among`: as of Space, over usual_space() key by key.
// Error::Failed where it is stopped.
Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options);

nlohmann::ordered_json to_json(const SizeResult& result);

}  // namespace tandem
