// HostLoop: plays one iteration of a Program in one process, by one event loop over all ranks.
//
// Every op in progress has a deadline: its begin plus its priced duration. Until the next deadline
// the loop moves payloads, sleeps, and spins the last 0.1 ms. It records the clock's time when it
// handles an op, not the deadline. So the times include the loop's lateness, which accumulates from
// op to op as it would on a device.
#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "exec/compute/gemm.h"
#include "exec/execute.h"
#include "exec/payload/payload_transfer.h"
#include "exec/recording.h"
#include "schedule/program/contention.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"

namespace tandem {

class HostLoop {
 public:
  // `units`: one for each rank, which carry out its compute ops; none: compute is timed.
  HostLoop(const Program& program, const ExecOptions& options,
           std::span<const std::unique_ptr<GemmUnit>> units);

  // Plays an iteration. Payloads depend on its number. Returns the reason of a failure; empty if it
  // succeeded.
  std::string play(int iteration);

  // Returns the times of the iteration played last.
  const Recording& recording() const { return recording_; }
  // Returns how many payloads have been checked in all iterations, one for each receiver of a
  // message or of a collective's result.
  std::int64_t payloads_checked() const { return payloads_checked_; }
  // Returns how late ops ended in all iterations after the warm-up.
  LateWakeUps late() { return wake_ups_.found(); }

 private:
  static constexpr std::uint8_t kComputeLane = 0;
  enum class EventKind : std::uint8_t { ComputeEnds, TransferIsDue };
  struct Event {
    Nanoseconds time = 0;
    std::uint64_t number = 0;  // events of equal time go in the order of scheduling
    EventKind kind = EventKind::ComputeEnds;
    std::int32_t subject = 0;  // the rank whose timed compute op ends, or the communicator class
    std::uint32_t generation = 0;  // of a TimedCompute
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  // A rank's timed compute op in progress. Communication that uses SMs slows it.
  struct TimedCompute {
    Taken taken;  // SMs and bandwidth that communication takes from the rank
    SlowedOp op;
    Nanoseconds begin_ns = 0;
    bool running = false;
    std::uint32_t generation = 0;  // events of an earlier generation are void
  };
  // A communication in progress of one communicator.
  struct Transfer {
    std::size_t arrived = 0;  // members that wait for the others
    Nanoseconds begin_ns = 0;
    Nanoseconds due_ns = 0;  // as priced; a payload may take longer
    PayloadTransfer transfer;
  };

  const Body& body(std::int32_t rank) const {
    return program_.bodies[folding_.folded_ranks[rank].body];
  }
  const LaneQueues& queues(std::int32_t rank) const {
    return queues_[folding_.folded_ranks[rank].body];
  }

  void reset(int iteration);
  void start_ready(std::int32_t rank);
  void start(std::int32_t rank, std::uint32_t op);
  void end_op(std::int32_t rank, std::uint8_t lane);

  void begin_compute(std::int32_t rank, std::uint32_t op);
  void update_slowdown(std::int32_t rank, Nanoseconds now);
  Taken taken_from(std::int32_t rank, const Op& op) const;

  void arrive(std::int32_t comm_class, Nanoseconds duration_ns);
  std::uint32_t op_at(const ClassMember& class_member) const;
  TransferMember transfer_member(std::int32_t comm_class, const ClassMember& class_member) const;
  void move_payload(std::int32_t comm_class);
  void end_transfer(std::int32_t comm_class);

  // Notes how late an op ended, unless in the warm-up.
  void note_wake_up(Nanoseconds begin_ns, Nanoseconds due_ns, Nanoseconds end_ns);

  void schedule(Nanoseconds time, EventKind kind, std::int32_t subject,
                std::uint32_t generation = 0);
  void handle(const Event& event);
  void handle_due_transfer(std::int32_t comm_class);
  // Waits until the next deadline, and moves payloads meanwhile. If units multiply, it also returns
  // when a product ends.
  void await();
  void end_products();
  void sleep(Nanoseconds duration_ns);  // less if a product ends
  std::string diagnosis() const;
  std::string stuck() const;  // says that no op ended within the time-out

  const Program& program_;
  const ExecOptions& options_;
  std::span<const std::unique_ptr<GemmUnit>> units_;
  RankFolding folding_;
  std::vector<LaneQueues> queues_;
  // By communicator class, in the order in which the communicator lists its members.
  std::vector<std::vector<ClassMember>> class_members_;

  int iteration_ = 0;
  std::vector<LaneCursors> cursors_;
  std::vector<TimedCompute> computes_;
  std::vector<Transfer> transfers_;
  // Communicator classes whose payloads are being moved, front first. One whose payload has been
  // moved meanwhile, as its transfer was due, leaves when it comes to the front.
  std::deque<std::int32_t> moving_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t scheduled_ = 0;      // events so far
  std::vector<pollfd> unit_events_;  // by rank: its unit's eventfd
  int products_in_progress_ = 0;
  Nanoseconds last_end_ns_ = 0;

  Recording recording_;
  std::size_t ops_ = 0, ended_ = 0;  // of the iteration, over all ranks
  std::int64_t payloads_checked_ = 0;
  WakeUps wake_ups_;
  std::string failure_;
};

}  // namespace tandem
