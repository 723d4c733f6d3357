// Plays data-parallel replicas level by level. A meeting is a communication between replicas, such
// as a gradient's all-reduce. A level is the part of a replica up to its next meetings; a plan
// lists its steps, one for each op of each rank (sim/replica_plan.h). In each turn all replicas
// whose meetings have started play their next level, on several threads. Then their arrivals are
// added up, and each meeting at which all members have arrived gets its start: the last arrival.
#include "sim/by_replica.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/parallel/parallel.h"
#include "base/random.h"
#include "schedule/program/lanes.h"
#include "schedule/program/replicas.h"
#include "sim/drawn_durations.h"
#include "sim/replica_plan.h"

namespace tandem {
namespace {

// Counts the ranks that have arrived at a communicator's next operation, and keeps the last one to
// arrive: the lowest rank if several arrive last.
struct Arrivals {
  std::size_t ranks = 0;
  Nanoseconds last_ns = -1;  // -1: nobody has arrived
  std::int32_t last_rank = 0;

  void add(const Arrivals& more) {
    ranks += more.ranks;
    if (more.last_ns < last_ns) return;
    last_rank = more.last_ns == last_ns ? std::min(last_rank, more.last_rank) : more.last_rank;
    last_ns = more.last_ns;
  }
};

// A replica, and how far it has been played.
struct Replica {
  const ReplicaPlan* plan = nullptr;
  std::span<const std::int32_t> ranks;
  std::size_t level = 0;  // the next level to play
  // Ends of the events that later levels wait for, in the order of the last level's `kept`.
  std::vector<Nanoseconds> kept_ends;

  bool ended() const { return level == plan->levels.size(); }
};

// The buffers and arrivals of one thread. collect_arrivals() empties it after each turn.
struct Worker {
  std::vector<Nanoseconds> ends, durations;  // by event of the replica that it plays
  std::vector<Arrivals> arrivals;            // by meeting_number()
  Arrivals reduction_arrivals;               // at gradient reductions
  Nanoseconds last_end = 0;
};

class Player {
 public:
  Player(const Program& program, const Replicas& replicas, const Jitter& jitter)
      : program_(program),
        replicas_(replicas),
        durations_(program, jitter),
        queues_(lane_queues(program)) {
    number_meeting_communicators();
    for (const Body& body : program.bodies) form_of_body_.push_back(number_form(body));
  }

  // Makes each replica's plan. Returns false if the Program does not end.
  bool plan() {
    for (const std::vector<std::int32_t>& ranks : replicas_.ranks) {
      const auto [entry, is_new] = plans_.try_emplace(plan_key(ranks));
      if (is_new) {
        auto plan = plan_replica(program_, queues_, replicas_, ranks);
        if (!plan) return false;
        entry->second = *std::move(plan);
      }
      playing_.push_back({&entry->second, ranks, 0, {}});
    }
    return true;
  }

  // Plays all levels. Returns false if the replicas wait for each other for ever.
  bool play(int threads) {
    std::vector<Worker> workers(threads);
    for (;;) {
      std::vector<Replica*> ready;
      bool all_ended = true;
      for (Replica& replica : playing_) {
        if (replica.ended()) continue;
        all_ended = false;
        if (can_play_next_level(replica)) ready.push_back(&replica);
      }
      if (all_ended) return true;
      if (ready.empty()) return false;
      share_among_threads(threads, ready.size(), [&](int thread, std::size_t i) {
        play_level(ready[i], &workers[thread]);
      });
      for (Worker& worker : workers) collect_arrivals(&worker);
    }
  }

  // Plays the replica once more, and returns its events as a Trace. REQUIRES: play() returned true.
  Trace trace(const Replica& replica, Worker* worker) const {
    const ReplicaPlan& plan = *replica.plan;
    draw_all_durations(replica, worker);
    Trace trace;
    trace.events.resize(plan.first_event.back());
    for (std::size_t member = 0; member < replica.ranks.size(); ++member) {
      const std::int32_t rank = replica.ranks[member];
      trace.ranks.push_back({static_cast<Rank>(rank), program_.ranks[rank].body,
                             /*multiplicity=*/1, plan.first_event[member]});
    }
    grow_buffers(plan, worker);
    for (std::size_t l = 0; l < plan.levels.size(); ++l) {
      run_steps<true>(replica, l, worker, trace.events.data());
      end_meetings(replica, l, worker);
      for (const ReplicaMeeting& meeting : plan.levels[l].meets) {
        EventTimes& times = trace.events[plan.steps[meeting.step].event];
        times.start_ns = start_of(replica, meeting).value();
        times.end_ns = worker->ends[plan.steps[meeting.step].event];
      }
    }
    return trace;
  }

  std::vector<Replica>& playing() { return playing_; }
  Nanoseconds last_end() const { return last_end_; }
  Rank latest() const { return static_cast<Rank>(reduction_arrivals_.last_rank); }

 private:
  void number_meeting_communicators() {
    meeting_number_.resize(program_.communicators.size(), -1);
    for (std::size_t c = 0; c < meeting_number_.size(); ++c) {
      if (!replicas_.between[c]) continue;
      meeting_number_[c] = static_cast<std::int32_t>(meeting_communicators_.size());
      meeting_communicators_.push_back(static_cast<std::int32_t>(c));
    }
    arrivals_.resize(meeting_communicators_.size());
    starts_.resize(meeting_communicators_.size());
  }

  // Returns a number that two bodies share if they differ in durations alone.
  std::int32_t number_form(const Body& body) {
    std::vector<std::int64_t> form;
    for (const Slot& slot : body.slots) form.push_back(slot.lane);
    for (const Op& op : body.ops) {
      form.insert(form.end(), {static_cast<std::int64_t>(op.kind), op.lane, op.slot, op.waits});
      for (const std::uint32_t wait : body.waits_of(op)) form.push_back(wait);
    }
    return forms_.try_emplace(std::move(form), static_cast<std::int32_t>(forms_.size()))
        .first->second;
  }

  // Returns a key that replicas share if one plan serves both. It has each member's form, and for
  // each of its slots a number of the communicator there: -1 between replicas, else 0, 1, ... in
  // the order of their first slots. Two members of form 7, with one communicator between them and
  // another with other replicas, give 7 0 -1 7 0 -1.
  std::vector<std::int32_t> plan_key(std::span<const std::int32_t> ranks) const {
    std::vector<std::int32_t> key;
    std::map<std::int32_t, std::int32_t> numbers;  // by communicator inside the replica
    for (const std::int32_t rank : ranks) {
      key.push_back(form_of_body_[program_.ranks[rank].body]);
      for (const std::int32_t c : program_.ranks[rank].communicators) {
        const auto next = static_cast<std::int32_t>(numbers.size());
        key.push_back(replicas_.between[c] ? -1 : numbers.try_emplace(c, next).first->second);
      }
    }
    return key;
  }

  // Returns the number of the step's communicator among those between replicas.
  std::int32_t meeting_number(const Replica& replica, const ReplicaStep& step) const {
    const RankRow& row = program_.ranks[replica.ranks[step.member]];
    return meeting_number_[row.communicators[program_.bodies[row.body].ops[step.op].slot]];
  }

  // Returns a meeting's start; nothing: it has not started.
  std::optional<Nanoseconds> start_of(const Replica& replica, const ReplicaMeeting& meeting) const {
    const auto& starts = starts_[meeting_number(replica, replica.plan->steps[meeting.step])];
    if (meeting.instance >= starts.size()) return std::nullopt;
    return starts[meeting.instance];
  }

  bool can_play_next_level(const Replica& replica) const {
    if (replica.level == 0) return true;
    return std::ranges::all_of(
        replica.plan->levels[replica.level - 1].meets,
        [&](const ReplicaMeeting& meeting) { return start_of(replica, meeting).has_value(); });
  }

  void draw_all_durations(const Replica& replica, Worker* worker) const {
    worker->durations.resize(replica.plan->first_event.back());
    for (std::size_t member = 0; member < replica.ranks.size(); ++member)
      durations_.draw(replica.ranks[member],
                      worker->durations.data() + replica.plan->first_event[member]);
  }

  void grow_buffers(const ReplicaPlan& plan, Worker* worker) const {
    worker->ends.resize(std::max(worker->ends.size(), plan.first_event.back()));
    worker->arrivals.resize(meeting_communicators_.size());
  }

  void play_level(Replica* replica, Worker* worker) const {
    grow_buffers(*replica->plan, worker);
    if (replica->level == 0) {
      draw_all_durations(*replica, worker);  // all at once, as that is fastest
    } else {  // the worker's buffers may have served other replicas since
      restore_ends(*replica, worker);
      end_meetings(*replica, replica->level - 1, worker);
      draw_durations_of_level(*replica, worker);
    }
    run_steps<false>(*replica, replica->level, worker, nullptr);
    const std::vector<std::uint32_t>& kept = replica->plan->levels[replica->level].kept;
    replica->kept_ends.clear();
    replica->kept_ends.reserve(kept.size());
    for (const std::uint32_t event : kept) replica->kept_ends.push_back(worker->ends[event]);
    ++replica->level;
  }

  void restore_ends(const Replica& replica, Worker* worker) const {
    const std::vector<std::uint32_t>& kept = replica.plan->levels[replica.level - 1].kept;
    for (std::size_t i = 0; i < kept.size(); ++i) worker->ends[kept[i]] = replica.kept_ends[i];
  }

  // Fills in the ends of the meetings at the end of a level.
  void end_meetings(const Replica& replica, std::size_t level, Worker* worker) const {
    for (const ReplicaMeeting& meeting : replica.plan->levels[level].meets) {
      const ReplicaStep& step = replica.plan->steps[meeting.step];
      const Nanoseconds end = start_of(replica, meeting).value() + duration(replica, step);
      worker->ends[step.event] = end;
      worker->last_end = std::max(worker->last_end, end);
    }
  }

  void draw_durations_of_level(const Replica& replica, Worker* worker) const {
    const ReplicaPlan& plan = *replica.plan;
    worker->durations.resize(std::max(worker->durations.size(), plan.first_event.back()));
    const std::size_t end_step = plan.levels[replica.level].end_step;
    for (std::size_t s = plan.first_step(replica.level); s < end_step; ++s)
      worker->durations[plan.steps[s].event] = duration(replica, plan.steps[s]);
  }

  Nanoseconds duration(const Replica& replica, const ReplicaStep& step) const {
    return durations_.of(replica.ranks[step.member], step.op);
  }

  // Plays the steps of a level. A communication inside the replica has a step for each member, one
  // after another. All but the last step (Starts) only arrive; then all start at the last arrival.
  // Compute is played as a communication of one member. `times`, by event, are filled in for a
  // trace, but for the starts and ends of meetings.
  template <bool kIsTraced>
  void run_steps(const Replica& replica, std::size_t level, Worker* worker,
                 EventTimes* times) const {
    const ReplicaPlan& plan = *replica.plan;
    Nanoseconds* const ends = worker->ends.data();
    const Nanoseconds* const durations = worker->durations.data();
    Nanoseconds last_arrival = 0, last_end = worker->last_end;
    std::size_t first_arrival = plan.first_step(level);  // the step
    for (std::size_t s = first_arrival; s < plan.levels[level].end_step; ++s) {
      const ReplicaStep& step = plan.steps[s];
      Nanoseconds ready = 0;
      for (const std::uint32_t wait : plan.waits_of(s)) ready = std::max(ready, ends[wait]);
      if constexpr (kIsTraced) times[step.event].arrive_ns = ready;
      if (step.kind == ReplicaStep::Kind::Meets) {
        const Arrivals own{1, ready, replica.ranks[step.member]};
        worker->arrivals[meeting_number(replica, step)].add(own);
        if (step.reduces) worker->reduction_arrivals.add(own);
      } else {
        last_arrival = std::max(last_arrival, ready);
        if (step.kind == ReplicaStep::Kind::Arrives) continue;
        for (std::size_t i = first_arrival; i <= s; ++i) {
          const std::uint32_t event = plan.steps[i].event;
          ends[event] = last_arrival + durations[event];
          last_end = std::max(last_end, ends[event]);
          if constexpr (kIsTraced) times[event].start_ns = last_arrival;
          if constexpr (kIsTraced) times[event].end_ns = ends[event];
        }
        last_arrival = 0;
      }
      first_arrival = s + 1;
    }
    worker->last_end = last_end;
  }

  // Moves a worker's arrivals to those of all replicas. A meeting at which all members have arrived
  // starts at the last arrival.
  void collect_arrivals(Worker* worker) {
    for (std::size_t c = 0; c < worker->arrivals.size(); ++c) {
      const Arrivals added = std::exchange(worker->arrivals[c], {});
      if (added.ranks == 0) continue;
      arrivals_[c].add(added);
      if (arrivals_[c].ranks == program_.communicators[meeting_communicators_[c]].members.size())
        starts_[c].push_back(std::exchange(arrivals_[c], {}).last_ns);
    }
    reduction_arrivals_.add(std::exchange(worker->reduction_arrivals, {}));
    last_end_ = std::max(last_end_, worker->last_end);
  }

  const Program& program_;
  const Replicas& replicas_;
  const DrawnDurations durations_;
  const std::vector<LaneQueues> queues_;
  std::map<std::vector<std::int64_t>, std::int32_t> forms_;
  std::vector<std::int32_t> form_of_body_;
  std::map<std::vector<std::int32_t>, ReplicaPlan> plans_;
  std::vector<Replica> playing_;
  std::vector<std::int32_t> meeting_communicators_;  // those between replicas
  std::vector<std::int32_t> meeting_number_;      // by communicator: its index there; -1: it is not
  std::vector<Arrivals> arrivals_;                // by meeting number: at its next operation
  std::vector<std::vector<Nanoseconds>> starts_;  // by meeting number: of its operations so far
  Nanoseconds last_end_ = 0;
  Arrivals reduction_arrivals_;
};

// Marks the first rank of each body.
std::vector<bool> first_of_bodies(const Program& program) {
  std::vector<bool> seen(program.bodies.size()), is_first;
  for (const RankRow& row : program.ranks) {
    is_first.push_back(!seen[row.body]);
    seen[row.body] = true;
  }
  return is_first;
}

// Fills in the metrics of all ranks, and the trace of the first rank of each body.
void fill_measured(Player* player, const Program& program, int jobs, PlayedByReplica* played) {
  std::vector<RankSplit> splits(program.ranks.size());
  std::vector<std::vector<EventTimes>> events_of_rank(program.ranks.size());
  const std::vector<bool> is_traced = first_of_bodies(program);
  std::vector<Worker> workers(jobs);
  share_among_threads(jobs, player->playing().size(), [&](int thread, std::size_t r) {
    const Trace trace = player->trace(player->playing()[r], &workers[thread]);
    std::vector<RankSplit> own = split_ranks(program, trace, played->iteration_ns);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const RankTrace& rank = trace.ranks[i];
      splits[index(rank.rank)] = own[i];
      if (!is_traced[index(rank.rank)]) continue;
      const auto events = trace.events_of(program, rank);
      events_of_rank[index(rank.rank)].assign(events.begin(), events.end());
    }
  });
  played->metrics = means_of(std::move(splits), played->iteration_ns);
  for (std::size_t rank = 0; rank < events_of_rank.size(); ++rank) {
    if (!is_traced[rank]) continue;
    played->trace.ranks.push_back({static_cast<Rank>(rank), program.ranks[rank].body,
                                   /*multiplicity=*/1, played->trace.events.size()});
    played->trace.events.insert(played->trace.events.end(), events_of_rank[rank].begin(),
                                events_of_rank[rank].end());
  }
}

}  // namespace

std::optional<PlayedByReplica> play_by_replica(const Program& program, const SimOptions& options,
                                               bool measured, int jobs) {
  if (options.folded() || takes_sms(program)) return std::nullopt;
  const Replicas replicas = part(program);
  if (replicas.ranks.size() < 2) return std::nullopt;
  Player player(program, replicas, {options.jitter, options.seed});
  if (!player.plan() || !player.play(jobs)) return std::nullopt;
  PlayedByReplica played{.iteration_ns = player.last_end(), .latest = player.latest()};
  for (const RankRow& row : program.ranks)
    played.ops += static_cast<std::int64_t>(program.bodies[row.body].ops.size());
  if (measured) fill_measured(&player, program, jobs, &played);
  return played;
}

}  // namespace tandem
