// Machines: the cost of all trainings on a machine, which machines are ruled out, and which one
// answers a question.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "planning/size/size.h"

namespace tandem {

// The days or the cost of a machine or job that is impossible.
constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns the nodes that work on a job, with the GPUs that it leaves idle on each: whole nodes are
// bought or rented.
WorkingNodes working_nodes(const SizeCase& c, const SizedJob& job);

// Returns the price of the network between so many nodes; 0: it is in the nodes' price; infinity:
// it cannot be built.
double network_price_of(const SizeCase& c, int nodes);

// Returns the days that the job takes, as often as it is trained, over those that the total counts;
// 0: the total is the jobs' own rent.
double share_of_years(const SizeCase& c, const SizedJob& job);

// Returns the job's time and cost if iterations took `iteration_factor` times as long. REQUIRES: it
// has a result.
Economics economics_of(const SizeCase& c, const SizedJob& job, double iteration_factor = 1);

// Makes a job's days and cost infinite if nodes fail faster than they are repaired: the drawn ones
// may be finite, with hundreds of digits.
void make_endless_if_failing(const SizeInputs& inputs, Economics* e);

// Jobs of a sizing, with the cases that they are of. REQUIRES: both outlive it.
struct JobsOfCases {
  const std::vector<SizeCase>& cases;
  const std::vector<SizedJob>& sized;

  const SizedJob& operator[](std::size_t job) const { return sized[job]; }
  const SizeCase& case_of(std::size_t job) const { return cases[sized[job].of]; }
  const SizeInputs& inputs_of(std::size_t job) const { return case_of(job).inputs; }
};

// Returns the machine that runs these jobs, by their indices. It has the most nodes that any of
// them needs, spares counted. As many work as the largest job uses, and the others stand by.
// REQUIRES: the jobs have economics, and are of one offer.
Machine machine_of(const JobsOfCases& all, std::vector<std::size_t> jobs);

// Returns the index of the machine that answers the question; nothing: none does.
//   Least     can be built, is in time and within the years counted, with the lowest purchase or
//             monthly price, or total if some machines are bought and some rented, whatever the
//             limits
//   Budget    is within the limits, and done first
//   Cheapest  is in time and within the limits, with the least total
// Of equal prices or totals the one that is done first answers, of equal days the cheapest.
std::optional<std::size_t> answering(SizeAnswer::Question question,
                                     const std::vector<Machine>& machines, const JobsOfCases& all);

// Returns whether some machines are bought and some rented. Their totals alone are comparable.
bool are_bought_and_rented(const std::vector<Machine>& machines);

// Whether every job has a plan that fits, and the machine keeps the limits.
bool can_run_within_limits(const JobsOfCases& all, const Machine& machine);

// Sets which jobs are on the Pareto frontier of days and cost, the recommended machine, the answers
// and the nearest machine.
void compare_machines(const std::vector<SizeCase>& cases, SizeResult* result);

// Compares offers with the same GPU and as many GPUs on a node, which differ in their network
// alone.
std::vector<NetworkComparison> network_comparisons(const std::vector<SizeCase>& cases,
                                                   const SizeResult& result);

}  // namespace tandem
