// Says what an import understood of a job, in seven lines, and what it does not know.
//
//   model      8.0 B parameters (8030261248)          config.json:3
//   parallel   tp 8 x pp 4 x vpp 1 x cp 1 x ep 1 x dp 2   train.sh:12, train.sh:13
//   batch      512 sequences, 1 a microbatch          train.sh:20
#pragma once

#include <string>
#include <vector>

#include "interop/plan/imported_plan.h"

namespace tandem {

struct UnderstoodRow {
  std::string what;   // "batch"
  std::string value;  // "512 sequences, 1 a microbatch"
  std::string from;   // the places of what is stated, or "assumed"
};

std::vector<UnderstoodRow> understood(const ImportedPlan& plan);

// Returns those rows as lines that begin with `margin`; "" for a plan of a cluster alone.
std::string understood_text(const ImportedPlan& plan, std::string_view margin);

// Names what no file and no --set states of model, parallel sizes, batch and open keys: "the batch:
// --set parallel.global_batch=N". Without them there is no job.
std::vector<std::string> unknown_parts(const ImportedPlan& plan);

}  // namespace tandem
