// Collective: the steps of one rank in a collective. Each step sends a message to one rank and
// receives one from another. The algorithms are rings, as the simulator prices them and as NCCL
// runs large messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/mpi/transport.h"

namespace tandem {

// A collective of n ranks takes n-1 steps; an all-reduce takes 2(n-1), as it is a ring
// reduce-scatter, then a ring all-gather (Patarasuk and Yuan 2009). An all-to-all exchanges with
// one rank after the other. One object does one slice of each of the n chunks, out of `slices`, so
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
  // Returns the current step, or nothing after the last.
  std::optional<Step> step() const;
  // Adds up or keeps the words that the step received, and goes on to the next.
  void end_step();

 private:
  struct Range {
    std::int64_t first = 0, words = 0;
  };
  bool reduces() const {
    return message_.kind == OpKind::AllReduce || message_.kind == OpKind::ReduceScatter;
  }
  int steps() const;
  // Returns the number modulo the members, for places and chunks beyond either end of the ring.
  int wrapped(int number) const { return (number % members_ + members_) % members_; }
  Range chunk(int number) const;  // this slice of the chunk, within words_
  Step reduce_step() const;
  Step gather_step(int step) const;
  Step exchange_step() const;
  void copy_own_chunk();

  Message message_;
  int members_ = 1;
  int own_ = 0;
  int step_ = 0;
  std::int64_t words_ = 0;                        // of all chunks
  std::int64_t chunk_words_ = 0;                  // of a chunk; the last chunks may have fewer
  std::int64_t slice_begin_ = 0, slice_end_ = 0;  // words of each chunk
  // Partial sums of two chunks: one is received while the other is sent.
  mutable std::vector<float> sums_[2];
};

}  // namespace tandem
