// Processor sharing: operations that go over the same links at once, each at an equal share, in
// closed form (egalitarian processor sharing: Kleinrock 1976, "Queueing Systems" II, 4.4).
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tandem {

class ProcessorSharing {
 public:
  // `load`: how much of the links one operation takes when alone, 1 where nothing else limits it.
  // Up to 1/load of them are no slower for being together.
  explicit ProcessorSharing(double load = 1) : load_(load) {}

  bool empty() const { return operations_.empty(); }

  // An operation that would take so many seconds alone comes. REQUIRES: nothing has ended by then
  // that was not taken out.
  void enter(std::int32_t operation, double alone_s, Nanoseconds now);

  // The first to end, if nothing more comes. REQUIRES: !empty().
  std::int32_t next() const { return operations_.back().number; }
  Nanoseconds next_end_ns() const { return begin_ns_ + to_ns(next_end_s()); }
  // It has ended.
  void take_next();

  // All go elsewhere: calls each(operation, seconds alone that it has had).
  template <class Each>
  void leave(Nanoseconds now, const Each& each) {
    serve_until(now);
    for (const Operation& operation : operations_)
      each(operation.number, served_s_ - operation.enter_s);
    operations_.clear();
  }

 private:
  // What an operation has had is the difference of served_s_ now and when it came.
  struct Operation {
    double end_s = 0, enter_s = 0;
    std::int32_t number = 0;
  };

  // Of the rate alone.
  double speed() const;
  double next_end_s() const;
  void serve_until(Nanoseconds now);

  double load_ = 1;
  Nanoseconds begin_ns_ = 0;           // when the first came; the seconds below count from here
  double since_s_ = 0;                 // not rounded: when the number of operations last changed
  double served_s_ = 0;                // by then, of one that has been here since the begin
  std::vector<Operation> operations_;  // by falling end
};

}  // namespace tandem
