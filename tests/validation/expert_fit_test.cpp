// Grouped GEMMs of experts against those that others timed alone, with equal and unequal loads.
#include "validation/kernels/expert_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "workload/model/routing.h"

namespace tandem {
namespace {

const std::vector<TimedExperts>& timed_experts() {
  static const auto kRows = read_experts(TANDEM_SOURCE_DIR "/validation/kernels/experts.csv");
  INFO((kRows.ok() ? "" : kRows.error().text()));
  REQUIRE(kRows.ok());
  return *kRows;
}

std::vector<TimedExperts> rows_where(bool (*wanted)(const TimedExperts&)) {
  std::vector<TimedExperts> rows;
  std::ranges::copy_if(timed_experts(), std::back_inserter(rows), wanted);
  return rows;
}

TEST_CASE("grouped GEMMs of shapes that a fit has not seen are met within 10.5 % in the median") {
  const auto even = rows_where([](const TimedExperts& timed) { return timed.power == 0; });
  REQUIRE(even.size() > 2500);
  const Errors unseen = errors_of(unseen_experts(even));
  CHECK(unseen.median <= 0.105);
  CHECK(std::abs(unseen.bias) <= 0.05);
  // The defaults of a profile are the fit to all, to three digits.
  FrameworkProfile fit = fit_experts(even), usual;
  for (const auto& constant : expert_constants()) {
    INFO(constant.key);
    CHECK(constant.place(usual) == Approx(constant.place(fit)).epsilon(5e-3));
  }
}

// Draws the tokens of each expert as aiconfigurator does (ai-dynamo/aiconfigurator at 095f58a,
// collector/helper.py): from a power law between 1 and 0.8 of all tokens, at most all tokens each.
ExpertTokens drawn(const TimedExperts& timed, std::uint64_t seed) {
  ExpertTokens tokens;
  const double most = 0.8 * timed.tokens, flat = 1 - timed.power, end = std::pow(most, flat);
  for (int expert = 0; expert < timed.experts; ++expert) {
    const double share = uniform(seed + static_cast<std::uint64_t>(expert));
    tokens.push_back(std::pow(1 + share * (end - 1), 1 / flat));
  }
  double sum = 0;
  for (const double one : tokens) sum += one;
  for (double& one : tokens)
    one = std::min<double>(one / sum * timed.tokens * timed.top_k, timed.tokens);
  return tokens;
}

TEST_CASE("grouped GEMMs whose experts get unequal loads are met within 15 %, without a fit") {
  std::map<std::string, std::vector<double>> errors;
  std::uint64_t seed = 0;
  for (const TimedExperts& timed :
       rows_where([](const TimedExperts& timed) { return timed.power > 0; })) {
    double s = 0;
    constexpr int kDraws = 4;
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto loads = routed_loads({drawn(timed, seed += 1000)}, timed.experts, 0);
      const auto own = std::ranges::find(loads, timed.ep, &RoutedLoad::ranks);
      REQUIRE(own != loads.end());
      s += experts_s(FrameworkProfile{}, timed, own->most) / kDraws;
    }
    const double error = std::log(s / timed.measured_s);
    errors["all"].push_back(error);
    errors[timed.ep > 4 ? "many ranks" : "few ranks"].push_back(error);
  }
  for (const auto& [what, those] : errors) {
    INFO(what);
    CHECK(errors_of(those).median <= (what == "many ranks" ? 0.2 : 0.15));
  }
}

}  // namespace
}  // namespace tandem
