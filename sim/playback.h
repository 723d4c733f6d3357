// Playback: computes a Program's times where operations share links, or communication slows
// compute.
//
// Most ops need no event. For an operation whose links no other communicator uses, and for compute
// that nothing slows, the end is known at the start; a Replayer (schedule/program/replayer.h) plays
// these ahead of time. An operation on links that other communicators use begins and ends as an
// event, in order of time:
//
// - alone on its links, or beside operations over exactly the same ones: its end has a closed form;
// - as soon as an operation uses only some of the links of another: both, and all others on these
//   links, go to the FlowSolver with the bytes that they have left.
//
// The times are those that the solver would give for all operations (tested), at a fraction of the
// work.
//
// Where communication takes SMs, compute beside it slows down (schedule/program/contention.h), and
// every op is an event. All beginnings and ends of one instant are counted before time goes on, so
// the order of simultaneous events changes no time.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "schedule/program/contention.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/replay.h"
#include "schedule/program/replayer.h"
#include "sim/flows.h"
#include "sim/patterns.h"
#include "sim/processor_sharing.h"

namespace tandem {

struct PlaybackOptions {
  Jitter jitter;
  bool closed_forms = true;  // false: every flow goes to the solver, to test the closed forms
  std::function<void(std::int64_t ops)> on_progress = [](std::int64_t) {};
};

class Playback final : public FlowListener {
 public:
  // Plays without links: every communication takes its duration, as if alone.
  Playback(const Program& program, const RankFolding& folding, const PlaybackOptions& options);
  // Plays over links of these bandwidths, which operations share.
  Playback(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
           std::span<const double> link_bytes_per_s, const PlaybackOptions& options);

  const FlowNetwork& network() const { return patterns_.network(); }

  // Plays the Program. Returns an Error if an op never ends (a deadlock). `solver` may be null
  // where there are no links.
  Result<Replay> run(FlowSolver* solver = nullptr);

  // Called by the Replayer. Each returns an op's end, or kLater if an event will give it.
  Nanoseconds compute_ends(std::int32_t folded_rank, std::uint32_t number, const Op& op,
                           Nanoseconds start);
  Nanoseconds operation_ends(std::int32_t comm_class, const Op& op, Nanoseconds start);

 private:
  Playback(const Program& program, const RankFolding& folding, Patterns patterns,
           const PlaybackOptions& options);

  static constexpr Nanoseconds kLater = Replayer<Playback>::kLater;

  // Idle: no operation is under way, or its end was known at its start.
  enum class Phase : std::uint8_t { Idle, Latency, ClosedForm, Solved };
  // The operation that a communicator class has under way.
  struct Transfer {
    Nanoseconds duration_ns = 0;  // as priced
    Bytes bytes = 0;
    std::int32_t pattern = Patterns::kNoLinks;
    std::int32_t flows = 0;        // still in the solver
    std::uint32_t generation = 0;  // events with an older number are void
    Phase phase = Phase::Idle;
  };
  // The users of a link: operations of one flow set in closed form, or operations in the solver.
  struct LinkUse {
    std::int32_t flow_set = -1;  // in closed form; -1: none
    std::int32_t solved = 0;     // the number of operations in the solver

    bool in_closed_form() const { return flow_set >= 0; }
    bool is_free() const { return !in_closed_form() && solved == 0; }
  };
  // A folded rank's compute, where some communication takes SMs.
  struct SlowedCompute {
    Taken taken;  // by communication that is under way
    SlowedOp op;
    bool running = false;
    bool changed = false;          // at this instant: its end must be computed again
    Nanoseconds end_ns = -1;       // as scheduled; -1: not yet
    std::uint32_t generation = 0;  // events with an older number are void
  };
  // The end of a folded rank's compute op, or the end of the latency or of the whole operation of a
  // communicator class.
  struct Event {
    Nanoseconds time = 0;
    std::uint64_t number = 0;  // decides ties: in order of scheduling
    std::int32_t subject = 0;  // a folded rank, or ~(a communicator class)
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

  void on_wake(Nanoseconds now) override;
  void on_flow_end(std::int32_t flow, Nanoseconds now) override;
  void run_events();
  // Returns whether the op was given another end after the event was scheduled.
  bool is_void(const Event& event) const {
    if (event.subject < 0) return transfers_[~event.subject].generation != event.generation;
    return computes_[event.subject].generation != event.generation;
  }
  void schedule(Nanoseconds time, std::int32_t subject, std::uint32_t generation);
  void handle(const Event& event);
  void count_ops(std::size_t ops);
  Error first_that_never_ended() const;

  // Compute beside communication that takes SMs is in playback_compute.cpp.
  void begin_slowed(std::int32_t folded_rank, const Op& op, Nanoseconds duration_ns);
  enum class Sms : std::uint8_t { Taken, GivenBack };
  void note_sms(std::int32_t comm_class, Sms sms);
  Taken taken_from(std::int32_t comm_class, const Op& op) const;
  void mark_changed(std::int32_t folded_rank);
  void reschedule_changed();

  // Operations on links are in playback_links.cpp.
  const FlowSet& flows_of(const Transfer& transfer) const {
    return patterns_.flows_of(patterns_[transfer.pattern]);
  }
  bool shares_links(const Transfer& transfer) const;
  Nanoseconds alone_ns(const Transfer& transfer) const;
  void begin_flows(std::int32_t comm_class);
  bool may_join_closed_form(std::int32_t flow_set) const;
  void enter_closed_form(std::int32_t flow_set, std::int32_t comm_class);
  void leave_closed_form(std::int32_t flow_set);
  void schedule_next_end(std::int32_t flow_set);
  void move_to_solver(std::int32_t comm_class, double elapsed_s);
  void start_pending();
  void end_operation(std::int32_t comm_class);
  void free_links(const Transfer& transfer);

  const Program& program_;
  const RankFolding& folding_;
  const PlaybackOptions options_;
  const bool in_order_of_time_;  // every op is an event, since some take SMs
  const Patterns patterns_;

  Replayer<Playback> replayer_;
  std::vector<Transfer> transfers_;        // by communicator class
  std::vector<ProcessorSharing> sharing_;  // by flow set: its operations in closed form
  std::vector<LinkUse> link_uses_;
  std::vector<SlowedCompute> computes_;  // by folded rank; empty where no op takes SMs
  std::vector<std::int32_t> changed_;    // folded ranks whose compute needs a new end
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t events_scheduled_ = 0;
  Nanoseconds now_ = 0;
  std::size_t unreported_ops_ = 0;  // played since on_progress was last called

  FlowSolver* solver_ = nullptr;
  Nanoseconds solver_now_ = 0;
  std::vector<PendingFlow> pending_;         // to start as soon as the solver's clock is at now_
  std::vector<std::int32_t> class_of_flow_;  // by flow number: its communicator class
  std::vector<std::int32_t> free_flows_;     // flow numbers that may be used again
  std::int32_t flows_in_solver_ = 0;
};

}  // namespace tandem
