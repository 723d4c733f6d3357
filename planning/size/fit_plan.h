// FitPlan: a job on a number of nodes, with the fastest plan that fits.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/size/size.h"

namespace tandem {

// A number of nodes, and of GPUs. The GPUs are fewer than the nodes have only if size.gpus says so.
struct SizeStep {
  int nodes = 1, gpus = 1;

  auto operator<=>(const SizeStep&) const = default;
};

// Returns the job with its fastest plan, or with the reason why there is none. Tries to use all
// GPUs of a node, and the largest power of two of them; the stated batch, and even_batch(), one
// near it. The plan with the most tokens a second for each node, spares counted, wins.
Result<SizedJob> fit_plan(const std::vector<SizeCase>& cases, std::size_t case_index,
                          const SizeStep& step, const std::vector<std::string>& among,
                          const std::function<bool()>& stop);

// Returns the job with its fastest plan in the scenario's own precision, recipe and dispatcher, on
// the same GPUs and with the same batch.
Result<SizedJob> with_plain_numerics(const SizedJob& job, const std::vector<std::string>& among,
                                     const std::function<bool()>& stop);

}  // namespace tandem
