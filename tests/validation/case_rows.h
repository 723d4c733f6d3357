// Rows of cases for tests: made up, and those that are published.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "validation/published/cases.h"

namespace tandem {

inline CaseRow made_up(const char* id, const char* family, double measured_s, double predicted_s) {
  CaseRow row;
  row.run.id = id;
  row.run.family = family;
  row.run.measured_s = measured_s;
  if (predicted_s > 0) row.prediction = Prediction{predicted_s, predicted_s, 0, 0};
  if (predicted_s == 0) row.reason = "made up";
  return row;
}

// Errors: a +10, -20, +30 %; b +5 % and one without.
inline std::vector<CaseRow> made_up_rows() {
  return {made_up("a1", "a", 10, 11), made_up("b1", "b", 20, 21), made_up("a2", "a", 10, 8),
          made_up("a3", "a", 1, 1.3), made_up("b2", "b", 5, 0)};
}

// Empty where they are not here, and said so.
inline std::vector<Case> published() {
  const std::string path = TANDEM_SOURCE_DIR "/validation/published/cases.csv";
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path);
    return {};
  }
  const auto cases = read_cases(path);
  REQUIRE(cases.ok());
  CHECK(cases->size() == 1258);
  return *cases;
}

}  // namespace tandem
