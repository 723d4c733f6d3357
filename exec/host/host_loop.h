// HostLoop: plays one iteration of a Program in one process, by one event loop over all ranks.
//
// Every op has an absolute deadline. The loop sleeps until shortly before the next one and spins
// the rest; meanwhile it moves payloads. It notes the clock's time when it comes to an op, never
// the deadline. So the times include the loop's lateness, which adds up as it would on a device.
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
  // `units`: one a rank, which multiply; none: compute is timed.
  HostLoop(const Program& program, const ExecOptions& options,
           std::span<const std::unique_ptr<GemmUnit>> units);

  // Plays an iteration, whose number is part of what messages hold. Returns why it failed; empty:
  // it did not.
  std::string play(int iteration);

  // Returns the times of the iteration played last.
  const Recording& recording() const { return recording_; }
  // Returns how many messages and results of collectives all iterations have checked, one for each
  // receiver.
  std::int64_t payloads_checked() const { return payloads_checked_; }
  // Covers all iterations but the first ones, which warm up.
  LateWakeUps late() { return wake_ups_.found(); }

 private:
  enum class EventKind : std::uint8_t { ComputeEnds, TransferIsDue };
  struct Event {
    Nanoseconds time = 0;
    std::uint64_t number = 0;  // breaks ties: in order of scheduling
    EventKind kind = EventKind::ComputeEnds;
    std::int32_t subject = 0;  // the rank whose timed compute op ends, or the communicator class
    std::uint32_t generation = 0;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  // A rank's timed compute op under way, which communication slows.
  struct TimedCompute {
    Taken taken;
    SlowedOp op;
    Nanoseconds begin_ns = 0;
    bool running = false;
    std::uint32_t generation = 0;  // events of an older one are void
  };
  struct Transfer {
    std::size_t arrived = 0;
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

  // Notes an op that has ended, when it was due and when it ended.
  void note_wake_up(Nanoseconds begin_ns, Nanoseconds due_ns, Nanoseconds end_ns);

  void schedule(Nanoseconds time, EventKind kind, std::int32_t subject,
                std::uint32_t generation = 0);
  void handle(const Event& event);
  // Waits until the next deadline, and moves payloads meanwhile. Beside products it also returns
  // when one ends.
  void await();
  void end_products();
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
  std::deque<std::int32_t> moving_;  // communicator classes whose payloads are on their way
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t scheduled_ = 0;
  std::vector<pollfd> products_;  // by rank: its unit's event
  int products_under_way_ = 0;
  Nanoseconds last_end_ns_ = 0;

  Recording recording_;
  std::size_t ops_ = 0, ended_ = 0;
  std::int64_t payloads_checked_ = 0;
  WakeUps wake_ups_;
  std::string failure_;
};

}  // namespace tandem
