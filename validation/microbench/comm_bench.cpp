// Builds one Program with a block for each test and size. Example with one warm-up and two counted
// operations, each waiting for the one before it:
//
//   barrier  warm-up  barrier  counted  counted
#include "validation/microbench/comm_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

constexpr Bytes kElement = sizeof(float);
constexpr Bytes kPart = 16;  // each rank's part of an array is a multiple of this

// The communicators. Number 0 has all ranks, for barriers. Collectives with the same members share
// one; transfers do not share with collectives.
struct Groups {
  std::vector<Communicator> communicators;
  std::vector<std::int32_t> of_test;  // each test's communicator
};

Groups groups_of(const CommBench& bench) {
  Groups groups;
  Communicator& all = groups.communicators.emplace_back();
  all.group_kind = GroupKind::Data;
  for (int rank = 0; rank < bench.ranks; ++rank) all.members.push_back(Rank{rank});
  for (const CommTest& test : bench.tests) {
    const GroupKind group_kind =
        test.kind == CommKind::SendRecv ? GroupKind::Pipeline : GroupKind::Data;
    const auto same = std::ranges::find_if(groups.communicators, [&](const Communicator& c) {
      return c.group_kind == group_kind && c.members == test.members;
    });
    const auto number = static_cast<std::int32_t>(same - groups.communicators.begin());
    groups.of_test.push_back(number);
    if (same == groups.communicators.end())  // then it gets this number
      groups.communicators.push_back({group_kind, false, test.members});
  }
  return groups;
}

OpKind kind_of(CommKind kind, bool first_member) {
  if (kind != CommKind::SendRecv) return op_kind(kind);
  return first_member ? OpKind::Send : OpKind::Recv;
}

// Places in a block: a barrier, the warm-up, a barrier, the counted ops.
int second_barrier(const CommBench& bench) { return 1 + bench.warmup; }
int first_counted(const CommBench& bench) { return second_barrier(bench) + 1; }
int last_counted(const CommBench& bench) { return bench.block_ops() - 1; }

// Adds an op to a body. Each op waits for the one before it, even on another lane.
void add(Op op, int slot, Body* body) {
  op.slot = static_cast<std::int16_t>(slot);
  op.lane = body->slots[slot].lane;
  std::vector<std::uint32_t> waits;
  if (!body->ops.empty()) waits.push_back(static_cast<std::uint32_t>(body->ops.size() - 1));
  add_op(op, waits, body);
}

// Returns all blocks for a rank that is in the groups `own`. The microbatch of an op is used for
// its number: it counts the operations of all blocks.
Body body_of(const CommBench& bench, const Groups& groups, Rank rank,
             const std::vector<std::int32_t>& own) {
  Body body;
  body.lanes.push_back({"compute"});
  for (const std::int32_t c : own) {
    body.slots.push_back(
        {groups.communicators[c].group_kind, static_cast<std::uint8_t>(body.lanes.size())});
    body.lanes.push_back({fmt::format("group {}", c)});
  }
  int number = 0;
  for (std::size_t t = 0; t < bench.tests.size(); ++t) {
    const CommTest& test = bench.tests[t];
    const auto slot = std::ranges::find(own, groups.of_test[t]);
    const bool takes_part = slot != own.end();  // else the rank has the barriers alone
    for (const Bytes asked : bench.sizes) {
      Op op{.kind = kind_of(test.kind, rank == test.members[0])};
      op.bytes = comm_size(test.kind, static_cast<int>(test.members.size()), asked).bytes;
      for (int i = 0; i < bench.block_ops(); ++i) {
        if (i == 0 || i == second_barrier(bench)) {
          add({.kind = OpKind::AllReduce, .bytes = kElement, .microbatch = number + i}, 0, &body);
        } else if (takes_part) {
          op.microbatch = number + i;
          add(op, static_cast<int>(slot - own.begin()), &body);
        }
      }
      number += bench.block_ops();
    }
  }
  return body;
}

}  // namespace

CommSize comm_size(CommKind kind, int ranks, Bytes asked) {
  const std::int64_t elements = asked / kElement;
  if (kind == CommKind::AllGather || kind == CommKind::ReduceScatter ||
      kind == CommKind::AllToAll) {
    constexpr std::int64_t kStep = kPart / kElement;
    const std::int64_t each = elements / ranks / kStep * kStep;
    return {each * ranks * kElement, each};
  }
  return {elements * kElement, elements};
}

Result<std::vector<Bytes>> comm_sizes(Bytes least, Bytes most, int factor, Bytes step) {
  CHECK(least > 0 && step > 0);
  constexpr std::size_t kMost = 1000;
  std::vector<Bytes> sizes;
  // The last size that another one may follow: compared so, no size overflows.
  const Bytes last = factor > 1 ? most / factor : most - step;
  for (Bytes size = least; size <= most; size = factor > 1 ? size * factor : size + step) {
    sizes.push_back(size);
    if (sizes.size() > kMost)
      return Error{
          fmt::format("--stepbytes: found more than {} sizes from {} to {} bytes, "
                      "expected a larger step, or --stepfactor",
                      kMost, least, most)};
    if (size > last) break;
  }
  return sizes;
}

Program comm_program(const CommBench& bench) {
  const Groups groups = groups_of(bench);
  Program program;
  program.name = "bench comm";
  program.communicators = groups.communicators;
  // Ranks in the same groups with the same role share a body.
  std::map<std::vector<std::pair<std::int32_t, bool>>, std::int32_t> bodies;
  for (int r = 0; r < bench.ranks; ++r) {
    const Rank rank{r};
    std::vector<std::pair<std::int32_t, bool>> roles;
    std::vector<std::int32_t> own;
    for (std::size_t c = 0; c < groups.communicators.size(); ++c) {
      const Communicator& group = groups.communicators[c];
      if (std::ranges::find(group.members, rank) == group.members.end()) continue;
      own.push_back(static_cast<std::int32_t>(c));
      roles.emplace_back(own.back(),
                         group.group_kind == GroupKind::Pipeline && group.members[0] == rank);
    }
    const auto [body, is_new] =
        bodies.try_emplace(roles, static_cast<std::int32_t>(program.bodies.size()));
    if (is_new) program.bodies.push_back(body_of(bench, groups, rank, own));
    program.ranks.push_back({body->second, own});
  }
  return program;
}

std::vector<double> comm_seconds(const CommBench& bench, const Program& program,
                                 const Trace& trace) {
  const std::size_t blocks = bench.tests.size() * bench.sizes.size();
  std::vector<Nanoseconds> sums(blocks);
  std::vector<int> counts(blocks);
  for (const RankTrace& rank : trace.ranks) {
    const std::vector<Op>& ops = program.bodies[rank.body].ops;
    const auto events = trace.events_of(program, rank);
    Nanoseconds begin = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const int block = ops[i].microbatch / bench.block_ops();
      const int place = ops[i].microbatch % bench.block_ops();
      if (place == first_counted(bench)) begin = events[i].arrive_ns;
      if (place != last_counted(bench)) continue;
      sums[block] += events[i].end_ns - begin;
      ++counts[block];
    }
  }
  std::vector<double> seconds;
  for (std::size_t i = 0; i < blocks; ++i) {
    CHECK(counts[i] > 0);
    seconds.push_back(to_seconds(sums[i]) / counts[i] / bench.iterations);
  }
  return seconds;
}

double CommTable::algbw(const CommRow& row) const {
  return row.seconds > 0 ? static_cast<double>(row.size.bytes) / row.seconds : 0;
}

double CommTable::busbw(const CommRow& row) const {
  return algbw(row) * bus_factor(test.kind, ranks());
}

double CommTable::mean_busbw() const {
  double sum = 0;
  for (const CommRow& row : rows) sum += busbw(row);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

std::vector<CommTable> comm_tables(const CommBench& bench, std::span<const int> nodes,
                                   std::span<const double> seconds) {
  CHECK(nodes.size() == bench.tests.size());
  CHECK(seconds.size() == bench.tests.size() * bench.sizes.size());
  std::vector<CommTable> tables;
  for (std::size_t t = 0; t < bench.tests.size(); ++t) {
    CommTable& table = tables.emplace_back();
    table.test = bench.tests[t];
    table.nodes = nodes[t];
    for (std::size_t s = 0; s < bench.sizes.size(); ++s)
      table.rows.push_back({comm_size(table.test.kind, table.ranks(), bench.sizes[s]),
                            seconds[t * bench.sizes.size() + s]});
  }
  return tables;
}

}  // namespace tandem
