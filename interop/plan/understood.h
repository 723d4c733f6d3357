// Sums up an imported job in seven rows, and lists what no file states. The first three rows:
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
  std::string from;   // the places of the keys that are stated, or "assumed"
};

std::vector<UnderstoodRow> understood(const ImportedPlan& plan);

// Returns the rows as lines that begin with `margin`; empty: the plan has a cluster alone.
std::string understood_text(const ImportedPlan& plan, std::string_view margin);

// Names the parts of a job that neither a file nor --set states (model, parallel sizes, batch, keys
// that a file leaves open): "the batch: --set parallel.global_batch=N".
std::vector<std::string> unknown_parts(const ImportedPlan& plan);

}  // namespace tandem
