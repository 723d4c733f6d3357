// Evidence: whether runs like a predicted one were measured (it is calibrated), and the interval of
// the prediction that follows.
//
// A job has traits: "dense" or "experts", "delta" if layers have gated delta nets, and those of
// "tensor", "pipeline", "context" and "ZeRO3" that its plan uses. A prediction is calibrated if
// runs of its software on its GPU in its precision were measured; if for each pair of its traits
// one of these runs has both; and if the software's largest run had at least a tenth of its GPUs.
// For example if dense+tensor and dense+pipeline were measured, a job dense+tensor is calibrated. A
// job dense+tensor+pipeline is not, as no run shows how tensor and pipeline interact.
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

// The first condition that no measured run of the software meets. Size: the job has too many GPUs.
enum class Missing { Nothing, Gpu, Precision, Model, Parallelism, Size };

struct Evidence {
  Missing missing = Missing::Nothing;
  std::vector<std::string> traits;     // the trait, or the pair of traits, that no run has
  std::pair<double, double> interval;  // measured over predicted time of 90 % of runs

  bool is_calibrated() const { return missing == Missing::Nothing; }
};

// Returns the evidence for a job on so many GPUs. A calibrated job has the software's own interval.
// Otherwise the interval comes from fits that left out all runs of a GPU, of a precision, of a kind
// of model, or with a kind of parallelism (workload/uncalibrated.toml), by what is missing; for a
// job that is too large it is the widest of these. It is at least 1.5 times as wide, in logarithms,
// as the software's own. Error: a file is wrong.
Result<Evidence> evidence_for(const FrameworkProfile& profile, const KindOfRun& kind, int gpus);

// The highest MFU that a published run on a GPU in a precision reached.
struct BestMfu {
  double mfu = 0;
  std::string on;   // "H100-SXM5-80GB in bf16"
  std::string run;  // the id of its row in cases.csv
  std::string source;
};

// Reads it from workload/best_mfu.csv, which holds the best runs of validation/published/cases.csv
// (a test makes it anew). Compares runs whose FLOPs are counted the same way. Nothing: no such run.
Result<std::optional<BestMfu>> best_published_mfu(const std::string& gpu,
                                                  const std::string& precision, bool causal_flops);

}  // namespace tandem
