// Playback: a Program in order of time, its communication as flows that may share links.
//
// An operation whose links nobody else uses takes its duration when alone: that is a closed form,
// and needs no solver. Only when a second operation comes to a link in use do both go to the
// FlowSolver, the first with the bytes it has left. The times are those that the solver would give
// for all of them (tested), at a fraction of the work.
//
// Where communication takes SMs, compute beside it slows down (schedule/program/contention.h).
// All that begins and ends at one instant counts together, so the order of ties changes no time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "schedule/lowering/price.h"
#include "schedule/program/contention.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"
#include "sim/flows.h"
#include "topology/traffic.h"

namespace tandem {

struct PlaybackOptions {
  Jitter jitter;
  bool closed_forms = true;  // false: every flow goes to the solver, to test the closed forms
  std::function<void(std::int64_t ops)> on_progress = [](std::int64_t) {};
};

// What a communicator class's operations put on the links.
using TrafficOf = std::function<Traffic(std::int32_t comm_class, const CommUse& use)>;

class Playback final : public FlowListener {
 public:
  // Without links: every communication takes its duration when alone.
  Playback(const Program& program, const RankFolding& folding, const PlaybackOptions& options);
  Playback(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
           std::span<const double> link_bytes_per_s, const PlaybackOptions& options);

  // The links and routes that flows of this playback may take.
  const FlowNetwork& network() const { return network_; }

  // The events, a folded rank's from first[folded_rank] on. Error where some op never ended.
  // Without links there are no flows to solve.
  Result<Replay> run(FlowSolver* solver = nullptr);

 private:
  // What stands for an operation of a communicator class: its flows, over routes of the network.
  struct Pattern {
    struct PatternFlow {
      std::int32_t route = 0;
      double share = 0;    // bytes per byte of the operation
      double alone_s = 0;  // seconds per byte of the operation, alone
      int multiplicity = 1;
    };
    std::vector<PatternFlow> flows;
    std::vector<std::int32_t> links;  // each once
    Nanoseconds latency_ns = 0;
    double seconds_per_byte = 0;
    int way = 0;
    std::int32_t ways = 0;    // of the communicator class's kind: this pattern and those after it
    bool is_private = false;  // no other communicator class uses any of its links
    bool shares_with_itself = false;  // two of its flows have a link in common
  };
  static constexpr std::int32_t kNoLinks = -1;
  enum class Phase : std::uint8_t { Idle, Latency, Alone, Shared };
  // A body's queues, and where what its ops wait for stands on them.
  struct Queues {
    struct Place {
      std::uint32_t on_lane = 0;
      std::uint8_t lane = 0;
    };
    LaneQueues of_lanes;
    std::vector<Place> waits;  // as Body::waits

    explicit Queues(const Body& body);
  };
  // How far a rank is on a lane: as LaneCursors, with those of all ranks side by side.
  struct PlayedLane {
    Nanoseconds arrived_ns = 0;  // of its op under way
    std::uint32_t done = 0;      // ops ended
    bool busy = false;           // its next op has arrived or runs
  };
  struct PlayedRank {
    const Body* body = nullptr;
    const Queues* queues = nullptr;
    const std::int32_t* comm_classes = nullptr;  // by slot
    EventTimes* events = nullptr;                // by op
    Rank rank{};
  };
  struct LaneMember {
    std::int32_t folded_rank = 0;
    std::uint8_t lane = 0;
  };
  struct Transfer {
    Nanoseconds start_ns = 0;
    Nanoseconds flow_begin_ns = 0;
    Nanoseconds duration_ns = 0;  // as priced
    Bytes bytes = 0;
    std::uint32_t first_member = 0, members = 0;  // in members_
    std::int32_t arrived = 0;
    std::int32_t pattern = kNoLinks;
    std::int32_t flows = 0;        // in the solver
    std::uint32_t generation = 0;  // events of an older one are void
    Phase phase = Phase::Idle;
  };
  // A folded rank's compute op under way beside its communication, where some takes SMs.
  struct SharedCompute {
    Taken taken;
    SlowedOp op;
    bool running = false;
    bool changed = false;          // at this instant: its end is to be found anew
    Nanoseconds end_ns = -1;       // as scheduled; -1: not yet
    std::uint32_t generation = 0;  // events of an older one are void
  };
  // A thing that happens: a folded rank's compute op ends, or a communicator class's operation goes
  // on.
  struct Event {
    Nanoseconds time = 0;
    std::uint64_t number = 0;  // ties in order of scheduling
    std::int32_t subject = 0;  // a folded rank; ~communicator class
    std::uint32_t generation = 0;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  struct PendingFlow {
    std::int32_t comm_class = 0;
    std::int32_t route = 0;
    double bytes = 0;
  };

  Pattern pattern_of(const Traffic& traffic, std::span<const double> link_bytes_per_s);
  void add_patterns(const TrafficOf& traffic_of, std::span<const double> link_bytes_per_s);
  void mark_private();

  void on_wake(Nanoseconds now) override;
  void on_flow_end(std::int32_t flow, Nanoseconds now) override;
  void pump();
  // The operation went to the solver since, or the compute op has another end.
  bool is_void(const Event& event) const {
    if (event.subject < 0) return transfers_[~event.subject].generation != event.generation;
    return stretches_ && shared_[event.subject].generation != event.generation;
  }
  void schedule(Nanoseconds time, std::int32_t subject, std::uint32_t generation);

  const Body& body(std::int32_t folded_rank) const { return *folded_ranks_[folded_rank].body; }
  PlayedLane* lanes_of(std::int32_t folded_rank) {
    return played_lanes_.data() + first_lane_[folded_rank];
  }
  std::uint32_t op_of(const LaneMember& member) {
    const std::uint32_t done = lanes_of(member.folded_rank)[member.lane].done;
    return folded_ranks_[member.folded_rank].queues->of_lanes.lanes[member.lane][done];
  }
  std::span<const LaneMember> members_of(const Transfer& transfer) const {
    return {members_.data() + transfer.first_member, transfer.members};
  }
  // What the event will read: thousands of ranks do not stay in a cache. Inlined always: GCC 12
  // drops calls of a function that does nothing but prefetch.
  [[gnu::always_inline]] void fetch(const Event& event) const {
    if (event.subject < 0) {
      __builtin_prefetch(&transfers_[~event.subject]);
    } else {
      __builtin_prefetch(&folded_ranks_[event.subject]);
      __builtin_prefetch(&played_lanes_[first_lane_[event.subject]]);
    }
  }
  void start_ready(std::int32_t folded_rank);
  void start(std::int32_t folded_rank, std::uint32_t op);
  void end_op(std::int32_t folded_rank, std::uint8_t lane, Nanoseconds start_ns);

  void begin_shared(std::int32_t folded_rank, const Op& op, Nanoseconds duration_ns);
  void enter_device(std::int32_t folded_rank, std::uint32_t op);
  void leave_device(std::int32_t folded_rank, std::uint32_t op);
  Taken taken_from(std::int32_t folded_rank, const Op& op) const;
  void mark_changed(std::int32_t folded_rank);
  void restretch();

  bool never_shares(const Transfer& transfer) const {
    return transfer.pattern == kNoLinks ||
           (patterns_[transfer.pattern].is_private && options_.closed_forms);
  }
  std::int32_t pattern_by(std::int32_t comm_class, const Op& op) const;
  Nanoseconds alone_ns(const Transfer& transfer) const;
  void arrive(std::int32_t comm_class);
  void advance(std::int32_t comm_class);
  void begin_flows(std::int32_t comm_class);
  void share(std::int32_t comm_class, double elapsed_s);
  void leave_alone(std::int32_t comm_class);
  void end_transfer(std::int32_t comm_class);
  void start_pending();

  const Program& program_;
  const RankFolding& folding_;
  const PlaybackOptions options_;
  const std::vector<Queues> queues_;  // by body
  const bool stretches_;              // some op takes SMs

  FlowNetwork network_;
  std::vector<Pattern> patterns_;
  std::vector<std::int32_t> first_pattern_;  // communicator class x kind: that of its first way
  std::map<std::pair<std::vector<LinkId>, double>, std::int32_t> route_numbers_;  // links, limit
  std::vector<std::int32_t> link_users_;  // operations in flight
  std::vector<std::int32_t> link_alone_;  // the communicator class that uses the link by itself; -1
  std::vector<PlayedRank> folded_ranks_;
  std::vector<std::uint32_t> first_lane_;  // by folded rank
  std::vector<PlayedLane> played_lanes_;
  std::vector<LaneMember> members_;    // of all communicator classes
  std::vector<Transfer> transfers_;    // by communicator class
  std::vector<SharedCompute> shared_;  // by folded rank; empty where no op takes SMs
  std::vector<std::int32_t> changed_;  // folded ranks whose compute's end is to be found anew
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t scheduled_ = 0;
  Nanoseconds now_ = 0;

  FlowSolver* solver_ = nullptr;
  Nanoseconds solver_now_ = 0;
  std::vector<PendingFlow> pending_;  // to start once the solver's clock is here
  std::vector<std::int32_t> class_of_flow_;
  std::vector<std::int32_t> free_flows_;
  std::int32_t flows_in_solver_ = 0;

  Replay out_;
  std::size_t ended_ = 0;
};

}  // namespace tandem
