// Kahn's topological sort of a replica's ops. In: the bodies of its ranks. Out: a ReplicaPlan,
// whose steps are cut into levels where the replica must wait for other replicas.
//
// An event is ready when all that it waits for has been placed. An event of a communication inside
// the replica is placed when those of all members are ready. Events that wait for a communication
// between replicas become ready at the next level.
#include "sim/replica_plan.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace tandem {
namespace {

constexpr std::int32_t kNone = -1;

class Planner {
 public:
  Planner(const Program& program, std::span<const LaneQueues> queues, const Replicas& replicas,
          std::span<const std::int32_t> ranks)
      : program_(program), replicas_(replicas), ranks_(ranks) {
    collect_events();
    collect_waits(queues);
    invert_waits();
    collect_gatherings();
    for (std::size_t member = 0; member < ranks_.size(); ++member)
      reduction_.push_back(reduction_of(static_cast<std::uint16_t>(member)));
  }

  std::optional<ReplicaPlan> plan() {
    for (std::uint32_t event = 0; event < events(); ++event) {
      if (open_waits_[event] == 0) ready_.push_back(event);
    }
    while (!ready_.empty()) place_level();
    if (plan_.steps.size() != events()) return std::nullopt;
    if (!plan_.levels.empty() && !plan_.levels.back().meets.empty())
      plan_.levels.push_back({events(), {}, {}});  // in which the last meetings end
    plan_.steps.push_back({.first_wait = static_cast<std::uint32_t>(plan_.waits.size())});
    find_kept_events();
    return std::move(plan_);
  }

 private:
  // A communication inside the replica: each member has one event of it.
  struct Gathering {
    std::vector<std::uint32_t> ready;  // the events that are ready so far
    std::size_t members = 0;
  };

  std::uint32_t events() const { return static_cast<std::uint32_t>(plan_.first_event.back()); }
  const RankRow& row(std::uint16_t member) const { return program_.ranks[ranks_[member]]; }
  const Body& body(std::uint16_t member) const { return program_.bodies[row(member).body]; }
  std::uint32_t op_of(std::uint32_t event) const {
    return event - static_cast<std::uint32_t>(plan_.first_event[member_[event]]);
  }

  void collect_events() {
    plan_.first_event.push_back(0);
    for (std::size_t member = 0; member < ranks_.size(); ++member) {
      const std::size_t ops = body(static_cast<std::uint16_t>(member)).ops.size();
      plan_.first_event.push_back(plan_.first_event.back() + ops);
      member_.insert(member_.end(), ops, static_cast<std::uint16_t>(member));
    }
  }

  // Collects each event's waits. Of its own lane the event before it is enough: all others there
  // have ended by then.
  void collect_waits(std::span<const LaneQueues> queues) {
    open_waits_.resize(events());
    first_wait_.push_back(0);
    for (std::uint32_t event = 0; event < events(); ++event) {
      const std::uint16_t member = member_[event];
      const auto first = static_cast<std::uint32_t>(plan_.first_event[member]);
      const Body& own = body(member);
      const Op& op = own.ops[event - first];
      const LaneQueues& lanes = queues[row(member).body];
      const std::uint32_t place = lanes.place[event - first];
      if (place > 0) waits_.push_back(first + lanes.lanes[op.lane][place - 1]);
      for (const std::uint32_t wait : own.waits_of(op)) {
        if (own.ops[wait].lane != op.lane) waits_.push_back(first + wait);
      }
      open_waits_[event] = static_cast<std::uint32_t>(waits_.size()) - first_wait_.back();
      first_wait_.push_back(static_cast<std::uint32_t>(waits_.size()));
    }
  }

  // Collects the waiters of each event, from the waits (a counting sort).
  void invert_waits() {
    first_waiter_.resize(events() + 1);
    for (const std::uint32_t wait : waits_) ++first_waiter_[wait + 1];
    for (std::uint32_t event = 0; event < events(); ++event)
      first_waiter_[event + 1] += first_waiter_[event];
    waiters_.resize(waits_.size());
    std::vector<std::uint32_t> next(first_waiter_.begin(), first_waiter_.end() - 1);
    for (std::uint32_t event = 0; event < events(); ++event) {
      for (std::uint32_t w = first_wait_[event]; w < first_wait_[event + 1]; ++w)
        waiters_[next[waits_[w]]++] = event;
    }
  }

  // Numbers the communications inside the replica. Each member's k-th op on a communicator belongs
  // to the same one.
  void collect_gatherings() {
    std::unordered_map<std::uint64_t, std::int32_t> numbers;
    gathering_.resize(events(), kNone);
    instance_.resize(events());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const auto member = static_cast<std::uint16_t>(i);
      std::vector<std::uint32_t> uses(row(member).communicators.size());
      for (std::uint32_t op = 0; op < body(member).ops.size(); ++op) {
        const std::int16_t slot = body(member).ops[op].slot;
        if (slot < 0) continue;
        const auto communicator = static_cast<std::uint32_t>(row(member).communicators[slot]);
        const std::size_t event = plan_.first_event[member] + op;
        instance_[event] = uses[slot]++;
        if (replicas_.between[communicator]) continue;
        const std::uint64_t key = std::uint64_t{communicator} << 32 | instance_[event];
        const auto [at, is_new] =
            numbers.try_emplace(key, static_cast<std::int32_t>(gatherings_.size()));
        if (is_new)
          gatherings_.push_back({{}, program_.communicators[communicator].members.size()});
        gathering_[event] = at->second;
      }
    }
  }

  // Returns the kind of op that reduces the member's gradients. ZeRO reduce-scatters them; its
  // AllReduces then reduce something else (the gradient norm, fp8's largest values).
  OpKind reduction_of(std::uint16_t member) const {
    const bool scatters = std::ranges::any_of(body(member).ops, [&](const Op& op) {
      return op.kind == OpKind::ReduceScatter &&
             replicas_.between[row(member).communicators[op.slot]];
    });
    return scatters ? OpKind::ReduceScatter : OpKind::AllReduce;
  }

  // Places all events that can be placed before the next meetings start.
  void place_level() {
    ReplicaLevel level;
    std::vector<std::uint32_t> meeting_events;
    while (!ready_.empty()) {
      const std::uint32_t event = ready_.back();
      ready_.pop_back();
      const Op& op = body(member_[event]).ops[op_of(event)];
      if (is_compute(op.kind)) {
        place(event, ReplicaStep::Kind::Compute);
        release_waiters(event);
      } else if (gathering_[event] == kNone) {
        level.meets.push_back({static_cast<std::uint32_t>(plan_.steps.size()), instance_[event]});
        place(event, ReplicaStep::Kind::Meets);
        // An op of one microbatch reduces fp8's largest values, not gradients.
        plan_.steps.back().reduces = op.kind == reduction_[member_[event]] && op.microbatch < 0;
        meeting_events.push_back(event);
      } else {
        gather(event);
      }
    }
    level.end_step = plan_.steps.size();
    plan_.levels.push_back(std::move(level));
    for (const std::uint32_t event : meeting_events) release_waiters(event);
  }

  // Notes an arrival. The last one places the events of all members.
  void gather(std::uint32_t event) {
    Gathering& gathering = gatherings_[gathering_[event]];
    gathering.ready.push_back(event);
    if (gathering.ready.size() != gathering.members) return;
    for (const std::uint32_t other : gathering.ready) {
      place(other, other == event ? ReplicaStep::Kind::Starts : ReplicaStep::Kind::Arrives);
      release_waiters(other);
    }
  }

  void place(std::uint32_t event, ReplicaStep::Kind kind) {
    plan_.steps.push_back({event, static_cast<std::uint32_t>(plan_.waits.size()), op_of(event),
                           member_[event], kind});
    plan_.waits.insert(plan_.waits.end(), waits_.begin() + first_wait_[event],
                       waits_.begin() + first_wait_[event + 1]);
  }

  void release_waiters(std::uint32_t event) {
    for (std::uint32_t w = first_waiter_[event]; w < first_waiter_[event + 1]; ++w) {
      if (--open_waits_[waiters_[w]] == 0) ready_.push_back(waiters_[w]);
    }
  }

  // Finds the events whose ends each level must keep for later ones.
  void find_kept_events() {
    std::vector<std::int32_t> level_of(events()), last_use(events(), kNone);
    std::size_t step = 0;
    for (std::size_t l = 0; l < plan_.levels.size(); ++l) {
      for (; step < plan_.levels[l].end_step; ++step) {
        level_of[plan_.steps[step].event] = static_cast<std::int32_t>(l);
        for (const std::uint32_t wait : plan_.waits_of(step))
          last_use[wait] = static_cast<std::int32_t>(l);
      }
    }
    for (std::uint32_t event = 0; event < events(); ++event) {
      for (std::int32_t l = level_of[event]; l < last_use[event]; ++l)
        plan_.levels[l].kept.push_back(event);
    }
  }

  const Program& program_;
  const Replicas& replicas_;
  const std::span<const std::int32_t> ranks_;
  ReplicaPlan plan_;
  std::vector<std::uint16_t> member_;      // by event
  std::vector<OpKind> reduction_;          // by member
  std::vector<std::uint32_t> open_waits_;  // by event: how many of its waits are not placed yet
  // Event e waits for the events waits_[first_wait_[e]] to waits_[first_wait_[e + 1] - 1]. The
  // events that wait for e are stored likewise in waiters_.
  std::vector<std::uint32_t> first_wait_, waits_, first_waiter_, waiters_;
  // By event of a communication: its number among its slot's ops.
  std::vector<std::uint32_t> instance_;
  std::vector<std::int32_t> gathering_;  // by event: its Gathering, or kNone
  std::vector<Gathering> gatherings_;
  std::vector<std::uint32_t> ready_;
};

}  // namespace

std::optional<ReplicaPlan> plan_replica(const Program& program, std::span<const LaneQueues> queues,
                                        const Replicas& replicas,
                                        std::span<const std::int32_t> ranks) {
  if (ranks.size() > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  return Planner(program, queues, replicas, ranks).plan();
}

}  // namespace tandem
