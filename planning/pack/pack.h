// Pack: compares padding with packing for a plan that trains on sequences of many lengths.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "planning/simulate/simulate.h"
#include "scenarios/scenario.h"

namespace tandem {

// One way to make microbatches of the sequences. Numbers are means over the iterations played.
struct PackWay {
  std::string name;  // "fixed", "longest", "packed"
  int seq = 0, micro_batch = 0;
  double microbatches = 0;  // of a replica
  double processed = 0;     // tokens of an iteration, with padding
  double room = 0;          // tokens that its microbatches could hold
  double iteration_s = 0;
  // The tensors of the fullest GPU in the fullest iteration, and the bytes that CUDA's context,
  // libraries and NCCL take beside them.
  double memory_bytes = 0, reserve_bytes = 0, capacity_bytes = 0;
  bool fits = false;
};

struct PackStudy {
  std::string scenario, lengths, engine;  // `lengths`: the file's path
  int limit = 0;                          // most tokens of a bin
  int global_batch = 0;
  int sequences = 0, left_out = 0;  // of the file; those after its last whole iteration
  int iterations = 0, played = 0;   // of the file; those that were played
  int longest = 0;
  double mean_length = 0;
  double tokens = 0;                // of an iteration, without padding
  double least_bins = 0, bins = 0;  // of an iteration: the fewest that hold it; those that are run
  std::vector<PackWay> ways;        // fixed, longest, packed

  double padding_fraction(const PackWay& way) const { return 1 - tokens / way.processed; }
  double fill_fraction(const PackWay& way) const { return tokens / way.room; }
  double tokens_per_s(const PackWay& way) const { return tokens / way.iteration_s; }
  double speedup(const PackWay& way) const { return ways.front().iteration_s / way.iteration_s; }
};

struct PackOptions {
  int tokens = 0;   // most tokens of a bin
  int batches = 8;  // iterations to play, spread over the file
  int jobs = 1;     // runs at once
  Engine engine = Engine::SimGrid;
};

// Plays iterations of the file's sequences in three ways: all padded to model.seq; each microbatch
// padded to its longest sequence; packed into bins of at most options.tokens tokens, one bin to a
// microbatch. Errors: a file that cannot be read; uniform costs; an order from a file, or "auto";
// fewer sequences than an iteration has; a limit that breaks a rule of the model or plan.
Result<PackStudy> pack(const Scenario& scenario, const std::string& lengths,
                       const PackOptions& options);

nlohmann::ordered_json to_json(const PackStudy& study);

}  // namespace tandem
