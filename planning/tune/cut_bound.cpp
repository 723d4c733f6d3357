// The bound of a cut is the least bound of its micro batches, and few of them need to be measured.
// Declared in planning/tune/stage_level.h.
//
// A pass over a micro batch of k b samples takes no longer than k passes over b: a GEMM is rounded
// up to whole tiles and waves, a kernel waits for its launch, a message has a latency. So the mean
// rank's passes of an iteration take with b at least as long as with k b. If those with k b are not
// below the least bound found so far, b need not be measured.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planning/tune/stage_level.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// Returns the counts that are rounded to whole numbers, for each kind of the model's layers.
std::vector<std::int64_t> rounded_counts(const Model& model, const Plan& plan) {
  std::vector<std::int64_t> counts;
  for (const auto& [kind, layers] : kinds_of(model)) {
    counts.push_back(expert_rows(*kind, plan));
    counts.push_back(scan_chunks(*kind, plan));
  }
  return counts;
}

struct MicroBatch {
  int samples = 0;
  std::vector<std::int64_t> counts;
  WorkBound work = {};

  // Whether it takes no longer in one pass than in several passes of `part`.
  bool takes_no_longer_than_parts(const MicroBatch& part) const {
    const int passes = samples / part.samples;
    return passes * part.samples == samples &&
           std::ranges::equal(counts, part.counts, [&](std::int64_t all, std::int64_t each) {
             return all <= passes * each;
           });
  }
};

}  // namespace

// Recomputed kernels may be merged into others. A merged kernel, which takes a microsecond at
// least, is rounded to a nanosecond once instead of twice: so the bound is lowered by a thousandth.
WorkBound StageLevel::least_exposed_work(Layout layout) {
  layout.recompute = Recompute::None;
  layout.recompute_modules = kAsScenario;
  const WorkBound work = work_of(exposed_times(layout), layout);
  if (work.chain == INT64_MAX) return work;
  return {work.mean_rank - work.mean_rank / 1000, work.chain - work.chain / 1000};
}

Nanoseconds StageLevel::cut_bound(std::span<const Layout> micro_batches) {
  if (micro_batches.empty()) return INT64_MAX;
  Plan plan = plan_of(base_, {micro_batches.front(), {default_order(1)}, {}});
  Nanoseconds least = INT64_MAX;
  std::vector<MicroBatch> measured;
  for (std::size_t i = micro_batches.size(); i-- > 0;) {  // the largest take the least time
    const Layout& layout = micro_batches[i];
    plan.micro_batch = layout.micro_batch;
    MicroBatch next{layout.micro_batch, rounded_counts(base_.job.model, plan)};
    const auto takes_less = [&](const MicroBatch& larger) {
      return larger.work.mean_rank >= least && larger.takes_no_longer_than_parts(next);
    };
    if (std::ranges::any_of(measured, takes_less)) continue;
    next.work = least_exposed_work(layout);
    if (next.work.iteration() == INT64_MAX) continue;
    least = std::min(least, next.work.iteration());
    // The kernels of a measured table need not grow in proportion.
    if (!base_.costs.table) measured.push_back(std::move(next));
  }
  // Lower it once more: a micro batch's kernels are rounded once, and those of its parts each.
  return least == INT64_MAX ? least : least - least / 1000;
}

}  // namespace tandem
