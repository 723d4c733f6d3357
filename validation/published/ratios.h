// Ratios: how much faster one machine is than another on the same job, measured and predicted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "validation/published/cases.h"

namespace tandem {

// Two runs of one model, sequence and precision on two machines. A ratio is the second run's
// tokens/s/GPU over the first one's.
struct MachineRatio {
  std::string place;          // "file:line" of the second run
  std::string job, from, to;  // "llama-70b, fp8", "dgx-h100, 64 GPUs"
  double measured = 0;
  std::optional<double> predicted;
  std::string reason;  // why the prediction is missing

  // Returns predicted over measured, minus 1. REQUIRES: a prediction.
  double error() const { return *predicted / measured - 1; }
  // Returns whether both say that the same machine is the faster one. REQUIRES: a prediction.
  bool same_order() const { return (measured < 1) == (*predicted < 1); }
};

// Compares the machines of a cases file, job by job. Of two machines it takes the two rows whose
// numbers of GPUs are nearest. Error: no job is there on two machines.
Result<std::vector<MachineRatio>> machine_ratios(const std::string& path, Engine engine, int jobs,
                                                 const Sets& sets = {});

// The ratios that are predicted, in short. Errors are shares.
struct RatioErrors {
  int n = 0, same_order = 0;
  double mean_absolute = 0, bias = 0;
};
RatioErrors ratio_errors(const std::vector<MachineRatio>& ratios);

// Returns {ratios, overall {n, mean_absolute_error, bias, same_order}}.
nlohmann::ordered_json ratios_json(const std::vector<MachineRatio>& ratios);

}  // namespace tandem
