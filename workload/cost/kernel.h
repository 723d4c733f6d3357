// The price of a kernel on a device: an analytic model, or a table of measured times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "topology/cluster.h"
#include "workload/cost/kernel_shape.h"
#include "workload/frameworks/framework_profile.h"

namespace tandem {

struct CostTable;

// The inputs of a kernel's price: a device and, for the analytic model, a framework's constants; or
// a table of measured times.
struct CostModel {
  DeviceSpec device;
  std::string precision;             // a key of device.flops_per_s
  const CostTable* table = nullptr;  // REQUIRES: check_covers() (cost_table.h)
  FrameworkProfile profile;
  double quantized_rate = 1;  // of quantized products, by recipe (workload/model/recipe.h)
};

// Checks that the device has the precision, and positive rates. An Error says what it has.
Status check_cost_model(const CostModel& model);

// Returns the bytes of one number: fp32 4; fp16 and bf16 2; fp8 1; nvfp4 1 (with its scales,
// rounded up). 0: an unknown type.
int bytes_of(std::string_view dtype);

// Says whether the precision is fp8 or nvfp4. These are formats of GEMMs only; all else stays in 16
// bits beside them.
bool is_quantized(std::string_view precision);

constexpr int kAlignedBytes = 16;  // tensor cores read rows in multiples of this
constexpr int kSixteenBits = 2;    // bytes of a number that is not quantized

// Returns the time of one GEMM: waves of output tiles over the SMs, but at least bytes / bandwidth.
// Grouped GEMMs of experts have constants of their own (FrameworkProfile). REQUIRES:
// check_cost_model(); positive sizes.
double gemm_s(const CostModel& model, const Gemm& gemm);

// Returns max(GEMMs + attention + memory-bound passes, launch), or the table's time if there is
// one.
Nanoseconds kernel_ns(const CostModel& model, const Kernel& kernel);

// Returns the share of that time, 0 to 1, that the memory-bound passes take (Kernel::memory_share).
double memory_share(const CostModel& model, const Kernel& kernel);

}  // namespace tandem
