// FitPlan: a job on a number of nodes, with the fastest plan that fits.
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "planning/size/size.h"

namespace tandem {

// A number of nodes, and of their GPUs. They are fewer than the nodes have only where size.gpus
// names so many.
struct SizeStep {
  int nodes = 1, gpus = 1;

  auto operator<=>(const SizeStep&) const = default;
};

// Returns the job with its plan, or with the reason why there is none. It tries all GPUs of a node
// or, where that is no power of two, so many of them as are one; the batch as stated, or as
// even_batch() has it. The most tokens a second for each
// node win, spares counted.
Result<SizedJob> fit_plan(const std::vector<SizeCase>& cases, std::size_t of, const SizeStep& step,
                          const std::vector<std::string>& among, const std::function<bool()>& stop);

// Returns the job again with the scenario's own precision, recipe and dispatcher; other GPUs and
// batches are not tried.
Result<SizedJob> with_plain_numerics(const SizedJob& job, const std::vector<std::string>& among,
                                     const std::function<bool()>& stop);

}  // namespace tandem
