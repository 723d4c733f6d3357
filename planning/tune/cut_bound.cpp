// Computes the bound of a cut (a choice of tp, cp, pp, dp and the like): the least time that an
// iteration takes with any of its micro batches. Measures as few micro batches as it can. Declared
// in planning/tune/stage_level.h.
//
// One pass over 4 samples takes no longer than 4 passes over 1: a GEMM is rounded up to whole tiles
// and waves, a kernel waits for its launch, a message has a latency. So all passes of an iteration
// take at least as long with micro batches of 1 as with 4. The largest micro batch is measured
// first. If the passes with 4 take 100 ms on the mean rank, and the least bound so far is 100 ms,
// then 1 and 2 cannot lower it and are skipped.
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planning/tune/stage_level.h"
#include "workload/model/blocks.h"

namespace tandem {
namespace {

// Returns the sizes of products that are rounded to whole numbers, for each kind of the model's
// layers. All other sizes are in proportion to the micro batch.
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
  std::vector<std::int64_t> counts;  // rounded_counts()
  WorkBound work = {};

  // Whether one pass takes no longer than passes of `part` with the same samples: they must fill
  // it, and have at least as many rows after rounding.
  bool takes_no_longer_than_parts(const MicroBatch& part) const {
    const int passes = samples / part.samples;
    return passes * part.samples == samples &&
           std::ranges::equal(counts, part.counts, [&](std::int64_t all, std::int64_t each) {
             return all <= passes * each;
           });
  }
};

}  // namespace

// Measures without recompute, which no setting of recompute beats by more than rounding. Recomputed
// kernels may be merged into others. A merged kernel, which takes a microsecond at least, is
// rounded to a nanosecond once instead of twice: so the bound is lowered by a thousandth.
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
  for (std::size_t i = micro_batches.size(); i-- > 0;) {  // from the largest down
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
    // A measured cost table need not follow the rule: then all micro batches are measured.
    if (!base_.costs.table) measured.push_back(std::move(next));
  }
  // The rule itself holds up to rounding to nanoseconds: the bound is lowered by a thousandth
  // again.
  return least == INT64_MAX ? least : least - least / 1000;
}

}  // namespace tandem
