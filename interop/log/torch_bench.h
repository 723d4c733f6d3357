// Cells and names in the tables of all_reduce_bench.py and torch-dist-bench.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tandem {

// The first cell of a row, and the unit of the rates beside it.
struct BenchPayload {
  Bytes bytes = 0;
  double GBps_unit = GB;  // bytes per second that "1 GBps" means
};

// Reads "32KiB", "1023.75KiB" or, from older versions, "32KB". KB is 2^10 bytes too, but a version
// that writes it divides its rates by 2^30, one that writes KiB by 10^9.
std::optional<BenchPayload> bench_payload(std::string_view cell);

// Returns nccl-tests' name of an operation that PyTorch calls otherwise, else the name as it is.
std::string nccl_name(const std::string& collective);

}  // namespace tandem
