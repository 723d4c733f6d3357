#include "report/variability_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/table.h"

namespace tandem {

std::string repeats_table(const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<std::string>> rows = {{"run", "runs", "seeds", "p5 s", "p50 s", "p95 s"}};
  for (const Outcome& outcome : outcomes) {
    if (!outcome.repeats) continue;
    const auto& [runs, first, spread] = *outcome.repeats;
    rows.push_back({outcome.name, fmt::format("{}", runs),
                    fmt::format("{}-{}", first, first + static_cast<std::uint64_t>(runs) - 1),
                    fmt::format("{:.4f}", spread.p5), fmt::format("{:.4f}", spread.p50),
                    fmt::format("{:.4f}", spread.p95)});
  }
  return rows.size() == 1 ? "" : aligned(rows, 1);
}

std::string sensitivity_table(const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<std::string>> rows = {
      {"run", "10 % slower", "iteration +ms", "iteration +%"}};
  for (const Outcome& outcome : outcomes) {
    std::vector<Sensitivity> parts = outcome.sensitivity;
    std::ranges::stable_sort(parts, std::ranges::greater{}, &Sensitivity::seconds);
    for (const Sensitivity& part : parts)
      rows.push_back({outcome.name, part.part, fmt::format("{:+.3f}", 1e3 * part.seconds),
                      fmt::format("{:+.2f}", 100 * part.of_iteration)});
  }
  return rows.size() == 1 ? "" : aligned(rows, 2);
}

}  // namespace tandem
