// Size: finds how many nodes of which offer to buy or rent, so that training jobs keep a deadline
// and a budget.
//
//   offer          a kind of node with its price
//   SizeCase       a job on an offer, for any number of nodes
//   SizedJob       a job on a number of nodes of an offer: its plan, simulated run, time and cost
//   Machine        a number of nodes of an offer; all jobs run on it, one after the other
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

// A default that is used, as the file states no value for the key, or not for all candidates.
struct Assumption {
  // "failures.repair_hours", "24*"; '*': a guess; else with its source. In SizeResult also with the
  // candidates or jobs that it is used for, if not for all: "24*; of B200".
  std::string key, value;
};

struct SizeCase {
  std::string job, offer;  // the run's point on the file's first axis, and on all others
  Scenario scenario;       // of its plan only the batch counts, and its number of GPUs does not
  SizeInputs inputs;
  std::vector<Assumption> assumptions = {};
  std::vector<std::string> unused_keys =
      {};  // of a plan, which the file states; the search chooses

  int node_gpus() const { return scenario.cluster.spec.gpus_per_node; }
};

// A job on a machine.
struct SizedJob {
  std::string job, offer;
  std::size_t of = 0;       // index of its SizeCase
  int nodes = 0, gpus = 0;  // that work; the GPUs may be fewer than the nodes have
  int idle_nodes = 0;       // of the machine, without work for this job: they stand by
  Scenario scenario;        // with this number of GPUs and the batch; planned() adds the plan
  std::optional<Found> plan;
  std::string reason;               // why there is no plan, or why this job rules the machine out
  std::optional<RunResult> result;  // of the chosen engine if `on_engine`, else of the ideal one
  bool on_engine = false;
  double ramp_s = 0;  // seconds of the iterations before the batch has its full size
  int ramp_step = 0;  // the plan's batches are multiples of it, if one of the ramp is not; else 0
  Economics economics;
  // The iteration's time with a change, over that without: with a fabric 2 and 4 times
  // oversubscribed, with NICs 10 % slower and faster.
  double oversubscribed_2 = 1, oversubscribed_4 = 1, slower_nics = 1, faster_nics = 1;
  // The same with the scenario's own precision, recipe and dispatcher; nothing: not asked.
  std::optional<double> plain_numerics;
  // No other machine does the job both as early and as cheaply. Late ones are compared as well.
  bool on_frontier = false;

  int batch() const { return scenario.job.plan.global_batch; }
};

struct Machine {
  std::string offer;
  int nodes = 0, spares = 0, gpus = 0;  // nodes that work; that stand by; GPUs of all of them
  std::vector<std::size_t> jobs;        // indices into SizeResult::sized, in the file's order
  MachineCosts costs;
  std::optional<NetworkBill> network;  // between its nodes; nothing: it cannot be built
  double network_price = 0;            // 0: in the nodes' price
  // Parts that cannot be built or bought as the file has them; what times are upper bounds.
  std::vector<std::string> warnings;
  // Cost over SizeInputs::years_of_total(); infinity: a job has no plan.
  double total = 0;
  // Days from the order until all jobs are done, with the asked certainty: one after the other,
  // each as often as its weight; infinity: a job has no plan.
  double days_late = 0;
  std::string reason;  // why it is ruled out; empty: it is in time and within all limits
  double excess = 1;   // the largest ratio of a need to its limit; up to 1: all limits are kept
  bool recommended = false;  // the cheapest in total that is not ruled out
};

struct SizeAnswer {
  enum Question { Least, Budget, Cheapest };

  Question question = Least;
  std::optional<std::size_t> machine;  // index into SizeResult::machines; nothing: no answer
};

// A bar of a tornado diagram: how far an input, over its range, moves the days and the cost of the
// recommended machine, and where it changes which machine is recommended.
struct TornadoBar {
  std::string input;         // "tokens"
  double low = 1, high = 1;  // the range, as factors of the input
  // Changes of Machine::days_late and Machine::total at both ends, as shares.
  double days_low = 0, days_high = 0, total_low = 0, total_high = 0;
  // The factor nearest to 1, inside the range, from which another machine is recommended.
  std::optional<double> flips_at;
  std::string flips_to;  // "B200, 368 GPUs that work"; empty: none is in time and within the limits
};

// How sure the recommendation is, over random draws of uncertain inputs (planning/size/sureness.h).
struct Sureness {
  double machine = 0;  // the probability that the recommended machine turns out the cheapest
  // The probability that a machine of the offer, of any size, turns out the cheapest; the likeliest
  // offer first.
  std::vector<std::pair<std::string, double>> offers;
  double none = 0;      // the probability that no machine is in time and within the limits
  std::string measure;  // the measurement that would settle it: "B200-180GB in fp8"
};

// An offer's network compared with the best one for the same job, nodes and GPUs.
struct NetworkComparison {
  std::string job, offer, best;
  int gpus = 0;
  // Its iteration time over the best one's. The best network is cheaper for the job as long as its
  // node-hour costs less than times_as_long times this one's.
  double times_as_long = 1;
};

struct SizeResult {
  std::vector<SizedJob> sized;         // machine by machine
  std::vector<Machine> machines;       // in the file's order of offers, then by size
  std::vector<SizeAnswer> answers;     // those that the file asks for
  std::optional<std::size_t> nearest;  // if no machine is recommended: the one with least excess
  std::vector<TornadoBar> tornado;     // the longest first
  std::optional<Sureness> sureness;    // if a machine is recommended
  std::vector<Assumption> assumptions;
  std::vector<std::string> unused_keys;  // of a plan, which the file states; the search chooses
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
// an offer whose price, limits or hardware depend on the job; totals that cannot be compared.
Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);
Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only);

// Returns the defaults that any of the cases uses, each with those that use it.
std::vector<Assumption> assumptions_of(const std::vector<SizeCase>& cases);

// Returns the keys of a plan that any of the cases states, each once.
std::vector<std::string> unused_keys_of(const std::vector<SizeCase>& cases);

// Returns the values that plans are chosen from if the user names none, as texts for Space::among:
// those usual for large jobs, and with `any_numerics` the precisions that the GPU has.
std::vector<std::string> usual_space(const Scenario& scenario, bool any_numerics);

// Returns the job's scenario with its plan, without published figures, a baseline or a search for
// bandwidth. REQUIRES: it has a plan.
Scenario planned(const SizedJob& job);

// Finds the machines to compare, tunes each job on them, simulates the plans and adds up costs.
// `among`: texts for Space::among; they replace those of usual_space() with the same key.
// Error::Failed: it was stopped.
Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options);

nlohmann::ordered_json to_json(const SizeResult& result);

}  // namespace tandem
