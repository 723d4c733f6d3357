#include "tests/sim/random_programs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tests/draw.h"

namespace tandem {
namespace {

// The bodies of a replica's ranks; all replicas share them.
class Replica {
 public:
  explicit Replica(const RandomJob& job) : job_(job), slots_(job.ranks) {
    for (int rank = 0; rank < job.ranks; ++rank) bodies.emplace_back().lanes.push_back({"compute"});
    for (const RandomEvent& event : job.events) add(event);
    for (int rank = 0; rank < job.ranks && job.replicas > 1; ++rank)
      op(rank, {.kind = OpKind::AllReduce, .ranks = {rank}, .duration_ns = 7, .waits = 1},
         OpKind::AllReduce, slot(rank, GroupKind::Data, {rank}));
  }

  std::vector<Body> bodies;
  // The members of each slot of a rank, as ranks of the replica; Data: over the replicas.
  std::vector<std::vector<std::vector<int>>> members() const { return members_; }

 private:
  void add(const RandomEvent& event) {
    if (is_compute(event.kind)) return op(event.ranks[0], event, event.kind, -1);
    const bool is_transfer = event.kind == OpKind::Send;
    const GroupKind group = event.over_replicas() ? GroupKind::Data
                            : is_transfer         ? GroupKind::Pipeline
                                                  : GroupKind::Tensor;
    for (std::size_t i = 0; i < event.ranks.size(); ++i) {
      const int rank = event.ranks[i];
      op(rank, event, is_transfer && i == 1 ? OpKind::Recv : event.kind,
         slot(rank, group, event.ranks));
    }
  }

  std::int16_t slot(int rank, GroupKind group, const std::vector<int>& ranks) {
    const auto [at, is_new] = slots_[rank].try_emplace({group, ranks}, slots_[rank].size());
    if (is_new) {
      Body& body = bodies[rank];
      std::string lane = std::to_string(static_cast<int>(group));
      for (const int member : ranks) lane += '>' + std::to_string(member);
      body.slots.push_back({group, static_cast<std::uint8_t>(body.lanes.size())});
      body.lanes.push_back({lane});
      members_.resize(job_.ranks);
      members_[rank].push_back(ranks);
    }
    return static_cast<std::int16_t>(at->second);
  }

  void op(int rank, const RandomEvent& event, OpKind kind, std::int16_t slot) {
    Body& body = bodies[rank];
    const Op made{.kind = kind,
                  .lane = slot < 0 ? std::uint8_t{0} : body.slots[slot].lane,
                  .slot = slot,
                  .stage = static_cast<std::int16_t>(rank),
                  .duration_ns = event.duration_ns,
                  .bytes = slot < 0 ? Bytes{0} : Bytes{64}};
    Draw draw(event.waits);
    std::vector<std::uint32_t> waits;
    for (int i = draw.below(3); i > 0 && !body.ops.empty(); --i)
      waits.push_back(static_cast<std::uint32_t>(draw.below(static_cast<int>(body.ops.size()))));
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    add_op(made, waits, &body);
  }

  const RandomJob& job_;
  std::vector<std::map<std::pair<GroupKind, std::vector<int>>, std::size_t>> slots_;
  std::vector<std::vector<std::vector<int>>> members_;
};

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
  Replica replica(job);
  Program program;
  program.name = "random";
  program.bodies = replica.bodies;
  std::map<std::pair<int, std::vector<int>>, std::int32_t> numbers;  // replica (-1: over all)
  for (int r = 0; r < job.replicas; ++r) {
    for (int rank = 0; rank < job.ranks; ++rank) {
      RankRow row{rank, {}};
      const Body& body = program.bodies[rank];
      for (std::size_t slot = 0; slot < body.slots.size(); ++slot) {
        const GroupKind group = body.slots[slot].group_kind;
        std::vector<int> key = replica.members()[rank][slot];
        Communicator communicator{.group_kind = group};
        for (const int member : key) communicator.members.push_back(Rank{r * job.ranks + member});
        if (group == GroupKind::Data) {
          communicator.members.clear();
          for (int each = 0; each < job.replicas; ++each)
            communicator.members.push_back(Rank{each * job.ranks + rank});
        }
        key.push_back(static_cast<int>(group));
        const auto [at, is_new] =
            numbers.try_emplace({group == GroupKind::Data ? -1 : r, key},
                                static_cast<std::int32_t>(program.communicators.size()));
        if (is_new) program.communicators.push_back(std::move(communicator));
        row.communicators.push_back(at->second);
      }
      program.ranks.push_back(std::move(row));
    }
  }
  return program;
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
