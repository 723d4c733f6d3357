// Machines: what trainings on a machine cost together, which machines are ruled out, and which one
// answers a question.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "planning/size/size.h"

namespace tandem {

// The days or the cost of what cannot be.
constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns the nodes that work on a job of so many GPUs. The GPUs of a node that it leaves idle are
// bought too, unless size.gpus names fewer than a node has.
WorkingNodes working_nodes(const SizeCase& c, int nodes, int gpus);

// Returns the price of the network between so many nodes; 0: it is in the nodes' price; infinity:
// it cannot be built.
double network_price_of(const SizeCase& c, int nodes);

// Returns the job's time and cost if iterations took `iteration_factor` times as long. REQUIRES: it
// has a result.
Economics economics_of(const SizeCase& c, const SizedJob& job, double iteration_factor = 1);

// Returns the machine that runs `jobs` (places in `sized`), whose economics are set. REQUIRES: they
// are of one offer and as many nodes.
Machine machine_of(const std::vector<SizeCase>& cases, const std::vector<SizedJob>& sized,
                   std::vector<std::size_t> jobs);

// Return the place of the machine that answers; nothing: none does. Least: of those in time, the
// one with the lowest price to get it, by purchase or by month, whatever the limits. Budget: of
// those within the limits, the one that is done first. Cheapest: of those not ruled out, by total.
std::optional<std::size_t> answering(SizeAnswer::Question question,
                                     const std::vector<Machine>& machines,
                                     const std::vector<SizedJob>& sized,
                                     const std::vector<SizeCase>& cases);

// Whether every job has a plan that fits and is in time; whether the machine keeps the limits.
bool in_time(const std::vector<SizeCase>& cases, const std::vector<SizedJob>& sized,
             const Machine& machine);
bool within_limits(const std::vector<SizeCase>& cases, const std::vector<SizedJob>& sized,
                   const Machine& machine);

// Sets which jobs are on the frontier of days and cost, the recommended machine, the answers and
// the nearest machine.
void compare_machines(const std::vector<SizeCase>& cases, SizeResult* result);

// Compares offers with the same GPU and as many of them on a node: they differ in their network.
std::vector<NetworkComparison> network_comparisons(const std::vector<SizeCase>& cases,
                                                   const SizeResult& result);

}  // namespace tandem
