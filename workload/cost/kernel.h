// What a kernel costs on a device.
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

// What kernels are priced for: by the analytic model, with the constants of a software, or, where
// there is a table, by what was measured.
struct CostModel {
  DeviceSpec device;
  std::string precision;             // a key of device.flops_per_s
  const CostTable* table = nullptr;  // REQUIRES: check_covers() (cost_table.h)
  FrameworkProfile profile;
};

// Whether the device has the precision, and rates to price with: an Error says what it has.
Status check(const CostModel& model);

// Bytes of one number: fp32 4, fp16 and bf16 2, fp8 1, nvfp4 1 with its scales, rounded up. 0: not
// a type we know.
int bytes_of(std::string_view dtype);

// fp8 or nvfp4: formats of GEMMs only. All else stays in 16 bits beside them.
bool is_quantized(std::string_view precision);

constexpr int kAlignedBytes = 16;  // tensor cores read rows in multiples of that
constexpr int kSixteenBits = 2;    // bytes of a number that is not quantized

// The time of one GEMM: whole waves of output tiles over the SMs, never under its bytes /
// bandwidth. REQUIRES: check(model); positive sizes.
double gemm_s(const CostModel& model, const Gemm& gemm);

// max(GEMMs + attention + memory-bound passes, launch); with a table what that says.
Nanoseconds kernel_ns(const CostModel& model, const Kernel& kernel);

// The share of that time that the memory-bound passes take: 0 to 1, what Kernel::memory_share says.
double memory_share(const CostModel& model, const Kernel& kernel);

}  // namespace tandem
