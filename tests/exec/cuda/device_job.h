// Small jobs whose communication takes SMs from the compute beside it, op by op or at random; and
// whether their compute has done its work.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/lowering/price.h"
#include "schedule/program/replay.h"
#include "schedule/program/validate.h"

namespace tandem {

// Nodes of so many GPUs, each with a NIC of its own; a byte takes 1 ns inside and 2 ns between
// them.
inline ClusterSpec byte_a_ns(int gpus_per_node) {
  ClusterSpec spec;
  spec.name = "byte a ns";
  spec.gpus_per_node = spec.nics_per_node = gpus_per_node;
  spec.intra_bytes_per_s = 1e9;
  spec.nic_bytes_per_s = 0.5e9;
  return spec;
}

// Every rank is a class of its own. Ops are issued in the order of the calls.
class DeviceJob {
 public:
  using Waits = std::vector<std::uint32_t>;
  struct Comm {
    OpKind kind;  // Send: from the first rank to the second
    std::vector<int> ranks;
    Bytes bytes;
    int sms;
    std::string lane = "comm";
  };

  explicit DeviceJob(int ranks, SharedDevice device = {108, 4e9}) {
    program_.name = "device job";
    program_.device = device;
    for (int rank = 0; rank < ranks; ++rank) {
      program_.bodies.emplace_back().lanes.push_back({"compute"});
      program_.ranks.push_back({rank, {}});
    }
  }

  // The op's number in its body.
  std::uint32_t compute(int rank, Nanoseconds duration_ns, const Waits& waits = {},
                        double memory_share = 0) {
    Op op;
    op.duration_ns = duration_ns;
    op.kernel = static_cast<std::int32_t>(program_.kernels.size());
    program_.kernels.push_back({.name = "kernel", .memory_share = memory_share});
    return add(rank, op, waits);
  }

  // The ops' numbers, by rank as listed. waits[i] are those of ranks[i].
  Waits communicate(const Comm& comm, const std::vector<Waits>& waits = {}) {
    const auto [at, is_new] = known_.try_emplace({comm.lane, comm.ranks}, known_.size());
    if (is_new) program_.communicators.push_back({.group_kind = GroupKind::Tensor});
    Waits ops;
    for (std::size_t i = 0; i < comm.ranks.size(); ++i) {
      const int rank = comm.ranks[i];
      const auto c = static_cast<std::int32_t>(at->second);
      if (is_new) {
        program_.communicators[c].members.push_back(static_cast<Rank>(rank));
        program_.bodies[rank].slots.push_back({GroupKind::Tensor, lane(rank, comm.lane)});
        program_.ranks[rank].communicators.push_back(c);
      }
      Op op;
      op.kind = comm.kind == OpKind::Send && i == 1 ? OpKind::Recv : comm.kind;
      const std::vector<std::int32_t>& known = program_.ranks[rank].communicators;
      op.slot = static_cast<std::int16_t>(std::ranges::find(known, c) - known.begin());
      op.lane = program_.bodies[rank].slots[op.slot].lane;
      op.bytes = comm.bytes;
      op.sms = static_cast<std::int16_t>(comm.sms);
      ops.push_back(add(rank, op, i < waits.size() ? waits[i] : Waits{}));
    }
    return ops;
  }

  // Priced, and valid.
  Program take(const Cluster& cluster) {
    price(&program_, cluster, in_order(static_cast<int>(program_.ranks.size())));
    const Status valid = validate(program_);
    INFO((valid.ok() ? "" : valid.error().text()));
    REQUIRE(valid.ok());
    return std::move(program_);
  }

 private:
  std::uint32_t add(int rank, Op op, const Waits& waits) {
    return add_op(op, waits, &program_.bodies[rank]);
  }

  std::uint8_t lane(int rank, const std::string& name) {
    std::vector<Lane>& lanes = program_.bodies[rank].lanes;
    const auto at = std::ranges::find(lanes, name, &Lane::name);
    const auto number = static_cast<std::uint8_t>(at - lanes.begin());
    if (at == lanes.end()) lanes.push_back({name});
    return number;
  }

  Program program_;
  std::map<std::pair<std::string, std::vector<int>>, std::size_t> known_;  // lane, ranks
};

// Nodes of two GPUs for jobs at random; there, messages also have a latency.
inline ClusterSpec pairs_of_gpus(int nics_per_node) {
  ClusterSpec spec = byte_a_ns(2);
  spec.nics_per_node = nics_per_node;
  spec.intra_latency_s = 50e-9;
  spec.inter_latency_s = 200e-9;
  return spec;
}

// A job on nodes of two GPUs in which at most three communications of a rank are in flight at once
// and, where every GPU has a NIC, no two share a link: pairs inside a node, rings of GPUs of equal
// number through their NICs, and signals of no bytes.
inline Program random_device_job(const Cluster& cluster, int gpus, std::mt19937* random) {
  const auto below = [&](int n) {
    return static_cast<int>((*random)() % static_cast<unsigned>(n));
  };
  DeviceJob job(gpus, {16, 5e9});
  std::vector<std::uint32_t> ops(gpus);  // of each rank, so far
  const auto waits_of = [&](int rank) {
    DeviceJob::Waits waits;
    for (int i = below(4); i > 1 && ops[rank] > 0; --i)
      waits.push_back(static_cast<std::uint32_t>(below(static_cast<int>(ops[rank]))));
    return waits;
  };
  constexpr OpKind kKinds[] = {OpKind::Send, OpKind::AllReduce, OpKind::ReduceScatter,
                               OpKind::AllGather, OpKind::RingShift};
  for (int i = 0; i < 40 * gpus; ++i) {
    const int rank = below(gpus), what = below(6);
    if (what < 3) {
      job.compute(rank, below(3000), waits_of(rank), below(5) / 4.0);
      ++ops[rank];
      continue;
    }
    DeviceJob::Comm comm{kKinds[below(5)], {}, 1 + below(1000), below(3) * below(8), "inside"};
    if (what == 3) comm.ranks = {rank, rank ^ 1};
    if (what > 3) {
      for (int other = rank % 2; other < gpus; other += 2) comm.ranks.push_back(other);
      std::ranges::shuffle(comm.ranks, *random);
      comm.ranks.resize(comm.kind == OpKind::Send ? 2 : 2 + below(gpus / 2 - 1));
      comm.lane = what == 4 ? "between" : "signals";
      if (what == 5) comm.bytes = 0;
    }
    std::vector<DeviceJob::Waits> waits;
    for (const int member : comm.ranks) waits.push_back(waits_of(member));
    job.communicate(comm, waits);
    for (const int member : comm.ranks) ++ops[member];
  }
  return job.take(cluster);
}

// The bytes of memory bandwidth a nanosecond that an op takes: what it sends and receives over the
// time it takes alone.
inline double memory_of(const Op& op, int members) {
  if (op.bytes == 0) return 0;
  const double ring = 1 - 1.0 / members;
  double passes = 2 * ring;
  if (op.kind == OpKind::AllReduce) passes = 4 * ring;
  if (op.kind == OpKind::RingShift) passes = 2;
  if (op.kind == OpKind::Send || op.kind == OpKind::Recv) passes = 1;
  return passes * static_cast<double>(op.bytes) / static_cast<double>(op.duration_ns);
}

// How much of a compute op is done from its start to its end, at the rates that the rank's
// communication leaves: the sum over all spans in which the same communication is in flight.
inline double work_done(const Program& program, int rank, std::span<const EventTimes> events,
                        std::uint32_t compute) {
  const Body& body = program.bodies[rank];
  const EventTimes& mine = events[compute];
  std::set<Nanoseconds> times = {mine.start_ns, mine.end_ns};
  for (const EventTimes& e : events) {
    times.insert(std::clamp(e.start_ns, mine.start_ns, mine.end_ns));
    times.insert(std::clamp(e.end_ns, mine.start_ns, mine.end_ns));
  }
  const double share = program.kernels[body.ops[compute].kernel].memory_share;
  double done = 0;
  for (auto from = times.begin(), to = std::next(from); to != times.end(); from = to++) {
    int sms = 0;
    double memory = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Op& op = body.ops[i];
      if (op.sms == 0 || events[i].start_ns > *from || events[i].end_ns < *to) continue;
      const int communicator = program.ranks[rank].communicators[op.slot];
      sms += op.sms;
      memory += memory_of(op, static_cast<int>(program.communicators[communicator].members.size()));
    }
    const double n = program.device.sms;
    const double taken = std::min(0.9, memory * 1e9 / program.device.memory_bytes_per_s);
    done += static_cast<double>(*to - *from) * std::max(1.0, n - sms) / n /
            (1 - share + share / (1 - taken));
  }
  return done;
}

// All compute ops of a job whose ranks are all played; how many of them were stretched.
inline int check_work_done(const Program& program, const std::vector<EventTimes>& all) {
  int stretched = 0;
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    const std::vector<Op>& ops = program.bodies[rank].ops;
    const std::span events{all.data() + program.first_op(rank), ops.size()};
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      if (!is_compute(ops[i].kind)) continue;
      // The end is rounded to a nanosecond, at a rate of at most 1; the bandwidth to a byte/s.
      const auto duration = static_cast<double>(ops[i].duration_ns);
      CHECK(work_done(program, rank, events, i) == Approx(duration).margin(0.501));
      stretched += events[i].end_ns - events[i].start_ns > ops[i].duration_ns ? 1 : 0;
    }
  }
  return stretched;
}

}  // namespace tandem
