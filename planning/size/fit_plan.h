// FitPlan: a job on a number of nodes, with the fastest plan that fits.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/size/size.h"

namespace tandem {

// A number of nodes, and of GPUs. Some GPUs of the nodes are unused only if size.gpus says so.
struct SizeStep {
  int nodes = 1, gpus = 1;

  auto operator<=>(const SizeStep&) const = default;
};

// Returns the job with each of its plans to play; or once, with the reason why there is none.
// Searches with all GPUs of a node and with the largest power of two of them, each with the stated
// batch and with one near it (even_batch()). Each search takes the best plan at stage level without
// ZeRO 3, and the best one with it.
Result<std::vector<SizedJob>> fit_plans(const std::vector<SizeCase>& cases, std::size_t case_index,
                                        const SizeStep& step, const std::vector<std::string>& among,
                                        const std::function<bool()>& stop);

// Returns the job with its plans in the scenario's own precision, recipe and dispatcher, on the
// same GPUs and with the same batch.
Result<std::vector<SizedJob>> with_plain_numerics(const SizedJob& job,
                                                  const std::vector<std::string>& among,
                                                  const std::function<bool()>& stop);

// Returns the best of a job's plans that were played: the one with the least days_late() times
// nodes, spares counted. REQUIRES: there is one.
const SizedJob& best_of(const std::vector<SizeCase>& cases, const std::vector<SizedJob>& plans);

}  // namespace tandem
