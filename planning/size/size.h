// Size: finds out what to buy or rent for trainings: offers against deadline, budget and each
// other.
//
//   SizeCase       a job on an offer, without a number of nodes
//   SizedJob       that job on so many nodes, with its plan, its run, and its time and cost
//   Machine        so many nodes of an offer; all jobs run on it, one after the other
//   SizeAnswer     a question ("the least that is in time"), and the machine that answers it
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

// A default that the file does not replace.
struct Assumption {
  std::string key, value;  // "failures.repair_hours", "24*"; with its source; '*': a guess
};

struct SizeCase {
  std::string job, offer;  // its points on the file's axes: the first; all others
  Scenario scenario;       // its plan and its GPUs are placeholders except for the batch
  SizeInputs inputs;
  std::vector<Assumption> assumptions = {};

  int node_gpus() const { return scenario.cluster.spec.gpus_per_node; }
};

// A job on a machine. What is played is `scenario`, with the plan.
struct SizedJob {
  std::string job, offer;
  std::size_t of = 0;       // its SizeCase
  int nodes = 0, gpus = 0;  // that work; GPUs may be fewer than the nodes have
  Scenario scenario;        // with its GPUs and batch, and the placeholder of a plan
  std::optional<Found> plan;
  std::string reason;               // why there is no plan, or why this job rules the machine out
  std::optional<RunResult> result;  // on the chosen engine, or as below
  bool on_engine = false;           // its result is of the chosen engine, not of the ideal one
  double ramp_s = 0;                // seconds of the iterations before the whole batch
  Economics economics;
  // Times of changes over that of the plan: of the fabric 2 and 4 times oversubscribed, of NICs 10
  // % slower and faster; and of the scenario's own precision, recipe and dispatcher.
  double oversubscribed_2 = 1, oversubscribed_4 = 1, slower_nics = 1, faster_nics = 1;
  std::optional<double> plain_numerics;
  // Whether no other machine does the job as early and as cheaply. Late ones count.
  bool on_frontier = false;

  int batch() const { return scenario.job.plan.global_batch; }
};

struct Machine {
  std::string offer;
  int nodes = 0, spares = 0, gpus = 0;  // that work; that stand by; GPUs of all of them
  std::vector<std::size_t> jobs;        // places in SizeResult::sized, in the file's order of jobs
  MachineCosts costs;
  std::optional<NetworkBill> network;  // between its nodes; empty: it cannot be built
  double network_price = 0;            // 0: in the nodes' price
  std::vector<std::string> warnings;   // of what cannot be built or bought as the file has it
  double total = 0;                    // over size.years, or as SizeInputs::years says
  double days_late =
      0;  // from the order on, of all jobs, one after the other, each as often as its weight
  std::string reason;        // why it is ruled out; empty: it is in time and within all limits
  double excess = 1;         // how many times the worst limit is exceeded; at most 1: none is
  bool recommended = false;  // the cheapest in total that is not ruled out
};

struct SizeAnswer {
  enum Question { Least, Budget, Cheapest };

  Question question = Least;
  std::optional<std::size_t> machine;  // nothing: none does
};

// How far an input moves the recommended machine over its range, and where it changes the choice.
struct TornadoBar {
  std::string input;         // "tokens"
  double low = 1, high = 1;  // the range, as factors of the input
  // Changes of the late days and of the total at both ends, as shares.
  double days_low = 0, days_high = 0, total_low = 0, total_high = 0;
  // The factor nearest to 1, inside the range, from which another machine is recommended.
  std::optional<double> flips_at;
  std::string flips_to;  // "B200, 368 GPUs"; empty: none is in time and within the limits
};

// How sure the recommendation is, over draws of what is not known (planning/size/sureness.h).
struct Sureness {
  double machine = 0;  // the probability that the recommended machine turns out the cheapest
  // The probability that one of an offer's machines does, whatever its size, the likeliest first.
  std::vector<std::pair<std::string, double>> offers;
  double none = 0;      // the probability that none is in time and within the limits
  std::string measure;  // what would settle it: "B200-180GB in fp8"
};

// An offer's network compared with the best one for the same job, nodes and GPUs.
struct NetworkComparison {
  std::string job, offer, best;
  int gpus = 0;
  // Its iteration over the best one's. The best one is the cheaper one as long as its node-hour
  // costs less than so many times this one's.
  double times_as_long = 1;
};

struct SizeResult {
  std::vector<SizedJob> sized;         // machine by machine
  std::vector<Machine> machines;       // in the file's order of offers, then by size
  std::vector<SizeAnswer> answers;     // those that the file asks for
  std::optional<std::size_t> nearest;  // where no machine is recommended: with the least excess
  std::vector<TornadoBar> tornado;     // the longest first
  std::optional<Sureness> sureness;    // where a machine is recommended
  std::vector<Assumption> assumptions;
  std::vector<NetworkComparison> tiers;
  std::vector<SizeInputs> asked;  // by case
  double seed = 1;

  std::optional<std::size_t> recommended() const;
};

struct SizeOptions {
  int jobs = 1;
  Engine engine = Engine::SimGrid;
  std::function<bool()> stop = [] { return false; };  // called on several threads at once
  OnRuns on_runs = {};                                // called while plans are played
};

// Returns the runs of a file as jobs on offers. Errors: as make_scenario() and take_size_inputs();
// an offer whose price depends on the job.
Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);
Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);

// Returns the values that plans are chosen from if the user names none: those of large jobs, and
// with `any_numerics` what the GPU can compute in.
std::vector<std::string> usual_space(const Scenario& scenario, bool any_numerics);

// Returns the job's scenario with its plan, without published figures, a baseline or a search for
// bandwidth. REQUIRES: it has a plan.
Scenario planned(const SizedJob& job);

// Finds the machines to compare, tunes each job on them, plays the plans and adds up costs.
// `among`: as for Space; each key replaces that of usual_space(). Error::Failed: it was stopped.
Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options);

nlohmann::ordered_json to_json(const SizeResult& result);

}  // namespace tandem
