// Training: what a model on a cluster reaches, and what it needs of the fullest GPU's memory.
#pragma once

#include <string>
#include <vector>

#include "scenarios/config/scenario.h"
#include "schedule/order/order.h"
#include "schedule/program/program.h"
#include "traces/trace.h"

namespace tandem {

// When the fullest GPU comes to hold the most activations.
struct MemoryPeak {
  int pipeline_rank = 0;
  double at_s = 0;     // into the iteration
  std::string action;  // that ends then: "forward 7 of stage 3"
};

struct Training {
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0;
  double hardware_tflops_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  bool causal_flops = false;  // how the four before count attention: see AttentionFlops
  // Bytes.
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, communication = 0;
  double workspace = 0;
  // Bytes. `reserve` of the capacity is for what is no tensor; `total` fits into the rest.
  double total = 0, reserve = 0, capacity = 0;
  std::vector<double> by_pipeline_rank;  // bytes of each at its peak; `total` is the largest
  bool fits = false;
  MemoryPeak peak;
};

// Of the run that gave the trace. REQUIRES: costs that are not uniform.
Training training(const Scenario& scenario, const OrderedPlan& plan, const Order& order,
                  const Program& program, const Trace& trace, double iteration_s);

}  // namespace tandem
