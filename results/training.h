// Training: the speed that a model reaches on a cluster, and the memory that its fullest GPU needs.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "schedule/order/order.h"
#include "schedule/program/program.h"
#include "traces/trace.h"
#include "workload/memory/memory.h"
#include "workload/memory/reserve.h"

namespace tandem {

// The moment when the fullest GPU holds the most activations.
struct MemoryPeak {
  int pipeline_rank = 0;
  double at_s = 0;     // seconds into the iteration
  std::string action;  // the action that ends then: "forward 7 of stage 3"
};

// Bytes of the fullest GPU.
struct MemoryBytes {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, communication = 0;
  double workspace = 0;
  // `outside`: bytes of CUDA's context, libraries and NCCL. `fragmentation`: the most that the
  // allocator may waste beside `total`. `reserve`: the sum of both.
  double total = 0, reserve = 0, capacity = 0, outside = 0, fragmentation = 0;
  std::vector<double> by_pipeline_rank;  // of each rank at its peak; `total` is the largest
};

struct Training {
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0;
  double hardware_tflops_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  bool causal_flops = false;  // the four before count attention as AttentionFlops::Causal
  MemoryBytes memory;
  bool fits = false;  // unless the verdict is No
  Verdict verdict = Verdict::No;
  double spare_bytes = 0;  // capacity - total - outside; below 0: so much is missing
  MemoryPeak peak;
  std::vector<MemoryPart> parts;  // of `memory.total`, the largest first
};

// Returns the bytes of tensors on the fullest GPU at its peak (MemoryBytes::total).
double fullest_bytes(const Scenario& scenario, const OrderedPlan& plan, const Order& order);

// Returns the figures of the run that gave the trace. REQUIRES: costs are not uniform.
Training training(const Scenario& scenario, const OrderedPlan& plan, const Order& order,
                  const Program& program, const Trace& trace, double iteration_s);

}  // namespace tandem
