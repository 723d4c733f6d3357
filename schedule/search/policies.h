// The policies that a search begins with, and the changes that make the next ones.
#pragma once

#include <random>
#include <vector>

#include "schedule/search/policy_scheduler.h"
#include "schedule/search/search_problem.h"

namespace tandem {

// Returns the first policies of a search: fixed preferences (deep stages first, forwards or
// gradients first), and building blocks (an action's turn is its start time for a microbatch alone
// or, in a V, its slot in V-Half's or V-Min's block).
std::vector<SchedulePolicy> starting_policies(const SearchProblem& problem);

// Returns variants of the policy with the same turns: with whole backwards, limits of microbatches
// in flight, patience, or pace.
std::vector<SchedulePolicy> variants_of(const SearchProblem& problem, const SchedulePolicy& policy);

// Returns the policy with one or two of its numbers changed: of a stage, of a kind of action on
// several stages, or of the whole policy.
SchedulePolicy changed_policy(const SearchProblem& problem, SchedulePolicy policy,
                              std::mt19937_64* random);

}  // namespace tandem
