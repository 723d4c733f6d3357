// Plays a Program in real time by an event loop over all ranks. A priority queue holds the
// deadlines of the ops in progress. When an op ends, the loop starts every op that waited only for
// it. The result is when each op arrived and ended, by this process's clock. Nothing is folded
// here: a folded rank is one rank, a communicator class one communicator.
#include "exec/host/host_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "exec/payload/payload.h"
#include "exec/supervise/diagnose.h"
#include "launch/clock.h"

namespace tandem {
namespace {

constexpr Nanoseconds kSpin_ns = 100'000;  // the loop spins so long, as a sleep may be as late
constexpr Nanoseconds kPayloadStep_ns = 20'000;  // a step of moving a payload takes less

}  // namespace

HostLoop::HostLoop(const Program& program, const ExecOptions& options,
                   std::span<const std::unique_ptr<GemmUnit>> units)
    : program_(program),
      options_(options),
      units_(units),
      folding_(unfold(program)),
      queues_(lane_queues(program)),
      class_members_(folding_.comm_classes.size()) {
  for (std::size_t c = 0; c < folding_.comm_classes.size(); ++c) {
    for (const Rank member : program.communicators[c].members) {
      const auto class_member = std::ranges::find(folding_.comm_classes[c].members, index(member),
                                                  &ClassMember::folded_rank);
      CHECK(class_member != folding_.comm_classes[c].members.end());
      class_members_[c].push_back(*class_member);
    }
  }
  for (const std::unique_ptr<GemmUnit>& unit : units)
    unit_events_.push_back({unit->event(), POLLIN, 0});
}

void HostLoop::reset(int iteration) {
  iteration_ = iteration;
  cursors_.clear();
  computes_.assign(folding_.folded_ranks.size(), {});
  transfers_.assign(folding_.comm_classes.size(), {});
  moving_.clear();
  events_ = {};
  recording_.clear();
  ops_ = ended_ = 0;
  failure_.clear();
  for (const FoldedRank& folded_rank : folding_.folded_ranks) {
    const Body& own = program_.bodies[folded_rank.body];
    cursors_.emplace_back(own);
    recording_.emplace_back(own.ops.size());
    ops_ += own.ops.size();
  }
  last_end_ns_ = now_ns();
}

std::string HostLoop::play(int iteration) {
  reset(iteration);
  const auto ranks = static_cast<std::int32_t>(folding_.folded_ranks.size());
  for (std::int32_t rank = 0; rank < ranks; ++rank) start_ready(rank);
  while (ended_ < ops_ && failure_.empty()) {
    if (events_.empty() && products_in_progress_ == 0) return diagnosis();
    await();
    while (!events_.empty() && events_.top().time <= now_ns() && failure_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
  }
  return failure_;
}

void HostLoop::schedule(Nanoseconds time, EventKind kind, std::int32_t subject,
                        std::uint32_t generation) {
  events_.push({time, scheduled_++, kind, subject, generation});
}

void HostLoop::handle(const Event& event) {
  if (event.kind == EventKind::TransferIsDue) {
    handle_due_transfer(event.subject);
  } else if (event.generation == computes_[event.subject].generation) {
    end_op(event.subject, kComputeLane);
    note_wake_up(computes_[event.subject].begin_ns, event.time, last_end_ns_);
    start_ready(event.subject);
  }
}

void HostLoop::handle_due_transfer(std::int32_t comm_class) {
  if (transfers_[comm_class].transfer.done()) {
    end_transfer(comm_class);
    return;
  }
  // The payload is late: moves a step of it, and comes back at once.
  move_payload(comm_class);
  const Nanoseconds due_ns = std::max(transfers_[comm_class].due_ns, last_end_ns_);
  if (failure_.empty() && now_ns() > due_ns + options_.timeout_ns)
    failure_ = stuck();
  else
    schedule(now_ns(), EventKind::TransferIsDue, comm_class);
}

void HostLoop::await() {
  const Nanoseconds deadline =
      events_.empty() ? last_end_ns_ + options_.timeout_ns : events_.top().time;
  while (!moving_.empty() && failure_.empty() && now_ns() + kPayloadStep_ns < deadline)
    move_payload(moving_.front());
  if (!failure_.empty()) return;
  const bool multiplies = !units_.empty();
  if (multiplies) {
    // Does not spin, as that would take a core from the units.
    sleep(std::max<Nanoseconds>(0, deadline - now_ns()));
    end_products();
    return;
  }
  if (const Nanoseconds before_spin = deadline - now_ns() - kSpin_ns; before_spin > 0)
    sleep(before_spin);
  while (now_ns() < deadline) {
  }
}

void HostLoop::sleep(Nanoseconds duration_ns) {
  const timespec time{duration_ns / 1'000'000'000, duration_ns % 1'000'000'000};
  ppoll(unit_events_.data(), unit_events_.size(), &time, nullptr);
}

void HostLoop::end_products() {
  for (std::size_t rank = 0; rank < unit_events_.size(); ++rank) {
    if (std::exchange(unit_events_[rank].revents, 0) == 0) continue;
    std::uint64_t ended = 0;
    CHECK(read(unit_events_[rank].fd, &ended, sizeof ended) == sizeof ended);
    --products_in_progress_;
    // The op ended at the time that its thread noted, not when the loop came to it.
    const auto ended_rank = static_cast<std::int32_t>(rank);
    const std::uint32_t op =
        queues(ended_rank).lanes[kComputeLane][cursors_[rank].done[kComputeLane]];
    end_op(ended_rank, kComputeLane);
    OwnTimes& times = recording_[rank][op];
    times.end_ns = units_[rank]->end_ns();
    note_wake_up(times.arrive_ns, times.arrive_ns + units_[rank]->busy_ns(), times.end_ns);
    start_ready(ended_rank);
  }
  if (events_.empty() && now_ns() >= last_end_ns_ + options_.timeout_ns) failure_ = stuck();
}

std::string HostLoop::stuck() const {
  return fmt::format("no op ended within {:g} s: {}", to_seconds(options_.timeout_ns), diagnosis());
}

std::string HostLoop::diagnosis() const {
  std::vector<RankProgress> progress;
  for (const LaneCursors& cursors : cursors_) progress.push_back({cursors.done, cursors.busy, ""});
  return diagnose(program_, progress);
}

// Ranks. docs/design.md ("What a schedule means") defines what an op waits for.

void HostLoop::start_ready(std::int32_t rank) {
  cursors_[rank].start_ready(body(rank), queues(rank), [&](std::uint32_t op) { start(rank, op); });
}

void HostLoop::start(std::int32_t rank, std::uint32_t i) {
  const Op& op = body(rank).ops[i];
  if (is_compute(op.kind)) {
    begin_compute(rank, i);
    return;
  }
  recording_[rank][i].arrive_ns = now_ns();
  arrive(folding_.folded_ranks[rank].comm_classes[op.slot], op.duration_ns);
}

void HostLoop::end_op(std::int32_t rank, std::uint8_t lane) {
  const std::uint32_t i = cursors_[rank].end(queues(rank), lane);
  const Op& op = body(rank).ops[i];
  const Nanoseconds now = now_ns();
  recording_[rank][i].end_ns = last_end_ns_ = now;
  ++ended_;
  if (is_compute(op.kind)) {
    computes_[rank].running = false;
  } else if (op.sms > 0) {
    computes_[rank].taken -= taken_from(rank, op);
    update_slowdown(rank, now);
  }
}

void HostLoop::note_wake_up(Nanoseconds begin_ns, Nanoseconds due_ns, Nanoseconds end_ns) {
  if (iteration_ >= options_.warmup) wake_ups_.add(begin_ns, due_ns, end_ns);
}

// Compute.

void HostLoop::begin_compute(std::int32_t rank, std::uint32_t i) {
  const Op& op = body(rank).ops[i];
  const Nanoseconds now = now_ns();
  recording_[rank][i].arrive_ns = now;
  if (!units_.empty() && op.duration_ns > 0) {
    ++products_in_progress_;
    units_[rank]->start(i);
    return;
  }
  const double memory_share = op.kernel < 0 ? 0 : program_.kernels[op.kernel].memory_share;
  computes_[rank].begin_ns = now;
  computes_[rank].op = SlowedOp(now, op.duration_ns, memory_share);
  computes_[rank].running = true;
  update_slowdown(rank, now);
}

void HostLoop::update_slowdown(std::int32_t rank, Nanoseconds now) {
  TimedCompute& compute = computes_[rank];
  if (!compute.running) return;
  compute.op.set_slowdown(now, slowdown(program_.device, compute.taken, compute.op.memory_share()));
  schedule(compute.op.end_ns(), EventKind::ComputeEnds, rank, ++compute.generation);
}

Taken HostLoop::taken_from(std::int32_t rank, const Op& op) const {
  const std::int32_t comm_class = folding_.folded_ranks[rank].comm_classes[op.slot];
  return taken_by(op, static_cast<int>(class_members_[comm_class].size()), program_.device);
}

// Communication.

// Returns the op that a member of a communicator is at.
std::uint32_t HostLoop::op_at(const ClassMember& class_member) const {
  const std::uint8_t lane = body(class_member.folded_rank).slots[class_member.slot].lane;
  return queues(class_member.folded_rank)
      .lanes[lane][cursors_[class_member.folded_rank].done[lane]];
}

TransferMember HostLoop::transfer_member(std::int32_t comm_class,
                                         const ClassMember& class_member) const {
  const Body& own = body(class_member.folded_rank);
  const Op& op = own.ops[op_at(class_member)];
  return {Rank{class_member.folded_rank}, &own, &op,
          payload_key(options_.seed, iteration_, comm_class, op)};
}

// Counts a member's arrival. Begins the communication when its last member has arrived.
void HostLoop::arrive(std::int32_t comm_class, Nanoseconds duration_ns) {
  Transfer& transfer = transfers_[comm_class];
  if (++transfer.arrived < class_members_[comm_class].size()) return;
  transfer.arrived = 0;
  const Nanoseconds now = now_ns();
  transfer.begin_ns = now;
  transfer.due_ns = now + duration_ns;
  schedule(transfer.due_ns, EventKind::TransferIsDue, comm_class);
  std::vector<TransferMember> transfer_members;
  for (const ClassMember& class_member : class_members_[comm_class]) {
    transfer_members.push_back(transfer_member(comm_class, class_member));
    const Op& op = *transfer_members.back().op;
    if (op.sms == 0) continue;
    computes_[class_member.folded_rank].taken += taken_from(class_member.folded_rank, op);
    update_slowdown(class_member.folded_rank, now);
  }
  transfer.transfer = PayloadTransfer(std::move(transfer_members), options_.full_payload);
  moving_.push_back(comm_class);
}

void HostLoop::move_payload(std::int32_t comm_class) {
  PayloadTransfer& transfer = transfers_[comm_class].transfer;
  if (!transfer.done()) {
    failure_ = transfer.step();
    if (transfer.done() && failure_.empty()) payloads_checked_ += transfer.receivers();
  }
  if (transfer.done() && moving_.front() == comm_class) moving_.pop_front();
}

void HostLoop::end_transfer(std::int32_t comm_class) {
  for (const ClassMember& class_member : class_members_[comm_class])
    end_op(class_member.folded_rank, body(class_member.folded_rank).slots[class_member.slot].lane);
  // A whole payload may take longer than its price, though the loop wakes up in time.
  const Transfer& transfer = transfers_[comm_class];
  if (!options_.full_payload) note_wake_up(transfer.begin_ns, transfer.due_ns, last_end_ns_);
  for (const ClassMember& class_member : class_members_[comm_class])
    start_ready(class_member.folded_rank);
}

}  // namespace tandem
