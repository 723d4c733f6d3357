// Collective: a collective as the steps of one of its ranks. Each step sends a message to one
// neighbour and receives one from another. The algorithms are rings, as the simulator prices them
// and as NCCL runs large messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/mpi/transport.h"

namespace tandem {

// A collective of n ranks takes n-1 steps; an all-reduce takes 2(n-1), as its words are reduced
// chunk by chunk round the ring, then gathered (Patarasuk and Yuan 2009). An all-to-all exchanges
// with one rank after the other. This object does one slice of every chunk, out of `slices`, so
// that one slice travels while another is added up.
class Collective {
 public:
  // `own`: this rank's place among `members`.
  Collective(const Message& message, int members, int own, int slice = 0, int slices = 1);

  struct Step {
    int to = 0, from = 0;  // places
    std::span<const float> send;
    std::span<float> receive;
  };
  // Returns the step at hand; nothing: all are done.
  std::optional<Step> step() const;
  // Takes in what the step received.
  void end_step();

 private:
  struct Range {
    std::int64_t first = 0, words = 0;
  };
  bool reduces() const {
    return message_.kind == OpKind::AllReduce || message_.kind == OpKind::ReduceScatter;
  }
  int steps() const;
  int place(int number) const { return (number % members_ + members_) % members_; }
  Range chunk(int number) const;  // this slice of the chunk, within words_
  Step reduce_step() const;
  Step gather_step(int step) const;
  Step exchange_step() const;
  void keep_own();

  Message message_;
  int members_ = 1;
  int own_ = 0;
  int step_ = 0;
  std::int64_t words_ = 0;                        // words that are cut in chunks
  std::int64_t each_ = 0;                         // words of a chunk; the last ones may have fewer
  std::int64_t slice_begin_ = 0, slice_end_ = 0;  // of each chunk
  // The sums of two chunks so far: one is received while the other is sent.
  mutable std::vector<float> sums_[2];
};

}  // namespace tandem
