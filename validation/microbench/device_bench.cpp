// Lists the different GEMMs, attentions, passes and communications of a priced Program, and builds
// a bench with a block for each. With two repeats, every rank's block of a GEMM is: a barrier, a
// GEMM that does not count, and two that count. Traces of the bench become rows of a cost table.
#include "validation/microbench/device_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/quantile.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr double kMiB = 1 << 20;
constexpr int kLadder = 4;  // the factor from one measured size to the next

// A Slowdown is a GEMM's time beside communication over its time alone.
constexpr int kMostBeside = 256;   // operations of communication beside the GEMMs, at most
constexpr double kCovered = 0.95;  // share of a GEMM that must be beside communication to count
constexpr double kCoverBy = 1.5;   // priced time of the communication over that of the GEMMs

// One kind of communication to measure: the disjoint groups of one class, such as all tensor groups
// of one stage, which communicate side by side.
struct MeasuredGroups {
  CommKind kind = CommKind::SendRecv;
  int ranks = 0;
  bool between_nodes = false;
  GroupKind group_kind = GroupKind::Pipeline;
  int sms = 0;                              // the most SMs that one of its ops takes
  std::vector<std::int32_t> communicators;  // numbers in the input; no two share a rank
  std::map<Bytes, Nanoseconds> priced;      // by size: the sizes that occur
};

// Returns `sizes` with first, 4 x first, 16 x first, ... added, up to `last` and below the largest
// of `sizes`.
template <class Size>
std::set<Size> with_ladder(std::set<Size> sizes, double first, double last) {
  const double most = sizes.empty() ? 0 : static_cast<double>(*sizes.rbegin());
  for (double size = first; size <= last && size < most; size *= kLadder)
    sizes.insert(static_cast<Size>(size));
  return sizes;
}

// Returns the groups of the class that share no rank with an earlier one.
std::vector<std::int32_t> disjoint(const Program& program, const CommunicatorClass& comm_class) {
  std::vector<std::int32_t> chosen;
  std::set<Rank> taken;
  for (const std::int32_t c : comm_class.communicators) {
    const std::vector<Rank>& members = program.communicators[c].members;
    if (std::ranges::any_of(members, [&](Rank rank) { return taken.contains(rank); })) continue;
    taken.insert(members.begin(), members.end());
    chosen.push_back(c);
  }
  return chosen;
}

// Returns each combination of kind, number of ranks, and inside or between nodes that the Program
// has. Of several classes of groups with the same combination the first one is measured.
std::vector<MeasuredGroups> measured_groups(const Program& program) {
  std::map<std::tuple<CommKind, int, bool>, MeasuredGroups> classes;
  const RankFolding folding = fold(program);
  for (const FoldedRank& folded_rank : folding.folded_ranks) {
    for (const Op& op : program.bodies[folded_rank.body].ops) {
      if (is_compute(op.kind)) continue;
      const CommunicatorClass& comm_class = folding.comm_classes[folded_rank.comm_classes[op.slot]];
      const Communicator& first = program.communicators[comm_class.communicators.front()];
      const auto ranks = static_cast<int>(first.members.size());
      MeasuredGroups& own = classes[{comm_kind(op.kind), ranks, first.between_nodes}];
      if (own.ranks == 0) {
        own.kind = comm_kind(op.kind);
        own.ranks = ranks;
        own.between_nodes = first.between_nodes;
        own.group_kind = first.group_kind;
        own.communicators = disjoint(program, comm_class);
      }
      own.sms = std::max(own.sms, int{op.sms});
      own.priced.try_emplace(op.bytes, op.duration_ns);
    }
  }
  std::vector<MeasuredGroups> list;
  for (auto& [key, own] : classes) list.push_back(std::move(own));
  return list;
}

// Returns the time at which the Program priced this size. A size that it does not have is priced in
// proportion to the largest one.
Nanoseconds priced_ns(const MeasuredGroups& comm, Bytes bytes) {
  if (const auto at = comm.priced.find(bytes); at != comm.priced.end()) return at->second;
  const auto& [most, ns] = *comm.priced.rbegin();
  return most == 0 ? ns : std::llround(static_cast<double>(ns) * static_cast<double>(bytes) / most);
}

// The different parts of the Program's kernels, with the priced time of each in ns. A kernel's
// price is divided: memory_share of it are its passes over memory, the rest its GEMMs and attention
// in proportion to their FLOPs.
struct Parts {
  std::vector<std::pair<Gemm, double>> gemms;
  std::map<double, double> attention_ns;              // by FLOPs
  std::set<double> passes;                            // sizes of passes over memory, in bytes
  double ns_per_byte = 0;                             // of passes, the slowest
  std::vector<std::pair<Kernel, Nanoseconds>> whole;  // kernels of several parts

  void add(const Kernel& kernel, Nanoseconds ns);
};

void Parts::add(const Kernel& kernel, Nanoseconds ns) {
  const double passes_ns = kernel.memory_share * static_cast<double>(ns);
  const double flops = kernel.flops();
  const double ns_per_flop = flops > 0 ? (static_cast<double>(ns) - passes_ns) / flops : 0;
  for (const Gemm& gemm : kernel.gemms) {
    if (std::ranges::find(gemms, gemm, [](const auto& g) { return g.first; }) == gemms.end())
      gemms.emplace_back(gemm, gemm.flops() * ns_per_flop);
  }
  if (kernel.attention_flops > 0)
    attention_ns.try_emplace(kernel.attention_flops, kernel.attention_flops * ns_per_flop);
  if (kernel.memory_bytes > 0) {
    passes.insert(kernel.memory_bytes);
    ns_per_byte = std::max(ns_per_byte, passes_ns / kernel.memory_bytes);
  }
  const std::size_t parts = kernel.gemms.size() + (kernel.attention_flops > 0 ? 1 : 0) +
                            (kernel.memory_bytes > 0 ? 1 : 0);
  const auto same = [&](const std::pair<Kernel, Nanoseconds>& other) {
    return other.first.gemms == kernel.gemms &&
           other.first.attention_flops == kernel.attention_flops &&
           other.first.memory_bytes == kernel.memory_bytes;
  };
  if (parts > 1 && std::ranges::none_of(whole, same)) whole.emplace_back(kernel, ns);
}

Parts parts_of(const Program& program) {
  Parts parts;
  std::vector<bool> seen(program.kernels.size());
  for (const Body& body : program.bodies) {
    for (const Op& op : body.ops) {
      if (!is_compute(op.kind) || op.kernel < 0 || seen[op.kernel]) continue;
      seen[op.kernel] = true;
      parts.add(program.kernels[op.kernel], op.duration_ns);
    }
  }
  return parts;
}

// Builds the bench's Program, block by block. Every rank has a body of its own. Two fields of an op
// have another meaning here: `microbatch` is the op's block, and `part` its number in the block;
// ops with number 0 are warm-up and do not count.
class Builder {
 public:
  Builder(const Program& of, const DeviceBenchOptions& options) : options_(options) {
    Program& program = bench_.program;
    program.name = "device bench";
    program.device = of.device;
    const auto ranks = static_cast<int>(of.ranks.size());
    Communicator all;
    all.group_kind = GroupKind::Data;
    for (int rank = 0; rank < ranks; ++rank) {
      program.ranks.push_back({rank, {}});
      program.bodies.emplace_back().lanes.push_back({"compute"});
      all.members.push_back(Rank{rank});
    }
    last_.resize(ranks);
    barrier_.resize(ranks, -1);
    if (ranks > 1) join(std::move(all), "barrier");
  }

  // Adds a block in which all ranks compute the row's work. `ns`: its price.
  void compute_block(CostRow row, double ns) {
    begin(std::move(row));
    const std::int32_t kernel = add_kernel(bench_.rows.back(), ns);
    for (std::size_t rank = 0; rank < last_.size(); ++rank) compute(rank, kernel, ns);
  }

  // (rank, slot) -> whether the rank is the communicator's first member
  using Slots = std::map<std::pair<int, std::int16_t>, bool>;
  // Adds the groups as communicators of the bench. Call it once for each kind.
  Slots join_class(const Program& of, const MeasuredGroups& comm) {
    Slots slots;
    for (const std::int32_t c : comm.communicators) {
      Communicator own = of.communicators[c];
      const std::vector<Rank> members = own.members;
      join(std::move(own), fmt::format("{} {}", cost_kind_name(cost_kind(comm.kind)), c));
      for (const Rank member : members) {
        // The slot of a communicator that just joined is the rank's last.
        const std::size_t count = bench_.program.ranks[index(member)].communicators.size();
        slots[{index(member), static_cast<std::int16_t>(count - 1)}] = member == members.front();
      }
    }
    return slots;
  }

  // Adds a block in which the groups communicate side by side.
  void comm_block(const MeasuredGroups& comm, const Slots& slots, Bytes bytes) {
    begin(row_of(comm, bytes));
    for (const auto& [rank_and_slot, is_first] : slots) {
      const auto [rank, slot] = rank_and_slot;
      for (int i = 0; i <= options_.repeats; ++i)
        communicate(rank, slot, op_of(comm, bytes, is_first), i);
    }
  }

  // Adds a block in which ranks compute GEMMs while their groups communicate.
  void slowdown_block(const MeasuredGroups& comm, const Slots& slots, const Gemm& gemm,
                      double gemm_ns) {
    const Bytes bytes = comm.priced.rbegin()->first;
    const double beside_ns = std::max(1.0, static_cast<double>(priced_ns(comm, bytes)));
    const double needed = kCoverBy * gemm_ns * (options_.repeats + 1) / beside_ns;
    const int operations = static_cast<int>(std::clamp(std::ceil(needed), 4.0, 1.0 * kMostBeside));
    CostRow row = row_of(comm, bytes);
    row.name = cost_kind_name(row.what);
    row.what = CostKind::Slowdown;
    row.gemms = {gemm};
    begin(std::move(row));
    const std::int32_t kernel = add_kernel({.gemms = {gemm}}, gemm_ns);
    // Communication comes first, so that it is issued before the GEMMs that should run beside it.
    std::set<int> ranks;
    for (const auto& [rank_and_slot, is_first] : slots) {
      const auto [rank, slot] = rank_and_slot;
      for (int i = 0; i < operations; ++i) communicate(rank, slot, op_of(comm, bytes, is_first), 0);
      ranks.insert(rank);
    }
    for (const int rank : ranks) compute(rank, kernel, gemm_ns);
  }

  DeviceBench take() { return std::move(bench_); }

 private:
  CostRow row_of(const MeasuredGroups& comm, Bytes bytes) const {
    const bool is_copy = comm.kind == CommKind::SendRecv && options_.copies;
    return {.what = is_copy ? CostKind::Copy : cost_kind(comm.kind),
            .bytes = static_cast<double>(bytes),
            .ranks = comm.ranks,
            .between_nodes = comm.between_nodes,
            .sms = comm.sms};
  }

  static Op op_of(const MeasuredGroups& comm, Bytes bytes, bool is_first) {
    Op op;
    if (comm.kind == CommKind::SendRecv)
      op.kind = is_first ? OpKind::Send : OpKind::Recv;
    else
      op.kind = op_kind(comm.kind);
    op.sms = static_cast<std::int16_t>(comm.sms);
    op.bytes = bytes;
    op.duration_ns = priced_ns(comm, bytes);
    return op;
  }

  // Adds a communicator, with a lane and a slot for it on each member.
  void join(Communicator communicator, const std::string& lane) {
    const auto number = static_cast<std::int32_t>(bench_.program.communicators.size());
    for (const Rank member : communicator.members) {
      Body& body = bench_.program.bodies[index(member)];
      body.slots.push_back({communicator.group_kind, static_cast<std::uint8_t>(body.lanes.size())});
      body.lanes.push_back({lane});
      bench_.program.ranks[index(member)].communicators.push_back(number);
    }
    bench_.program.communicators.push_back(std::move(communicator));
  }

  // Begins a block with a barrier, which waits for the last op of every lane on every rank. A
  // single rank has no barrier: the next op waits for the last one of the block before.
  void begin(CostRow row) {
    const auto block = static_cast<std::int32_t>(bench_.rows.size());
    bench_.rows.push_back(std::move(row));
    for (std::size_t rank = 0; rank < last_.size(); ++rank) {
      std::vector<std::uint32_t> waits;
      for (const auto& [lane, op] : last_[rank]) waits.push_back(op);
      std::ranges::sort(waits);
      last_[rank].clear();
      if (last_.size() == 1) {
        barrier_[rank] = waits.empty() ? -1 : static_cast<std::int64_t>(waits.back());
        continue;
      }
      barrier_[rank] = add(rank,
                           {.kind = OpKind::AllReduce,
                            .lane = bench_.program.bodies[rank].slots[0].lane,
                            .slot = 0,
                            .bytes = sizeof(float),
                            .microbatch = block},
                           waits);
    }
  }

  std::int32_t add_kernel(const CostRow& row, double ns) {
    const bool is_passes = row.what == CostKind::Memory;
    Kernel kernel;
    kernel.name = row.name.empty() ? std::string(cost_kind_name(row.what)) : row.name;
    kernel.gemms = row.gemms;
    kernel.attention_flops = row.attention_flops;
    if (is_passes || row.what == CostKind::Kernel) kernel.memory_bytes = row.bytes;
    if (is_passes && ns > 0) kernel.memory_share = 1;
    bench_.program.kernels.push_back(std::move(kernel));
    return static_cast<std::int32_t>(bench_.program.kernels.size()) - 1;
  }

  void compute(std::size_t rank, std::int32_t kernel, double ns) {
    Op op;
    op.kernel = kernel;
    op.duration_ns = std::max<Nanoseconds>(1, std::llround(ns));  // 0 would mean nothing to do
    for (int i = 0; i <= options_.repeats; ++i) chain(rank, op, i);
  }

  void communicate(int rank, std::int16_t slot, Op op, int number) {
    op.slot = slot;
    op.lane = bench_.program.bodies[rank].slots[slot].lane;
    chain(rank, op, number);
  }

  // Adds an op after the block's barrier, or after the op before it on its lane.
  void chain(std::size_t rank, Op op, int number) {
    op.microbatch = static_cast<std::int32_t>(bench_.rows.size()) - 1;
    op.part = static_cast<std::int16_t>(number);
    op.parts = static_cast<std::int16_t>(options_.repeats + 1);
    std::vector<std::uint32_t> waits;
    const auto before = last_[rank].find(op.lane);
    if (before == last_[rank].end() && barrier_[rank] >= 0)
      waits.push_back(static_cast<std::uint32_t>(barrier_[rank]));
    last_[rank][op.lane] = add(rank, op, waits);
  }

  std::uint32_t add(std::size_t rank, Op op, const std::vector<std::uint32_t>& waits) {
    return add_op(op, waits, &bench_.program.bodies[rank]);
  }

  DeviceBenchOptions options_;
  DeviceBench bench_;
  std::vector<std::map<std::uint8_t, std::uint32_t>> last_;  // last op by rank and lane
  std::vector<std::int64_t> barrier_;                        // the block's, by rank; -1: none
};

void add_compute(const Parts& parts, Builder* builder) {
  for (const auto& [gemm, ns] : parts.gemms) builder->compute_block({.gemms = {gemm}}, ns);
  for (const auto& [flops, ns] : parts.attention_ns)
    builder->compute_block({.what = CostKind::Attention, .attention_flops = flops}, ns);
  std::set<double> passes;
  if (!parts.passes.empty()) passes.insert(*parts.passes.rbegin());
  for (const double bytes : with_ladder(std::move(passes), kMiB, 1024 * kMiB))
    builder->compute_block({.what = CostKind::Memory, .bytes = bytes}, bytes * parts.ns_per_byte);
  for (const auto& [kernel, ns] : parts.whole)
    builder->compute_block({.what = CostKind::Kernel,
                            .name = kernel.name,
                            .gemms = kernel.gemms,
                            .attention_flops = kernel.attention_flops,
                            .bytes = kernel.memory_bytes},
                           static_cast<double>(ns));
}

// Says whether at least the share kCovered of the event is inside the intervals, which do not
// overlap.
bool is_covered(const std::vector<std::pair<Nanoseconds, Nanoseconds>>& intervals,
                const EventTimes& event) {
  Nanoseconds inside = 0;
  for (const auto& [begin, end] : intervals)
    inside +=
        std::max<Nanoseconds>(0, std::min(end, event.end_ns) - std::max(begin, event.start_ns));
  return static_cast<double>(inside) >=
         kCovered * static_cast<double>(event.end_ns - event.start_ns);
}

// Adds the counted times of a rank to `times`, by block. A transfer's time is the sender's. In a
// Slowdown's block, GEMMs that are not covered by communication do not count.
void gather(const DeviceBench& bench, const Trace& trace, const RankTrace& rank,
            std::vector<std::vector<Nanoseconds>>* times) {
  const std::vector<Op>& ops = bench.program.bodies[rank.body].ops;
  const auto events = trace.events_of(bench.program, rank);
  const auto is_slowdown = [&](const Op& op) {
    return bench.rows[op.microbatch].what == CostKind::Slowdown;
  };
  std::map<std::int32_t, std::vector<std::pair<Nanoseconds, Nanoseconds>>> beside;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    // A barrier, unlike the block's communication, has one part.
    const bool is_barrier = op.parts == 1;
    if (is_slowdown(op) && !is_compute(op.kind) && !is_barrier)
      beside[op.microbatch].emplace_back(events[i].start_ns, events[i].end_ns);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.part == 0 || op.kind == OpKind::Recv) continue;  // part 0: warm-up, or a barrier
    if (is_slowdown(op) && !is_covered(beside[op.microbatch], events[i])) continue;
    (*times)[op.microbatch].push_back(events[i].end_ns - events[i].start_ns);
  }
}

}  // namespace

Result<DeviceBench> device_bench(const Program& of, const DeviceBenchOptions& options) {
  CHECK(options.repeats > 0);
  const Parts parts = parts_of(of);
  if (parts.gemms.empty() && parts.attention_ns.empty() && parts.passes.empty())
    return Error{
        fmt::format("found Program {} without kernels, expected the shapes of what it "
                    "computes: costs.source = \"uniform\" has none",
                    of.name)};
  Builder builder(of, options);
  add_compute(parts, &builder);
  const auto largest = std::ranges::max_element(
      parts.gemms, {}, [](const auto& gemm) { return gemm.first.flops(); });
  for (const MeasuredGroups& comm : measured_groups(of)) {
    const bool is_real = comm.kind == CommKind::SendRecv ? options.transfers : options.collectives;
    if (!is_real) continue;
    const Builder::Slots slots = builder.join_class(of, comm);
    std::set<Bytes> sizes;
    for (const auto& [bytes, ns] : comm.priced) sizes.insert(bytes);
    for (const Bytes bytes : with_ladder(std::move(sizes), kMiB / 16, 256 * kMiB))
      builder.comm_block(comm, slots, bytes);
    if (largest != parts.gemms.end())
      builder.slowdown_block(comm, slots, largest->first, largest->second);
  }
  DeviceBench bench = builder.take();
  RETURN_IF_ERROR(validate(bench.program));
  RETURN_IF_ERROR(check_durations(bench.program));
  return bench;
}

std::vector<CostRow> cost_rows(const DeviceBench& bench, std::span<const Trace> iterations) {
  std::vector<std::vector<Nanoseconds>> times(bench.rows.size());
  for (const Trace& trace : iterations) {
    for (const RankTrace& rank : trace.ranks) gather(bench, trace, rank, &times);
  }
  std::vector<CostRow> rows;
  for (std::size_t block = 0; block < times.size(); ++block) {
    std::vector<Nanoseconds>& own = times[block];
    if (own.empty()) continue;
    std::ranges::sort(own);
    const auto at = [&](double share) {
      return std::max<Nanoseconds>(1, nearest_rank(own, share));
    };
    CostRow& row = rows.emplace_back(bench.rows[block]);
    row.count = static_cast<std::int64_t>(own.size());
    row.p5_ns = at(0.05);
    row.p50_ns = at(0.5);
    row.p95_ns = at(0.95);
  }
  return rows;
}

}  // namespace tandem
