// CommBench: measures one communication at a time, as nccl-tests does. The measurement is a Program
// that every backend can play; its times become tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/units.h"
#include "schedule/program/program.h"
#include "topology/comm_kind.h"
#include "traces/trace.h"

namespace tandem {

// One table: the operation and its members, in ring order (SendRecv: from, to).
struct CommTest {
  CommKind kind = CommKind::AllReduce;
  std::vector<Rank> members;
};

// The blocks of a measurement, one for every test and size. A block is a barrier of all ranks,
// `warmup` operations that do not count, another barrier, and `iterations` that count, one after
// another. All blocks are one Program: the tests in order, each with all sizes. The first barrier
// keeps tests of other ranks from running at the same time. The second keeps a rank from sending
// for the first counted operation before the others are there.
struct CommBench {
  int ranks = 2;
  int iterations = 20;
  int warmup = 5;
  std::vector<CommTest> tests;
  std::vector<Bytes> sizes;  // as asked for

  int block_ops() const { return 2 + warmup + iterations; }
};

// The true size of an operation of about `asked` bytes, rounded and counted as nccl-tests does: the
// bytes of the larger side, and the elements of one call. Parts of an array are multiples of 16
// bytes.
struct CommSize {
  Bytes bytes = 0;
  std::int64_t count = 0;
};
CommSize comm_size(CommKind kind, int ranks, Bytes asked);

// Returns sizes from `least` to `most`. Each is `factor` times the one before, or `step` more if
// factor is 1. REQUIRES: least and step above 0. Error: too many sizes to be read.
Result<std::vector<Bytes>> comm_sizes(Bytes least, Bytes most, int factor, Bytes step);

// Returns the Program of a measurement, without prices. REQUIRES: members are ranks, at least two
// in a test.
Program comm_program(const CommBench& bench);

// Returns the seconds of one operation, by test and size. A rank's time is from its arrival at the
// first counted operation of a block to its end of the last one, divided by their number. The
// result is the mean of the ranks that take part.
std::vector<double> comm_seconds(const CommBench& bench, const Program& program,
                                 const Trace& trace);

struct CommRow {
  CommSize size;
  double seconds = 0;
};

struct CommTable {
  CommTest test;
  int nodes = 0;  // nodes that have members
  std::vector<CommRow> rows;

  int ranks() const { return static_cast<int>(test.members.size()); }
  double algbw(const CommRow& row) const;  // bytes a second
  double busbw(const CommRow& row) const;
  double mean_busbw() const;
};

// Makes a table for each test. `nodes`: the number of nodes of each test.
std::vector<CommTable> comm_tables(const CommBench& bench, std::span<const int> nodes,
                                   std::span<const double> seconds);

}  // namespace tandem
