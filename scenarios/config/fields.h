// Fields: every key of a scenario, how its value is checked and where it goes. Data, not code.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "scenarios/config/setting.h"

namespace tandem {

struct Field {
  std::string_view key;   // dotted
  std::string_view help;  // type, unit, default: as docs/scenario.md gives it
  std::function<Status(const Setting&, Scenario*)> set;
};

const std::vector<Field>& fields();

// Its parts: what is trained and how; on what, and the rest; how it is held against reality.
std::vector<Field> job_fields();
std::vector<Field> cluster_fields();
std::vector<Field> validate_fields();

}  // namespace tandem
