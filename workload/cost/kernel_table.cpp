#include "workload/cost/kernel_table.h"

#include <algorithm>
#include <utility>

namespace tandem {

int KernelTable::add(Kernel kernel) {
  const double given = kernel.memory_share;
  // The share follows from all else.
  const auto known = std::ranges::find_if(kernels_, [&](const Kernel& other) {
    kernel.memory_share = other.memory_share;
    return kernel == other;
  });
  if (known != kernels_.end()) return static_cast<int>(known - kernels_.begin());
  kernel.memory_share = given;
  kernel.memory_share = memory_share(cost_, kernel);
  durations_.push_back(kernel_ns(cost_, kernel));
  kernels_.push_back(std::move(kernel));
  return static_cast<int>(kernels_.size()) - 1;
}

int PricedPass::run(const Kernel& kernel, Waits waits) {
  if (kernel.empty()) return last();
  const int index = kernels_->add(kernel);
  return compute_after(std::move(waits), index, kernels_->duration_ns(index));
}

}  // namespace tandem
