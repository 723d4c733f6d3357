// Evidence: the measured runs that stand behind a prediction, and the interval that follows.
//
// A prediction is calibrated where runs of its software on its GPU in its precision were measured
// that have, for each two of its traits, both, and where the largest of them had a tenth of its
// GPUs. The traits of a job are "dense" or "experts", and of "tensor", "pipeline", "context" and
// "ZeRO3" what it has.
//
//   measured: dense+tensor, dense+pipeline       a dense job with tensor parallelism: calibrated
//                                                with tensor and pipeline: not, as they interact
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/scenario.h"

namespace tandem {

struct KindOfRun {
  std::string gpu, precision;
  std::vector<std::string> traits;
};
KindOfRun kind_of_run(const std::string& gpu, const Model& model, const Plan& plan);

// Returns "H100-SXM5-80GB fp8 dense+tensor+pipeline", as FrameworkProfile::measured_on has it.
std::string text_of(const KindOfRun& kind);

// Names what no measured run of the software has: the first of these that is missing.
enum class Missing { Nothing, Gpu, Precision, Model, Parallelism, Size };

struct Evidence {
  Missing missing = Missing::Nothing;
  std::vector<std::string> traits;     // the trait or the two that no run has
  std::pair<double, double> interval;  // 90 % of runs take so many times the predicted time

  bool is_calibrated() const { return missing == Missing::Nothing; }
};

// Returns the evidence for a job on so many GPUs. Its interval is that of the software's rows, or,
// where something is missing, of rows that a fit left out in that sense
// (workload/uncalibrated.toml): of a GPU, of a precision, of all experts, of all with a kind of
// parallelism. For a job that is too large it is the widest of these. It is at least 1.5 times as
// wide, in logarithms, as the software's own. An Error says what is wrong in a file.
Result<Evidence> evidence_for(const FrameworkProfile& profile, const KindOfRun& kind, int gpus);

// The highest MFU that a published run on a GPU in a precision reached.
struct BestMfu {
  double mfu = 0;
  std::string on;   // "H100-SXM5-80GB in bf16"
  std::string run;  // the id of its row in cases.csv
  std::string source;
};

// Returns it from workload/best_mfu.csv, which holds the best of validation/published/cases.csv (a
// test makes it anew), with FLOPs counted the same way; nothing where there is no such run.
Result<std::optional<BestMfu>> best_published_mfu(const std::string& gpu,
                                                  const std::string& precision, bool causal_flops);

}  // namespace tandem
