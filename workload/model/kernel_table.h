// KernelTable holds a workload's kernels, each once, with their prices; PricedPass builds passes
// whose kernels go there.
#pragma once

#include <vector>

#include "workload/cost/kernel.h"
#include "workload/model/pass.h"

namespace tandem {

class KernelTable {
 public:
  explicit KernelTable(const CostModel& cost) : cost_(cost) {}

  // Returns the kernel's index; equal kernels share one. REQUIRES: its memory share is not set.
  int add(const Kernel& kernel);

  Nanoseconds duration_ns(int kernel) const { return durations_[kernel]; }
  const CostModel& cost() const { return cost_; }
  std::vector<Kernel> take();

 private:
  const CostModel& cost_;
  std::vector<Kernel> kernels_;
  std::vector<Nanoseconds> durations_;
};

class PricedPass : public PassBuilder {
 public:
  explicit PricedPass(KernelTable* kernels) : kernels_(kernels) {}

  // Adds the kernel to the chain, after these steps as well. Adds no step for a kernel without
  // work.
  int run(const Kernel& kernel, Waits waits = {});

 private:
  KernelTable* kernels_;
};

}  // namespace tandem
