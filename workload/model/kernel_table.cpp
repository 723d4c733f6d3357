#include "workload/model/kernel_table.h"

#include <algorithm>
#include <utility>

namespace tandem {

int KernelTable::add(const Kernel& kernel) {
  const auto known = std::ranges::find(kernels_, kernel);
  if (known != kernels_.end()) return static_cast<int>(known - kernels_.begin());
  kernels_.push_back(kernel);
  durations_.push_back(kernel_ns(cost_, kernel));
  return static_cast<int>(kernels_.size()) - 1;
}

std::vector<Kernel> KernelTable::take() {
  for (Kernel& kernel : kernels_) kernel.memory_share = memory_share(cost_, kernel);
  return std::move(kernels_);
}

int PricedPass::run(const Kernel& kernel, Waits waits) {
  if (kernel.empty()) return last();
  const int index = kernels_->add(kernel);
  return compute_after(std::move(waits), index, kernels_->duration_ns(index));
}

}  // namespace tandem
