#include "tests/sim/random_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/draw.h"
#include "tests/made_program.h"

namespace tandem {
namespace {

// The words of an event's communicator, in every replica; of compute none.
std::string communicator(const RandomJob& job, const RandomEvent& event) {
  if (is_compute(event.kind)) return "";
  std::vector<std::string> all;  // by replica
  for (int replica = 0; replica < job.replicas; ++replica) {
    std::vector<int> members = event.ranks;
    for (int& member : members) member += replica * job.ranks;
    all.push_back(fmt::format("{}", fmt::join(members, ">")));
  }
  const bool over_replicas = event.over_replicas();
  const char* const group = over_replicas                ? "data"
                            : event.kind == OpKind::Send ? "pipeline"
                                                         : "tensor";
  return fmt::format(" {0}:{1} on {0}:{2}", group, fmt::join(all, over_replicas ? ">" : "|"),
                     all[0]);
}

}  // namespace

RandomJob random_job(std::uint64_t seed) {
  Draw draw(seed);
  RandomJob job{.ranks = 1 + draw.below(5), .replicas = 1 + draw.below(3), .events = {}};
  constexpr OpKind kCompute[] = {OpKind::Forward, OpKind::Backward, OpKind::BackwardWeight},
                   kTogether[] = {OpKind::AllReduce, OpKind::AllGather, OpKind::ReduceScatter,
                                  OpKind::AllToAll, OpKind::RingShift};
  const int events = 1 + draw.below(40);
  for (int i = 0; i < events; ++i) {
    RandomEvent event{.kind = kCompute[draw.below(3)],
                      .ranks = {draw.below(job.ranks)},
                      .duration_ns = draw.below(4) == 0 ? 0 : draw.below(1000),
                      .waits = draw.bits()};
    const int members = 1 + draw.below(job.ranks);
    for (int more = 1; more < members && draw.below(2) == 0; ++more) {
      const int other = draw.below(job.ranks);
      if (std::ranges::find(event.ranks, other) == event.ranks.end()) event.ranks.push_back(other);
    }
    if (event.ranks.size() == 2 && draw.below(2) == 0) {
      event.kind = OpKind::Send;
    } else if (event.ranks.size() > 1) {
      event.kind = kTogether[draw.below(5)];
    } else if (job.replicas > 1 && draw.below(8) == 0) {
      event.kind = OpKind::AllReduce;
    }
    job.events.push_back(std::move(event));
  }
  return job;
}

Program program_of(const RandomJob& job) {
  std::vector<std::vector<std::string>> ops(job.ranks);
  const auto add = [&](int rank, OpKind kind, const RandomEvent& event) {
    std::string op =
        fmt::format("{} {}ns{}", op_kind_name(kind), event.duration_ns, communicator(job, event));
    Draw draw(event.waits);
    std::set<int> waits;
    for (int i = draw.below(3); i > 0 && !ops[rank].empty(); --i)
      waits.insert(draw.below(static_cast<int>(ops[rank].size())));
    if (!waits.empty()) op += fmt::format(" after {}", fmt::join(waits, " "));
    ops[rank].push_back(op);
  };
  for (const RandomEvent& event : job.events) {
    for (std::size_t i = 0; i < event.ranks.size(); ++i)
      add(event.ranks[i], event.kind == OpKind::Send && i == 1 ? OpKind::Recv : event.kind, event);
  }
  std::string text;
  for (int rank = 0; rank < job.ranks; ++rank) {
    if (job.replicas > 1)
      add(rank, OpKind::AllReduce,
          {.kind = OpKind::AllReduce, .ranks = {rank}, .duration_ns = 7, .waits = 1});
    text += "ranks";
    for (int replica = 0; replica < job.replicas; ++replica)
      text += fmt::format(" {}", replica * job.ranks + rank);
    text += fmt::format(": {}\n", fmt::join(ops[rank], ", "));
  }
  return made_program(text, "random");
}

RandomJob shrunk(RandomJob job, const std::function<bool(const RandomJob&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    std::vector<RandomJob> tries;
    for (std::size_t i = 0; i < job.events.size(); ++i) {
      tries.push_back(job);
      tries.back().events.erase(tries.back().events.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (job.replicas > 1) {
      tries.push_back(job);
      --tries.back().replicas;
    }
    for (RandomJob& each : tries) {
      if (each.events.empty() || !fails(each)) continue;
      job = std::move(each);
      smaller = true;
      break;
    }
  }
  return job;
}

}  // namespace tandem
