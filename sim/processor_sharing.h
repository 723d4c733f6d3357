// Processor sharing: computes in closed form the ends of operations that use the same links at
// once, each with an equal share (egalitarian processor sharing: Kleinrock 1976, "Queueing Systems"
// II, 4.4). It keeps a virtual time, as fair queueing does: the service, in seconds alone, that an
// operation present from the beginning has got. An operation ends when the virtual time has
// advanced by its seconds alone.
//
// Example: one operation takes 4 s alone; at 2 s another of 4 s comes (load 1). Both go at half
// speed: the first ends at 6 s, and the second, alone again, at 8 s.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem {

class ProcessorSharing {
 public:
  // `load` is the part of the links' bandwidth that one operation takes when alone; 1 where nothing
  // else limits it. Up to 1/load operations are no slower for being together.
  explicit ProcessorSharing(double load = 1) : load_(load) {}

  bool empty() const { return operations_.empty(); }

  // Adds an operation that would take `alone_s` seconds alone. REQUIRES: every operation that has
  // ended by `now` was taken out.
  void enter(std::int32_t operation, double alone_s, Nanoseconds now);

  // Returns the operation that ends first if no other comes. REQUIRES: !empty().
  std::int32_t next() const { return operations_.back().number; }
  Nanoseconds next_end_ns() const { return begin_ns_ + to_ns(next_end_s()); }
  // Removes the operation next(), which has ended.
  void take_next();

  // Removes all operations, and calls each(operation, elapsed_s): so far it has made the progress
  // that it makes in elapsed_s seconds alone.
  template <class Each>
  void leave(Nanoseconds now, const Each& each) {
    advance_to(now);
    for (const Operation& operation : operations_)
      each(operation.number, virtual_s_ - operation.enter_s);
    operations_.clear();
  }

 private:
  struct Operation {
    double end_s = 0, enter_s = 0;  // virtual times
    std::int32_t number = 0;
  };

  // Speed of each operation, relative to being alone.
  double speed() const;
  double next_end_s() const;
  void advance_to(Nanoseconds now);

  double load_ = 1;
  Nanoseconds begin_ns_ = 0;           // when the first operation came; seconds count from here
  double since_s_ = 0;                 // when the number of operations last changed, not rounded
  double virtual_s_ = 0;               // the virtual time at since_s_
  std::vector<Operation> operations_;  // by falling end
};

}  // namespace tandem
