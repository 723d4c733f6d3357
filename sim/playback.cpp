// Discrete-event simulation with two event queues: its own and the solver's. In: a Program, its
// folding and its traffic; out: the times of each op. This file has the clock and the queue; links
// and compute beside communication are in playback_links.cpp and playback_compute.cpp.
#include "sim/playback.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "schedule/program/validate.h"

namespace tandem {

Playback::Playback(const Program& program, const RankFolding& folding, Patterns patterns,
                   const PlaybackOptions& options)
    : program_(program),
      folding_(folding),
      options_(options),
      in_order_of_time_(takes_sms(program)),
      patterns_(std::move(patterns)),
      replayer_(program, folding, /*numbered=*/false, this),
      transfers_(folding.comm_classes.size()),
      link_uses_(network().bytes_per_s.size()),
      computes_(in_order_of_time_ ? folding.folded_ranks.size() : 0) {
  for (const FlowSet& flows : patterns_.flow_sets()) sharing_.emplace_back(flows.load);
}

Playback::Playback(const Program& program, const RankFolding& folding,
                   const PlaybackOptions& options)
    : Playback(program, folding, Patterns(), options) {}

Playback::Playback(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
                   std::span<const double> link_bytes_per_s, const PlaybackOptions& options)
    : Playback(program, folding, Patterns(program, folding, traffic_of, link_bytes_per_s),
               options) {}

Result<Replay> Playback::run(FlowSolver* solver) {
  solver_ = solver;
  run_events();
  if (solver_ != nullptr) solver_->run(this);
  if (!replayer_.have_all_ended()) return first_that_never_ended();
  return replayer_.take();
}

Error Playback::first_that_never_ended() const {
  for (std::size_t p = 0; p < folding_.folded_ranks.size(); ++p) {
    const FoldedRank& rank = folding_.folded_ranks[p];
    const Body& body = program_.bodies[rank.body];
    for (std::uint32_t op = 0; op < body.ops.size(); ++op) {
      if (replayer_.has_ended(static_cast<std::int32_t>(p), op)) continue;
      return {fmt::format("the simulation ended with {} of {} ops played; the first that never "
                          "ended: {} on rank {}",
                          replayer_.ended(), replayer_.ops(), describe(body, body.ops[op]),
                          index(rank.rank)),
              Error::Failed};
    }
  }
  CHECK(false && "an op was counted twice");
}

Nanoseconds Playback::compute_ends(std::int32_t folded_rank, std::uint32_t number, const Op& op,
                                   Nanoseconds start) {
  const Rank rank = folding_.folded_ranks[folded_rank].rank;
  const Nanoseconds duration_ns = options_.jitter.apply(op.duration_ns, index(rank), number);
  count_ops(1);
  if (!in_order_of_time_) return start + duration_ns;
  begin_slowed(folded_rank, op, duration_ns);
  return kLater;
}

Nanoseconds Playback::operation_ends(std::int32_t comm_class, const Op& op, Nanoseconds start) {
  Transfer& transfer = transfers_[comm_class];
  transfer.bytes = op.bytes;
  transfer.duration_ns = op.duration_ns;
  transfer.pattern = patterns_.number_of(comm_class, op);
  count_ops(replayer_.members(comm_class).size());
  if (in_order_of_time_) note_sms(comm_class, Sms::Taken);
  if (shares_links(transfer)) {
    transfer.phase = Phase::Latency;
    schedule(start + patterns_[transfer.pattern].latency_ns, ~comm_class, ++transfer.generation);
    return kLater;
  }
  const Nanoseconds end = start + alone_ns(transfer);
  if (!in_order_of_time_) return end;
  schedule(end, ~comm_class, ++transfer.generation);
  return kLater;
}

void Playback::count_ops(std::size_t ops) {
  constexpr std::size_t kReportEvery = 1 << 16;
  unreported_ops_ += ops;
  if (unreported_ops_ < kReportEvery) return;
  options_.on_progress(static_cast<std::int64_t>(std::exchange(unreported_ops_, 0)));
}

void Playback::schedule(Nanoseconds time, std::int32_t subject, std::uint32_t generation) {
  events_.push({time, events_scheduled_++, subject, generation});
}

// Handles the queue's events. While flows are in the solver, it goes no further than the solver's
// clock: it asks the solver to wake it at the next event, and returns. Before time goes on, compute
// whose slowdown changed gets its new end.
void Playback::run_events() {
  for (;;) {
    if (!pending_.empty() && solver_now_ != now_) {
      solver_->wake_at(now_);
      return;
    }
    start_pending();
    replayer_.run();
    const bool time_goes_on = events_.empty() || events_.top().time > now_;
    if (time_goes_on) reschedule_changed();
    if (events_.empty()) return;
    const Event event = events_.top();
    if (is_void(event)) {
      events_.pop();
      continue;
    }
    if (flows_in_solver_ > 0 && event.time > solver_now_) {
      solver_->wake_at(event.time);
      return;
    }
    events_.pop();
    now_ = std::max(now_, event.time);  // the solver rounds its times to ns
    handle(event);
  }
}

void Playback::handle(const Event& event) {
  if (event.subject >= 0) {
    computes_[event.subject].running = false;
    replayer_.end_compute(event.subject, now_);
    return;
  }
  const std::int32_t comm_class = ~event.subject;
  if (transfers_[comm_class].phase == Phase::Latency) {
    begin_flows(comm_class);
  } else {
    end_operation(comm_class);
  }
}

void Playback::on_wake(Nanoseconds now) {
  now_ = solver_now_ = now;
  run_events();
}

void Playback::on_flow_end(std::int32_t flow, Nanoseconds now) {
  now_ = solver_now_ = std::max(now, now_);
  const std::int32_t comm_class = class_of_flow_[flow];
  free_flows_.push_back(flow);
  --flows_in_solver_;
  if (--transfers_[comm_class].flows == 0) end_operation(comm_class);
  run_events();
}

}  // namespace tandem
