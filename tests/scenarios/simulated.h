// Results of scenarios by either engine, for tests that hold the engines to the same claim.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "planning/simulate/simulate.h"
#include "sim/engines.h"
#include "tests/needs.h"

namespace tandem {

inline RunResult simulated(const Scenario& scenario, Engine engine = Engine::Ideal) {
  const auto results = simulate_all({scenario}, engine, 1);
  INFO((results[0].ok() ? "" : results[0].error().text()));
  REQUIRE(results[0].ok());
  return results[0].value();
}

inline std::vector<Engine> engines() {
  need_simgrid();
  return {Engine::Ideal, Engine::SimGrid};
}

}  // namespace tandem
