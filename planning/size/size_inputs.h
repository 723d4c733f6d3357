// SizeInputs: the inputs of a sizing: the keys of [size], [price] and [failures] in a scenario
// file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planning/size/goodput.h"
#include "scenarios/setting.h"

namespace tandem {

struct SizeInputs {
  double tokens = 0;  // tokens of the whole training
  double days = 0;    // most days that it may take
  double budget = 0;  // most that it may cost; 0: no limit
  std::vector<int> gpus;
  double ramp_from = 0, ramp_tokens = 0;  // first batch, 0: none; tokens until the whole one
  int spare_nodes = -1;                   // -1: as many as keep the job running 99 % of the time
  double node_hour = 0;                   // price of a node for an hour
  double node = 0, years = 4;             // or price of a node that is used for so many years
  double node_kW = 0, pue = 1.2, kWh = 0;
  Failures failures;
  double seed = 1;
};

// Takes the keys of the three tables out of the settings. Errors: unknown keys (with the nearest
// known one), numbers out of range, and missing keys.
Result<SizeInputs> take_size_inputs(const std::string& path, Settings* settings);

// Returns every key with its help. docs/planning.md has them all (tested).
std::vector<std::pair<std::string, std::string>> size_keys();

}  // namespace tandem
