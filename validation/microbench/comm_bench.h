// Comm bench: nccl-tests' measurement of one communication at a time, as a Program that every
// backend plays, and the tables that come of it.
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

// One table: what is done, between whom (in ring order; SendRecv: from, to).
struct CommTest {
  CommKind kind = CommKind::AllReduce;
  std::vector<Rank> members;
};

// For every test and size a block: a barrier of all ranks, `warmup` operations that are not
// counted, another barrier, and `iterations` that are, one after the other. All blocks are one
// Program: the tests in order, the sizes of each. Without the first barrier tests of other ranks
// would run at once, without the second a rank would send for the first that is counted before
// others are there.
struct CommBench {
  int ranks = 2;
  int iterations = 20;
  int warmup = 5;
  std::vector<CommTest> tests;
  std::vector<Bytes> sizes;  // as asked for

  int block() const { return 2 + warmup + iterations; }  // operations
};

// What an operation of about `asked` bytes really has, as nccl-tests rounds and counts: the larger
// side's bytes, and the elements of one call; parts of an array are whole 16 bytes.
struct CommSize {
  Bytes bytes = 0;
  std::int64_t count = 0;
};
CommSize comm_size(CommKind kind, int ranks, Bytes asked);

// From `least` to `most`, each `factor` times the one before, or `step` more where factor is 1.
// REQUIRES: least and step above 0. Error: more of them than anybody reads.
Result<std::vector<Bytes>> comm_sizes(Bytes least, Bytes most, int factor, Bytes step);

// Not priced. REQUIRES: members are ranks, at least two a test.
Program comm_program(const CommBench& bench);

// The seconds of one operation, by test and size: of a block's counted operations, from a rank's
// arrival at the first to its end of the last, over their number; the mean of the ranks that take
// part.
std::vector<double> comm_seconds(const CommBench& bench, const Program& program,
                                 const Trace& trace);

struct CommRow {
  CommSize size;
  double seconds = 0;
};

struct CommTable {
  CommTest test;
  int nodes = 0;  // that the members are on
  std::vector<CommRow> rows;

  int ranks() const { return static_cast<int>(test.members.size()); }
  double algbw(const CommRow& row) const;  // bytes a second
  double busbw(const CommRow& row) const;
  double mean_busbw() const;
};

// `nodes`: of each test.
std::vector<CommTable> comm_tables(const CommBench& bench, std::span<const int> nodes,
                                   std::span<const double> seconds);

}  // namespace tandem
