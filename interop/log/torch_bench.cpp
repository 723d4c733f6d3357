#include "interop/log/torch_bench.h"

#include <charconv>
#include <cmath>

namespace tandem {

std::optional<BenchPayload> bench_payload(std::string_view cell) {
  double number = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (read.ec != std::errc() || !(number >= 1 && number <= 1024)) return std::nullopt;
  const std::string_view unit = cell.substr(static_cast<std::size_t>(read.ptr - cell.data()));
  const std::size_t power = std::string_view("BKMGT").find(unit.substr(0, 1));
  const bool is_prefixed = power > 0 && power != std::string_view::npos;
  const bool is_binary = is_prefixed && unit.substr(1) == "iB";
  const bool is_unit = unit == "B" || is_binary || (is_prefixed && unit.substr(1) == "B");
  if (!is_unit) return std::nullopt;
  return BenchPayload{std::llround(std::ldexp(number, 10 * static_cast<int>(power))),
                      is_binary ? GB : GiB};
}

std::string nccl_name(const std::string& collective) {
  if (collective == "all_to_all") return "alltoall";
  return collective == "batch_isend_irecv" ? "sendrecv" : collective;  // both send round a ring
}

}  // namespace tandem
