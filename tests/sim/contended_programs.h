// Small jobs whose communication takes SMs from the compute beside it, op by op or at random; and
// whether their compute has done its work.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "schedule/lowering/price.h"
#include "schedule/program/replay.h"
#include "schedule/program/validate.h"
#include "tests/made_program.h"

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

// A Program on this device, priced and valid.
inline Program priced(const std::string& text, const Cluster& cluster,
                      const SharedDevice& device = {108, 4e9},
                      const std::vector<Kernel>& kernels = {}) {
  Program program = made_program(text);
  program.device = device;
  program.kernels = kernels;
  price(&program, cluster, in_order(static_cast<int>(program.ranks.size())));
  const Status valid = validate(program);
  INFO((valid.ok() ? "" : valid.error().text()));
  REQUIRE(valid.ok());
  return program;
}

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
  std::vector<std::vector<std::string>> ops(gpus);  // of each rank
  const auto waits_of = [&](int rank) {
    std::string waits;
    for (int i = below(4); i > 1 && !ops[rank].empty(); --i)
      waits += fmt::format("{} {}", waits.empty() ? " after" : "",
                           below(static_cast<int>(ops[rank].size())));
    return waits;
  };
  constexpr OpKind kKinds[] = {OpKind::Send, OpKind::AllReduce, OpKind::ReduceScatter,
                               OpKind::AllGather, OpKind::RingShift};
  for (int i = 0; i < 40 * gpus; ++i) {
    const int rank = below(gpus), what = below(6);
    if (what < 3) {
      const int ns = below(3000);
      const std::string waits = waits_of(rank);
      ops[rank].push_back(fmt::format("F {}ns kernel{}{}", ns, below(5), waits));
      continue;
    }
    const OpKind kind = kKinds[below(5)];
    int bytes = 1 + below(1000);
    const int sms = below(3) * below(8);
    const char* const lane = what == 3 ? "inside" : what == 4 ? "between" : "signals";
    std::vector<int> ranks;
    if (what == 3) ranks = {rank, rank ^ 1};
    if (what > 3) {
      for (int other = rank % 2; other < gpus; other += 2) ranks.push_back(other);
      std::ranges::shuffle(ranks, *random);
      ranks.resize(kind == OpKind::Send ? 2 : 2 + below(gpus / 2 - 1));
      if (what == 5) bytes = 0;
    }
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const OpKind own = kind == OpKind::Send && k == 1 ? OpKind::Recv : kind;
      ops[ranks[k]].push_back(fmt::format("{} tensor:{} on {} {}B {}sm{}", op_kind_name(own),
                                          fmt::join(ranks, ">"), lane, bytes, sms,
                                          waits_of(ranks[k])));
    }
  }
  std::string text;
  for (int rank = 0; rank < gpus; ++rank)
    text += fmt::format("rank {}: {}\n", rank, fmt::join(ops[rank], ", "));
  std::vector<Kernel> kernels;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    kernels.push_back({.name = "kernel", .memory_share = share});
  return priced(text, cluster, {16, 5e9}, kernels);
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
  const int kernel = body.ops[compute].kernel;
  const double share = kernel < 0 ? 0 : program.kernels[kernel].memory_share;
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
