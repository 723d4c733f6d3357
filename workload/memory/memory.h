// PlanMemory: the bytes of tensors that a plan's GPUs hold.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "workload/model/model.h"
#include "workload/model/muon.h"

namespace tandem {

// Bytes on the fullest GPU, at its peak.
struct MemoryUse {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  // Buffers of pipeline transfers; sequence, context, expert and vocabulary parallelism; ZeRO's
  // gradients and gathered layers; DeepSpeed's buckets and fp32 gradients; Transformer Engine's
  // dummy gradients (buffers.cpp says what each holds).
  double communication = 0;
  double workspace = 0;  // of the GPU's GEMM libraries; set by the caller, as no model says it
  int rank = 0;          // its pipeline rank

  double total() const {
    return weights + gradients + optimizer + activations + communication + workspace;
  }
};

// By pipeline rank: its stages, and the number of microbatches alive in each at the rank's peak.
struct LiveActivations {
  struct Entry {
    Stage stage;           // its place in the model's chain, also in an order of two chains
    int microbatches = 0;  // from F to B or I
    int stashed = 0;       // from I to W
  };
  std::vector<std::vector<Entry>> ranks;
  // By rank, with plan.vocabulary: the most microbatches between S and T.
  std::vector<int> outputs = {};
  // By rank: the same at the moment when most microbatches wait for W, as these may hold more than
  // others do (recompute, offloading). Empty without W.
  std::vector<std::vector<Entry>> waiting = {};
};

// A stage's share of a GPU's memory; numbers without a type of their own are bytes.
struct StageMemory {
  HeldParameters parameters = {};
  MuonShare muon = {};
  double microbatch = 0;  // activations of one microbatch, without those on the CPU
  double stashed = 0;     // the same between its input and its weight gradient
  // Offloaded arrays that are on the GPU nevertheless. They count once for each rank.
  double layer_at_work = 0, module_copied = 0;
  double quantized = 0;     // copies of weights
  bool recomputes = false;  // any layer; also true without recompute, which then makes 0 bytes
};

// Memory of a plan's ranks, for callers who ask many times: all that does not depend on
// microbatches is computed once.
class PlanMemory {
 public:
  // REQUIRES: check_model(model, plan); the plan outlives it.
  PlanMemory(const Model& model, const OrderedPlan& plan);

  // Returns the use of the rank with these stages. `outputs` is the number of microbatches between
  // S and T. REQUIRES: stages of the plan.
  MemoryUse of_rank(std::span<const LiveActivations::Entry> live, int outputs) const;

 private:
  const OrderedPlan& plan_;
  std::vector<StageMemory> stages_;
  // Bytes. Only copy_ is a number of parameters: the head's copy of the embedding.
  double communication_ = 0, head_ = 0, head_backward_ = 0;
  double recomputed_ = 0, output_ = 0, traded_ = 0, copy_ = 0;
};

// Returns the use of the fullest rank. REQUIRES: check_model(model, plan); at least one rank,
// stages of the plan.
MemoryUse peak_memory(const Model& model, const OrderedPlan& plan, const LiveActivations& live);

// A part of what a rank holds.
struct MemoryPart {
  std::string kind;  // the member of MemoryUse that it belongs to: "weights"
  std::string name;  // "weights of layers", "activations of layers, 8 microbatches"
  double bytes = 0;
};

// Returns the parts of PlanMemory::of_rank(live, outputs), which add up to its total. REQUIRES: the
// same as of_rank.
std::vector<MemoryPart> memory_parts(const Model& model, const OrderedPlan& plan,
                                     std::span<const LiveActivations::Entry> live, int outputs);

// Returns the activations that one layer keeps from a microbatch's forward to its backward, on one
// GPU. For fp16, kv_heads = heads, f = 4h and no gated MLP these are, by Korthikanti et al. 2022
// (arXiv 2205.05198), table 2: s b h (10 + 24/t + 5as/ht), or s b h (34 + 5as/h) / t with sequence
// parallelism; without the term in a s / h under selective recompute; 2 s b h under full recompute.
double activation_bytes_per_layer(const Model& model, const Plan& plan);

}  // namespace tandem
